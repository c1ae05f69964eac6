"""OpenAI's checkpoint format: a fixture that TensorFlow wrote, every damage to it, and OpenAI's own
index of 124M.
"""

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_golden import recipe, reference, reference_logits
from make_tf_fixture import FOLDER, SHAPE
from toys import NUMPY, random_tensors, write_checkpoint

import checkpoints
import utils
from checkpoints.formats import tf_checkpoint
from checkpoints.formats.crc32c import crc32c
from gpt2 import Config

ROOT = Path(utils.__file__).resolve().parent
REAL_INDEX = ROOT.parent / "shared" / "golden" / "openai-124M-index"
CONFIG = Config(**SHAPE)
TENSORS = random_tensors(CONFIG)
INDEX, DATA = "model.ckpt.index", "model.ckpt.data-00000-of-00001"

needs_tensorflow = pytest.mark.skipif(
    not find_spec("tensorflow"), reason="TensorFlow is not installed"
)


def plain_crc32c(data):
    """The checksum as its definition has it, a bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@given(st.binary(max_size=200))
def test_crc_of_short_data(data):
    assert crc32c(data) == plain_crc32c(data)


@pytest.mark.parametrize(
    "n", [255, 256, 257, 4 * 8192 - 1, 4 * 8192, 4 * 8192 + 1, 3 * 4 * 8192 + 70]
)
def test_crc_of_rows_and_a_bit(n):
    data = np.random.default_rng(n).integers(256, size=n, dtype=np.uint8)
    assert crc32c(data) == plain_crc32c(data.tobytes())


def test_crc_of_all_zeros_is_the_published_one():
    """RFC 3720, appendix B.4, has these four."""
    values = [bytes(32), b"\xff" * 32, bytes(range(32)), bytes(range(31, -1, -1))]
    assert [crc32c(value) for value in values] == [0x8A9136AA, 0x62A8AB43, 0x46DD794E, 0x113FDB5C]


# ---------------------------------------------------------------- what TensorFlow wrote


def test_the_fixture_holds_what_was_stored():
    found = checkpoints.open_weights(FOLDER, CONFIG)
    assert list(found) == list(TENSORS)
    for name, array in TENSORS.items():
        found[name].verify()
        np.testing.assert_array_equal(found[name].read(np.float32), array, strict=True)


def test_the_fixture_is_a_model(tmp_path):
    """In OpenAI's format and Hugging Face's, the same tensors are the same model."""
    other = write_checkpoint(tmp_path / "other", CONFIG, TENSORS)
    models = [utils.load_pair(str(folder), None, tmp_path, NUMPY)[0] for folder in (FOLDER, other)]
    logits = [model.read([5, 258, 7], model.new_cache(), n_last=3) for model in models]
    np.testing.assert_array_equal(*logits, strict=True)


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(FOLDER, tmp_path / "model")


def outcome(folder):
    """Load and verify a damaged copy: the message of the refusal, or None if every tensor is right."""
    try:
        found = checkpoints.open_weights(folder, CONFIG)
        arrays = {name: tensor.read(np.float32) for name, tensor in found.items()}
        for tensor in found.values():
            tensor.verify()
    except utils.InputError as error:
        assert "\n" not in str(error) and str(folder) in str(error)
        return str(error)
    assert arrays.keys() == TENSORS.keys() and all(
        np.array_equal(arrays[name], TENSORS[name]) for name in TENSORS
    )
    return None


@pytest.mark.parametrize("seed", range(2))
def test_every_byte_of_the_index(folder, seed):
    """What may differ and still load are the handle of the block nobody reads, and the padding in
    the footer.
    """
    path = folder / INDEX
    raw, harmless, rng = path.read_bytes(), set(), np.random.default_rng(seed)
    for i in range(len(raw)):
        for change in (1 << rng.integers(8), rng.integers(1, 256)):
            path.write_bytes(raw[:i] + bytes([raw[i] ^ change]) + raw[i + 1 :])
            if outcome(folder) is None:
                harmless.add(i)
    footer = len(raw) - 48
    (offset, size), _ = tf_checkpoint.varints(raw, footer, 2)
    assert harmless <= {*range(offset, offset + size + 5), *range(footer, footer + 40)}


def test_every_truncation_of_the_index(folder):
    path = folder / INDEX
    raw = path.read_bytes()
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        assert INDEX in outcome(folder)


def test_every_byte_of_the_data(folder):
    """A checksum sees every change of a byte (of up to 32 bits in a row, in fact)."""
    path, rng = folder / DATA, np.random.default_rng(0)
    found = checkpoints.open_weights(folder, CONFIG)
    with path.open("r+b", buffering=0) as file:
        raw = file.read()
        for tensor in found.values():
            for i in range(tensor.offset, tensor.offset + 4 * int(np.prod(tensor.shape))):
                file.seek(i)
                file.write(bytes([raw[i] ^ rng.integers(1, 256)]))
                with pytest.raises(utils.InputError, match=re.escape(tensor.name)):
                    tensor.verify()
                file.seek(i)
                file.write(raw[i : i + 1])
    assert path.read_bytes() == raw and sum(
        4 * int(np.prod(tensor.shape)) for tensor in found.values()
    ) == len(raw)


def test_every_truncation_of_the_data(folder):
    path = folder / DATA
    for length in reversed(range(path.stat().st_size)):
        with path.open("r+b") as file:
            file.truncate(length)
        with pytest.raises(utils.InputError, match="truncated"):
            tf_checkpoint.read_table(folder / INDEX)


@given(raw=st.binary(max_size=300))
def test_bytes_that_are_no_table(raw):
    for ending in (b"", tf_checkpoint.MAGIC.to_bytes(8, "little")):
        with pytest.raises((ValueError, IndexError)):
            tf_checkpoint.read_entries(raw + ending)


# ---------------------------------------------------------------- indexes as they could be, written here


def varint(value):
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def masked(raw):
    crc = plain_crc32c(raw)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF).to_bytes(4, "little")


def block(pairs):
    body = b"".join(
        varint(0) + varint(len(key)) + varint(len(value)) + key + value for key, value in pairs
    )
    body += bytes(4) + (1).to_bytes(4, "little")
    return body + b"\0" + masked(body + b"\0")


def table(entries, compression=b"\0"):
    """A table with one data block; from the format's description, without shared prefixes."""
    data = block(entries)
    if compression != b"\0":
        data = data[:-5] + compression + masked(data[:-5] + compression)
    index = block([(entries[-1][0], varint(0) + varint(len(data) - 5))])
    footer = varint(0) + varint(0) + varint(len(data)) + varint(len(index) - 5)
    return data + index + footer.ljust(40, b"\0") + tf_checkpoint.MAGIC.to_bytes(8, "little")


