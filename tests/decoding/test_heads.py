"""Drafts by heads of the target: exact, without a trace of what was guessed, and read from files
that fit.
"""

from dataclasses import replace

import numpy as np
import pytest
from edits import edit_header
from heads import MEDUSA, head_config, head_tensors, toy_head
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import FILTERS, assert_exact, at_eos
from toys import (
    TINY,
    load_model,
    refusal,
    tiny_model,
    tiny_vocabulary,
    tokens_of,
    write_checkpoint,
    write_safetensors,
)

from checkpoints.checksum import sha256_of
from checkpoints.files import LFS
from checkpoints.folder import weights_files
from checkpoints.registry import MODELS_DIR
from decoding.decode import HEADS, begin, load_pair
from decoding.heads import HeadDrafter, load_head
from encoder import Encoder
from gpt2 import Config
from sampling import Rng, SamplingParams, never, speculative

SMALL = Config(n_vocab=3, n_ctx=16, n_embd=4, n_head=2, n_layer=2)
TARGET = tiny_model(1, SMALL, scale=0.8)
SHORT = tiny_model(3, replace(SMALL, n_ctx=4, n_layer=1), scale=0.8)
KINDS = pytest.mark.parametrize("kind", HEADS)


@KINDS
@pytest.mark.parametrize("target, ids, n_tokens, K, to_probs, is_done", [
    (TARGET, [1, 0], 3, 1, "T=1", never),
    (TARGET, [1, 0], 3, 2, "top_k", at_eos),
    (TARGET, [1, 0], 4, 2, "greedy", at_eos),
    (TARGET, [1, 0], 3, 3, "all", at_eos),
    # before the second token there is no hidden state to read, and after the last no room
    (SHORT, [1], 9, 3, "all", never),
    # also 0, after which the head has missed what the target read
    (TARGET, [1, 0], 4, lambda last: 2 - len(last.draft), "top_k", never),
])  # fmt: skip
def test_the_distribution_of_the_text_is_the_targets(
    kind, target, ids, n_tokens, K, to_probs, is_done
):
    head, to_probs = toy_head(kind, target), FILTERS[to_probs]
    drafter = lambda rng: HeadDrafter(head, to_probs, rng)
    assert_exact(target, drafter, ids, n_tokens, K, to_probs, is_done)


# ---------------------------------------------------------------- what a head reads


def just_made(head, target, ids, draft):
    """The logits of a draft from a new cache; EAGLE's go on from its own guesses."""
    seen, cache = target.new_cache(), head.new_cache()
    target.read(ids[:-1], seen, n_last=0)
    cache.known = seen.hidden[: len(ids)]
    return [head.read(ids + draft[:i], cache)[0] for i in range(len(draft))]


@KINDS
@settings(max_examples=15)
@given(
    texts=st.lists(
        st.lists(st.integers(0, TINY.n_vocab - 1), min_size=1, max_size=8), min_size=1, max_size=2
    ),
    ks=st.lists(st.integers(0, 4), min_size=40, max_size=40),
)
def test_what_was_guessed_or_rejected_leaves_no_trace(kind, texts, ks):
    """After any rounds, also of another text, a head drafts as one that is just made, and that one
    as it was trained: tests/training compares it with torch.
    """
    target, proposals, k, rng = tiny_model(1), [], iter(ks), Rng(3)
    head, to_probs = toy_head(kind, target), SamplingParams(1.0)

    class Noting(HeadDrafter):
        def propose(self, ids, k):
            proposals.append((ids[:], *super().propose(ids, k)))
            return proposals[-1][1:]

    drafter = Noting(head, to_probs, rng)
    for ids in texts:
        list(speculative(target, drafter, ids, 12, lambda last: next(k), to_probs, rng))
    for text, draft, q in proposals:
        assert len(draft) <= head.config.n_places
        for row, logits in zip(q, just_made(head, target, text, draft), strict=True):
            assert np.allclose(row, to_probs(logits[None])[0], atol=1e-9)


# ---------------------------------------------------------------- files

TENSORS = {kind: head_tensors(head_config(kind, TINY), scale=0.1) for kind in HEADS}


@pytest.fixture
def folder(tmp_path):
    """A target with its heads."""
    folder = write_checkpoint(tmp_path / "7M")
    notes = {"target": sha256_of(weights_files(folder)), "n_head": "2"}
    for kind in HEADS:
        path = folder / f"{kind}.safetensors"
        write_safetensors(path, TENSORS[kind])
        edit_header(path, lambda header: header | {"__metadata__": notes})
    return folder


def swap_a_bit(folder, path):
    """One weight in the middle of the target has changed, the embeddings have not."""
    target = folder / "model.safetensors"
    raw = bytearray(target.read_bytes())
    raw[len(raw) // 2] ^= 1
    target.write_bytes(raw)


def take_the_other(folder, path):
    (other,) = {folder / f"{kind}.safetensors" for kind in HEADS} - {path}
    path.write_bytes(other.read_bytes())


def leave_a_hole(folder, path):
    """As a copy does that was broken off: zeros behind the header."""
    raw = path.read_bytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    path.write_bytes(raw[:end] + bytes(len(raw) - end))


DAMAGE = [
    (leave_a_hole, "all zeros"),
    (swap_a_bit, "another target"),
    (take_the_other, "tensors"),
    (lambda folder, path: path.write_bytes(path.read_bytes()[:1000]), "safetensors"),
    (lambda folder, path: path.unlink(), "train.train"),
    (lambda folder, path: path.write_bytes(LFS), "git lfs pull"),
]


@KINDS
@pytest.mark.parametrize("damage, word", DAMAGE)
def test_a_head_that_is_damaged_not_there_or_of_another_target(folder, kind, damage, word):
    damage(folder, folder / f"{kind}.safetensors")
    message = refusal(load_head, kind, folder, load_model(folder))
    assert kind in message and word in message


@KINDS
def test_the_included_heads_agree_with_their_target(kind):
    """Greedy drafts after the same text: a head of another shape or target would agree nowhere."""
    target, draft, encoder = load_pair("7M", kind, str(MODELS_DIR))
    ids = encoder.encode("Once upon a time there was a")
    rounds = list(begin("speculative", target, draft, encoder, ids, 30, K=2))
    assert sum(this_round.accepted for this_round in rounds) > 4
    assert tokens_of(rounds) == tokens_of(begin("autoregressive", target, None, encoder, ids, 30))


def test_medusa_drafts_no_more_tokens_than_it_has_heads():
    target = tiny_model(1)
    encoder = Encoder(*tiny_vocabulary(), ends=())
    rounds = begin("speculative", target, toy_head(MEDUSA, target), encoder, [1, 2], 9, K=9)
    assert max(len(this_round.draft) for this_round in rounds) == 2
