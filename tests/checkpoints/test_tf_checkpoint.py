"""OpenAI's checkpoint format: damaged indexes, and what TensorFlow writes.
test_folder.py damages every byte.
"""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import edits
import numpy as np
import pytest
from make_tf_fixture import FOLDER
from toys import refusal

import utils
from checkpoints.folder import open_weights, read_config
from checkpoints.formats import tf_checkpoint

INDEX, DATA = "model.ckpt.index", "model.ckpt.data-00000-of-00001"
ROOT = Path(utils.__file__).resolve().parent
REAL_INDEX = ROOT.parent / "shared" / "golden" / "openai-124M-index"


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(FOLDER, tmp_path / "model")


# ---------------------------------------------------------------- indexes written here


def varint(value):
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def block(pairs):
    """A block of [(key, value)], without shared prefixes."""
    heads = [b"\0" + varint(len(key)) + varint(len(value)) for key, value in pairs]
    entries = b"".join(head + key + value for head, (key, value) in zip(heads, pairs))
    return closed(entries)


def closed(entries):
    """A block of these entries: one restart, no compression, and a CRC that nobody reads."""
    return entries + bytes(4) + (1).to_bytes(4, "little") + bytes(5)


def table(data, n_handles=1):
    """A table of one data block, which its index names n times."""
    handle = varint(0) + varint(len(data) - 5)
    index = block([(b"%08d" % i, handle) for i in range(n_handles)])
    handle = varint(len(data)) + varint(len(index) - 5)
    footer = (handle + handle).ljust(40, b"\0")
    return data + index + footer + tf_checkpoint.MAGIC.to_bytes(8, "little")


def entry(dtype=1, shape=(4,), offset=0, size=16):
    dims = b"".join(field(2, field(1, n)) for n in shape)
    return field(1, dtype) + field(2, dims) + field(4, offset) + field(5, size)


HEADER = (b"", field(1, 1))
G = b"model/ln_f/g"

# what no single byte changes, nor a header of safetensors, whose tensors must lie in the same way;
# test_folder.py and test_safetensors.py have those
UNUSABLE = {
    "bytes that do not fit the shape": [HEADER, (G, entry(size=12))],
    "a shape that overflows": [HEADER, (G, entry(shape=[2**64 - 1]))],
    "a shape of bytes": [HEADER, (G, field(1, 1) + field(2, field(2, field(1, b"4"))))],
    "one name twice": [HEADER, (G, entry()), (G, entry(offset=16))],
    "no header": [(G, entry())],
    "a name that is no text": [HEADER, (b"\xff", entry())],
}


@pytest.mark.parametrize("wrong", UNUSABLE)
def test_an_index_that_cannot_be_right(folder, wrong):
    (folder / DATA).write_bytes(bytes(32))
    (folder / INDEX).write_bytes(table(block(UNUSABLE[wrong])))
    message = refusal(tf_checkpoint.read_table, folder / INDEX)
    assert str(folder) in message and len(message) < 1000


def test_other_tensors_may_be_there_but_are_no_gpt2(folder):
    """Such as a counter of steps; it is refused by name, not by its type."""
    step = (b"global_step", entry(dtype=9, shape=(), size=8))
    (folder / INDEX).write_bytes(table(block([HEADER, step, (G, entry(offset=8))])))
    (folder / DATA).write_bytes(bytes(24))
    found = tf_checkpoint.read_table(folder / INDEX)
    assert found["ln_f.weight"].shape == (4,)
    assert "is int64; expected" in refusal(found["global_step.weight"].read, np.float32)


@pytest.mark.parametrize("dtype, code", [("float16", 19), ("float64", 2), ("bfloat16", 14)])
def test_dtypes(folder, dtype, code):
    expected = np.float32([1, -0.5, 0.25, 3])
    stored = edits.DTYPES[dtype](expected)
    (folder / DATA).write_bytes(stored.tobytes())
    (folder / INDEX).write_bytes(table(block([HEADER, (G, entry(code, size=stored.nbytes))])))
    found = tf_checkpoint.read_table(folder / INDEX)["ln_f.weight"].read(np.float32)
    np.testing.assert_array_equal(found, expected, strict=True)


def test_a_small_file_that_claims_much_is_not_believed():
    many = block([(b"%06d" % i, b"") for i in range(300)])
    with pytest.raises(ValueError, match="overlap"):
        tf_checkpoint.parse_entries(table(many, 1000))


def test_a_large_file_is_read_only_as_far_as_an_index_may_go(folder):
    raw = (folder / INDEX).read_bytes()
    (folder / INDEX).write_bytes(bytes(tf_checkpoint.INDEX_LIMIT) + raw)
    assert INDEX in refusal(tf_checkpoint.read_table, folder / INDEX)


# ---------------------------------------------------------------- the real thing


@pytest.mark.elsewhere
@pytest.mark.skipif(
    not REAL_INDEX.is_dir(), reason="the index of models/124M is not beside the repository"
)
def test_the_index_of_124M(tmp_path):
    """148 tensors in 497,759,232 bytes; the data is a file of that length without content."""
    shutil.copytree(REAL_INDEX, tmp_path / "124M")
    with (tmp_path / "124M" / DATA).open("wb") as file:
        file.truncate(497_759_232)
    found = open_weights(tmp_path / "124M", read_config(tmp_path / "124M"))
    assert len(found) == 148 and {tensor.dtype for tensor in found.values()} == {"float32"}


@pytest.mark.oracle
@pytest.mark.elsewhere
@pytest.mark.skipif(not find_spec("tensorflow"), reason="TensorFlow is not installed")
def test_tensorflow_writes_the_fixture_again(tmp_path):
    """In a process of its own: TensorFlow and torch in one disagree about more than numbers."""
    script = ROOT / "tests" / "support" / "make_tf_fixture.py"
    subprocess.run([sys.executable, script, tmp_path], check=True, capture_output=True)
    for path in FOLDER.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
