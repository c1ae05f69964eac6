"""K chosen round by round: still exact, and the choice is the best one. The clock is a test's."""

import numpy as np
import pytest
from clocks import Time
from table_models import FILTERS, TableModel, assert_exact, at_eos

from decoding.auto_k import FIRST_KS, MAX_K, AutoK
from decoding.ngrams import NGramDrafter
from decoding.theory import tokens_per_round
from sampling import NeuralDrafter, Round


def ticking(each):
    """A clock on which every round takes as long as the one before, and a little longer."""
    clock = Time()

    def tick():
        clock.now += each
        return clock.now

    return tick


@pytest.mark.parametrize("draft", ["model", "ngram"])
def test_the_distribution_is_the_targets_whatever_the_clock_says(draft):
    to_probs, target = FILTERS["T=1"], TableModel(1, zeros=True)
    new = {
        "model": lambda rng: NeuralDrafter(TableModel(2), to_probs, rng),
        "ngram": lambda rng: NGramDrafter(3),
    }[draft]
    assert_exact(target, new, [0, 1, 0], 4, AutoK(ticking(0.1)), to_probs, at_eos)


# ---------------------------------------------------------------- the choice

VERIFY = np.interp(range(MAX_K + 1), [0, 1, 2, 4, 8], [1, 1.02, 1.08, 1.15, 1.35])
DEAR = np.interp(range(MAX_K + 1), [0, 1, 2, 4, 8], [1, 1.7, 2.0, 2.2, 2.9])


def simulate(a, c, v, n_tokens, seed, fraction=1.0, noise=0.0, outliers=0.0):
    """The Ks, and tokens per one-row target pass. A draft is found in this fraction of the rounds;
    noise and outliers lengthen what the clock says of a round.
    """
    rng, clock, last = np.random.default_rng(seed), Time(), Round([])
    K, ks, cost, n_made = AutoK(clock), [], 0.0, 0
    while n_made < n_tokens:
        ks.append(K(last))
        n = ks[-1] if rng.random() < fraction else 0
        accepted = [*(rng.random(n) < a).tolist(), False].index(False)
        seconds = n * c + v[n]
        disturbed = 1 + noise * rng.standard_normal() ** 2 + 4 * (rng.random() < outliers)
        clock.now += seconds * disturbed
        last = Round([0] * (accepted + 1), [0] * n, accepted)
        cost, n_made = cost + seconds, n_made + accepted + 1
    return ks, n_made / cost


def close_to_the_best(a, c, v, **how):
    """Its speed as a fraction of that of the best fixed K in hindsight, 0 among them."""
    best = max(tokens_per_round(a, k) / (k * c + v[k]) for k in range(MAX_K + 1))
    return np.mean([simulate(a, c, v, 400, seed, **how)[1] for seed in range(4)]) / best


costs = pytest.mark.parametrize("v", [VERIFY, DEAR], ids=["cheap verify", "dear verify"])


@costs
@pytest.mark.parametrize("c", [0.0, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("a", [0.0, 0.4, 0.8, 0.98])
def test_auto_k_comes_close_to_the_best_k(a, c, v):
    assert close_to_the_best(a, c, v) > 0.92


@costs
@pytest.mark.parametrize("a, c", [(0.0, 0.4), (0.4, 0.1), (0.8, 0.1), (0.8, 1.0)])
def test_a_clock_that_is_disturbed_costs_little(a, c, v):
    """One round in twenty takes five times as long, and the others up to some tenths more."""
    assert close_to_the_best(a, c, v, noise=0.1, outliers=0.05) > 0.87


def test_a_useless_draft_is_given_up_but_not_for_ever():
    ks, speed = simulate(0.0, 0.1, VERIFY, 300, 0)
    assert speed > 0.96 and ks[: len(FIRST_KS)] == [*FIRST_KS]
    assert 0 < np.count_nonzero(ks[20:]) < 10


def test_a_draft_that_seldom_finds_anything_and_is_then_wrong():
    """As n-grams at temperature 1: found in three of ten rounds, and one in ten is right."""
    assert simulate(0.1, 0.0, VERIFY, 300, 0, fraction=0.3)[1] > 0.97


def test_a_draft_that_never_finds_anything_is_no_error():
    ks, speed = simulate(0.5, 0.0, VERIFY, 300, 0, fraction=0.0)
    assert speed == 1 and set(ks) <= {*range(MAX_K + 1)}


def test_a_draft_that_becomes_useful_is_used_again():
    clock, last, n_tokens, ks = Time(), Round([]), 0, []
    K = AutoK(clock)
    while n_tokens < 400:
        k = K(last)
        clock.now += 0.15 * k + VERIFY[k]
        last = Round([0] * (k + 1), [0] * k, k) if n_tokens > 150 else Round([0], [0] * k, 0)
        n_tokens += len(last.tokens)
        ks += [k] * len(last.tokens)  # of each token
    assert min(ks[250:]) > 1 and ks[-1] > 4


def test_what_happens_between_rounds_does_not_count():
    """Only what passes from one call's end to the next call's begin; a watcher is outside."""
    clock = Time()
    K = AutoK(clock)
    K(Round([]))
    clock.now += 3
    K(Round([0], [0] * 4, 0))
    assert K.seconds == {4: pytest.approx([3])}
