"""What a checkpoint folder holds: its files, its shape, its tensors; and what is said where one of
them is wrong.
"""

import json
import shutil

import numpy as np
import pytest
from edits import DTYPES, EXPECTED, HUGGING_FACE, OPENAI, SMALL, TENSORS, edit_json, logits, without
from make_tf_fixture import FOLDER as TF
from toys import NUMPY, TINY, random_tensors, refusal, write_checkpoint, write_safetensors

import checkpoints
import utils
from checkpoints.folder import weights_files, weights_path
from checkpoints.formats import tensor as tensor_module
from checkpoints.formats.safetensors import read_table


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "model", SMALL)


@pytest.mark.parametrize(
    "files, missing, named",
    [
        (HUGGING_FACE, "model.safetensors", "model.safetensors"),
        (HUGGING_FACE, "config.json", "config.json or hparams.json"),
        (OPENAI, "hparams.json", "config.json or hparams.json"),
        (HUGGING_FACE, "vocab.json", "vocab.json or encoder.json"),
        (OPENAI, "encoder.json", "vocab.json or encoder.json"),
        (HUGGING_FACE, "merges.txt", "merges.txt or vocab.bpe"),
        (OPENAI, "vocab.bpe", "merges.txt or vocab.bpe"),
    ],
)
def test_a_missing_file(tmp_path, files, missing, named):
    folder = write_checkpoint(tmp_path / "model", SMALL, TENSORS, files)
    (folder / missing).unlink()
    message = refusal(utils.load_pair, str(folder), None, tmp_path, NUMPY)
    assert str(folder) in message and named in message


NUMBERS = ["n_vocab", "n_ctx", "n_embd", "n_head", "n_layer"]


@pytest.mark.parametrize("value", [None, 0, -1, 2.0, float("nan"), "2", False, [2], {}])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_config_number_that_is_none(folder, name, value):
    edit_json(folder / "config.json", lambda config: config | {name: value})
    message = refusal(utils.load_model, folder, NUMPY)
    assert str(folder / "config.json") in message and f"{name} is {value!r}" in message


@pytest.mark.parametrize("name", ["n_vocab", "n_embd"])
def test_a_matrix_of_one_column_is_no_model(folder, name):
    edit_json(folder / "config.json", lambda config: config | {name: 1, "n_head": 1})
    assert f"{name} is 1; expected a whole number, at least 2" in refusal(
        utils.load_model, folder, NUMPY
    )


@pytest.mark.parametrize("name", NUMBERS)
def test_a_config_number_out_of_all_bounds(folder, name):
    """A billion layers are not counted first."""
    edit_json(folder / "config.json", lambda config: config | {name: 10**9})
    assert f"{name} is 1000000000; that is no GPT-2" in refusal(utils.load_model, folder, NUMPY)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_config_without_one_of_its_numbers(folder, name):
    edit_json(folder / "config.json", without(name))
    message = refusal(utils.load_model, folder, NUMPY)
    assert str(folder / "config.json") in message and name in message


@pytest.mark.parametrize(
    "name, value",
    [
        ("n_head", 3),
        ("n_head", 16),
        ("model_type", "gpt_neo"),
        ("model_type", "a\nb"),
        ("model_type", []),
        ("activation_function", "gelu"),
        ("n_inner", 31),
        ("scale_attn_weights", False),
        ("scale_attn_by_inverse_layer_idx", True),
        ("tie_word_embeddings", False),
    ],
)
def test_a_config_of_another_model(folder, name, value):
    edit_json(folder / "config.json", lambda config: config | {name: value})
    message = refusal(utils.load_model, folder, NUMPY)
    assert (
        str(folder / "config.json") in message
        and name in message
        and str(value).splitlines()[0] in message
    )


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"17", b"{\n'n_ctx': 6}", b"\xff\xfe\0", "very deep"]
)
@pytest.mark.parametrize("name", ["config.json", "vocab.json"])
def test_json_that_is_none(folder, name, raw):
    (folder / name).write_bytes(b"[" * 100_000 if raw == "very deep" else raw)
    message = refusal(utils.load_pair, str(folder), None, folder, NUMPY)
    assert str(folder / name) in message and "JSON" in message


CONFIG_JSON = {  # Hugging Face's for GPT-2, as far as it bears on the numbers
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 6,
    "n_embd": 8,
    "n_head": 2,
    "n_inner": None,
    "n_layer": 2,
    "n_positions": 6,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "tie_word_embeddings": True,
    "vocab_size": 259,
}


