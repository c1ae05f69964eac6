"""The rules for several candidates: exact by enumeration, and in the order that theory gives."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sampling
from experiments.candidates import best_of, k_seq, optimum, siblings
from experiments.proving.enumeration import law

EXACT = 1e-12
N_VOCAB = 4

counts = st.lists(st.integers(0, 5), min_size=N_VOCAB, max_size=N_VOCAB).filter(any)
distribution = counts.map(lambda n: np.array(n) / sum(n))
several = st.integers(1, 3)


def with_replacement(p, q, k):
    return siblings.verify_siblings(*siblings.with_replacement(q, k, None), p, None)


def without_replacement(p, q, k):
    return siblings.verify_siblings(*siblings.without_replacement(q, k, None), p, None)


def likeliest(p, q, k):
    return siblings.verify_siblings(*siblings.likeliest(q, k), p, None)


def by_k_seq(p, q, k):
    return k_seq.verify(siblings.with_replacement(q, k, None)[0], q, p, None)


def by_best_of(p, q, k):
    return best_of.verify(siblings.with_replacement(q, k, None)[0], q, p, None)


RULES = [with_replacement, without_replacement, likeliest, by_k_seq, by_best_of]


def outcomes_of(rule, p, q, k):
    """(law of the token, probability of each index): by every branch of the rule."""
    token_law, accepted = np.zeros(len(p)), np.zeros(k + 1)
    for (i, token), probability in law(lambda: rule(p, q, k)).items():
        token_law[token] += probability
        accepted[i] += probability
    return token_law, accepted


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@settings(max_examples=60, deadline=None)
@given(p=distribution, q=distribution, k=several)
def test_the_token_has_the_law_p(rule, p, q, k):
    token_law, _ = outcomes_of(rule, p, q, k)
    assert abs(token_law - p).max() < EXACT


def mean_over_samples(function):
    """The mean of an array that a function computes, over every sample it takes."""
    outcomes = law(lambda: tuple(function()))
    return sum(probability * np.array(values) for values, probability in outcomes.items())


@settings(max_examples=60, deadline=None)
@given(p=distribution, q=distribution, k=several)
def test_how_often_each_candidate_is_accepted(p, q, k):
    enough = np.count_nonzero(q) >= k  # else no candidate is left, and the index is a smaller one
    _, found = outcomes_of(with_replacement, p, q, k)
    assert abs(siblings.accepted_with_replacement(p, q, k) - found[:k]).max() < EXACT
    _, found = outcomes_of(likeliest, p, q, k)
    assert abs(siblings.accepted_likeliest(p, q, k) - found[:k]).max() < EXACT
    _, found = outcomes_of(by_k_seq, p, q, k)
    assert abs(k_seq.acceptance(p, q, k) - found[:k].sum()) < EXACT
    _, found = outcomes_of(by_best_of, p, q, k)
    assert abs(best_of.acceptance(p, q, k) - found[:k].sum()) < EXACT
    if enough:
        _, found = outcomes_of(without_replacement, p, q, k)
        estimate = lambda: siblings.accepted_without_replacement(p, q, k, None)
        assert abs(mean_over_samples(estimate) - found[:k]).max() < EXACT


def law_of_best(p, q, k):
    return best_of.laws_of_best(q, best_of.mass_below(p, q), k)[-1]


@settings(max_examples=100, deadline=None)
@given(p=distribution, q=distribution, k=several)
def test_the_law_of_the_best(p, q, k):
    def best():
        candidates, _ = siblings.with_replacement(q, k, None)
        return candidates[best_of.best(candidates, p, q)]

    found = np.zeros(N_VOCAB)
    for token, probability in law(best).items():
        found[token] = probability
    assert abs(law_of_best(p, q, k) - found).max() < EXACT


def test_the_law_of_the_best_keeps_rare_tokens():
    """As a difference of two powers the first would be 0, and its ratio infinite."""
    q = np.array([1e-20, 1 - 1e-20])
    assert law_of_best(np.array([1.0, 0.0]), q, 2) == pytest.approx([2e-20, 1])
    assert law_of_best(np.array([0.0, 1.0]), q, 2) == pytest.approx([1e-40, 1])


# ---------------------------------------------------------------- the optimum


def largest_flow(p_counts, q_counts, k):
    """The most that any rule accepts, found as a maximum flow of integers (augmenting paths):
    from every tuple of candidates to the tokens in it.
    """
    tuples = list(itertools.product(range(N_VOCAB), repeat=k))
    # tuples and tokens in the same unit: 1 over the product of the totals
    room = {
        **{one: sum(p_counts) * int(np.prod([q_counts[x] for x in one])) for one in tuples},
        **{token: p_counts[token] * sum(q_counts) ** k for token in range(N_VOCAB)},
    }
    flow = {(one, token): 0 for one in tuples for token in set(one)}
    total = 0
    while True:
        # breadth first, from the tuples that still have something to give
        parent = {one: None for one in tuples if room[one] > 0}
        queue, end = list(parent), None
        for node in queue:
            if isinstance(node, tuple):
                steps = [token for token in set(node) if token not in parent]
            else:
                steps = [one for one in tuples if flow.get((one, node)) and one not in parent]
            for step in steps:
                parent[step] = node
                queue.append(step)
            if not isinstance(node, tuple) and room[node] > 0:
                end = node
                break
        if end is None:
            return total / (sum(p_counts) * sum(q_counts) ** k)
        path = [end]
        while parent[path[-1]] is not None:
            path.append(parent[path[-1]])
        pairs = list(itertools.pairwise(path))
        amount = min(room[end], room[path[-1]])
        for node, before in pairs:
            if isinstance(node, tuple):
                amount = min(amount, flow[node, before])
        for node, before in pairs:
            if isinstance(node, tuple):
                flow[node, before] -= amount
            else:
                flow[before, node] += amount
        room[end] -= amount
        room[path[-1]] -= amount
        total += amount


@settings(max_examples=60, deadline=None)
@given(p=counts, q=counts, k=st.integers(1, 3))
def test_the_optimum_is_reached_and_bounds_every_set(p, q, k):
    p_law, q_law = np.array(p) / sum(p), np.array(q) / sum(q)
    found = optimum.acceptance(p_law, q_law, k)
    assert found == pytest.approx(largest_flow(p, q, k), abs=EXACT)
    subsets = itertools.product([False, True], repeat=N_VOCAB)
    bounds = [1 + p_law[list(H)].sum() - q_law[list(H)].sum() ** k for H in subsets]
    assert found == pytest.approx(min(bounds), abs=EXACT)


# ---------------------------------------------------------------- which accepts more

long_counts = st.lists(st.integers(0, 20), min_size=6, max_size=6).filter(any)
long_distribution = long_counts.map(lambda n: np.array(n) / sum(n))


@settings(max_examples=300, deadline=None)
@given(p=long_distribution, q=long_distribution, k=st.integers(2, 6))
def test_the_order_of_the_rules_for_independent_candidates(p, q, k):
    one = np.minimum(p, q).sum()
    sibling = siblings.accepted_with_replacement(p, q, k).sum()
    seq, best = k_seq.acceptance(p, q, k), optimum.acceptance(p, q, k)
    assert one - EXACT <= sibling <= seq + EXACT
    assert (1 - np.exp(-1)) * best - EXACT <= seq <= best + EXACT  # SpecTr, theorem 3
    assert best <= min(1, k * one) + EXACT
    assert best_of.acceptance(p, q, k) <= best + EXACT


@settings(max_examples=300, deadline=None)
@given(p=long_distribution, q=long_distribution, k=st.integers(2, 6))
def test_another_candidate_never_hurts(p, q, k):
    fewer = siblings.accepted_with_replacement(p, q, k - 1)
    more = siblings.accepted_with_replacement(p, q, k)
    assert abs(more[: k - 1] - fewer).max() < EXACT and more[-1] >= 0
    for rule in (k_seq, best_of, optimum):
        assert rule.acceptance(p, q, k - 1) <= rule.acceptance(p, q, k) + EXACT


@settings(max_examples=100, deadline=None)
@given(p=distribution, q=distribution)
def test_two_different_candidates_are_accepted_at_least_as_often_as_two_independent_ones(p, q):
    estimate = lambda: siblings.accepted_without_replacement(p, q, 2, None)
    different = mean_over_samples(estimate).sum()
    assert different >= siblings.accepted_with_replacement(p, q, 2).sum() - EXACT


def test_all_tokens_as_candidates_are_always_accepted():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(4), 2)
    estimate = lambda: siblings.accepted_without_replacement(p, q, 4, None)
    assert mean_over_samples(estimate).sum() == pytest.approx(1)


def test_the_best_of_two_may_be_worse_than_one():
    """A draft that is already right: choosing among its candidates would spoil it."""
    p = np.array([0.5, 0.5])
    assert best_of.acceptances(p, p, 2) == pytest.approx([1, 0.75])
    assert best_of.how_many(p, p, 2) == 1 and best_of.acceptance(p, p, 2) == 1


@settings(deadline=None)
@given(p=distribution, q=distribution)
def test_one_candidate_is_the_ordinary_rule(p, q):
    one = np.minimum(p, q).sum()
    for rule in (k_seq, best_of, optimum):
        assert rule.acceptance(p, q, 1) == pytest.approx(one)
    assert siblings.accepted_with_replacement(p, q, 1) == pytest.approx([one])
    token = int(q.argmax())
    # after an acceptance `verify` adds a token, the bonus; a rejection is the same in both
    ordinary = law(lambda: sampling.verify([token], q[None], np.stack([p, p]), None))
    sibling = law(lambda: siblings.verify_siblings([token], q[None], p, None))
    rejected = {x: mass for (n, x), mass in ordinary.items() if n == 0}
    assert rejected == pytest.approx({x: mass for (i, x), mass in sibling.items() if i == 1})
