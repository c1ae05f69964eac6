"""Safetensors: what its library writes is read, and every damage is one clear line. test_kinds.py
loads whole models.
"""

import json

import numpy as np
import pytest
from edits import EXPECTED, SMALL, SMALLEST, TENSORS, edit_header, logits, with_entry, without
from make_golden import recipe, reference, reference_logits
from toys import load_model, random_tensors, refusal, write_checkpoint, write_safetensors

from checkpoints.formats.safetensors import read_table
from gpt2 import Config


def test_the_same_model_whatever_else_the_header_says(tmp_path):
    """Tensors in another order than their offsets, no metadata, padding, old files' mask."""
    tensors = {"h.0.attn.bias": np.float32([0]), **TENSORS}
    folder = write_checkpoint(tmp_path / "model", SMALL, tensors)
    mask = with_entry("h.0.attn.bias", dtype="BOOL", shape=[1, 1, 2, 2])
    another_order = lambda header: dict(reversed(mask(without("__metadata__")(header)).items()))
    padded = lambda header: json.dumps(another_order(header)).encode() + b" " * 7
    edit_header(folder / "model.safetensors", padded)
    np.testing.assert_array_equal(logits(load_model(folder)), EXPECTED)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_the_safetensors_library_reads_and_writes_the_same(tmp_path, dtype):
    library = pytest.importorskip("safetensors.numpy")
    tensors = random_tensors(SMALLEST, dtype=dtype) | {"scalar": np.ones((), dtype)}
    write_safetensors(tmp_path / "ours", tensors)
    library.save_file(tensors, tmp_path / "theirs", metadata={"format": "pt"})
    theirs = library.load_file(tmp_path / "ours")
    assert theirs.keys() == tensors.keys()
    for name, array in tensors.items():
        np.testing.assert_array_equal(theirs[name], array, strict=True)
        for path in (tmp_path / "ours", tmp_path / "theirs"):
            np.testing.assert_array_equal(read_table(path)[name].read(dtype), array, strict=True)


@pytest.mark.oracle
@pytest.mark.parametrize("shard_size", ["1GB", "2MB"])
def test_what_transformers_writes_is_what_it_computes(tmp_path, shard_size):
    """124M's heads of 64 and vocabulary, with fewer and narrower blocks; also in several files."""
    for library in ("torch", "transformers", "safetensors"):
        pytest.importorskip(library)
    config = Config(50257, 32, 128, 2, 3)
    theirs = reference(config, recipe(config), np.float32)
    theirs.save_pretrained(tmp_path, max_shard_size=shard_size)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == (shard_size == "2MB")
    model = load_model(tmp_path)
    assert model.config == config
    ids = np.random.default_rng(0).integers(config.n_vocab, size=20).tolist()
    expected = reference_logits(theirs, [ids])[0]
    assert abs(model.read(ids, model.new_cache(), n_last=20) - expected).max() <= 1e-4


# ---------------------------------------------------------------- damaged headers


def entry(**changes):
    return with_entry("wte.weight", **changes)


N_BYTES = 259 * 8 * 4  # of wte.weight
# what no single byte changes; test_folder.py changes each
DAMAGED_HEADERS = {  # what is wrong: how the header is edited
    "null": lambda header: None,
    "very deep": lambda header: b"[" * 100_000,
    "an entry that is null": lambda header: header | {"wte.weight": None},
    "an entry without a shape": lambda header: header | {"wte.weight": {"dtype": "F32"}},
    "a shape of fractions": entry(shape=[259.0, 8.0]),
    "a shape whose product is huge": entry(shape=[2**60] * 100_000),
    "a negative shape": entry(shape=[-259, -8]),
    "a dtype that is a list": entry(dtype=["F32"]),
    # of which the size would not be checked
    "NumPy's name of a dtype": entry(dtype="float32"),
    "offsets past the end": entry(data_offsets=[10**30, 10**30 + N_BYTES]),
    "offsets that are no numbers": entry(data_offsets=[float("nan")] * 2),
    "metadata that is no object": lambda header: header | {"__metadata__": [1]},
    # which of the two counts would be up to the reader
    "a name twice": lambda header: json.dumps(header).replace("wpe.we", "wte.we").encode(),
}


@pytest.mark.parametrize("damage", DAMAGED_HEADERS)
def test_a_damaged_header(tmp_path, damage):
    path = write_checkpoint(tmp_path, SMALL) / "model.safetensors"
    edit_header(path, DAMAGED_HEADERS[damage])
    message = refusal(load_model, tmp_path)
    assert str(path) in message and len(message) < 1000


def test_a_size_below_zero_hides_no_missing_byte(tmp_path):
    """Of a tensor that is never read, and so has the size that the file says."""
    path = write_checkpoint(tmp_path, SMALL) / "model.safetensors"
    end = sum(array.nbytes for array in random_tensors(SMALL).values())
    edit_header(
        path, with_entry("h.0.attn.bias", dtype="BOOL", shape=[], data_offsets=[end, end - 1])
    )
    path.write_bytes(path.read_bytes()[:-1])
    assert str(path) in refusal(load_model, tmp_path)


# lengths of a header; nothing, a download's error page, PyTorch's own format
LENGTHS = [n.to_bytes(8, "little") + b"{}" for n in (0, 1, 2**31, 2**64 - 1)]
NO_SAFETENSORS = [b"", b"\0" * 7, b"<html>\n<title>404</title>", b"PK\3\4" + b"\0" * 99]


@pytest.mark.parametrize("raw", LENGTHS + NO_SAFETENSORS)
def test_no_safetensors_file_at_all(tmp_path, raw):
    path = write_checkpoint(tmp_path, SMALL) / "model.safetensors"
    path.write_bytes(raw)
    assert str(path) in refusal(load_model, tmp_path)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers(tmp_path, bad):
    tensors = random_tensors(SMALL)
    tensors["h.1.mlp.c_fc.weight"][3, 4] = bad
    folder = write_checkpoint(tmp_path / "bad", SMALL, tensors)
    assert "h.1.mlp.c_fc.weight" in refusal(load_model, folder)
