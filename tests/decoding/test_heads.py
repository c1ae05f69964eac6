"""Drafts that were trained on the target are exact, in batches and under shared noise too."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from decoding.drafts import HeadDraft, HeadDrafter
from decoding.load import Pair
from decoding.run import RecordingRng, Run
from heads import EAGLE, MEDUSA, toy_head
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import FILTERS, assert_exact, at_eos
from toys import TINY, tiny_model, tokens_of

import utils
from decoding.batching import decode_together, require_cache_memory
from decoding.coupled import SharedNoise, verify_shared_noise
from gpt2 import Config
from sampling import Rng, SamplingParams, speculative

SMALL = Config(n_vocab=3, n_ctx=16, n_embd=4, n_head=2, n_layer=2)
TARGET = tiny_model(1, SMALL, scale=0.8)
SHORT = tiny_model(3, replace(SMALL, n_ctx=4, n_layer=1), scale=0.8)
KINDS = pytest.mark.parametrize("kind", [EAGLE, MEDUSA])


@KINDS
@pytest.mark.parametrize(
    "target, ids, n_tokens, K, more",
    [
        (TARGET, [1, 0], 4, 1, {"to_probs": FILTERS["T=1"]}),
        (TARGET, [1, 0], 3, 3, {"to_probs": FILTERS["T=1"], "is_done": at_eos}),
        (TARGET, [1, 0], 4, 2, {"to_probs": FILTERS["greedy"], "is_done": at_eos}),
        (TARGET, [1, 0], 4, 2, {"to_probs": FILTERS["all"], "is_done": at_eos}),
        (TARGET, [1, 0], 4, 3, {"to_probs": FILTERS["all"]}),
        # before the second token there is no hidden state to read, and after the last no room
        (SHORT, [1], 9, 3, {"to_probs": FILTERS["T=1"]}),
        # of several lengths, as they end where the head is unsure
        (TARGET, [1, 0], 3, 2, {"to_probs": FILTERS["T=1"], "confidence": 0.45}),
        # also 0, after which the head has missed what the target read
        (TARGET, [1, 0], 4, lambda last: 2 - len(last.draft), {"to_probs": FILTERS["top_k"]}),
    ],
)
def test_the_distribution_of_the_text_is_the_targets(kind, target, ids, n_tokens, K, more):
    pair = Pair(target, HeadDraft(toy_head(kind, target)), None)
    assert_exact(Run(pair, ids, n_tokens, K, **more))


# ---------------------------------------------------------------- what a head reads


def just_made(head, target, ids, draft):
    """The logits of a draft from a new cache; EAGLE's go on from its own guesses."""
    seen, cache = target.new_cache(), head.new_cache()
    target.read(ids[:-1], seen, n_last=0)
    cache.update_from_target(seen.hidden, len(ids))
    return [head.read(ids + draft[:i], cache)[0] for i in range(len(draft))]


@KINDS
@settings(max_examples=15, deadline=None)
@given(
    ids=st.lists(st.integers(0, TINY.n_vocab - 1), min_size=1, max_size=8),
    ks=st.lists(st.integers(0, 4), min_size=20, max_size=20),
)
def test_what_was_guessed_or_rejected_leaves_no_trace(kind, ids, ks):
    """After any rounds a head drafts as one that is just made, and that one drafts as it was
    trained: tests/training/test_torch.py compares it with torch.
    """
    target, proposals, k = tiny_model(1), [], iter(ks)
    head = toy_head(kind, target)

    def noting(target, drafter, *values, **options):
        propose = drafter.propose

        def noted(ids, k):
            proposals.append((ids[:], *propose(ids, k)))
            return proposals[-1][1:]

        drafter.propose = noted
        return speculative(target, drafter, *values, **options)

    pair = Pair(target, HeadDraft(head), None)
    list(Run(pair, ids, 12, lambda last: next(k), SamplingParams(1.0), loop=noting).rounds())
    for text, draft, q in proposals:
        assert len(draft) <= head.config.n_places
        for row, logits in zip(q, just_made(head, target, text, draft), strict=True):
            assert np.allclose(row, SamplingParams(1.0)(logits[None])[0], atol=1e-9)


@KINDS
@pytest.mark.parametrize("second", [[5], [5, 6, 7], [1, 2, 9, 8, 7, 6]])
def test_a_drafter_of_a_second_text_is_as_one_that_is_just_made(kind, second):
    """Of the first it remembers nothing, whichever of the two is longer."""
    target = tiny_model(1)
    head = toy_head(kind, target)
    used, new = (HeadDrafter(head, SamplingParams(1.0), Rng(3)) for _ in "ab")
    for ids, drafters in ([1, 2, 3, 4], [used]), (second, [used, new]):
        cache = target.new_cache()
        target.read(ids[:-1], cache, n_last=0)
        for drafter in drafters:
            drafter.prefill(ids[:-1], cache)
            drafter.rng = Rng(3)
        proposed = [drafter.propose(ids, 2) for drafter in drafters]
    (draft, q), (expected, expected_q) = proposed
    assert draft == expected and np.array_equal(q, expected_q)


WIDE = replace(TINY, n_embd=60)
PROMPTS = [[1], [5, 6, 7], [200, 3], [9] * 8]


def with_bits(run):
    """The rounds, and p and q of each: what target and head gave, to the bit."""
    rounds = [*run.rounds()][1:]
    return [(one, one.p.tobytes(), one.q.tobytes()) for one in rounds]


@KINDS
@pytest.mark.parametrize("kernels, temperature", [("plain", 0.0), ("plain", 1.0), ("8x1", 1.0)])
def test_a_batch_has_the_bits_of_one_at_a_time(kind, kernels, temperature):
    exact = utils.get_backend("numpy", kernels=kernels, exact=True)
    target = utils.random_model(WIDE, exact, seed=1, scale=0.3)
    draft = HeadDraft(toy_head(kind, target, np.float32))
    require_cache_memory([target, *draft.models], len(PROMPTS), 12)

    pair, how = Pair(target, draft, None), (SamplingParams(temperature), partial(RecordingRng, 7))
    runs = [Run(pair, ids, 12, 3, *how) for ids in PROMPTS]
    assert decode_together(with_bits, runs) == [with_bits(run) for run in runs]


@KINDS
def test_shared_noise_gives_the_text_of_the_target_alone(kind):
    target = tiny_model(1)
    pair = Pair(target, HeadDraft(toy_head(kind, target)), None)
    for ids in PROMPTS:
        noise = partial(SharedNoise, 7, len(ids))
        run = Run(pair, ids, 12, 3, SamplingParams(1.0), noise, rule=verify_shared_noise)
        alone = replace(run, pair=replace(pair, draft=None))
        assert tokens_of(run.rounds()) == tokens_of(alone.rounds())
