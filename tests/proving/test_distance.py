"""How wrong a mistake is: 0 for the right code, and a distance worked out by hand."""

import numpy as np
import pytest

import sampling
from experiments.proving.distance import compare, distance, text_of, toy_distributions
from experiments.proving.enumeration import distribution_of
from experiments.proving.mistakes import MISTAKES
from experiments.proving.patching import made
from sampling import Filter

EXACT = 1e-12


@pytest.mark.parametrize(
    "setting", dict.fromkeys(mistake.setting for mistake in MISTAKES.values()), ids=str
)
def test_the_right_code_has_distance_0(setting):
    assert distance(setting) < EXACT


def test_one_distance_by_hand():
    """Resampling from p: what was rejected comes back, x gets min(p, q) + P(rejected) p instead of
    p.
    """
    p, q = np.array([0.1, 0.2, 0.7]), np.array([0.6, 0.3, 0.1])

    def token():
        draft = sampling.sample(q, None)
        n, last = sampling.verify([draft], q[None], np.stack([p, p]), None)
        return draft if n else last

    with made(MISTAKES["resample-from-p"]):
        wrong = distribution_of(token)
    assert [wrong[x] for x in range(3)] == pytest.approx(np.minimum(p, q) + 0.6 * p)
    right = distribution_of(token)
    assert [right[x] for x in range(3)] == pytest.approx(p)


def test_errors_are_counted_beside_the_distance():
    right = {(0,): 0.5, (1,): 0.5}
    distribution = {(0,): 0.2, (0, "IndexError"): 0.5, ("IndexError",): 0.3}
    assert compare(distribution, right) == (pytest.approx(0.5), pytest.approx(0.8))
    assert compare({("IndexError",): 1.0}, right) == (None, 1.0)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_seen_in_texts_and_not_in_errors(name):
    """But for the one whose mistake is the error."""
    mistake = MISTAKES[name]
    distribution, right = toy_distributions(mistake.setting, mistake)
    _, errors = compare(distribution, right)
    assert errors == (1 if name == "divide-by-temperature-0" else 0)
    if name == "too-many-tokens":
        n_tokens, K = mistake.setting.toy
        assert max(map(len, distribution)) == n_tokens + K


def test_a_crash_is_an_outcome():
    def rounds():
        yield sampling.Round([1, 2])
        raise IndexError

    assert text_of(rounds()) == (1, 2, "IndexError")
    assert text_of([sampling.Round([3])]) == (3,)
    assert Filter(0.0) == MISTAKES["greedy-ratio"].setting.filter  # shows at temperature 0 only
