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


NUMBERS = ["n_vocab", "n_ctx", "n_embd", "n_head", "n_layer"]


@pytest.mark.parametrize("name", NUMBERS)
def test_a_config_number_that_is_none(folder, name):
    path, least = folder / "config.json", 2 if name in ("n_vocab", "n_embd") else 1
    config = json.loads(path.read_text())
    # 10^9: a billion layers are not counted first
    for value in (None, least - 1, -1, 2.0, float("nan"), "2", False, [2], {}, 10**9):
        path.write_text(json.dumps(config | {name: value}))
        message = refusal(utils.load_model, folder, NUMPY)
        assert str(path) in message and f"{name} is {value!r}" in message
    path.write_text(json.dumps(without(name)(config)))
    assert name in refusal(utils.load_model, folder, NUMPY)


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
    assert str(folder / "config.json") in message and name in message


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{\n'n_ctx': 6}", b"\xff\xfe\0", b"[" * 100_000, b'{"a": 1, "a": 2}']
)
@pytest.mark.parametrize("name", ["config.json", "vocab.json"])
def test_json_that_is_none(folder, name, raw):
    (folder / name).write_bytes(raw)
    assert str(folder / name) in refusal(utils.load_models, [str(folder)], folder, NUMPY)


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
def test_two_names_that_mean_one_tensor(tmp_path, name):
    """With Hugging Face's prefix and without, in either order: no last one wins in silence."""
    tensor = TENSORS.get(name, TENSORS["wte.weight"])
    both = {name: tensor, f"transformer.{name}": tensor + np.float32(1)}
    for tensors in (TENSORS | both, dict(reversed(both.items())) | TENSORS | {name: tensor}):
        folder = write_checkpoint(tmp_path / "model", SMALL, tensors)
        message = refusal(utils.load_model, folder, NUMPY)
        assert f"'{name}'" in message and f"'transformer.{name}'" in message


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
    last[-1, -1] += 1 / 128
    tensors["lm_head.weight"] = DTYPES[head](last)
    folder = write_checkpoint(tmp_path / "other", SMALL, tensors)
    assert "lm_head.weight differs" in refusal(utils.load_model, folder, NUMPY)


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


def test_a_model_in_several_files(sharded, tmp_path):
    assert checkpoints.missing_files(sharded) == []
    found = checkpoints.open_weights(sharded, TINY)
    for name, array in random_tensors(TINY).items():
        np.testing.assert_array_equal(found[name].read(np.float32), array)
    names = [path.name for path in weights_files(sharded)]
    shards = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    assert names == ["model.safetensors.index.json", *shards]
    (sharded / shards[1]).unlink()
    assert checkpoints.missing_files(sharded) == [shards[1]]
    assert shards[1] in refusal(utils.load_model, sharded, NUMPY)


def test_all_files_of_the_weights_are_known(tmp_path):
    whole = write_checkpoint(tmp_path / "whole")
    assert weights_files(whole) == [whole / "model.safetensors"]
    (whole / "model.safetensors").unlink()
    assert "model.safetensors" in refusal(weights_files, whole)
    assert all(path.is_file() for path in weights_files(TF)) and len(weights_files(TF)) == 2


SHARD = "model-00001-of-00003.safetensors"


@pytest.mark.parametrize("file", [
    None, 3, "pytorch_model.bin", "/etc/x.safetensors", "..\\x.safetensors",
    "x" * 300 + ".safetensors", SHARD,
])  # fmt: skip
def test_an_index_of_shards_that_is_wrong(sharded, file):
    index = {"weight_map": {"wte.weight": file}} if file else {}
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index))
    assert str(sharded) in refusal(utils.load_model, sharded, NUMPY)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json"])
def test_a_pickle_is_never_opened(folder, name, monkeypatch):
    (folder / "model.safetensors").rename(folder / name)
    monkeypatch.setattr("pickle.load", None), monkeypatch.setattr("pickle.Unpickler", None)
    message = refusal(utils.load_model, folder, NUMPY)
    assert "is a pickle" in message and str(folder / name) in message


def test_a_folder_of_safetensors_comes_before_openais(folder):
    for path in TF.glob("model.ckpt.*"):
        shutil.copy(path, folder)
    assert weights_path(folder).name == "model.safetensors"
