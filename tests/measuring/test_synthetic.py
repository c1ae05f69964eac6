"""Synthetic acceptance: the coin decides, and all passes are run."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from toys import TINY, tiny_model

from experiments.measuring import synthetic
from experiments.measuring.runner import Task, rounds_of
from sampling import Filter, speculative


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_coin_decides_and_all_passes_are_run(monkeypatch, temperature):
    """With the coins given, the accepted runs are the coins' own, and both models read as often as
    they would have.
    """
    coins = np.random.default_rng(1).random(400) < 0.7
    tosses = iter(coins.tolist())
    monkeypatch.setattr(synthetic, "toss", lambda probability, rng: next(tosses))
    target, draft, reads = tiny_model(1), tiny_model(2), {"target": [], "draft": []}

    def watched(name, model):
        def read(ids, cache, n_last=1):
            reads[name].append(n_last)
            return model.read(ids, cache, n_last)

        return SimpleNamespace(config=model.config, new_cache=model.new_cache, read=read)

    task = Task([5, 6], 18, Filter(temperature), acceptance=0.7)
    models = watched("target", target), watched("draft", draft)
    done = list(rounds_of(*models, 3, task, [0]))[1:]
    expected, left = [], coins.tolist()
    for one in done:
        verdicts, left = left[: one.drafted], left[one.drafted :]
        expected.append((verdicts + [False]).index(False))
    assert [one.accepted for one in done] == expected and sum(expected) > 3
    assert sum(len(one.tokens) for one in done) == 18
    assert reads["draft"] == [0] + [1] * sum(one.drafted for one in done)
    assert reads["target"] == [0] + [one.drafted + 1 for one in done]


def test_the_coin_has_the_given_probability():
    """2,000 drafts at 0.7: 4.9 standard deviations are 0.05, odds of a miss 1e-6."""
    drafts = SimpleNamespace(n_vocab=259, prefill=lambda ids: None)
    drafts.propose = lambda ids, k: ([7] * k, np.eye(259)[[7] * k])
    rng = np.random.default_rng(0)

    def uniform(logits):
        return np.full((len(logits), 259), 1 / 259)

    drafter, filter = synthetic.accept_by_coin(drafts, uniform, 0.7, rng)
    config = dataclasses.replace(TINY, n_ctx=1200)
    read = lambda ids, cache, n_last=1: np.zeros((n_last, 1))  # noqa: E731
    target = SimpleNamespace(config=config, new_cache=lambda *n_positions: None, read=read)
    done = list(speculative(target, drafter, [1], 1100, 4, filter, np.random.default_rng(0)))
    rate = sum(one.accepted for one in done) / sum(one.examined for one in done)
    assert abs(rate - 0.7) < 0.05
