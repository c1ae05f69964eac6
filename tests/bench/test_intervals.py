"""Ratios over prompts, and their intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.intervals import ratio_interval

PAIRS = st.tuples(st.floats(0.1, 9), st.floats(0.1, 9))


@given(st.lists(PAIRS, min_size=6, max_size=30))
def test_an_interval_holds_the_ratio_and_is_turned_over_with_it(pairs):
    above, below = zip(*pairs)
    low, high = ratio_interval(above, below)
    assert low <= sum(above) / sum(below) * (1 + 1e-12) and high > 0
    assert ratio_interval(below, above) == pytest.approx([1 / high, 1 / low])
    assert ratio_interval(above[:5], below[:5]) is None
    assert ratio_interval([1, 0, 0, 0, 0, 0], below[:6]) is None  # all of it in one prompt


SKEWED = {
    "even": lambda rng, shape: rng.gamma(8, 1 / 8, (2, *shape)),
    "a few fast prompts": lambda rng, shape: (rng.lognormal(-1 / 8, 1 / 2, shape), np.ones(shape)),
    "a few slow prompts": lambda rng, shape: (np.ones(shape), rng.lognormal(-1 / 8, 1 / 2, shape)),
}


@pytest.mark.parametrize("n", [6, 10, 20])
@pytest.mark.parametrize("shape", SKEWED)
def test_intervals_cover_what_they_should(n, shape):
    """The true ratio is 1. Of 2000 sets the standard error of the coverage is 0.005."""
    sets = zip(*SKEWED[shape](np.random.default_rng(0), (2000, n)))
    covered = [low <= 1 <= high for low, high in (ratio_interval(*pair) for pair in sets)]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.025)


def drafted_texts(rng, a, K=4, n_tokens=60):
    """(accepted, examined) drafts of texts, in the rounds of sampling.speculative: a draft is
    accepted with the probability in `a`, an array with an entry for each text.
    """
    left, accepted, examined = (np.full(a.shape, n) for n in (n_tokens, 0, 0))
    while left.any():
        drafted = np.minimum(K, np.maximum(left - 1, 0))
        n = np.minimum(rng.geometric(1 - a) - 1, drafted)
        accepted += n
        examined += np.minimum(n + 1, drafted)
        left -= np.minimum(n + 1, left)
    return accepted, examined


def coverage(a, n_prompts, K, spread=0.0):
    """How many of 2000 intervals hold a, which varies by so much from prompt to prompt."""
    rng, shape = np.random.default_rng(0), (2000, n_prompts)
    rates = np.full(shape, a)
    if spread:
        concentration = a * (1 - a) / spread**2 - 1
        rates = rng.beta(a * concentration, (1 - a) * concentration, shape)
    accepted, examined = drafted_texts(rng, rates, K)
    true = accepted.sum() / examined.sum() if spread else a
    intervals = [ratio_interval(*counts, most=1) or (0, 1) for counts in zip(accepted, examined)]
    return np.mean([low <= true <= high for low, high in intervals])


SAME_RATE = [(a, n, 0.0) for a in (0.05, 0.3, 0.5, 0.8, 0.95) for n in (6, 12)]
DIFFERENT_RATES = [(0.05, 6, 0.03), (0.5, 6, 0.1), (0.8, 6, 0.1)]


@pytest.mark.slow
@pytest.mark.parametrize("a, n_prompts, spread", SAME_RATE + DIFFERENT_RATES)
def test_intervals_of_an_acceptance_rate_cover_it(a, n_prompts, spread):
    assert min(coverage(a, n_prompts, K, spread) for K in (1, 4, 8)) >= 0.92


def test_an_acceptance_rate_of_1_has_no_interval():
    """Its error is unknown, not 0."""
    assert ratio_interval([10] * 6, [10] * 6, most=1) is None
    low, high = ratio_interval([9, 10, 10, 10, 10, 10], [10] * 6, most=1)
    assert low < 59 / 60 < high == 1
