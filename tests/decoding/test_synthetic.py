"""Synthetic acceptance: the coin decides, and all passes are run."""

import numpy as np
import pytest
from toys import tiny_model

from experiments.decoding.clock import Clock
from experiments.decoding.job import Job
from experiments.drafting.drafts import ModelDraft
from experiments.measuring.runner import PLAIN, Contender, Race
from sampling import Filter


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("rule", ["token", "block"])
def test_a_coin_decides_and_all_passes_are_run(monkeypatch, temperature, rule):
    """With the coins given, the accepted runs are the coins' own, and both models read as often as
    they would have.
    """
    coins = np.random.default_rng(1).random(400) < 0.7
    tosses, asked = iter(coins.tolist()), []
    toss = lambda probability, rng: asked.append(probability) or next(tosses)
    monkeypatch.setattr("experiments.decoding.job.toss", toss)
    drafts, clock = {"small": ModelDraft(tiny_model(2))}, Clock()
    fast, job = Contender("small", 3, rule), Job([5, 6], 18, filter=Filter(temperature))
    race = Race(tiny_model(1), drafts, [PLAIN, fast], job, acceptance=0.7)
    done = list(race.run(fast, [0], clock))[1:]
    expected, left = [], coins.tolist()
    for one in done:
        verdicts, left = left[: one.drafted], left[one.drafted :]
        expected.append((verdicts + [False]).index(False))
    assert [one.accepted for one in done] == expected and sum(expected) > 3
    assert {*asked} == {0.7} and sum(len(one.tokens) for one in done) == 18
    assert [n for n, _ in clock.proposals] == [one.drafted for one in done]
    assert [rows for rows, _ in clock.draft_passes] == [0] + [1] * sum(one.drafted for one in done)
    assert [rows for rows, _ in clock.passes] == [0] + [one.drafted + 1 for one in done]
