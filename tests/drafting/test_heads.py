"""Drafts that grow on the target: what they read, and that the text keeps the target's
distribution.
"""

from dataclasses import replace

import numpy as np
import pytest
from heads import EAGLE, MEDUSA, toy_head
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import FILTERS, assert_exact, at_eos
from toys import TINY, tiny_model

from experiments.decoding.job import Job, decode
from experiments.drafting.drafts import HeadDraft, HeadDrafter, SeenTarget
from gpt2 import Config, gelu, layer_norm
from sampling import Filter, never, speculative

SMALL = Config(n_vocab=3, n_ctx=16, n_embd=4, n_head=2, n_layer=2)
TARGET = tiny_model(1, SMALL, scale=0.8)
KINDS = pytest.mark.parametrize("kind", [EAGLE, MEDUSA])


@KINDS
@pytest.mark.parametrize(
    "filter, n_tokens, K, ended",
    [
        ("T=1", 4, 1, never),
        ("T=1", 3, 3, at_eos),
        ("greedy", 4, 2, at_eos),
        ("all", 4, 2, at_eos),
        ("all", 4, 3, never),
    ],
)
def test_the_distribution_of_the_text_is_the_targets(kind, filter, n_tokens, K, ended):
    job = Job([1, 0], n_tokens, K, FILTERS[filter], ended=ended)
    assert_exact(TARGET, HeadDraft(toy_head(kind, TARGET)), job)


@KINDS
def test_the_distribution_from_one_token_to_the_end_of_the_context(kind):
    """Before the second token there is no hidden state to read, and after the last no room."""
    config = Config(n_vocab=3, n_ctx=4, n_embd=4, n_head=2, n_layer=1)
    target = tiny_model(3, config, scale=0.8)
    assert_exact(target, HeadDraft(toy_head(kind, target)), Job([1], 9, 3, Filter(1.0)))


@KINDS
def test_the_distribution_of_drafts_that_end_where_the_head_is_unsure(kind):
    draft, drafted = HeadDraft(toy_head(kind, TARGET)), set()
    job = Job([1, 0], 3, 2, Filter(1.0), confidence=0.45)
    for seed in range(9):
        drafted |= {one.drafted for one in decode(TARGET, draft, replace(job, seed=seed))}
    assert len(drafted) > 2  # drafts of several lengths
    assert_exact(TARGET, draft, job)


@KINDS
def test_a_k_that_varies_keeps_the_distribution(kind):
    """Also 0, after which the head has missed what the target read."""
    job = Job([1, 0], 4, lambda last: 2 - last.drafted, FILTERS["top_k"])
    assert_exact(TARGET, HeadDraft(toy_head(kind, TARGET)), job)


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


def proposed(kind, target, head, ids, n_tokens, ks):
    """[(text, draft, q)] of every round of a run."""
    seen, found = SeenTarget(target), []
    drafter = HeadDrafter(head, seen, Filter(1.0), np.random.default_rng(0))
    propose, text = drafter.propose, list(ids)

    def noted(ids, k):
        draft, q = propose(ids, k)
        found.append((list(ids), draft, q))
        return draft, q

    drafter.propose, k = noted, iter(ks)
    rng = np.random.default_rng(1)
    for one in speculative(seen, drafter, text, n_tokens, lambda last: next(k), Filter(1.0), rng):
        pass
    return found


texts = st.lists(st.integers(0, TINY.n_vocab - 1), min_size=1, max_size=8)
lengths = st.lists(st.integers(0, 4), min_size=20, max_size=20)


@settings(max_examples=15, deadline=None)
@given(ids=texts, ks=lengths)
def test_eagle_reads_the_targets_hidden_states_of_the_text(ids, ks):
    """After any rounds before: what was guessed or rejected has left no trace."""
    target = tiny_model(1)
    head = toy_head(EAGLE, target)
    for text, draft, q in proposed(EAGLE, target, head, ids, 12, ks):
        if draft:
            expected = Filter(1.0)(eagle_by_hand(head, target, text)[None])
            assert abs(q[0] - expected).max() < 1e-9


@settings(max_examples=15, deadline=None)
@given(ids=texts, ks=lengths)
def test_eagle_drafts_as_if_it_had_just_been_made(ids, ks):
    """The whole q, which goes on from its own guesses."""
    target = tiny_model(1)
    head = toy_head(EAGLE, target)
    for text, draft, q in proposed(EAGLE, target, head, ids, 12, ks):
        seen = SeenTarget(target)
        seen.read(text[:-1], seen.new_cache(), n_last=0)
        cache = head.new_cache()
        cache.look(seen.cache.hidden, len(text))
        logits = [head.read(text + draft[:i], cache)[0] for i in range(len(draft))]
        for row, expected in zip(q, logits):
            assert abs(row - Filter(1.0)(expected[None])[0]).max() < 1e-9


@settings(max_examples=15, deadline=None)
@given(ids=texts, ks=lengths)
def test_every_head_of_medusa_reads_the_last_hidden_state(ids, ks):
    target = tiny_model(1)
    head = toy_head(MEDUSA, target)
    for text, draft, q in proposed(MEDUSA, target, head, ids, 12, ks):
        assert len(draft) <= head.config.n_places
        expected = Filter(1.0)(medusa_by_hand(head, target, text))
        assert len(q) == len(draft)
        assert np.allclose(q, expected[: len(q)], atol=1e-9)
