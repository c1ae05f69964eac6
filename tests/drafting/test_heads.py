"""Drafts that grow on the target: what they read, that the text keeps the target's distribution,
and that they run in batches and under shared noise as any draft does.
"""

from dataclasses import replace

import numpy as np
import pytest
from heads import EAGLE, MEDUSA, toy_head
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import FILTERS, assert_exact, at_eos
from toys import TINY, tiny_model

import utils
from experiments.decoding.batching import decode_together, require_room
from experiments.decoding.job import Job, decode
from experiments.decoding.watch import Watch
from experiments.drafting.drafts import HeadDraft, HeadDrafter, SeenTarget
from experiments.proving.enumeration import tokens_of
from gpt2 import Config, gelu, layer_norm
from sampling import Filter, speculative

SMALL = Config(n_vocab=3, n_ctx=16, n_embd=4, n_head=2, n_layer=2)
TARGET = tiny_model(1, SMALL, scale=0.8)
SHORT = tiny_model(3, replace(SMALL, n_ctx=4, n_layer=1), scale=0.8)
KINDS = pytest.mark.parametrize("kind", [EAGLE, MEDUSA])


@KINDS
@pytest.mark.parametrize(
    "target, job",
    [
        (TARGET, Job([1, 0], 4, 1, FILTERS["T=1"])),
        (TARGET, Job([1, 0], 3, 3, FILTERS["T=1"], ended=at_eos)),
        (TARGET, Job([1, 0], 4, 2, FILTERS["greedy"], ended=at_eos)),
        (TARGET, Job([1, 0], 4, 2, FILTERS["all"], ended=at_eos)),
        (TARGET, Job([1, 0], 4, 3, FILTERS["all"])),
        # before the second token there is no hidden state to read, and after the last no room
        (SHORT, Job([1], 9, 3, FILTERS["T=1"])),
        # of several lengths, as they end where the head is unsure
        (TARGET, Job([1, 0], 3, 2, FILTERS["T=1"], confidence=0.45)),
        # also 0, after which the head has missed what the target read
        (TARGET, Job([1, 0], 4, lambda last: 2 - last.drafted, FILTERS["top_k"])),
    ],
)
def test_the_distribution_of_the_text_is_the_targets(kind, target, job):
    assert_exact(target, HeadDraft(toy_head(kind, target)), job)


# ---------------------------------------------------------------- what a head reads


def hidden_states(target, ids):
    """The last hidden states of a text, read in one go."""
    cache = target.new_cache()
    target.read(ids, cache)
    return cache.hidden[: len(ids)]


def norm(x, part, config):
    return layer_norm(x, **part, epsilon=config.epsilon)


def eagle_by_hand(head, target, ids):
    """The logits after ids, from the definition: every hidden state is the target's."""
    p, config = head.params, head.config
    before = np.vstack([np.zeros((1, config.n_hidden)), hidden_states(target, ids)[:-1]])
    embedded = p["wte"][ids] + p["wpe"][: len(ids)]
    x = np.hstack([norm(before, p["ln_f"], config), embedded]) @ p["fc"]["weight"] + p["fc"]["bias"]
    (block,) = p["blocks"]
    c_attn, c_proj = block["attn"]["c_attn"], block["attn"]["c_proj"]
    parts = norm(x, block["ln_1"], config) @ c_attn["weight"] + c_attn["bias"]
    q, k, v = np.split(parts, 3, axis=1)
    d_head, heads = config.n_embd // config.n_head, []
    for i in range(config.n_head):
        columns = slice(i * d_head, (i + 1) * d_head)
        scores = q[:, columns] @ k[:, columns].T / np.sqrt(d_head)
        scores[np.triu_indices(len(ids), 1)] = -np.inf
        weights = np.exp(scores)
        heads.append(weights / weights.sum(axis=1, keepdims=True) @ v[:, columns])
    x = x + np.hstack(heads) @ c_proj["weight"] + c_proj["bias"]
    c_fc, c_proj = block["mlp"]["c_fc"], block["mlp"]["c_proj"]
    x = x + (
        gelu(norm(x, block["ln_2"], config) @ c_fc["weight"] + c_fc["bias"], np) @ c_proj["weight"]
        + c_proj["bias"]
    )
    guess = x @ p["proj"]["weight"] + p["proj"]["bias"]
    return norm(guess, p["ln_f"], config)[-1] @ p["head"]


