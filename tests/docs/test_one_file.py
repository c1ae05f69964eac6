"""The two files to read and change: the whole algorithm in one, and use from Python."""

import ast
import re
import sys

import numpy as np
import pytest
from command_line import ROOT, python
from toys import load_model

from checkpoints.tokenizer import load_encoder
from docs import one_file
from proof.prove import prove
from sampling import Rng, SamplingParams, autoregressive

SOURCE = (ROOT / "docs" / "one_file.py").read_text(encoding="utf-8")
ODD = "It's  1999,\n\n\t'ünïcode' don't 日本 \U0001f600 \x00 fox's   "


def test_it_is_short_and_imports_nothing_of_this_repository():
    assert len(SOURCE.splitlines()) <= 150
    nodes = list(ast.walk(ast.parse(SOURCE)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert names - sys.stdlib_module_names == {"numpy", "regex"}


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

    rounds = autoregressive(load_model(folder), ids, n_tokens, SamplingParams(0.0), Rng(0))
    expected = ids + [token for one in rounds for token in one.tokens]
    plain, n_plain = one_file.autoregressive(target, ids, n_tokens, sample)
    fast, n_fast = one_file.speculative(target, draft, ids, n_tokens, 4, sample, accept)
    assert plain == fast == expected
    assert n_plain == n_tokens > n_fast


@pytest.mark.parametrize("temperature", ["nan", "-1"])
def test_a_temperature_that_cannot_be_used_is_refused(temperature):
    done = python("docs/one_file.py", "a", temperature)
    assert done.returncode == 2 and "a temperature of 0 or more" in done.stderr


SLOW = pytest.param(one_file.speculative, marks=pytest.mark.slow)


@pytest.mark.parametrize("function", [one_file.verify, SLOW], ids=["verify", "speculative"])
def test_the_rule_and_the_loop_are_exact_as_they_stand(function):
    assert prove(function)["verdict"] == "exact"


def test_a_rejection_by_rounding_is_replaced_from_p():
    p = np.array([0.1, 0.9])
    q = np.nextafter(p, 1)  # above p everywhere, so the residual is 0
    n, row = one_file.verify([0], [p, p], [q], sample=lambda row: row, accept=lambda ratio: False)
    assert n == 0 and row.tolist() == p.tolist()


# ---------------------------------------------------------------- use from Python


def test_the_example_writes_one_text_with_both_drafters():
    done = python("-m", "docs.library")
    assert (done.returncode, done.stderr) == (0, "")
    written = r"(.+)\n\w+: \d+ of \d+ .* accepted,\n([\d.]+) tokens per target pass"
    (text, fast), (same, slow) = re.findall(written, done.stdout)
    assert text == same and len(text) > 80 and float(fast) > float(slow) >= 1
