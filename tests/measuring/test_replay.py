"""Replay: rounds on a recorded text are those of the live run, exactly at temperature 0 and in law
above.
"""

import dataclasses
import itertools
from collections import defaultdict

import numpy as np
import pytest
from laws import TableModel
from toys import NUMPY, TINY, write_pair

import utils
from experiments.data import recordings as logs
from experiments.data.recordings import probabilities
from experiments.decoding.watch import block_support
from experiments.measuring.replay import (
    BlockDrafter,
    CoinDrafter,
    acceptance_of,
    record_text,
    replay_text,
)
from experiments.proving.enumeration import chain_rule, law
from sampling import Filter, NeuralDrafter, NGramDrafter, speculative

CONFIG = dataclasses.replace(TINY, n_ctx=64)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("models"), CONFIG)


@pytest.mark.parametrize("K", [1, 2, 4, 9, 30])
@pytest.mark.parametrize("size", ["0.7M-17M", "17M", None])
def test_greedy_replay_is_the_live_run_round_by_round(pair, size, K):
    target = utils.load_model(pair / "17M", NUMPY)
    draft = size and utils.load_model(pair / size, NUMPY)
    encoder = utils.load_encoder(pair / "17M")
    for i, prompt in enumerate(("hello there", "the the the the", "once upon")):
        text = record_text(target, encoder.encode(prompt), 20, Filter(), [0, i], 50)
        drafters = [
            NeuralDrafter(draft, Filter(), None) if draft else NGramDrafter(CONFIG.n_vocab)
            for _ in range(2)
        ]
        live = list(
            speculative(
                target, drafters[0], text["prompt"], 20, K, Filter(), np.random.default_rng(0)
            )
        )[1:]
        assert replay_text(text, drafters[1], K) == live
        assert sum((one.tokens for one in live), []) == text["tokens"]


@pytest.mark.parametrize("temperature", [0.7, 1.5])
@pytest.mark.parametrize("K", [1, 3])
def test_rounds_of_n_grams_follow_from_the_text_at_any_temperature(pair, K, temperature):
    target, ids = utils.load_model(pair / "17M", NUMPY), [5, 6, 5, 6, 5]
    drafter, filter = NGramDrafter(CONFIG.n_vocab), Filter(temperature, top_k=3)
    live = list(speculative(target, drafter, ids, 40, K, filter, np.random.default_rng(1)))[1:]
    text = {"prompt": ids, "tokens": sum((one.tokens for one in live), [])}
    assert replay_text(text, drafter, K) == live and any(one.accepted for one in live)


def structure(rounds):
    return tuple((tuple(one.tokens), one.drafted, one.accepted) for one in rounds)


@pytest.mark.parametrize(
    "filter", [Filter(1.0), Filter(0.7, top_k=2), Filter(1.0, top_p=0.8)], ids=str
)
@pytest.mark.parametrize("K", [1, 2])
def test_the_law_of_sampled_rounds(monkeypatch, K, filter):
    """Over all texts and coins, a replay has the rounds of the live loop with the same
    probabilities: no sampling, 1e-9.
    """
    monkeypatch.setattr(logs, "digits", list)
    target, draft, ids, n = TableModel(1), TableModel(2), [0, 1], 3

    def live():
        drafter = NeuralDrafter(draft, filter, None)
        return structure(speculative(target, drafter, ids, n, K, filter, None))

    found = defaultdict(float)
    for tokens, probability in chain_rule(target, ids, n, filter, lambda generated: False).items():
        rows = [
            filter(target.read(ids + list(tokens[:i]), target.new_cache()))[0] for i in range(n)
        ]
        text = {"prompt": ids, "tokens": list(tokens), **probabilities(rows, tokens, 2)}
        accepts = acceptance_of(draft, text, filter).by_token
        for coins in itertools.product([False, True], repeat=n):
            drafter = CoinDrafter(
                ids + list(tokens), [False] * len(ids) + list(coins), 3, draft.config.n_ctx
            )
            odds = np.prod([a if coin else 1 - a for a, coin in zip(accepts, coins)])
            found[(((), 0, 0), *structure(replay_text(text, drafter, K)))] += probability * odds
    expected = law(live)
    assert {rounds for rounds, p in found.items() if p > 1e-15} == expected.keys()
    assert all(found[rounds] == pytest.approx(p, abs=1e-9) for rounds, p in expected.items())