def medusa_by_hand(head, target, ids):
    """The logits of all heads after ids, of which the target has not read the last."""
    p, config = head.params, head.config
    hidden = hidden_states(target, ids)[-2] if len(ids) > 1 else np.zeros(config.n_embd)
    hidden = norm(hidden, p["ln_f"], config)
    rows = []
    for one in p["heads"]:
        x = gelu(hidden @ one["c_fc"]["weight"] + one["c_fc"]["bias"], np)
        rows.append((hidden + x @ one["c_proj"]["weight"] + one["c_proj"]["bias"]) @ p["head"])
    return np.array(rows)


def proposed(target, head, ids, n_tokens, ks):
    """[(text, draft, q)] of every round of a run."""
    seen, found, k = SeenTarget(target), [], iter(ks)
    drafter = HeadDrafter(head, seen, Filter(1.0), np.random.default_rng(0))
    propose = drafter.propose

    def noted(ids, k):
        found.append((list(ids), *propose(ids, k)))
        return found[-1][1:]

    drafter.propose = noted
    rng = np.random.default_rng(1)
    list(speculative(seen, drafter, ids, n_tokens, lambda last: next(k), Filter(1.0), rng))
    return found


def eagle_just_made(head, target, ids, draft):
    """The logits of a draft from a new cache: from the second on, they go on from its guesses."""
    seen = SeenTarget(target)
    seen.read(ids[:-1], seen.new_cache(), n_last=0)
    cache = head.new_cache()
    cache.look(seen.cache.hidden, len(ids))
    return [head.read(ids + draft[:i], cache)[0] for i in range(len(draft))]


@KINDS
@settings(max_examples=15, deadline=None)
@given(
    ids=st.lists(st.integers(0, TINY.n_vocab - 1), min_size=1, max_size=8),
    ks=st.lists(st.integers(0, 4), min_size=20, max_size=20),
)
def test_a_head_reads_the_targets_hidden_states_of_the_text(kind, ids, ks):
    """After any rounds before: what was guessed or rejected has left no trace."""
    target = tiny_model(1)
    head = toy_head(kind, target)
    for text, draft, q in proposed(target, head, ids, 12, ks):
        assert len(q) == len(draft) <= head.config.n_places
        if kind == MEDUSA:
            expected = medusa_by_hand(head, target, text)[: len(draft)]
        else:
            expected = eagle_just_made(head, target, text, draft)
            first = eagle_by_hand(head, target, text)
            assert not draft or np.allclose(q[0], Filter(1.0)(first[None])[0], atol=1e-9)
        for row, logits in zip(q, expected, strict=True):
            assert np.allclose(row, Filter(1.0)(logits[None])[0], atol=1e-9)


# ---------------------------------------------------------------- in the loops of every day


WIDE = replace(TINY, n_embd=60)
JOB = Job([1, 2], 12, K=3, filter=Filter(1.0), seed=7)
PROMPTS = [[1], [5, 6, 7], [200, 3], [9] * 8]


def watched(target, draft, job):
    """The rounds, and the overlap of p and q at each draft: what the head gave, to the bit."""
    watch = Watch(job)
    rounds = list(watch.watched(decode(target, draft, job, watch)))
    return rounds, [note.overlap for note in watch.notes]


@KINDS
@pytest.mark.parametrize("kernels, temperature", [("plain", 0.0), ("plain", 1.0), ("8x1", 1.0)])
def test_a_batch_has_the_bits_of_one_at_a_time(kind, kernels, temperature):
    exact = utils.get_backend("numpy", kernels=kernels, exact=True)
    target = utils.random_model(WIDE, exact, seed=1, scale=0.3)
    draft = HeadDraft(toy_head(kind, target, np.float32))
    require_room([target, *draft.models], len(PROMPTS), 12)
    jobs = [replace(JOB, ids=ids, filter=Filter(temperature)) for ids in PROMPTS]
    tasks = [lambda target, draft, job=job: watched(target, draft, job) for job in jobs]
    together = list(decode_together(tasks, target, draft, 3))
    assert together == [watched(target, draft, job) for job in jobs]


@KINDS
def test_shared_noise_gives_the_text_of_the_target_alone(kind):
    target = tiny_model(1)
    for ids in PROMPTS:
        job = replace(JOB, ids=ids, coupled=True)
        rounds, _ = watched(target, HeadDraft(toy_head(kind, target)), job)
        assert tokens_of(rounds) == tokens_of(decode(target, None, job))
