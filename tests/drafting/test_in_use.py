"""Heads in the loops of every day: batches, shared noise, K auto, confidence, watched runs."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from heads import EAGLE, MEDUSA, toy_head
from toys import TINY, tiny_model

import utils
from experiments.data.machine import kernels_of
from experiments.decoding import adaptive_k
from experiments.decoding.adaptive_k import AdaptiveK, round_costs
from experiments.decoding.batching import decode_together, require_room
from experiments.decoding.coupled import Noisy
from experiments.decoding.job import Job, decode
from experiments.decoding.watch import Watch
from experiments.drafting.drafts import HeadDraft
from experiments.proving.enumeration import tokens_of
from sampling import Filter

TARGET = tiny_model(1)
DRAFTS = {kind: HeadDraft(toy_head(kind, TARGET)) for kind in (EAGLE, MEDUSA)}
KINDS = pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
PROMPTS = [[1], [5, 6, 7], [200, 3], [9] * 8]
EXACT = utils.get_backend("numpy", kernels="plain", exact=True)
SHAPE = dataclasses.replace(TINY, n_embd=60)
JOB = Job([1, 2], 12, K=3, filter=Filter(1.0), seed=7)
GREEDY = replace(JOB, filter=Filter())


def text(draft, job, target=TARGET):
    return tokens_of(decode(target, draft, job))


@KINDS
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_texts_of_a_batch_are_those_of_one_at_a_time(draft, temperature):
    jobs = [replace(JOB, ids=ids, filter=Filter(temperature)) for ids in PROMPTS]
    tasks = [lambda target, draft, job=job: text(draft, job, target) for job in jobs]
    found = list(decode_together(tasks, TARGET, draft, 3))
    assert found == [text(draft, job) for job in jobs]


@pytest.mark.parametrize("kind", DRAFTS)
def test_an_exact_head_has_the_same_bits_in_a_batch(kind):
    """Its probabilities, which the expected acceptance rate is computed from, and its target's."""
    target = utils.random_model(SHAPE, EXACT, seed=1, scale=0.3)
    draft = HeadDraft(toy_head(kind, target, np.float32))

    def task(ids):
        def run(target, draft):
            watch = Watch(replace(JOB, ids=ids))
            list(watch.watched(decode(target, draft, watch.job, watch)))
            return [note.overlap for note in watch.notes]

        return run

    tasks = [task(ids) for ids in PROMPTS]
    together = list(decode_together(tasks, target, draft, len(tasks)))
    assert together == [run(target, draft) for run in tasks]


@KINDS
def test_shared_noise_gives_the_text_of_the_target_alone(draft):
    for ids in PROMPTS:
        job = replace(JOB, ids=ids, coupled=True)
        noisy = Noisy(TARGET, job.filter, job.seed)
        watch = Watch(job)
        rounds = watch.watched(decode(TARGET, draft, job, watch))
        assert tokens_of(rounds) == text(None, replace(GREEDY, ids=ids), noisy)


@KINDS
def test_k_auto_measures_a_head(draft, monkeypatch):
    monkeypatch.setattr(adaptive_k, "BUDGET", 0.0)
    costs = round_costs(TARGET, draft, Filter())
    assert np.isfinite(costs).all()
    assert text(draft, replace(GREEDY, K=AdaptiveK(costs))) == text(None, GREEDY)


@KINDS
def test_what_is_said_of_any_draft_can_be_said_of_a_head(draft):
    """Its memory in a batch, and how its weights are multiplied."""
    require_room([TARGET, *draft.models], 3, 12)
    for model in draft.models:
        assert any(name.startswith("head ") for name in kernels_of(model))
