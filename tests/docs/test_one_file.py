"""The two files to read and change: the whole algorithm in one, and use from Python."""

import ast
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import ENVIRONMENT, ROOT, embedded
from table_models import TableModel, assert_same_distribution
from toys import NUMPY

from docs import one_file
from experiments.proving.enumeration import chain_rule, every_branch, total_variation
from sampling import Filter, autoregressive
from utils import load_encoder, load_model

SOURCE = (ROOT / "docs" / "one_file.py").read_text(encoding="utf-8")
ODD = "It's  1999,\n\n\t'ünïcode' don't 日本 \U0001f600 \x00 fox's   "


def test_it_is_short_and_imports_nothing_of_this_repository():
    assert len(SOURCE.splitlines()) <= 150
    nodes = list(ast.walk(ast.parse(SOURCE)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert names - sys.stdlib_module_names == {"numpy", "regex"}


@embedded
@pytest.mark.parametrize(
    "prompt, n_tokens", [("Once upon a time", 20), (ODD, 6)], ids=["plain", "odd"]
)
def test_greedy_tokens_are_those_of_the_five_files(prompt, n_tokens):
    folder = ROOT / "models" / "17M"
    encode, decode = one_file.load_tokenizer(folder)
    target = one_file.load_model(folder, 0.0)
    draft = one_file.load_model(ROOT / "models" / "0.7M-17M", 0.0)
    ids, rng = encode(prompt), np.random.default_rng(0)
    assert ids == load_encoder(folder).encode(prompt) and decode(ids) == prompt

    rounds = autoregressive(load_model(folder, NUMPY), ids, n_tokens, Filter(0.0), rng)
    expected = ids + [token for one in rounds for token in one.tokens]
    plain, n_plain = one_file.decode_plainly(target, ids, n_tokens, rng)
    fast, n_fast = one_file.decode_speculatively(target, draft, ids, n_tokens, 4, rng)
    assert plain == fast == expected
    assert n_plain == n_tokens > n_fast


# ---------------------------------------------------------------- the distribution


class Coin:
    """What rng.random() returns in an enumeration: `coin < p` takes both branches in turn."""

    def __init__(self, branches):
        self.branches = branches

    def __lt__(self, probability):
        return self.branches.toss(probability)


def distribution_of(run):
    """{outcome: probability} of run(rng) -> outcome, over every choice that it asks of rng."""

    def one_branch(branches):
        choice = lambda n, p: branches.sample(p)
        return run(SimpleNamespace(choice=choice, random=lambda: Coin(branches)))

    return every_branch(one_branch)


def test_the_rule_has_exactly_the_distribution_of_p():
    """The tokens of one round, completed by samples from the rows that it did not reach."""
    rng = np.random.default_rng(0)
    for p, q in zip(rng.dirichlet(np.ones(4), (20, 3)), rng.dirichlet(np.ones(4), (20, 2))):

        def one_round(rng):
            draft = [one_file.sample(row, rng) for row in q]
            tokens = one_file.verify(draft, q, p, rng)
            return tuple(tokens + [one_file.sample(row, rng) for row in p[len(tokens) :]])

        expected = dict(np.ndenumerate(np.einsum("i,j,k->ijk", *p)))
        assert total_variation(distribution_of(one_round), expected) < 1e-12


@pytest.mark.parametrize("K", [1, 2, 3, 5])
def test_both_loops_have_exactly_the_distribution_of_the_target(K):
    tables, filter, n_tokens = [TableModel(seed, zeros=True) for seed in (1, 2)], Filter(1.0), 4

    def model(table):  # a function from n tokens to n distributions
        return lambda ids: filter(table.read(ids, table.new_cache(), len(ids)))

    def texts_of(decode, models, *how):
        return distribution_of(lambda rng: tuple(decode(*models, [0], n_tokens, *how, rng)[0][1:]))

    target, draft = map(model, tables)
    expected = chain_rule(tables[0], [0], n_tokens, filter)
    assert_same_distribution(texts_of(one_file.decode_plainly, [target]), expected)
    fast = texts_of(one_file.decode_speculatively, [target, draft], K)
    assert_same_distribution(fast, expected)


# ---------------------------------------------------------------- use from Python


@embedded
def test_the_example_writes_one_text_with_both_drafters():
    command = [sys.executable, "-m", "docs.library"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = re.findall(r"([\d.]+) tokens per target pass: (.+)", done.stdout.decode())
    (fast, text), (slow, same) = lines
    assert text == same and len(text) > 80 and float(fast) > float(slow) >= 1