def entry(dtype=1, shape=(4,), shard=0, offset=0, size=16, more=b""):
    dims = b"".join(field(2, field(1, n)) for n in shape)
    return (
        field(1, dtype)
        + field(2, dims)
        + field(3, shard)
        + field(4, offset)
        + field(5, size)
        + more
    )


HEADER = (b"", field(1, 1))
G = b"model/ln_f/g"

ODD = {  # what the message says: entries
    "truncated": [HEADER, (G, entry(offset=5200, size=32, shape=(8,)))],
    "truncated: model/ln_f/g": [HEADER, (G, entry(offset=2**63, size=16))],
    "shape": [HEADER, (G, entry(size=12))],
    "shape [18446744073709551615]": [HEADER, (G, entry(shape=[2**64 - 1]))],
    "slices": [HEADER, (G, entry(more=field(7, b"")))],
    "overlap": [HEADER, (b"model/ln_f/b", entry(offset=4)), (G, entry())],
    "mean the same": [HEADER, (b"model/ln_f/g", entry()), (b"model/ln_f/w", entry(offset=16))],
    "big-endian": [(b"", field(1, 1) + field(2, 1)), (G, entry())],
    "absurd": [(b"", field(1, 10**9)), (G, entry())],
    "data-00001-of-00002: is missing": [(b"", field(1, 2)), (G, entry())],
    "order": [HEADER, (G, entry()), (G, entry(offset=16))],
    "damaged": [(b"", b"\x0b"), (G, entry())],
    "index": [(G, entry())],
    "no TensorFlow index": [HEADER, (G, entry(shard=1))],
    "damaged one": [HEADER, (b"\xff", entry())],
}


@pytest.mark.parametrize("said", ODD)
def test_an_index_that_cannot_be_right(folder, said):
    (folder / INDEX).write_bytes(table(ODD[said]))
    for i in range("00002" in said):
        shutil.copy(folder / DATA, folder / "model.ckpt.data-00000-of-00002")
    with pytest.raises(utils.InputError, match=re.escape(said)):
        tf_checkpoint.read_table(folder / INDEX)


def test_a_compressed_table(folder):
    (folder / INDEX).write_bytes(table([HEADER, (G, entry())], compression=b"\1"))
    with pytest.raises(utils.InputError, match="compressed"):
        tf_checkpoint.read_table(folder / INDEX)


def test_other_tensors_may_be_there_but_are_no_gpt2(folder):
    """Such as a counter of steps; it is refused by name, not by its type."""
    (folder / INDEX).write_bytes(
        table([HEADER, (b"global_step", entry(dtype=9, shape=(), size=8)), (G, entry(offset=8))])
    )
    found = tf_checkpoint.read_table(folder / INDEX)
    assert found["ln_f.weight"].shape == (4,)
    with pytest.raises(utils.InputError, match="type 9; expected"):
        found["global_step.weight"].read(np.float32)