@pytest.mark.parametrize("name", ["config.json", "hparams.json"])
@pytest.mark.parametrize(
    "values",
    [
        CONFIG_JSON,
        # as newer versions write it
        {name: value for name, value in CONFIG_JSON.items() if name != "n_ctx"},
        CONFIG_JSON | {"activation_function": "gelu_pytorch_tanh", "n_inner": 32},
        {"n_vocab": 259, "n_ctx": 6, "n_embd": 8, "n_head": 2, "n_layer": 2},
    ],
    ids=["hugging face", "without n_ctx", "spelled out", "openai"],
)
def test_both_spellings_of_the_config(tmp_path, name, values):
    (tmp_path / name).write_text(json.dumps(values))
    assert utils.read_config(tmp_path) == SMALL


def test_the_epsilon_of_the_config_is_used(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG_JSON | {"layer_norm_epsilon": 0.25}))
    assert utils.read_config(tmp_path).epsilon == 0.25


# ---------------------------------------------------------------- tensors


def replaced(name, change):
    return lambda tensors: tensors | {name: change(tensors.get(name))}


WRONG_TENSORS = {  # what the message names: how to get there
    "ln_f.bias": replaced("ln_f.bias", lambda bias: bias[1:]),
    "h.1.mlp.c_fc.weight": replaced("h.1.mlp.c_fc.weight", lambda weight: weight.T),
    "h.1.ln_2.weight": replaced("h.1.ln_2.weight", lambda weight: weight[None]),
    "wpe.weight": without("wpe.weight"),
    "h.1.attn.c_proj.bias": without("h.1.attn.c_proj.bias"),
    "h.2.ln_1.weight": replaced("h.2.ln_1.weight", lambda _: np.ones(8, np.float32)),
    "score.weight": replaced("score.weight", lambda _: np.ones(8, np.float32)),
    "lm_head.weight differs": lambda tensors: (
        tensors | {"lm_head.weight": tensors["wte.weight"] + np.float32(1)}
    ),
    "lm_head.weight has shape": lambda tensors: (
        tensors | {"lm_head.weight": tensors["wte.weight"][:-1]}
    ),
}


@pytest.mark.parametrize("named", WRONG_TENSORS)
def test_tensors_that_do_not_match_the_config(tmp_path, named):
    folder = write_checkpoint(tmp_path / "model", SMALL, WRONG_TENSORS[named](TENSORS))
    message = refusal(utils.load_model, folder, NUMPY)
    assert str(folder / "model.safetensors") in message and named in message


@pytest.mark.parametrize("name", ["wte.weight", "h.1.ln_2.bias", "lm_head.weight"])
@pytest.mark.parametrize("first", ["", "transformer."])
def test_two_names_that_mean_one_tensor(tmp_path, name, first):
    """With Hugging Face's prefix and without: the last one must not win in silence."""
    tensor = TENSORS.get(name, TENSORS["wte.weight"])
    both = {f"{first}{name}": tensor, name: tensor, f"transformer.{name}": tensor + np.float32(1)}
    others = {other: array for other, array in TENSORS.items() if other != name}
    folder = write_checkpoint(tmp_path / "model", SMALL, others | both)
    message = refusal(utils.load_model, folder, NUMPY)
    assert f"both '{name}' and 'transformer.{name}'" in message


@pytest.mark.parametrize("head", DTYPES)
@pytest.mark.parametrize("wte", DTYPES)
def test_the_head_must_hold_the_same_numbers_however_it_is_stored(tmp_path, wte, head):
    """TENSORS are exact in every dtype."""
    tensors = TENSORS | {
        "wte.weight": DTYPES[wte](TENSORS["wte.weight"]),
        "lm_head.weight": DTYPES[head](TENSORS["wte.weight"]),
    }
    folder = write_checkpoint(tmp_path / "same", SMALL, tensors)
    np.testing.assert_array_equal(logits(utils.load_model(folder, NUMPY)), EXPECTED)
    last = TENSORS["wte.weight"].copy()
    last[-1, -1] += 1 / 128  # in the last block of rows
    tensors["lm_head.weight"] = DTYPES[head](last)
    folder = write_checkpoint(tmp_path / "other", SMALL, tensors)
    assert "lm_head.weight differs" in refusal(utils.load_model, folder, NUMPY)


def test_the_head_is_compared_in_every_block_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_module, "ROWS", 7)
    for row in range(SMALL.n_vocab):
        a, b = np.zeros((2, SMALL.n_vocab, 2), np.float32)
        write_safetensors(tmp_path / "x", {"a": a, "b": b})
        table = read_table(tmp_path / "x")
        assert tensor_module.same_numbers(table["a"], table["b"])
        b[row, 1] = 1
        write_safetensors(tmp_path / "x", {"a": a, "b": b})
        table = read_table(tmp_path / "x")
        assert not tensor_module.same_numbers(table["a"], table["b"])


