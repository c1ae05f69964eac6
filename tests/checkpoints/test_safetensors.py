"""Safetensors: every way of storing the same model loads as the same model, and every damage is one
clear line.

Files are written by toys.py from the description of the format, and compared with the safetensors
library's own.
"""

import json
import os

import numpy as np
import pytest
import toys
from edits import (
    DTYPES,
    EXPECTED,
    HUGGING_FACE,
    OPENAI,
    SMALL,
    SMALLEST,
    TENSORS,
    edit_header,
    logits,
    with_entry,
    with_new_entry,
    without,
)
from toys import (
    NUMPY,
    random_tensors,
    refusal,
    tiny_vocabulary,
    write_checkpoint,
    write_safetensors,
)

import utils
from checkpoints.formats.safetensors import BITS, read_table
from encoder import Encoder


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "model", SMALL)


@pytest.mark.parametrize("files", [HUGGING_FACE, OPENAI], ids=["hugging face", "openai"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("prefix", ["", "transformer."])
@pytest.mark.parametrize("head", [False, True], ids=["", "lm_head"])
@pytest.mark.parametrize("buffers", [False, True], ids=["", "attn.bias"])
def test_the_same_model_however_it_is_stored(tmp_path, files, dtype, prefix, head, buffers):
    stored = {prefix + name: DTYPES[dtype](array) for name, array in TENSORS.items()}
    if head:
        stored["lm_head.weight"] = stored[prefix + "wte.weight"]
    if buffers:  # constants that Hugging Face once saved along
        causal = np.tril(np.ones((1, 1, SMALL.n_ctx, SMALL.n_ctx), np.float32))
        stored |= {f"{prefix}h.{i}.attn.bias": causal for i in range(SMALL.n_layer)}
        stored |= {
            f"{prefix}h.{i}.attn.masked_bias": np.float32(-1e4) for i in range(SMALL.n_layer)
        }
    folder = write_checkpoint(tmp_path / "model", SMALL, stored, files)
    model = utils.load_model(folder, NUMPY)
    assert model.config == SMALL
    assert logits(model).dtype == np.float32
    np.testing.assert_array_equal(logits(model), EXPECTED)
    assert utils.load_encoder(folder) == Encoder(*tiny_vocabulary())


@pytest.mark.parametrize(
    "edit",
    [
        # the offsets say where a tensor is, not its place in the header
        lambda header: dict(reversed(header.items())),
        without("__metadata__"),
        # padding, so that the tensors are aligned
        lambda header: json.dumps(header).encode() + b" " * 7,
        # no dtype of a parameter: old files' mask
        with_entry("h.0.attn.bias", dtype="BOOL", shape=[1, 1, 2, 2]),
    ],
    ids=["another order", "no metadata", "padding", "BOOL"],
)
def test_the_same_model_whatever_else_the_header_says(tmp_path, edit):
    folder = write_checkpoint(
        tmp_path / "model", SMALL, {"h.0.attn.bias": np.float32([0]), **TENSORS}
    )
    edit_header(folder / "model.safetensors", edit)
    np.testing.assert_array_equal(logits(utils.load_model(folder, NUMPY)), EXPECTED)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_the_safetensors_library_reads_and_writes_the_same(tmp_path, dtype):
    library = pytest.importorskip("safetensors.numpy")
    tensors = random_tensors(SMALLEST, dtype=dtype) | {
        "none": np.zeros((0, 3), dtype),
        "scalar": np.ones((), dtype),
    }
    write_safetensors(tmp_path / "ours", tensors)
    library.save_file(tensors, tmp_path / "theirs", metadata={"format": "pt"})
    theirs = library.load_file(tmp_path / "ours")
    assert theirs.keys() == tensors.keys()
    for name, array in tensors.items():
        np.testing.assert_array_equal(theirs[name], array, strict=True)
        for path in (tmp_path / "ours", tmp_path / "theirs"):
            np.testing.assert_array_equal(read_table(path)[name].read(dtype), array, strict=True)


# ---------------------------------------------------------------- damaged headers


DAMAGED_HEADERS = {  # what is wrong: (what the message names, how to get there)
    "not JSON": ("header", lambda header: b"{'wte.weight': 1}"),
    "not UTF-8": ("header", lambda header: b'{"\xff": 1}'),
    "a list": ("header", lambda header: b"[]"),
    "a list of entries": ("header", lambda header: list(header.values())),
    "a string": ("header", lambda header: b'"wte.weight"'),
    "null": ("header", lambda header: b"null"),
    "a very deep list": ("header", lambda header: b"[" * 100_000),
    "a very deep object": ("header", lambda header: b'{"wte.weight":' * 100_000),
    "empty": ("bytes", lambda header: {}),
    "an entry that is null": ("header", lambda header: header | {"wte.weight": None}),
    "an entry that is a string": ("header", lambda header: header | {"wte.weight": "F32"}),
    "an entry without offsets": (
        "header",
        with_new_entry("wte.weight", dtype="F32", shape=[259, 8]),
    ),
    "an entry without a shape": (
        "header",
        with_new_entry("wte.weight", dtype="F32", data_offsets=[0, 4]),
    ),
    "a shape of strings": ("header", with_entry("wte.weight", shape=["259", "8"])),
    "a shape of lists": ("header", with_entry("wte.weight", shape=[[259], [8]])),
    "a shape that is a number": ("header", with_entry("wte.weight", shape=2072)),
    "a shape that overflows": ("wte.weight", with_entry("wte.weight", shape=[2**62, 2**62])),
    "a negative shape": ("wte.weight", with_entry("wte.weight", shape=[-259, -8])),
    "a dtype that is a list": ("header", with_entry("wte.weight", dtype=["F32"])),
    "a dtype of another width": ("wte.weight", with_entry("wte.weight", dtype="F16")),
    "an unread dtype": ("wte.weight is I32", with_entry("wte.weight", dtype="I32")),
    "no dtype": ("'wte.weight' is None", with_entry("wte.weight", dtype=None)),
    "offsets past the end": (
        "wte.weight",
        with_entry("wte.weight", data_offsets=[10**30, 10**30 + 259 * 8 * 4]),
    ),
    "offsets before the start": (
        "wte.weight",
        with_entry("wte.weight", data_offsets=[-4, 259 * 8 * 4 - 4]),
    ),
    "offsets of another size": ("wte.weight", with_entry("wte.weight", data_offsets=[0, 4])),
    "offsets the wrong way round": (
        "wte.weight",
        with_entry("wte.weight", data_offsets=[259 * 8 * 4, 0]),
    ),
    "offsets that are no numbers": ("", with_entry("wte.weight", data_offsets=[float("nan")] * 2)),
    "offsets that are strings": ("header", with_entry("wte.weight", data_offsets=["0", "8"])),
    "three offsets": ("header", with_entry("wte.weight", data_offsets=[0, 4, 8])),
    "bytes that no tensor owns": ("bytes", without("ln_f.bias")),
}


@pytest.mark.parametrize("damage", DAMAGED_HEADERS)
def test_a_damaged_header(folder, damage):
    named, edit = DAMAGED_HEADERS[damage]
    edit_header(folder / "model.safetensors", edit)
    message = refusal(utils.load_model, folder, NUMPY)
    assert str(folder / "model.safetensors") in message and named in message


@pytest.mark.parametrize("length", [0, 1, 2**31, 2**63, 2**64 - 1, "one more than there is"])
def test_an_absurd_header_length(folder, length):
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    length = len(raw) - 7 if isinstance(length, str) else length
    path.write_bytes(length.to_bytes(8, "little") + raw[8:])
    message = refusal(utils.load_model, folder, NUMPY)
    assert str(path) in message and "truncated" in message


@pytest.mark.parametrize(
    "raw", [b"", b"\0" * 7, b"<html>\n<title>404</title>", b"PK\3\4" + b"\0" * 99]
)
def test_no_safetensors_file_at_all(folder, raw):
    """Such as a download's error page, or PyTorch's own format."""
    (folder / "model.safetensors").write_bytes(raw)
    assert str(folder / "model.safetensors") in refusal(utils.load_model, folder, NUMPY)


@pytest.fixture
def smallest(tmp_path):
    """A folder whose weights are a header and a few hundred bytes, all of which a test can try in
    turn.
    """
    return write_checkpoint(tmp_path / "smallest", SMALLEST)


def test_every_truncation_is_refused(smallest):
    path = smallest / "model.safetensors"
    utils.load_model(smallest, NUMPY)
    for length in reversed(range(path.stat().st_size)):
        os.truncate(path, length)
        assert str(path) in refusal(utils.load_model, smallest, NUMPY)


# digits become other digits and names other names; a byte means something else to JSON, or is no
# UTF-8
CHANGES = {
    **{f"bit {bit}": lambda byte, bit=bit: byte ^ 1 << bit for bit in (0, 1, 3, 5)},
    **{f"to {to}": lambda byte, to=to: to for to in b'"\\-e0\xff'},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_changed_byte_of_the_header_loads_or_is_refused(smallest, change):
    path, refused = smallest / "model.safetensors", 0
    raw = path.read_bytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    with path.open("r+b", buffering=0) as file:
        for i in range(end):
            file.seek(i)
            file.write(bytes([change(raw[i])]))
            try:
                utils.load_model(smallest, NUMPY)
            except utils.InputError as error:
                assert "\n" not in str(error)
                refused += 1
            file.seek(i)
            file.write(raw[i : i + 1])
    assert refused > end // 2  # the rest: metadata, or the byte it was


@pytest.mark.parametrize("shift", [0, 4])
@pytest.mark.parametrize("dtype", ["float32", "float16", "f32", "F32 ", "F128", "", 32])
def test_only_the_names_of_the_format(folder, dtype, shift):
    """NumPy's names would be read without their size being checked: shifted boundaries between two
    tensors would give wrong weights.
    """

    def edit(header):
        first, second = list(header.items())[1:3]
        end = first[1]["data_offsets"][1] - shift
        first[1]["data_offsets"][1] = second[1]["data_offsets"][0] = end
        first[1]["dtype"] = second[1]["dtype"] = dtype
        return header

    edit_header(folder / "model.safetensors", edit)
    assert f"is {dtype!r}; expected a dtype of safetensors" in refusal(
        utils.load_model, folder, NUMPY
    )


@pytest.mark.parametrize("dtype", BITS)
def test_every_dtype_must_fill_its_bytes(tmp_path, dtype):
    """Also those that are never read: 8 numbers in as many bytes as they take, and in one more."""
    for extra in (0, 1):
        n_bytes = BITS[dtype] + extra
        header = {"x": {"dtype": dtype, "shape": [8], "data_offsets": [0, n_bytes]}}
        text = json.dumps(header).encode()
        path = tmp_path / "x.safetensors"
        path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(n_bytes))
        if extra:
            assert "impossible offsets" in refusal(read_table, path)
        else:
            assert read_table(path)["x"].shape == (8,)


def test_a_name_that_stands_twice_in_the_header(folder):
    """Which of the two counts would be up to the reader."""

    def edit(header):
        text = json.dumps(header)
        return text.replace('"wpe.weight"', '"wte.weight"').encode()

    edit_header(folder / "model.safetensors", edit)
    assert "damaged header" in refusal(utils.load_model, folder, NUMPY)


def test_a_shape_whose_product_is_huge(folder):
    edit_header(folder / "model.safetensors", with_entry("wte.weight", shape=[2**60] * 100_000))
    message = refusal(utils.load_model, folder, NUMPY)
    assert "damaged header" in message and len(message) < 1000


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers(tmp_path, bad):
    tensors = random_tensors(toys.TINY)
    tensors["h.1.mlp.c_fc.weight"][3, 4] = bad
    folder = write_checkpoint(tmp_path / "bad", tensors=tensors)
    with pytest.raises(utils.InputError, match="h.1.mlp.c_fc.weight.*NaN or infinity"):
        utils.load_model(folder, NUMPY)
