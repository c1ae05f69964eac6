"""Random numbers that are used twice: what is sampled, and what an enumeration says of it."""

import numpy as np
import pytest

from proving.enumeration import enumerate_branches
from proving.mistakes import MISTAKES
from proving.patching import apply_mistake
from proving.reused_noise import sample_again, sample_and_keep
from sampling import Rng, verify

P, Q = np.array([0.2, 0.4, 0.4]), np.array([0.6, 0.2, 0.2])


def first_and_second(rng):
    """A token of Q, and one of P that the same number chooses."""
    return sample_and_keep(rng, Q), sample_again(rng, 1, P)


def round_of_one(rng):
    token = sample_and_keep(rng, Q)
    n_accepted, following = verify([token], np.stack([P, P]), Q[None], rng)
    return token if n_accepted else following


def test_a_number_chooses_by_its_place_between_0_and_1():
    """By hand: the intervals end at 0.6, 0.8 and 1 in Q, and at 0.2, 0.6 and 1 in P."""
    found = enumerate_branches(first_and_second)
    assert found.keys() == {(0, 0), (0, 1), (1, 2), (2, 2)}
    assert [found[0, 0], found[0, 1], found[1, 2]] == pytest.approx([0.2, 0.4, 0.2])


@pytest.mark.parametrize("run", [first_and_second, round_of_one])
def test_random_numbers_are_enumerated(run):
    """Over all numbers of a fine grid, the real Rng's frequencies are those of the enumeration."""
    n = 60
    grid = (np.arange(n) + 0.5) / n
    found = dict.fromkeys([(0, 0), (0, 1), (1, 2), (2, 2), 0, 1, 2], 0)
    with apply_mistake(MISTAKES["draft-noise-again"]):
        expected = enumerate_branches(run)
        for first in grid:
            for coin in grid:
                rng, numbers = Rng(0), iter([first, coin, 0.5])
                rng.random = lambda numbers=numbers: next(numbers)
                outcome = run(rng)
                found[outcome] += 1 / n**2
    for outcome, mass in expected.items():
        assert found[outcome] == pytest.approx(mass, abs=0.02), outcome


def test_the_bias_by_hand():
    """Token 0 is drafted below 0.6 and rejected with 2/3. Its residual is half token 1, half 2."""
    with apply_mistake(MISTAKES["draft-noise-again"]):
        found = enumerate_branches(round_of_one)
    # of the numbers below 0.6, five sixths are below 0.5
    right = [0.2, 0.2 + 0.4 * 5 / 6, 0.2 + 0.4 / 6]
    assert [found[token] for token in range(3)] == pytest.approx(right)
