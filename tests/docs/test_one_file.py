"""The two files to read and change: the whole algorithm in one, and use from Python."""

import ast
import re
import subprocess
import sys

import numpy as np
import pytest
from command_line import ENVIRONMENT, ROOT, embedded
from table_models import TableModel, assert_same_distribution, chain_rule
from toys import NUMPY

from checkpoints.tokenizer import load_encoder
from docs import one_file
from proof.enumerate import distribution, total_variation
from sampling import Rng, SamplingParams, autoregressive
from utils import load_model

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
    ids, sample, accept = encode(prompt), lambda p: int(p.argmax()), lambda ratio: ratio >= 1
    assert ids == load_encoder(folder).encode(prompt) and decode(ids) == prompt

    rounds = autoregressive(load_model(folder, NUMPY), ids, n_tokens, SamplingParams(0.0), Rng(0))
    expected = ids + [token for one in rounds for token in one.tokens]
    plain, n_plain = one_file.autoregressive(target, ids, n_tokens, sample)
    fast, n_fast = one_file.speculative(target, draft, ids, n_tokens, 4, sample, accept)
    assert plain == fast == expected
    assert n_plain == n_tokens > n_fast


# ---------------------------------------------------------------- the distribution


def test_the_rule_has_exactly_the_distribution_of_p():
    """The tokens of one round, completed by samples from the rows that it did not reach."""
    rng = np.random.default_rng(0)
    for p, q in zip(rng.dirichlet(np.ones(4), (20, 3)), rng.dirichlet(np.ones(4), (20, 2))):

        def one_round(branches):
            draft = [branches.sample(row) for row in q]
            n, token = one_file.verify(draft, p, q, branches.sample, branches.accept)
            return (*draft[:n], token, *[branches.sample(row) for row in p[n + 1 :]])

        expected = dict(np.ndenumerate(np.einsum("i,j,k->ijk", *p)))
        assert total_variation(distribution(one_round), expected) < 1e-12


def test_a_rejection_by_rounding_is_replaced_from_p():
    p = np.array([0.1, 0.9])
    q = np.nextafter(p, 1)  # above p everywhere, so the residual is 0
    n, row = one_file.verify([0], [p, p], [q], sample=lambda row: row, accept=lambda ratio: False)
    assert n == 0 and row.tolist() == p.tolist()


@pytest.mark.parametrize("K", [1, 2, 3, 5])
def test_both_loops_have_exactly_the_distribution_of_the_target(K):
    tables = [TableModel(seed, zeros=True) for seed in (1, 2)]
    to_probs, n_tokens = SamplingParams(1.0), 4

    def model(table):  # a function from n tokens to n distributions
        return lambda ids: to_probs(table.read(ids, table.new_cache(), len(ids)))

    def texts_of(decode, models, *how, tosses=True):
        def one_text(branches):
            rng = (branches.sample, branches.accept)[: 1 + tosses]
            return tuple(decode(*models, [0], n_tokens, *how, *rng)[0][1:])

        return distribution(one_text)

    target, draft = map(model, tables)
    expected = chain_rule(tables[0], [0], n_tokens, to_probs)
    plain = texts_of(one_file.autoregressive, [target], tosses=False)
    assert_same_distribution(plain, expected)
    fast = texts_of(one_file.speculative, [target, draft], K)
    assert_same_distribution(fast, expected)


def test_it_reads_top_down():
    """Decoding and the rule come before the model, and the model before the tokenizer."""
    names = re.findall(r"(?m)^def (\w+)", SOURCE)
    assert names[:3] == ["autoregressive", "speculative", "verify"]
    assert names[-2:] == ["load_model", "load_tokenizer"]


# ---------------------------------------------------------------- use from Python


@embedded
def test_the_example_writes_one_text_with_both_drafters():
    command = [sys.executable, "-m", "docs.library"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, b"")
    written = r"(.+)\n\w+: \d+ of \d+ .* accepted,\n([\d.]+) tokens per target pass"
    (text, fast), (same, slow) = re.findall(written, done.stdout.decode())
    assert text == same and len(text) > 80 and float(fast) > float(slow) >= 1
