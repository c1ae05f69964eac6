"""Rounds on a recorded text are those of the live run, above temperature 0 in distribution."""

import itertools
from collections import defaultdict
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import CONFIG
from decoding.drafts import ModelDraft
from decoding.load import Pair
from decoding.run import RecordingRng, Run
from table_models import TableModel
from toys import NUMPY

import utils
from decoding.ngrams import NGrams
from experiments.replay.record import record_text
from experiments.replay.recordings import RecordedText
from experiments.replay.simulate import CoinDrafter, measure_ratios, prepare_drafters, replay_text
from proving.enumeration import chain_rule, enumerate_branches
from sampling import NeuralDrafter, Rng, SamplingParams, speculative


@pytest.fixture
def models(pair):
    """A target, and a draft that often agrees with it."""
    return utils.load_models(["17M", "0.7M-17M"], pair, NUMPY)[0]


def log_of(text, to_probs, n_vocab=CONFIG.n_vocab):
    return SimpleNamespace(texts=[text], to_probs=to_probs, n_vocab=n_vocab)


@pytest.mark.parametrize("K", [1, 4, 30])
@pytest.mark.parametrize("which", ["smaller", "itself", "n-grams"])
def test_greedy_replay_is_the_live_run_round_by_round(models, which, K):
    target, smaller = models
    drafts = {"smaller": ModelDraft(smaller), "itself": ModelDraft(target), "n-grams": NGrams()}
    for ids in ([72, 69, 76], [83, 72, 83, 72, 83]):
        text = RecordedText(**record_text(Run(Pair(target, None, None), ids, 20)))
        rounds = list(Run(Pair(target, drafts[which], None), ids, 20, K).rounds())[1:]
        (new_drafter,) = prepare_drafters(drafts[which], log_of(text, SamplingParams()), 0)
        assert replay_text(text, new_drafter(), K) == rounds
        assert sum((one.tokens for one in rounds), []) == text.tokens


@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_rounds_of_n_grams_follow_from_the_text_at_any_temperature(models, temperature):
    ids, to_probs = [5, 6, 5, 6, 5], SamplingParams(temperature, top_k=3)
    run = Run(Pair(models[0], NGrams(), None), ids, 40, 3, to_probs, partial(RecordingRng, 1))
    rounds = list(run.rounds())[1:]
    text = RecordedText(ids, sum((one.tokens for one in rounds), []))
    (new_drafter,) = prepare_drafters(NGrams(), log_of(text, to_probs), 0)
    assert replay_text(text, new_drafter(), 3) == rounds and any(one.accepted for one in rounds)


def structure(rounds):
    return tuple((tuple(one.tokens), len(one.draft), one.accepted) for one in rounds)


@pytest.mark.parametrize(
    "to_probs", [SamplingParams(1.0), SamplingParams(0.7, top_k=2), SamplingParams(1.0, top_p=0.8)]
)
@pytest.mark.parametrize("K", [1, 2])
def test_the_distribution_of_sampled_rounds(K, to_probs):
    """Over all texts and coins, a replay has the live rounds with the same probabilities."""
    target, draft, ids, n = TableModel(1), TableModel(2), [0, 1], 3

    def rounds(rng):
        drafter = NeuralDrafter(draft, to_probs, rng)
        return structure(speculative(target, drafter, ids, n, K, to_probs, rng))

    found = defaultdict(float)
    texts = chain_rule(target, ids, n, to_probs, lambda generated: False)
    for tokens, probability in texts.items():
        whole = ids + list(tokens)
        places = range(len(ids), len(whole))
        rows = [to_probs(target.read(whole[:i], target.new_cache()))[0] for i in places]
        text = RecordedText(ids, list(tokens), [p[token] for p, token in zip(rows, tokens)])
        ratios = np.append([0, 0], measure_ratios(draft, text, to_probs))
        odds = np.minimum(1, ratios[2:])
        for coins in itertools.product([0, 1], repeat=n):  # 0 accepts, 1 does not
            drafter = CoinDrafter(whole, ratios, np.append([0, 0], coins), "token", 3)
            share = np.prod(np.where(coins, 1 - odds, odds))
            found[(((), 0, 0), *structure(replay_text(text, drafter, K)))] += probability * share
    expected = enumerate_branches(rounds)
    assert {rounds for rounds, p in found.items() if p > 1e-15} == expected.keys()
    assert all(found[rounds] == pytest.approx(p, abs=1e-9) for rounds, p in expected.items())


def test_the_end_of_the_drafts_context():
    """As a live draft with a shorter context: K tokens, then what fits, then nothing."""
    draft, ids, tokens = TableModel(2, n_ctx=5), [0, 1], [1] * 6
    text = RecordedText(ids, tokens, [1.0] * 6)
    assert len(measure_ratios(draft, text, SamplingParams(1.0))) == 4
    (new_drafter,) = prepare_drafters(ModelDraft(draft), log_of(text, SamplingParams(1.0), 3), 0)
    drafter = new_drafter()
    live = NeuralDrafter(draft, SamplingParams(1.0), Rng(0))
    for end in range(2, 8):
        begin = (ids + tokens)[:end]
        assert len(drafter.propose(begin, 3)[0]) == len(live.propose(begin, 3)[0])


@pytest.mark.parametrize("seeds", [(1, 2), (3, 4), (5, 6)])
def test_rounds_of_a_block_have_the_distribution_of_live_ones(seeds):
    """Averaged over the target's texts, at least t drafts of a replayed round are accepted with the
    probability of live rounds, E[P[t]]; both computed exactly.
    """
    target, draft, to_probs, k = TableModel(seeds[0]), TableModel(seeds[1]), SamplingParams(1.0), 3
    row = lambda model, ids: to_probs(model.read(ids, model.new_cache()))[0]
    live, replayed = np.zeros(k), np.zeros(k)
    coins = (np.arange(2000) + 0.5) / 2000
    for text in itertools.product(range(3), repeat=k):
        ids = [0, *text]
        p = np.array([row(target, ids[: i + 1])[x] for i, x in enumerate(text)])
        q = np.array([row(draft, ids[: i + 1])[x] for i, x in enumerate(text)])
        # P[t] of sampling.verify_block
        _, *P = itertools.accumulate(p / q, lambda P, ratio: min(1.0, P * ratio), initial=1.0)
        live += q.prod() * np.array(P)
        ratios, accepted = np.append(0, q / p), np.zeros(k)
        for coin in coins:
            unused = 1 - coin  # only the round's first coin counts
            drafter = CoinDrafter(ids, ratios, np.array([unused, coin, unused, unused]), "block", 3)
            drafts, _ = drafter.propose([0], k)
            accepted += np.cumprod(np.array(drafts) == text)
        replayed += p.prod() * accepted / len(coins)
    assert np.allclose(replayed, live, atol=1e-3)
