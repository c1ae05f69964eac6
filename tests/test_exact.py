"""The proof: speculative decoding has exactly the target's distribution.

proof/enumerate.py runs the real decoding loop through every possible history of its samples and
tosses. The probabilities of the texts it ends in are compared with the target's own, computed by
the chain rule: no sampling, no statistics, 1e-12.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import (
    FILTERS,
    TableModel,
    assert_exact,
    assert_same_distribution,
    at_eos,
    distributions,
)
from toys import tiny_model, tokens_of

from decoding.ngrams import NGramDrafter
from gpt2 import Config
from proof.enumerate import distribution
from sampling import NeuralDrafter, SamplingParams, autoregressive, never, verify, verify_block

rules = pytest.mark.parametrize("rule", [verify, verify_block], ids=["token", "block"])
T1 = FILTERS["T=1"]

LOOPS = [
    *[(name, zeros, 3, 2, at_eos) for name in FILTERS for zeros in ("", "p", "q", "pq")],
    *[
        ("T=1", zeros, *size)
        for zeros in ("", "pq")
        for size in ((4, 1, never), (4, 2, at_eos), (3, 5, at_eos))
    ],
    ("T=1", "pq", 4, 3, never),
    pytest.param("T=1", "", 4, 3, never, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("to_probs, zeros, n_tokens, K, is_done", LOOPS)
def test_distribution_of_the_loop_with_tables(to_probs, zeros, n_tokens, K, is_done):
    """zeros: which of p and q have tokens of probability 0."""
    target, draft = TableModel(1, zeros="p" in zeros), TableModel(2, zeros="q" in zeros)
    to_probs = FILTERS[to_probs]
    drafter = lambda rng: NeuralDrafter(draft, to_probs, rng)
    expected = assert_exact(target, drafter, [0], n_tokens, K, to_probs, is_done)
    alone = lambda rng: autoregressive(target, [0], n_tokens, to_probs, rng, is_done)
    assert_same_distribution(distribution(lambda rng: tokens_of(alone(rng))), expected)


@pytest.mark.parametrize(
    "to_probs, K, is_done",
    [("T=1", 1, at_eos), ("greedy", 3, never), ("all", 2, at_eos), ("all", 3, never)],
)
def test_distribution_of_the_loop_with_real_models_and_caches(to_probs, K, is_done):
    """GPT-2 itself, of two layers and three tokens: a short cache would show here."""
    config = Config(n_vocab=3, n_ctx=16, n_embd=4, n_head=2, n_layer=2)
    target, draft = tiny_model(1, config, scale=0.8), tiny_model(2, config, scale=0.8)
    to_probs = FILTERS[to_probs]
    drafter = lambda rng: NeuralDrafter(draft, to_probs, rng)
    assert_exact(target, drafter, [1, 0], 4, K, to_probs, is_done)


@pytest.mark.parametrize("to_probs", FILTERS.values(), ids=FILTERS)
def test_distribution_with_one_hot_drafts(to_probs):
    prompt, drafter = [0, 1, 0, 1, 2, 0, 1], lambda rng: NGramDrafter(3)
    assert_exact(TableModel(3), drafter, prompt, 4, 3, to_probs, at_eos)


@pytest.mark.parametrize("draft_temperature", [0.0, 0.3, 3.0])
def test_distribution_does_not_depend_on_how_the_draft_samples(draft_temperature):
    """q must be what was sampled from; it need not be filtered like p."""
    target, draft = TableModel(1), TableModel(2)
    drafter = lambda rng: NeuralDrafter(draft, SamplingParams(draft_temperature), rng)
    assert_exact(target, drafter, [0], 3, 2, T1)


@pytest.mark.parametrize("n_ctx_target, n_ctx_draft", [(5, 64), (64, 4), (5, 3)])
def test_distribution_where_a_context_ends(n_ctx_target, n_ctx_draft):
    """The target's context ends the text; the draft's only ends the drafting."""
    target, draft = TableModel(1, n_ctx=n_ctx_target), TableModel(2, n_ctx=n_ctx_draft)
    drafter = lambda rng: NeuralDrafter(draft, T1, rng)
    expected = assert_exact(target, drafter, [0, 1], 4, 2, T1)
    assert {len(text) for text in expected} == {min(4, n_ctx_target - 2)}


def test_distribution_where_k_depends_on_the_past():
    """Any function of the rounds so far, 0 among its values."""
    varied = lambda last: (last.accepted + sum(last.tokens) + 2 * len(last.tokens)) % 4
    drafter = lambda rng: NeuralDrafter(TableModel(2), T1, rng)
    assert_exact(TableModel(1), drafter, [0], 4, varied, T1, at_eos)


# ---------------------------------------------------------------- the rules

rows_of_p = st.lists(distributions(4), min_size=3, max_size=3).map(np.array)
rows_of_q = st.lists(distributions(4), min_size=2, max_size=2).map(np.array)
few = settings(max_examples=40)


def drafts_of(q):
    """Every draft that rows of q can give, with its probability."""
    for draft in itertools.product(*(np.flatnonzero(row) for row in q)):
        yield list(draft), np.prod([row[token] for row, token in zip(q, draft)])


def outcomes(rule, draft, p, q):
    """{(number accepted, next token): probability}"""
    return distribution(lambda rng: rule(draft, p, q, rng))


@rules
@few
@given(p=rows_of_p, q=rows_of_q)
def test_a_rule_gives_p_for_any_q(rule, p, q):
    """A round, completed by samples from the rows of p that it does not reach, is distributed like
    samples from all the rows of p.
    """
    found = np.zeros((4, 4, 4))
    for draft, mass in drafts_of(q):
        for (n, token), probability in outcomes(rule, draft, p, q).items():
            tokens = [*draft[:n], token]
            rows = [np.eye(4)[token] for token in tokens] + list(p[len(tokens) :])
            found += mass * probability * np.einsum("i,j,k->ijk", *rows)
    assert abs(found - np.einsum("i,j,k->ijk", *p)).max() < 1e-12


@rules
@few
@given(p=rows_of_p, q=rows_of_q, surplus=st.integers(1, 2))
def test_a_rule_ignores_rows_beyond_the_draft(rule, p, q, surplus):
    """The rows of q, and of p, that no drafted token belongs to."""
    for draft, _ in drafts_of(q[:1]):
        more_p, more_q = np.tile(p, (2, 1)), np.tile(q, (2, 1))
        found = outcomes(rule, draft, more_p[: 2 + surplus], more_q[: 1 + surplus])
        assert_same_distribution(found, outcomes(rule, draft, p[:2], q[:1]))


def expected_accepted(rule, p, q):
    mean = 0.0
    for draft, mass in drafts_of(q):
        for (n, _), probability in outcomes(rule, draft, p, q).items():
            mean += mass * probability * n
    return mean


def block_bound(p, q, clip):
    """The mean sum of P[1] ... P[k]: clipped at each place (block rule), or each ratio (token)."""
    mean = 0.0
    for draft, mass in drafts_of(q):
        P = 1.0
        for i, token in enumerate(draft):
            ratio = p[i, token] / q[i, token]
            P = min(1.0, P * ratio) if clip else P * min(1.0, ratio)
            mean += mass * P
    return mean


@pytest.mark.slow
@few
@given(p=rows_of_p, q=rows_of_q)
def test_a_block_keeps_at_least_as_many_tokens_and_as_many_as_predicted(p, q):
    token, block = expected_accepted(verify, p, q), expected_accepted(verify_block, p, q)
    assert abs(token - block_bound(p, q, clip=False)) < 1e-12
    assert abs(block - block_bound(p, q, clip=True)) < 1e-12
    assert block >= token - 1e-12
