"""A checkpoint folder: its files, shape and tensors, and what is said where one is wrong."""

import json
import os
import re
import shutil
import tracemalloc

import numpy as np
import pytest
from edits import (
    DTYPES,
    EXPECTED,
    HUGGING_FACE,
    OPENAI,
    SMALL,
    TENSORS,
    edit_header,
    edit_json,
    logits,
    without,
)
from make_tf_fixture import FOLDER as TF
from make_tf_fixture import SHAPE
from toys import NUMPY, load_model, random_tensors, refusal, write_checkpoint, write_shards

import utils
from checkpoints.folder import NUMBERS, open_weights, problem_with, weights_files
from gpt2 import Config

SHARDS_INDEX, INDEX = "model.safetensors.index.json", "model.ckpt.index"
DATA = "model.ckpt.data-00000-of-00001"


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "model", SMALL)


@pytest.mark.parametrize("files", [HUGGING_FACE, OPENAI])
def test_a_missing_file(tmp_path, files):
    for missing in (*files, "model.safetensors"):
        folder = write_checkpoint(tmp_path / "model", SMALL, TENSORS, files)
        (folder / missing).unlink()
        message = refusal(utils.load_models, [str(folder)], tmp_path, NUMPY)
        assert str(folder) in message and missing in message


@pytest.mark.parametrize("raw", [b"", b"[]", b"{\n'n_ctx': 6}", b"\xff\xfe\0", b"[" * 100_000])
@pytest.mark.parametrize("name", ["config.json", "vocab.json"])
def test_json_that_is_none(folder, name, raw):
    (folder / name).write_bytes(raw)
    assert str(folder / name) in refusal(utils.load_models, [str(folder)], folder, NUMPY)


@pytest.mark.parametrize("name", ["config.json", "merges.txt", "model.safetensors"])
def test_a_file_that_cannot_be_read_is_named(folder, name):
    """On a bad disk, say: reading fails, and the error of the system names no file."""
    if not os.path.exists("/proc/self/mem"):
        pytest.skip("no /proc/self/mem, whose first bytes cannot be read")
    (folder / name).unlink()
    (folder / name).symlink_to("/proc/self/mem")
    with pytest.raises(OSError) as failed:
        utils.load_models([str(folder)], folder, NUMPY)
    assert failed.value.filename == str(folder / name)


@pytest.mark.parametrize("name", [
    "config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json",
    "added_tokens.json", "vocab.json", "merges.txt", "checkpoint", "model.safetensors.index.json",
])  # fmt: skip
def test_a_small_file_that_is_huge_is_not_read(folder, name):
    if name in ("checkpoint", "model.safetensors.index.json"):
        (folder / "model.safetensors").unlink()
    with (folder / name).open("wb") as file:
        file.truncate(3 << 30)  # without content: it takes no space
    tracemalloc.start()
    message = refusal(utils.load_models, [str(folder)], folder, NUMPY)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert message.startswith(f"{folder / name}: has more than ") and peak < 100e6


# ---------------------------------------------------------------- the shape


@pytest.mark.parametrize("name", NUMBERS)
def test_a_config_number_that_is_none(folder, name):
    path, least = folder / "config.json", 2 if name in ("n_vocab", "n_embd") else 1
    config = json.loads(path.read_text())
    # 10^9: a billion layers are not counted first
    for value in (None, least - 1, -1, 2.0, "2", False, [2], 10**9, float("nan")):
        path.write_text(json.dumps(config | {name: value}))
        message = refusal(load_model, folder)
        assert str(path) in message and f"{name} is {value!r}" in message


@pytest.mark.parametrize("name, value", [
    ("n_embd", 9), ("model_type", []), ("activation_function", None), ("n_inner", [32]),
    ("scale_attn_weights", 2), ("layer_norm_epsilon", 0), ("layer_norm_epsilon", "1"),
    ("layer_norm_epsilon", float("nan")),
])  # fmt: skip
def test_a_config_of_another_model(folder, name, value):
    edit_json(folder / "config.json", lambda config: config | {name: value})
    message = refusal(load_model, folder)
    assert str(folder / "config.json") in message and name in message


# ---------------------------------------------------------------- tensors

WTE = TENSORS["wte.weight"]
WRONG_TENSORS = {  # what the message names: what is stored instead
    "ln_f.bias": {"ln_f.bias": TENSORS["ln_f.bias"][1:]},
    "h.1.ln_2.weight": {"h.1.ln_2.weight": TENSORS["h.1.ln_2.weight"][None]},
    "h.2.ln_1.weight": {"h.2.ln_1.weight": np.ones(8, np.float32)},
    # no last one wins in silence
    "with and without 'transformer.'": {"transformer.wte.weight": WTE},
    "lacks the tensor wpe.weight": {"wpe.weight": None},
}


@pytest.mark.parametrize("named", WRONG_TENSORS)
def test_tensors_that_do_not_match_the_config(tmp_path, named):
    stored = TENSORS | WRONG_TENSORS[named]
    there = {name: array for name, array in stored.items() if array is not None}
    folder = write_checkpoint(tmp_path / "model", SMALL, there)
    message = refusal(load_model, folder)
    assert str(folder / "model.safetensors") in message and named in message


