"""Synthetic acceptance: the coin decides, and all passes are run."""

import numpy as np
import pytest
from laws import TableModel
from toys import tiny_model

from experiments.decoding.clock import Clock
from experiments.decoding.job import Job
from experiments.drafting.drafts import ModelDraft, NGrams
from experiments.measuring import synthetic
from experiments.measuring.runner import Contender, Race
from sampling import Filter


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_coin_decides_and_all_passes_are_run(monkeypatch, temperature):
    """With the coins given, the accepted runs are the coins' own, and both models read as often as
    they would have.
    """
    coins = np.random.default_rng(1).random(400) < 0.7
    tosses = iter(coins.tolist())
    monkeypatch.setattr(synthetic, "toss", lambda probability, rng: next(tosses))
    contender, job = Contender("draft", 3), Job([5, 6], 18, filter=Filter(temperature))
    race = Race(tiny_model(1), {"draft": ModelDraft(tiny_model(2))}, [contender], job, 0.7)
    clock = Clock()
    done = list(race.rounds(contender, [0], clock))[1:]
    expected, left = [], coins.tolist()
    for one in done:
        verdicts, left = left[: one.drafted], left[one.drafted :]
        expected.append((verdicts + [False]).index(False))
    assert [one.accepted for one in done] == expected and sum(expected) > 3
    assert sum(len(one.tokens) for one in done) == 18
    rows = lambda passes: [n for n, _ in passes]
    assert rows(clock.draft_passes) == [0] + [1] * sum(one.drafted for one in done)
    assert rows(clock.passes) == [0] + [one.drafted + 1 for one in done]


def test_the_coin_has_the_given_probability():
    """2,000 drafts at 0.7: 4.9 standard deviations are 0.05, odds of a miss 1e-6."""
    target, contender = TableModel(1, n_ctx=1200), Contender("draft", 4)
    race = Race(target, {"draft": NGrams()}, [contender], Job([1], 1100), 0.7)
    done = list(race.rounds(contender, [0]))
    rate = sum(one.accepted for one in done) / sum(one.examined for one in done)
    assert abs(rate - 0.7) < 0.05


def test_without_a_draft_no_coin_is_tossed():
    plain = Contender()
    race = Race(TableModel(1), {}, [plain], Job([1], 9), 0.7)
    assert [len(one.tokens) for one in race.rounds(plain, [0])] == [0] + [1] * 9