@pytest.mark.parametrize(
    "dtype, code", [("float16", 19), ("float64", 2), ("bfloat16", 14), ("float32", 1)]
)
def test_dtypes(folder, dtype, code):
    expected = np.float32([1, -0.5, 0.25, 3])
    raw = (
        (expected.view(np.uint32) >> 16).astype("<u2")
        if dtype == "bfloat16"
        else expected.astype(dtype)
    )
    (folder / DATA).write_bytes(raw.tobytes())
    (folder / INDEX).write_bytes(table([HEADER, (G, entry(dtype=code, size=raw.nbytes))]))
    np.testing.assert_array_equal(
        tf_checkpoint.read_table(folder / INDEX)["ln_f.weight"].read(np.float32),
        expected,
        strict=True,
    )


# ---------------------------------------------------------------- the real thing


@pytest.mark.skipif(
    not REAL_INDEX.is_dir(), reason="the index of models/124M is not beside the repository"
)
def test_the_index_of_124M(tmp_path):
    """148 tensors in 497,759,232 bytes; the data is a file of that length without content."""
    shutil.copytree(REAL_INDEX, tmp_path / "124M")
    with (tmp_path / "124M" / DATA).open("wb") as file:
        file.truncate(497_759_232)
    found = checkpoints.open_weights(tmp_path / "124M", checkpoints.read_config(tmp_path / "124M"))
    assert len(found) == 148 and {tensor.dtype for tensor in found.values()} == {"float32"}
    assert {name: tensor.shape for name, tensor in found.items()} == utils.SIZES["124M"].shapes()
    spans = sorted(
        (tensor.offset, tensor.offset + 4 * int(np.prod(tensor.shape))) for tensor in found.values()
    )
    assert [begin for begin, _ in spans] == [0, *(end for _, end in spans)][:-1] and spans[-1][
        1
    ] == 497_759_232
    with pytest.raises(utils.InputError, match="wpe"):
        found["wpe.weight"].verify()  # of zeros
    with (tmp_path / "124M" / DATA).open("r+b") as file:
        file.truncate(497_759_231)
    with pytest.raises(utils.InputError, match="truncated"):
        checkpoints.open_weights(tmp_path / "124M", utils.SIZES["124M"])


def write_with_tensorflow(folder, tensors):
    """In a process of its own: TensorFlow and torch in one disagree about more than numbers."""
    folder.mkdir()
    np.savez(folder / "weights.npz", **tensors)
    script = ROOT / "tests" / "support" / "make_tf_fixture.py"
    subprocess.run(
        [sys.executable, script, folder / "weights.npz", folder], check=True, capture_output=True
    )
    (folder / "weights.npz").unlink()


@pytest.mark.oracle
@needs_tensorflow
def test_tensorflow_writes_the_fixture_again(tmp_path):
    write_with_tensorflow(tmp_path / "again", TENSORS)
    for name in (INDEX, DATA):
        assert (tmp_path / "again" / name).read_bytes() == (FOLDER / name).read_bytes()


@pytest.mark.oracle
@needs_tensorflow
def test_124M_as_tensorflow_writes_it(tmp_path):
    """The full shape with random weights, against transformers' logits."""
    pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = utils.SIZES["124M"]
    read = recipe(config)
    write_with_tensorflow(tmp_path / "124M", {name: read(name) for name in config.shapes()})
    (tmp_path / "124M" / "hparams.json").write_text(
        json.dumps({n: v for n, v in vars(config).items() if n != "epsilon"})
    )
    compare_with_transformers(tmp_path / "124M", config, read)


@pytest.mark.oracle
def test_124M_as_transformers_writes_it(tmp_path):
    (
        pytest.importorskip("torch"),
        pytest.importorskip("transformers"),
        pytest.importorskip("safetensors"),
    )
    config = utils.SIZES["124M"]
    reference(config, recipe(config), np.float32).save_pretrained(tmp_path / "124M")
    assert (tmp_path / "124M" / "model.safetensors").is_file()
    compare_with_transformers(tmp_path / "124M", config, recipe(config))


@pytest.mark.oracle
def test_shards_as_transformers_writes_them(tmp_path):
    (
        pytest.importorskip("torch"),
        pytest.importorskip("transformers"),
        pytest.importorskip("safetensors"),
    )
    config = Config(259, 24, 16, 2, 3)
    reference(config, recipe(config), np.float32).save_pretrained(
        tmp_path / "model", max_shard_size="20KB"
    )
    assert len(list((tmp_path / "model").glob("model-*-of-*.safetensors"))) > 1
    compare_with_transformers(tmp_path / "model", config, recipe(config))


def compare_with_transformers(folder, config, read):
    model = utils.load_model(folder, NUMPY)
    assert model.config == config
    for tensor in checkpoints.open_weights(folder, config).values():
        tensor.verify()
    ids = np.random.default_rng(0).integers(config.n_vocab, size=20).tolist()
    expected = reference_logits(reference(config, read, np.float32), [ids])[0]
    assert abs(model.read(ids, model.new_cache(), n_last=20) - expected).max() <= 1e-4