@pytest.mark.parametrize("top", [1, 2, 5])
def test_bounds_of_the_common_mass(monkeypatch, top):
    """sum(min(p, q)) lies within the bounds, and is known where nothing is left out."""
    target, draft, ids, filter = (
        TableModel(3, n_vocab=5),
        TableModel(4, n_vocab=5),
        [0, 1],
        Filter(1.0),
    )
    tokens, common = [2, 3, 1], 0
    rows = [filter(target.read(ids + tokens[:i], target.new_cache()))[0] for i in range(3)]
    for i, p in enumerate(rows):
        common += np.minimum(p, filter(draft.read(ids + tokens[:i], draft.new_cache()))[0]).sum()
    text = {"prompt": ids, "tokens": tokens, **probabilities(rows, tokens, top)}
    found = acceptance_of(draft, text, filter)
    assert found.n == 3 and found.low - 1e-5 <= common <= found.high + 1e-5
    assert (found.high - found.low < 1e-9) == (top == 5)


def test_the_end_of_the_drafts_context():
    """What a live draft with a shorter context drafts, the replay drafts: K, then what fits, then
    nothing.
    """
    draft, ids = TableModel(2, n_ctx=5), [0, 1]
    text = {
        "prompt": ids,
        "tokens": [1] * 6,
        "p": [1.0] * 6,
        "top_ids": [[1]] * 6,
        "top_p": [[1.0]] * 6,
        "rest": [0.0] * 6,
    }
    found = acceptance_of(draft, text, Filter(1.0))
    accepts = found.by_token
    assert found.n == 4 and list(accepts[4:]) == [0, 0] and min(accepts[:4]) > 0
    drafter = CoinDrafter(ids + [1] * 6, [False] * 8, 3, 5)
    live = NeuralDrafter(draft, Filter(1.0), np.random.default_rng(0))
    for end in range(2, 8):
        assert len(drafter.propose(ids + [1] * (end - 2), 3)[0]) == len(
            live.propose(ids + [1] * (end - 2), 3)[0]
        )


# ---------------------------------------------------------------- block verification


@pytest.mark.parametrize("seeds", [(1, 2), (3, 4), (5, 6)])
def test_rounds_of_a_block_have_the_law_of_live_ones(seeds):
    """Averaged over the target's texts, at least t drafts of a replayed round are accepted with the
    probability of live rounds, E[P[t]]; both computed exactly.
    """
    target, draft, filter, k = TableModel(seeds[0]), TableModel(seeds[1]), Filter(1.0), 3
    row = lambda model, ids: filter(model.read(ids, model.new_cache()))[0]
    live, replayed = np.zeros(k), np.zeros(k)
    coins = (np.arange(2000) + 0.5) / 2000
    for text in itertools.product(range(3), repeat=k):
        ids = [0, *text]
        p = np.array([row(target, ids[: i + 1])[x] for i, x in enumerate(text)])
        q = np.array([row(draft, ids[: i + 1])[x] for i, x in enumerate(text)])
        live += q.prod() * np.array(block_support(p, q))
        drafter = BlockDrafter(ids, np.concatenate([[0], q / p]), 3, 64, Series(coins))
        accepted = np.zeros(k)
        for _ in coins:
            drafts, _ = drafter.propose([0], k)
            accepted += np.cumprod(np.array(drafts) == text)
        replayed += p.prod() * accepted / len(coins)
    assert np.allclose(replayed, live, atol=1e-3)


class Series:
    """A generator that returns these numbers, one after the other."""

    def __init__(self, numbers):
        self.numbers = iter(numbers)

    def random(self):
        return next(self.numbers)
