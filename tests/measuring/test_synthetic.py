"""Synthetic acceptance: the coin decides, and all passes are run."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from toys import TINY, tiny_model

from experiments.decoding.clock import Clock
from experiments.decoding.job import Job, decode
from experiments.drafting.drafts import Draft, ModelDraft
from experiments.measuring import synthetic
from experiments.measuring.runner import PLAIN, Contender, Race
from sampling import Filter


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_coin_decides_and_all_passes_are_run(monkeypatch, temperature):
    """With the coins given, the accepted runs are the coins' own, and both models read as often as
    they would have.
    """
    coins = np.random.default_rng(1).random(400) < 0.7
    tosses = iter(coins.tolist())
    monkeypatch.setattr(synthetic, "toss", lambda probability, rng: next(tosses))
    drafts, clock = {"small": ModelDraft(tiny_model(2))}, Clock()
    fast, job = Contender("small", 3), Job([5, 6], 18, filter=Filter(temperature))
    race = Race(tiny_model(1), drafts, [PLAIN, fast], job, acceptance=0.7)
    done = list(race.run(fast, [0], clock))[1:]
    expected, left = [], coins.tolist()
    for one in done:
        verdicts, left = left[: one.drafted], left[one.drafted :]
        expected.append((verdicts + [False]).index(False))
    assert [one.accepted for one in done] == expected and sum(expected) > 3
    assert sum(len(one.tokens) for one in done) == 18
    assert [n for n, _ in clock.proposals] == [one.drafted for one in done]
    assert [rows for rows, _ in clock.draft_passes] == [0] + [1] * sum(one.drafted for one in done)
    assert [rows for rows, _ in clock.passes] == [0] + [one.drafted + 1 for one in done]


class Same(Draft):
    """Always proposes token 7."""

    def drafter(self, target, filter, rng, confidence=0.0):
        propose = lambda ids, k: ([7] * k, np.eye(259)[[7] * k])
        return SimpleNamespace(n_vocab=259, prefill=lambda ids: None, propose=propose)


def test_the_coin_has_the_given_probability():
    """2,000 drafts at 0.7: 4.9 standard deviations are 0.05, odds of a miss 1e-6."""
    config = dataclasses.replace(TINY, n_ctx=1200)
    read = lambda ids, cache, n_last=1: np.zeros((n_last, 259))
    target = SimpleNamespace(config=config, new_cache=lambda *n_positions: None, read=read)
    tap = lambda parts: synthetic.accept_by_coin(parts, 0.7, np.random.default_rng(0))
    done = list(decode(target, Same(), Job([1], 1100, filter=Filter(1.0)), tap))
    rate = sum(one.accepted for one in done) / sum(one.examined for one in done)
    assert abs(rate - 0.7) < 0.05
