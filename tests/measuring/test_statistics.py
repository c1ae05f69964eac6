"""Ratios, intervals and counts over prompts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measuring.statistics import counts, interval, repeated


def test_counts_of_rounds():
    rounds = [(3, 3, 2), (3, 1, 0), (1, 1, 1), (4, 2, 2)]
    # the last text ended inside an accepted run; the first was rejected at its third position
    assert counts([rounds[:1], rounds[1:]], 4) == {
        "examined_by_position": [4, 2, 1, 0],
        "acceptance_by_position": [3 / 4, 1.0, 0.0, None],
        "accepted_histogram": [1, 1, 2, 0, 0],
        "drafted": 11,
        "wasted_drafts": 6,
    }


def test_repeated_8_grams():
    assert repeated(list(range(20))) == (0, 13)
    assert repeated([1, 2] * 10) == (11, 13)
    assert repeated([1] * 7) == (0, 0)


PAIRS = st.tuples(st.floats(0.1, 9), st.floats(0.1, 9))


@given(st.lists(PAIRS, min_size=6, max_size=30))
def test_an_interval_holds_the_ratio_and_is_turned_over_with_it(pairs):
    above, below = zip(*pairs)
    low, high = interval(above, below)
    assert low <= sum(above) / sum(below) * (1 + 1e-12) and high > 0
    assert interval(below, above) == pytest.approx([1 / high, 1 / low])
    assert interval(above, below, most=low)[1] == low
    assert interval(above[:5], below[:5]) is None
    assert interval([1, 0, 0, 0, 0, 0], below[:6]) is None  # all of it in one prompt


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
    covered = [low <= 1 <= high for low, high in (interval(*pair) for pair in sets)]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.025)