@pytest.mark.parametrize("name", ["config.json", "vocab.json"])
def test_json_with_a_name_twice(folder, name):
    raw = (folder / name).read_bytes()
    (folder / name).write_bytes(raw[:1] + b'"n_ctx": 1, "a": 1, "n_ctx": 2, "a": 2,' + raw[1:])
    message = refusal(utils.load_pair, str(folder), None, folder, NUMPY)
    assert str(folder / name) in message and "is in it twice" in message


def test_control_characters_of_a_file_are_escaped(tmp_path):
    """A damaged file must not move the cursor or ring the bell of whoever reads the error."""
    odd = "x\x1b[31m\a\u202e\r"
    folder = write_checkpoint(tmp_path / "model", SMALL, TENSORS | {odd: TENSORS["wpe.weight"]})
    assert refusal(utils.load_model, folder, NUMPY).isprintable()
    edit_json(folder / "config.json", lambda config: config | {"model_type": odd})
    assert refusal(utils.load_model, folder, NUMPY).isprintable()
    assert str(utils.InputError("a\nb\x00\udc80é 日")) == "a\\nb\\x00\\udc80é 日"


# ---------------------------------------------------------------- several files, and pickles


@pytest.fixture
def sharded(folder):
    tensors = random_tensors(TINY)
    where = {name: f"model-0000{1 + i % 3}-of-00003.safetensors" for i, name in enumerate(tensors)}
    for file in set(where.values()):
        write_safetensors(
            folder / file, {name: tensors[name] for name in tensors if where[name] == file}
        )
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 1}, "weight_map": where})
    )
    (folder / "model.safetensors").unlink()
    return folder


def test_a_model_in_several_files(sharded):
    assert checkpoints.missing_files(sharded) == []
    found = checkpoints.open_weights(sharded, TINY)
    for name, array in random_tensors(TINY).items():
        np.testing.assert_array_equal(found[name].read(np.float32), array)


def test_all_files_of_the_weights_are_known(sharded, tmp_path):
    names = [path.name for path in weights_files(sharded)]
    shards = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    assert names == ["model.safetensors.index.json", *shards]
    whole = write_checkpoint(tmp_path / "whole")
    assert weights_files(whole) == [whole / "model.safetensors"]
    (whole / "model.safetensors").unlink()
    assert "model.safetensors" in refusal(weights_files, whole)
    assert all(path.is_file() for path in weights_files(TF)) and len(weights_files(TF)) == 2


def test_a_shard_that_is_missing(sharded):
    (sharded / "model-00002-of-00003.safetensors").unlink()
    assert checkpoints.missing_files(sharded) == ["model-00002-of-00003.safetensors"]
    with pytest.raises(utils.InputError, match="model-00002-of-00003.safetensors: is missing"):
        utils.load_model(sharded, NUMPY)


SHARD = "model-00001-of-00003.safetensors"


@pytest.mark.parametrize("index, said", [
    ({}, "expected a weight_map"),
    ({"weight_map": ["a.safetensors"]}, "expected a weight_map"),
    ({"weight_map": {"wte.weight": 3}}, "expected a weight_map"),
    ({"weight_map": {"wte.weight": "pytorch_model.bin"}}, "expected a weight_map"),
    ({"weight_map": {"wte.weight": "/etc/x.safetensors"}}, "expected a weight_map"),
    ({"weight_map": {"wte.weight": "..\\x.safetensors"}}, "expected a weight_map"),
    ({"weight_map": {"wte.weight": "x" * 300 + ".safetensors"}}, "expected a weight_map"),
    ({"weight_map": {"wte.weight": SHARD}}, "does not hold the tensors"),
])  # fmt: skip
def test_an_index_of_shards_that_is_wrong(sharded, index, said):
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(utils.InputError, match=said):
        utils.load_model(sharded, NUMPY)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json"])
def test_a_pickle_is_never_opened(folder, name, monkeypatch):
    (folder / "model.safetensors").rename(folder / name)
    monkeypatch.setattr("pickle.load", None), monkeypatch.setattr("pickle.Unpickler", None)
    with pytest.raises(utils.InputError, match="is a pickle, .*; convert it") as refused:
        utils.load_model(folder, NUMPY)
    assert "\n" not in str(refused.value) and str(folder / name) in str(refused.value)


def test_a_folder_of_safetensors_comes_before_openais(folder):
    for path in TF.glob("model.ckpt.*"):
        shutil.copy(path, folder)
    assert weights_path(folder).name == "model.safetensors"
