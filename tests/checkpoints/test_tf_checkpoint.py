"""OpenAI's checkpoint format: a fixture that TensorFlow wrote, every damage to it, and OpenAI's own
index of 124M.
"""

import json
import re
import shutil
import subprocess
import sys
import tracemalloc
from importlib.util import find_spec
from pathlib import Path

import edits
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_golden import recipe, reference, reference_logits
from make_tf_fixture import FOLDER, SHAPE
from toys import NUMPY, random_tensors, refusal, write_checkpoint

import checkpoints
import utils
from checkpoints import folder as folder_module
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
    models, _ = utils.load_models([str(FOLDER), str(other)], tmp_path, NUMPY)
    logits = [model.read([5, 258, 7], model.new_cache(), n_last=3) for model in models]
    np.testing.assert_array_equal(*logits, strict=True)


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(FOLDER, tmp_path / "model")


def outcome(folder):
    """Load and verify a damaged copy: the message of the refusal, None if every tensor is right."""
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


def test_every_byte_of_the_index(folder):
    """What may differ and still load are the handle of the block nobody reads, and the padding in
    the footer.
    """
    path, rng = folder / INDEX, np.random.default_rng(0)
    raw, harmless = path.read_bytes(), set()
    for i in range(len(raw)):
        path.write_bytes(raw[:i] + bytes([raw[i] ^ rng.integers(1, 256)]) + raw[i + 1 :])
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


def test_bytes_of_the_data(folder):
    """The first, the last, and one between of every tensor: changed, and cut off there."""
    path, rng = folder / DATA, np.random.default_rng(0)
    raw, n_bytes = path.read_bytes(), 0
    for tensor in checkpoints.open_weights(folder, CONFIG).values():
        end = tensor.offset + tensor.read(np.float32).nbytes
        n_bytes += end - tensor.offset
        for i in (tensor.offset, rng.integers(tensor.offset, end), end - 1):
            path.write_bytes(raw[:i] + bytes([raw[i] ^ rng.integers(1, 256)]) + raw[i + 1 :])
            with pytest.raises(utils.InputError, match=re.escape(tensor.name)):
                tensor.verify()
            path.write_bytes(raw[:i])
            with pytest.raises(utils.InputError, match="truncated"):
                tf_checkpoint.read_table(folder / INDEX)
            path.write_bytes(raw)
    assert n_bytes == len(raw)


@given(raw=st.binary(max_size=300))
def test_bytes_that_are_no_table(raw):
    for ending in (b"", tf_checkpoint.MAGIC.to_bytes(8, "little")):
        with pytest.raises((ValueError, IndexError)):
            tf_checkpoint.read_entries(raw + ending)


# ---------------------------------------------------------------- indexes written here


def varint(value):
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def masked(raw):
    crc = crc32c(raw)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF).to_bytes(4, "little")


def block(pairs):
    lengths = [varint(0) + varint(len(key)) + varint(len(value)) for key, value in pairs]
    return closed(b"".join(head + key + value for head, (key, value) in zip(lengths, pairs)))


def closed(body):
    """A block of these entries."""
    body += bytes(4) + (1).to_bytes(4, "little")
    return body + b"\0" + masked(body + b"\0")


def table(entries, compression=b"\0"):
    """A table with one data block; from the format's description, without shared prefixes."""
    data = block(entries)
    data = data[:-5] + compression + masked(data[:-5] + compression)
    return raw_table(data, [(0, len(data) - 5)])


def raw_table(data, handles):
    """A table of these bytes as its data blocks, with an index block of these handles."""
    index = block([(b"%08d" % i, varint(a) + varint(b)) for i, (a, b) in enumerate(handles)])
    handle = varint(len(data)) + varint(len(index) - 5)
    footer = (handle + handle).ljust(40, b"\0")
    return data + index + footer + tf_checkpoint.MAGIC.to_bytes(8, "little")


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
    "truncated: 'model/ln_f/g'": [HEADER, (G, entry(offset=2**63, size=16))],
    "in 12 bytes": [HEADER, (G, entry(size=12))],
    "shape [18446744073709551615]": [HEADER, (G, entry(shape=[2**64 - 1]))],
    "slices": [HEADER, (G, entry(more=field(7, b"")))],
    "overlap": [HEADER, (b"model/ln_f/b", entry(offset=4)), (G, entry())],
    "mean the same": [HEADER, (b"model/ln_f/g", entry()), (b"model/ln_f/w", entry(offset=16))],
    "big-endian": [(b"", field(1, 1) + field(2, 1)), (G, entry())],
    "in one file": [(b"", field(1, 2)), (G, entry())],
    "file 1 of 1": [HEADER, (G, entry(shard=1))],
    "order": [HEADER, (G, entry()), (G, entry(offset=16))],
    "damaged": [(b"", b"\x0b"), (G, entry())],
    "index": [(G, entry())],
    "damaged one": [HEADER, (b"\xff", entry())],
}


@pytest.mark.parametrize("said", ODD)
def test_an_index_that_cannot_be_right(folder, said):
    (folder / INDEX).write_bytes(table(ODD[said]))
    assert said in refusal(tf_checkpoint.read_table, folder / INDEX)


def test_a_compressed_table(folder):
    (folder / INDEX).write_bytes(table([HEADER, (G, entry())], compression=b"\1"))
    assert "compressed" in refusal(tf_checkpoint.read_table, folder / INDEX)


