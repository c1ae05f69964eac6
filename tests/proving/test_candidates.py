"""Several candidates: every rule is exact by enumeration, and they stand in theory's order."""

import itertools

import numpy as np
import pytest
from command_line import embedded
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import EXACT, distributions

import sampling
from experiments.drafting.paths import choose, distributions_of_best, mass_below
from experiments.proving import candidates
from experiments.proving.candidates import accepted_at, different, one_by_one, optimum
from experiments.proving.enumeration import distribution_of

N_VOCAB = 4
distribution, several = distributions(N_VOCAB), st.integers(1, 3)


def independent(q, k):
    return [sampling.sample(q, None) for _ in range(k)]


def likeliest(q, k):
    chosen = np.argsort(-q, kind="stable")[:k].tolist()
    return chosen, sampling.one_hot(chosen, len(q))


def best_of(tokens, q, p):
    """Paths of one token each, then the token rule."""
    k = len(tokens)
    i, rows = choose([[token] for token in tokens], [q[None]] * k, [p[None]] * k)
    accepted, token = sampling.verify([tokens[i]], rows, np.array([p, p]), None)
    return (i, tokens[i]) if accepted else (k, token)


RULES = {
    "with replacement": lambda p, q, k: one_by_one(independent(q, k), np.tile(q, (k, 1)), p, None),
    "without replacement": lambda p, q, k: one_by_one(*different(q, k, None), p, None),
    "likeliest": lambda p, q, k: one_by_one(*likeliest(q, k), p, None),
    "K-SEQ": lambda p, q, k: candidates.k_seq(independent(q, k), q, p, None),
    "best of the first few": lambda p, q, k: best_of(independent(q, k), q, p),
}


def mean_over_samples(function):
    """The mean of an array that a function computes, over every sample it takes."""
    outcomes = distribution_of(lambda: tuple(function()))
    return sum(probability * np.array(values) for values, probability in outcomes.items())


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=40, deadline=None)
@given(p=distribution, q=distribution, k=several)
def test_the_token_has_the_distribution_p_and_a_candidate_is_accepted_as_often_as_predicted(
    name, p, q, k
):
    token_distribution, accepted = np.zeros(N_VOCAB), np.zeros(k + 1)
    for (i, token), probability in distribution_of(lambda: RULES[name](p, q, k)).items():
        token_distribution[token] += probability
        accepted[i] += probability
    assert abs(token_distribution - p).max() < EXACT
    if name == "without replacement" and np.count_nonzero(q) < k:
        return  # no candidate is left, and the index is a smaller one
    predicted = mean_over_samples(lambda: accepted_at(p, q, k, None)[name])
    assert abs(predicted[-1] - accepted[:k].sum()) < EXACT
    if name in ("with replacement", "without replacement", "likeliest"):
        assert abs(predicted - accepted[:k].cumsum()).max() < EXACT


def test_the_distribution_of_the_best_keeps_rare_tokens():
    """As a difference of two powers the first would be 0, and its ratio infinite."""
    q = np.array([1e-20, 1 - 1e-20])
    for p, rare in ((np.array([1.0, 0.0]), 2e-20), (np.array([0.0, 1.0]), 1e-40)):
        assert distributions_of_best(q, mass_below(p, q), 2)[-1] == pytest.approx([rare, 1])


@settings(max_examples=60, deadline=None)
@given(p=distribution, q=distribution, k=several)
def test_the_optimum_is_the_least_bound_of_all_sets(p, q, k):
    """A rule is a flow of probability from every tuple of candidates to a token in it. The largest
    flow is the smallest cut, and every cut is that of a set H of tokens: p(H), and all tuples that
    are not of H alone.
    """
    sets = map(list, itertools.product([False, True], repeat=N_VOCAB))
    cuts = [p[H].sum() + 1 - q[H].sum() ** k for H in sets]
    assert optimum(p, q, k) == pytest.approx(min(cuts), abs=EXACT)


# ---------------------------------------------------------------- which accepts more


@settings(max_examples=200, deadline=None)
@given(p=distributions(6, 20), q=distributions(6, 20), k=st.integers(2, 6))
def test_the_order_of_the_rules_for_independent_candidates(p, q, k):
    found = accepted_at(p, q, k, np.random.default_rng(0))
    one = np.minimum(p, q).sum()
    for name, row in found.items():
        if name != "likeliest":  # which is chosen, not sampled
            assert row[0] == pytest.approx(one)
        if name != "best of all":  # which may lose by another candidate
            assert (np.diff(row) >= -EXACT).all(), name
    singly, seq, most = (found[name] for name in ("with replacement", "K-SEQ", "optimum"))
    assert (singly <= seq + EXACT).all()
    # SpecTr, theorem 3
    assert ((1 - np.exp(-1)) * most - EXACT <= seq).all() and (seq <= most + EXACT).all()
    assert (found["best of the first few"] <= most + EXACT).all()
    assert (most <= np.minimum(1, one * np.arange(1, k + 1)) + EXACT).all()


@embedded
def test_the_script_prints_a_row_for_each_rule(capsys):
    candidates.main(k=2, n_tokens=4, n_prompts=1)
    out = capsys.readouterr().out
    assert all(name in out for name in (*RULES, "best of all", "optimum"))