@pytest.mark.parametrize("head", DTYPES)
@pytest.mark.parametrize("wte", DTYPES)
def test_the_head_must_hold_the_same_numbers_however_it_is_stored(tmp_path, wte, head):
    tensors = TENSORS | {"wte.weight": DTYPES[wte](WTE), "lm_head.weight": DTYPES[head](WTE)}
    folder = write_checkpoint(tmp_path / "same", SMALL, tensors)
    np.testing.assert_array_equal(logits(load_model(folder)), EXPECTED)
    last = WTE.copy()
    last[-1, -1] += 1 / 128
    tensors["lm_head.weight"] = DTYPES[head](last)
    folder = write_checkpoint(tmp_path / "other", SMALL, tensors)
    assert "lm_head.weight differs" in refusal(load_model, folder)


@pytest.mark.parametrize("missing", ["wte.weight", "h.0.ln_1.bias", "h.1.mlp.c_fc.weight"])
def test_a_tensor_that_is_missing_from_the_header_is_not_blamed_on_the_next(folder, missing):
    """Its bytes are still there."""
    edit_header(folder / "model.safetensors", without(missing))
    message = refusal(load_model, folder)
    assert re.search(r"tensors do not fill it from byte \d+", message)
    assert not any(name in message for name in TENSORS)


# ---------------------------------------------------------------- every damage, in both formats


def require_right(folder, config, tensors):
    """Raises ValueError unless the tensors can be read; they are right."""
    found = open_weights(folder, config)
    assert list(found) == list(tensors)
    for name, tensor in found.items():
        np.testing.assert_array_equal(tensor.read(np.float32), tensors[name], strict=True)


@pytest.mark.parametrize("name", ["model.safetensors", INDEX])
def test_every_byte_of_a_header_changed_and_cut_off(tmp_path, name):
    """What may differ and still load is what nobody reads, such as metadata."""
    rng, config = np.random.default_rng(0), Config(**SHAPE)
    tensors = random_tensors(config)
    folder = write_checkpoint(tmp_path / "model", config, tensors) if "safe" in name else TF
    folder = shutil.copytree(folder, tmp_path / "copy")
    raw, n_refused = (folder / name).read_bytes(), 0
    require_right(folder, config, tensors)
    end = len(raw) if name == INDEX else 8 + int.from_bytes(raw[:8], "little")
    with (folder / name).open("r+b", buffering=0) as file:
        for i in reversed(range(end)):
            # a digit becomes another, a name ends, a byte is no UTF-8, or anything
            byte = rng.choice([raw[i] ^ 1, ord('"'), 255, rng.integers(256)])
            file.seek(i)
            file.write(bytes([byte]) + raw[i + 1 :])
            try:
                require_right(folder, config, tensors)
            except ValueError as error:
                assert str(folder) in str(error) and "\n" not in str(error)
                n_refused += 1
            file.truncate(i)
            refusal(require_right, folder, config, tensors)
    assert n_refused > end // 2


def test_a_byte_too_few_or_too_many(tmp_path):
    folder, config = shutil.copytree(TF, tmp_path / "model"), Config(**SHAPE)
    path, raw = folder / DATA, (TF / DATA).read_bytes()
    for wrong in (raw[:-1], raw + b"0"):
        path.write_bytes(wrong)
        assert str(path) in refusal(open_weights, folder, config)
    path.unlink()
    assert f"has no {DATA}" in refusal(open_weights, folder, config)


# ---------------------------------------------------------------- several files


@pytest.fixture
def sharded(folder):
    write_shards(folder, TENSORS)
    (folder / "model.safetensors").unlink()
    return folder


SHARDS = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]


def test_a_model_in_several_files(sharded):
    assert problem_with(sharded) == ""
    assert [path.name for path in weights_files(sharded)] == SHARDS
    np.testing.assert_array_equal(logits(load_model(sharded)), EXPECTED)
    (sharded / SHARDS[2]).unlink()
    (sharded / SHARDS[1]).unlink()
    assert problem_with(sharded).endswith(f"{SHARDS[1]}: is missing")  # the first
    assert SHARDS[1] in refusal(load_model, sharded)


def test_a_tensor_that_two_shards_have_is_refused(sharded):
    """No file says which of the two counts."""
    index, other = sharded / SHARDS_INDEX, sharded / "other.safetensors"
    shutil.copy(sharded / SHARDS[0], other)
    files = json.loads(index.read_text())["weight_map"] | {"some tensor": other.name}
    index.write_text(json.dumps({"weight_map": files}))
    message = refusal(load_model, sharded)
    assert message.startswith(f"{other}: has ") and "has, too" in message


def test_an_index_of_too_many_shards(sharded):
    names = {f"{i}": f"{i}.safetensors" for i in range(1001)}
    (sharded / SHARDS_INDEX).write_text(json.dumps({"weight_map": names}))
    assert refusal(weights_files, sharded).startswith(f"{sharded / SHARDS_INDEX}: expected the")


def test_all_files_of_the_weights_are_known(folder):
    assert weights_files(folder) == [folder / "model.safetensors"]
    for path in TF.glob("model.ckpt.*"):  # which come second
        shutil.copy(path, folder)
    assert weights_files(folder) == [folder / "model.safetensors"]
    (folder / "model.safetensors").unlink()
    assert weights_files(folder) == sorted(folder.glob("model.ckpt.*"), reverse=True)


@pytest.mark.parametrize("file", [
    None, 3, "pytorch_model.bin", "/etc/x.safetensors", "..\\x.safetensors",
    "x" * 300 + ".safetensors", SHARDS[1],
])  # fmt: skip
def test_an_index_of_shards_that_is_wrong(sharded, file):
    for index in ({"weight_map": {"wte.weight": file} if file else {}}, {"weight_map": file}):
        (sharded / SHARDS_INDEX).write_text(json.dumps(index))
        assert str(sharded) in refusal(load_model, sharded)
