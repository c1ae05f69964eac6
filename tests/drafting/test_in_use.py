"""Heads in the loops of every day: batches, shared noise, K auto, confidence, watched runs."""

import dataclasses

import numpy as np
import pytest
from experiments.decoding.decoders import decode
from experiments.decoding.gumbel import Noisy
from experiments.decoding.recorder import Watch
from heads import EAGLE, MEDUSA, toy_head
from toys import TINY, tiny_model

import utils
from experiments.decoding.adaptive_k import AdaptiveK, round_costs
from experiments.decoding.batching import decode_together
from experiments.proving.enumeration import tokens_of
from sampling import Filter, never

TARGET = tiny_model(1)
KINDS = pytest.mark.parametrize("kind", [EAGLE, MEDUSA])
PROMPTS = [[1], [5, 6, 7], [200, 3], [9] * 8]
EXACT = utils.get_backend("numpy", kernels="plain", exact=True)
SHAPE = dataclasses.replace(TINY, n_embd=60)


def text(head, ids, filter=Filter(1.0), target=TARGET, K=3, **settings):
    how = {"K": K, "filter": filter, "seed": 7} | settings
    return tokens_of(decode("speculative", target, head, ids, 12, **how))


@KINDS
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_texts_of_a_batch_are_those_of_one_at_a_time(kind, temperature):
    head, filter = toy_head(kind, TARGET), Filter(temperature)

    def task(ids):
        return lambda target, draft: text(draft, ids, filter, target)

    found = list(decode_together([task(ids) for ids in PROMPTS], [TARGET, head], 3))
    assert found == [text(head, ids, filter) for ids in PROMPTS]


@KINDS
def test_an_exact_head_has_the_same_bits_in_a_batch(kind):
    """Its probabilities, which the expected acceptance rate is computed from, and its target's."""
    target = utils.random_model(SHAPE, EXACT, seed=1, scale=0.3)
    head = toy_head(kind, target, np.float32)

    def task(ids):
        def run(target, draft):
            watch = Watch()
            how = {"K": 3, "filter": Filter(1.0), "seed": 7, "ended": never}
            list(watch.decode(target, draft, ids, 12, **how))
            return [note.overlap for note in watch.notes]

        return run

    tasks = [task(ids) for ids in PROMPTS]
    together = list(decode_together(tasks, [target, head], len(tasks)))
    assert together == [run(target, head) for run in tasks]


@KINDS
def test_shared_noise_gives_the_text_of_the_target_alone(kind):
    head, filter = toy_head(kind, TARGET), Filter(1.0)
    for ids in PROMPTS:
        noisy = Noisy(TARGET, filter, 3)
        plain = decode("autoregressive", noisy, None, ids, 12, K=None, filter=Filter(), seed=0)
        watch = Watch(coupled=True)
        rounds = watch.decode(TARGET, head, ids, 12, K=3, filter=filter, seed=3, ended=never)
        assert tokens_of(rounds) == tokens_of(plain)


@KINDS
def test_a_watched_run_is_the_run(kind):
    head = toy_head(kind, TARGET)
    for ids in PROMPTS:
        watch = Watch()
        rounds = watch.decode(TARGET, head, ids, 12, K=3, filter=Filter(1.0), seed=7, ended=never)
        assert tokens_of(rounds) == text(head, ids)
        for note in watch.notes:
            # one pass for each token but the first, which EAGLE and Medusa may share with a prefill
            assert len(note.passes) == len(note.draft)


@KINDS
def test_k_auto_measures_a_head(kind):
    head = toy_head(kind, TARGET)
    costs = round_costs(TARGET, head, Filter())
    assert np.isfinite(costs).all()
    plain = decode("autoregressive", TARGET, None, [1, 2], 12, K=None, filter=Filter(), seed=0)
    assert text(head, [1, 2], Filter(), K=AdaptiveK(costs)) == tokens_of(plain)


@KINDS
def test_the_greedy_text_is_the_targets(kind):
    head = toy_head(kind, TARGET)
    for ids in PROMPTS:
        plain = decode("autoregressive", TARGET, None, ids, 12, K=None, filter=Filter(), seed=0)
        expected = tokens_of(plain)
        for confidence in (0.0, 0.05):
            assert text(head, ids, Filter(), confidence=confidence) == expected
    assert TINY.n_ctx > 20