def test_other_tensors_may_be_there_but_are_no_gpt2(folder):
    """Such as a counter of steps; it is refused by name, not by its type."""
    (folder / INDEX).write_bytes(
        table([HEADER, (b"global_step", entry(dtype=9, shape=(), size=8)), (G, entry(offset=8))])
    )
    found = tf_checkpoint.read_table(folder / INDEX)
    assert found["ln_f.weight"].shape == (4,)
    with pytest.raises(utils.InputError, match="type 9; expected"):
        found["global_step.weight"].read(np.float32)


@pytest.mark.parametrize("dtype, code", [("float16", 19), ("float64", 2), ("bfloat16", 14)])
def test_dtypes(folder, dtype, code):
    expected = np.float32([1, -0.5, 0.25, 3])
    stored = edits.DTYPES[dtype](expected)
    (folder / DATA).write_bytes(stored.tobytes())
    (folder / INDEX).write_bytes(table([HEADER, (G, entry(dtype=code, size=stored.nbytes))]))
    found = tf_checkpoint.read_table(folder / INDEX)["ln_f.weight"].read(np.float32)
    np.testing.assert_array_equal(found, expected, strict=True)


# ---------------------------------------------------------------- small files that claim much


def peak_memory(function, *args):
    """(the most memory in use meanwhile, the message of the ValueError that it must raise)."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError) as refused:
            function(*args)
        return tracemalloc.get_traced_memory()[1], str(refused.value)
    finally:
        tracemalloc.stop()


def test_keys_that_grow_by_their_prefix():
    """Each key is the one before and a byte more: n entries of 5 bytes hold n^2 / 2 bytes."""
    body = b"".join(varint(n) + varint(1) + varint(0) + b"a" for n in range(4000))
    raw = raw_table(closed(body), [(0, len(body) + 8)])
    peak, said = peak_memory(tf_checkpoint.read_entries, raw)
    assert "a key of 1001 bytes" in said and peak < 2_000_000


def test_many_handles_to_one_block():
    """Each would be read and kept."""
    data = block([(b"%06d" % i, b"") for i in range(300)])
    raw = raw_table(data, [(0, len(data) - 5)] * 1000)
    peak, said = peak_memory(tf_checkpoint.read_entries, raw)
    assert "overlap" in said and peak < 2_000_000


def test_more_entries_than_any_model_has_tensors(monkeypatch):
    monkeypatch.setattr(tf_checkpoint, "MOST_ENTRIES", 50)
    one = block([(b"%06d" % i, b"") for i in range(51)])
    two = [block([(b"%d%05d" % (n, i), b"") for i in range(30)]) for n in range(2)]
    for data, handles in (
        (one, [(0, len(one) - 5)]),
        (b"".join(two), [(0, len(two[0]) - 5), (len(two[0]), len(two[1]) - 5)]),
    ):
        with pytest.raises(ValueError, match="more than 50"):
            tf_checkpoint.read_entries(raw_table(data, handles))
    layers = Config(50257, 1024, 768, 12, folder_module.MOST_LAYERS)
    monkeypatch.undo()
    assert len(layers.shapes()) < tf_checkpoint.MOST_ENTRIES


def test_a_shape_whose_product_is_huge(folder):
    (folder / INDEX).write_bytes(table([HEADER, (G, entry(shape=[2**60] * 100_000))]))
    with pytest.raises(utils.InputError, match="100000 axes"):
        tf_checkpoint.read_table(folder / INDEX)


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
    found = checkpoints.open_weights(tmp_path / "124M", checkpoints.read_config(tmp_path / "124M"))
    assert len(found) == 148 and {tensor.dtype for tensor in found.values()} == {"float32"}
    assert {name: tensor.shape for name, tensor in found.items()} == utils.SIZES["124M"].shapes()
    end = 0
    for tensor in sorted(found.values(), key=lambda tensor: tensor.offset):
        assert tensor.offset == end
        end += 4 * int(np.prod(tensor.shape))
    assert end == 497_759_232
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
@pytest.mark.elsewhere
@needs_tensorflow
def test_tensorflow_writes_the_fixture_again(tmp_path):
    write_with_tensorflow(tmp_path / "again", TENSORS)
    for name in (INDEX, DATA):
        assert (tmp_path / "again" / name).read_bytes() == (FOLDER / name).read_bytes()


@pytest.mark.oracle
@pytest.mark.parametrize(
    "writer",
    [
        pytest.param("tensorflow", marks=[needs_tensorflow, pytest.mark.elsewhere]),
        "transformers",
        "transformers, in shards",
    ],
)
def test_what_others_write_is_what_transformers_computes(tmp_path, writer):
    """124M's heads of 64 and vocabulary, with fewer and narrower blocks."""
    for library in ("torch", "transformers", "safetensors"):
        pytest.importorskip(library)
    config, folder = Config(50257, 32, 128, 2, 3), tmp_path / "model"
    read = recipe(config)
    theirs = reference(config, read, np.float32)
    if writer == "tensorflow":
        write_with_tensorflow(folder, {name: read(name) for name in config.shapes()})
        shape = {name: value for name, value in vars(config).items() if name != "epsilon"}
        (folder / "hparams.json").write_text(json.dumps(shape))
    else:
        theirs.save_pretrained(folder, max_shard_size="2MB" if "shards" in writer else "1GB")
        assert (len(list(folder.glob("*.safetensors"))) > 1) == ("shards" in writer)
    model = utils.load_model(folder, NUMPY)
    assert model.config == config
    for tensor in checkpoints.open_weights(folder, config).values():
        tensor.verify()
    ids = np.random.default_rng(0).integers(config.n_vocab, size=20).tolist()
    expected = reference_logits(theirs, [ids])[0]
    assert abs(model.read(ids, model.new_cache(), n_last=20) - expected).max() <= 1e-4
