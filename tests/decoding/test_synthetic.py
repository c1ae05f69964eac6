"""Synthetic acceptance: the coin decides, and all passes are run."""

import numpy as np
import pytest
from toys import tiny_model

from experiments.decoding import job as module
from experiments.decoding.clock import Clock
from experiments.decoding.job import Job, decode
from experiments.drafting.drafts import ModelDraft
from sampling import Filter


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("rule", ["token", "block"])
def test_a_coin_decides_and_all_passes_are_run(monkeypatch, temperature, rule):
    coins = (np.random.default_rng(1).random(400) < 0.7).tolist()
    left, asked, clock = iter(coins), [], Clock()
    monkeypatch.setattr(module, "toss", lambda chance, rng: asked.append(chance) or next(left))
    job = Job([5, 6], 18, 3, Filter(temperature), rule=rule)
    tap = lambda parts: clock(parts.accepting(0.7, None))
    _, *done = decode(tiny_model(1), ModelDraft(tiny_model(2)), job, tap)
    expected = []
    for one in done:
        verdicts, coins = coins[: one.drafted], coins[one.drafted :]
        expected.append((verdicts + [False]).index(False))
    assert [one.accepted for one in done] == expected and sum(expected) > 3
    assert {*asked} == {0.7} and sum(len(one.tokens) for one in done) == 18
    assert [n for n, _ in clock.proposals] == [one.drafted for one in done]
    assert [rows for rows, _ in clock.draft_passes] == [0] + [1] * sum(one.drafted for one in done)
    assert [rows for rows, _ in clock.passes] == [0] + [one.drafted + 1 for one in done]
