"""The bet: E has mean 1 for an exact sampler, whom it does not accuse; wrong ones are found."""

import math
from itertools import product

import numpy as np
import pytest

from proof.bet import Bet

LAW = {(0, 0): 0.3, (0, 1): 0.05, (1,): 0.25, (2, 0): 0.4}  # token 1 ends a text
EVEN = {text: 1 / 27 for text in product(range(3), repeat=3)}


def evidence(bet, texts):
    for text in texts:
        bet.add(text)
    return math.exp(bet.log_odds)


def bet_on(right, law, n_runs, seed, **settings):
    """A Bet on texts that come from another law, until it is wrong."""
    bet, texts = Bet(right, **settings), list(law)
    weights = np.array(list(law.values()))
    for i in np.random.default_rng(seed).choice(len(texts), n_runs, p=weights / weights.sum()):
        bet.add(texts[i])
        if bet.wrong:
            break
    return bet


@pytest.mark.parametrize("law", [LAW, {(0,): 0.9, (1,): 0.1}, {(0,): 1.0}])
def test_the_evidence_against_an_exact_sampler_is_1_on_average(law):
    for n_runs in range(5):
        mean = sum(
            math.prod(law[text] for text in texts) * evidence(Bet(law), texts)
            for texts in product(law, repeat=n_runs)
        )
        assert mean == pytest.approx(1, abs=1e-12)


def test_and_at_most_1_where_the_law_is_known_up_to_rounding():
    rounding = 0.125
    # the true law gives (0, 0) as much more as the law may be wrong, and a text outside it, too
    true = LAW | {(0, 0): 0.3 * (1 + rounding), (2, 2): rounding, (2, 0): 0.4 - 1.3 * rounding}
    assert sum(true.values()) == pytest.approx(1)
    means = [
        sum(
            math.prod(true[text] for text in texts) * evidence(Bet(LAW, rounding=given), texts)
            for texts in product(true, repeat=4)
        )
        for given in (rounding, rounding / 16)
    ]
    assert means[0] <= 1 < means[1]


def test_exact_samplers_are_not_accused():
    for law, rounding in ((LAW, 0.0), (EVEN, 0.0), (EVEN, 1e-6)):
        accused = [
            bet_on(law, law, 120, seed, alpha=0.1, rounding=rounding).wrong for seed in range(100)
        ]
        assert np.mean(accused) < 0.1 + 2 * (0.09 / 100) ** 0.5


def test_float32_does_not_accuse():
    rows = np.random.default_rng(1).dirichlet(np.ones(3), size=3).astype(np.float32)
    law = {(i, j): float(rows[0][i] * rows[i][j]) for i in range(3) for j in range(3)}
    law = {text: probability * (1 + 1e-7 * (-1) ** text[0]) for text, probability in law.items()}
    true = {text: float(rows[0].astype(float)[text[0]] * rows[text[0]][text[1]]) for text in law}
    assert not bet_on(law, true, 10_000, 1, rounding=1e-6).wrong


def test_a_text_that_should_never_come_settles_it():
    bet = Bet(LAW)
    assert (bet.runs, bet.log_odds, bet.wrong) == (0, 0, False)
    for text in [(0, 0)] * 8 + [(2, 1), (2, 0)]:
        bet.add(text)
    assert bet.wrong and bet.log_odds == math.inf and bet.counts[2, 1] == 1
    assert bet.worst() == ((2, 1), 0.1, 0.0)


@pytest.mark.parametrize("text", [(), (0,), (3,), (1, 0), (2, 1)])
def test_texts_that_end_too_early_or_go_on_after_an_end_are_outside(text):
    bet = Bet(LAW)
    bet.add(text)
    assert bet.wrong


def test_of_a_longer_text_the_first_tokens_count():
    bet = Bet(LAW)
    bet.add((0, 0, 9))
    assert not bet.wrong


def test_one_text_of_rounding_does_not_settle_it_but_a_few_do():
    bet = bet_on(LAW, LAW, 1_000, 1, rounding=1e-6)
    bet.add((2, 1))
    assert not bet.wrong
    for _ in range(4):
        bet.add((2, 1))
    assert bet.wrong and bet.worst()[0] == (2, 1)


def test_once_wrong_it_stays_wrong():
    bet = Bet({(0,): 0.5, (1,): 0.5}, alpha=0.01)
    for token in [0] * 20 + [1] * 20:
        bet.add((token,))
    assert bet.wrong and bet.log_odds < math.log(100)


def test_the_worst_is_the_beginning_that_speaks_most_against_it():
    right = {text: 1 / 9 for text in product(range(3), repeat=2)}
    law = {text: (0.4, 0.3, 0.3)[text[0]] / 3 for text in right}
    bet = bet_on(right, law, 5_000, 1)
    text, frequency, probability = bet.worst()
    assert bet.wrong and text == (0,) and frequency > 0.36 and probability == pytest.approx(1 / 3)


def shifted(law, distance, part):
    """Another law at this distance: it gives to one part of the texts what it takes from others."""
    texts = list(law)
    share = sum(law[text] for text in texts[:part])
    gain = {text: 1 + distance / share for text in texts[:part]}
    loss = {text: 1 - distance / (1 - share) for text in texts[part:]}
    return {text: law[text] * factor for text, factor in (gain | loss).items()}


@pytest.mark.parametrize("n_runs", [400, 4_000])
@pytest.mark.parametrize("law", [EVEN, {(0,): 0.5, (1,): 0.5}, LAW], ids=["27", "2", "4"])
def test_what_would_have_shown_shows_19_times_of_20(law, n_runs):
    exact = bet_on(law, law, n_runs, 1)
    distance = exact.would_show()
    assert not exact.wrong and 0 < distance < 0.5
    n_tries = 24 if n_runs < 1_000 else 8
    for part in {1, len(law) // 2, len(law) - 1}:
        if sum(list(law.values())[part:]) > distance:
            other = shifted(law, distance, part)
            found = [bet_on(law, other, n_runs, seed).wrong for seed in range(n_tries)]
            assert np.mean(found) > 0.85, part


def test_what_would_show_shrinks_with_the_runs():
    bet, seen = Bet(LAW), []
    for n in range(3_000):
        if n % 500 == 0:
            seen.append(bet.would_show())
        bet.add((2, 0))
    assert seen[0] == 1 and seen == sorted(seen, reverse=True)


@pytest.mark.parametrize("law", [{}, {(0,): 0.5}, {(0,): 1.5, (1,): -0.5}])
def test_what_is_no_law_is_refused(law):
    with pytest.raises(ValueError, match="expected probabilities that sum to 1"):
        Bet(law)
