"""Heads on disk: read as they were written, and refused for a target they were not trained on."""

from dataclasses import replace

import numpy as np
import pytest
from decoding.head_files import fingerprint, load_head
from decoding.load import HEADS, load
from decoding.run import Run
from edits import edit_header, with_entry
from heads import EAGLE, head_config, head_tensors
from toys import NUMPY, TINY, refusal, tokens_of, write_checkpoint, write_safetensors

import utils
from checkpoints.registry import MODELS_DIR

TENSORS = {kind: head_tensors(head_config(kind, TINY), scale=0.1) for kind in HEADS}


@pytest.fixture
def folder(tmp_path):
    """A target with its heads."""
    folder = write_checkpoint(tmp_path / "7M")
    notes = {"target": fingerprint(folder), "n_head": "2"}
    for kind in HEADS:
        path = folder / f"{kind}.safetensors"
        write_safetensors(path, TENSORS[kind])
        edit_header(path, lambda header: header | {"__metadata__": notes})
    return folder


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_is_read_as_it_was_written(folder, kind):
    target = utils.load_model(folder, NUMPY)
    head = load_head(kind, folder, target)
    assert head.config == head_config(kind, TINY)
    assert head.params["head"] is target.params["head"]
    if kind == EAGLE:
        found, expected = head.params["blocks"][0]["mlp"], "h.0.mlp.c_fc.weight"
    else:
        found, expected = head.params["heads"][1], "heads.1.c_fc.weight"
    assert np.array_equal(found["c_fc"]["weight"], TENSORS[kind][expected].astype(np.float32))


def swap_a_bit(folder, path):
    """One weight in the middle of the target has changed, the embeddings have not."""
    target = folder / "model.safetensors"
    raw = bytearray(target.read_bytes())
    raw[len(raw) // 2] ^= 1
    target.write_bytes(raw)


def take_the_other(folder, path):
    (other,) = {folder / f"{kind}.safetensors" for kind in HEADS} - {path}
    path.write_bytes(other.read_bytes())


DAMAGE = [
    (swap_a_bit, "another target"),
    (take_the_other, "tensors"),
    (lambda folder, path: path.write_bytes(path.read_bytes()[:1000]), "safetensors"),
    (lambda folder, path: path.unlink(), "train.py"),
]


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("damage, word", DAMAGE)
def test_a_head_that_is_damaged_not_there_or_of_another_target(folder, kind, damage, word):
    damage(folder, folder / f"{kind}.safetensors")
    message = refusal(load_head, kind, folder, utils.load_model(folder, NUMPY))
    assert kind in message and word in message


def with_notes(notes):
    return lambda header: header | {"__metadata__": notes(header["__metadata__"])}


@pytest.mark.parametrize("edit", [
    *(with_notes(lambda notes, n=n: notes | {"n_head": n}) for n in ("x", "0", "-2", "4", None)),
    with_notes(list),
    with_entry("fc.bias", shape=[2, 3]),
    with_entry("fc.bias", shape=[6, 1]),
])  # fmt: skip
def test_eagle_with_the_notes_or_the_shape_of_no_head(folder, edit):
    path = folder / f"{EAGLE}.safetensors"
    edit_header(path, edit)
    assert str(path) in refusal(load_head, EAGLE, folder, utils.load_model(folder, NUMPY))


@pytest.mark.parametrize("size", ["17M", "7M"])
@pytest.mark.parametrize("kind", HEADS)
def test_the_included_heads_agree_with_their_target(kind, size):
    """Greedy drafts after the same text: a head of another shape or target would agree nowhere."""
    pair = load(size, [kind], MODELS_DIR, NUMPY).pair(kind)
    run = Run(pair, pair.encoder.encode("Once upon a time there was a"), 60, K=2)
    rounds, alone = list(run.rounds()), replace(run, pair=replace(pair, draft=None))
    assert sum(this_round.accepted for this_round in rounds) > 10
    assert tokens_of(rounds) == tokens_of(alone.rounds())
