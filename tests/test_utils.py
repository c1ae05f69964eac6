"""Checkpoint folders: every way of storing the same model loads as the same model, and every damage
is one clear line.

Files are written by toys.py from the description of the format, and compared with the safetensors
library's own.
"""

import dataclasses
import json
import os
import sys

import numpy as np
import pytest
import toys
from toys import (
    NUMPY,
    random_tensors,
    refusal,
    tiny_vocabulary,
    write_checkpoint,
    write_safetensors,
)

import utils
from checkpoints.formats.safetensors import read_table
from encoder import Encoder
from gpt2 import Config

# 259: write_checkpoint's vocabulary
SMALL = Config(n_vocab=259, n_ctx=6, n_embd=8, n_head=2, n_layer=2)
SMALLEST = Config(n_vocab=3, n_ctx=2, n_embd=4, n_head=2, n_layer=1)
IDS = [0, 258, 17, 17]

HUGGING_FACE = ("config.json", "vocab.json", "merges.txt")
OPENAI = ("hparams.json", "encoder.json", "vocab.bpe")


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "model", SMALL)


def logits(model):
    return model.read(IDS, model.new_cache(), n_last=len(IDS))


def edit_json(path, edit):
    """Store edit(value), or its bytes, instead of the JSON value in a file."""
    value = edit(json.loads(path.read_bytes()))
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())


def edit_header(path, edit):
    """The same with the header of a safetensors file."""
    raw = path.read_bytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    header = edit(json.loads(raw[8:end]))
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + raw[end:])


def without(name):
    return lambda values: {other: value for other, value in values.items() if other != name}


def with_new_entry(name, **entry):
    return lambda header: header | {name: entry}


def with_entry(name, **changes):
    """An edit of a JSON object of objects: `changes` made to the one of that name."""
    return lambda header: header | {name: header.get(name, {}) | changes}


# ---------------------------------------------------------------- one model, stored in many ways


def simple_tensors(config):
    """Multiples of 1/128 below 1/2: exact in every dtype, bfloat16 with its 8 significant bits
    included.
    """
    rng = np.random.default_rng(0)
    return {
        name: (rng.integers(-63, 64, shape) / 128).astype(np.float32)
        for name, shape in config.shapes().items()
    }


TENSORS = simple_tensors(SMALL)
EXPECTED = logits(utils.build_model(SMALL, TENSORS.__getitem__, NUMPY, np.float32))

DTYPES = {
    "float64": lambda array: array.astype(np.float64),
    "float32": lambda array: array,
    "float16": lambda array: array.astype(np.float16),
    "bfloat16": lambda array: (array.view(np.uint32) >> 16).astype(np.uint16),
}


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


# ---------------------------------------------------------------- what a loaded model is made of


def leaves(tree):
    for branch in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(branch, (dict, list)):
            yield from leaves(branch)
        else:
            yield branch


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_dtype_throughout(folder, dtype):
    """One float64 constant would turn the whole residual stream, and cost a factor of four, in
    silence.
    """
    model = utils.load_model(folder, NUMPY, dtype)
    arrays = list(leaves(model.params))
    assert len(arrays) == len(SMALL.shapes()) + 1  # the head
    assert {array.dtype for array in arrays} == {np.dtype(dtype)}
    assert logits(model).dtype == model.new_cache().k.dtype == dtype


def test_embedding_and_head_are_one_array(folder):
    """154 MB of GPT-2 124M that need not exist twice."""
    params = utils.load_model(folder, NUMPY).params
    if not isinstance(params["head"], np.ndarray):
        pytest.skip("this backend keeps the head in a layout of its own")
    assert np.shares_memory(params["wte"], params["head"])


def test_random_models_are_reproducible():
    a, b, other = (
        logits(utils.random_model(SMALL, NUMPY, seed=seed, scale=0.3)) for seed in (1, 1, 2)
    )
    assert np.array_equal(a, b) and not np.allclose(a, other)


def test_random_layer_norms_scale_by_about_one():
    """By about nothing, and every random model would compute the same: little."""
    blocks = utils.random_model(SMALL, NUMPY).params["blocks"]
    assert all(
        np.abs(block[ln]["weight"] - 1).max() < 0.2 for block in blocks for ln in ("ln_1", "ln_2")
    )


# ---------------------------------------------------------------- damaged weights


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


# ---------------------------------------------------------------- missing files, and other ones


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


# ---------------------------------------------------------------- pairs


def test_a_vocabulary_of_another_size_than_the_model(tmp_path):
    folder = write_checkpoint(tmp_path / "model", Config(260, 6, 8, 2, 1))
    message = refusal(utils.load_pair, str(folder), None, tmp_path, NUMPY)
    assert str(folder) in message and "260" in message and "259" in message


def test_a_pair_that_fits(tmp_path):
    write_checkpoint(tmp_path / "large", SMALL, TENSORS)
    write_checkpoint(tmp_path / "little", Config(259, 4, 4, 1, 1), names=OPENAI)
    target, draft, encoder = utils.load_pair("large", str(tmp_path / "little"), tmp_path, NUMPY)
    assert (target.config, draft.config) == (SMALL, Config(259, 4, 4, 1, 1))
    assert encoder == Encoder(*tiny_vocabulary())
    np.testing.assert_array_equal(logits(target), EXPECTED)


@pytest.mark.parametrize("draft_size", [None, "ngram"])
def test_no_draft_model(folder, draft_size):
    target, draft, encoder = utils.load_pair(str(folder), draft_size, folder, NUMPY)
    assert target.config == SMALL and draft is None and encoder.n_vocab == 259


def swapped(vocabulary):
    return vocabulary | {"a": vocabulary["b"], "b": vocabulary["a"]}


@pytest.mark.parametrize(
    "name, edit",
    [
        ("vocab.json", lambda path: edit_json(path, swapped)),
        ("merges.txt", lambda path: path.write_text("t h\n")),
    ],
    ids=["ids", "merges"],
)
def test_draft_and_target_must_share_a_vocabulary(tmp_path, name, edit):
    """Of the same size, so that nothing else would notice: the text would merely be garbage."""
    write_checkpoint(tmp_path / "target", SMALL)
    edit(write_checkpoint(tmp_path / "draft", SMALL) / name)
    message = refusal(utils.load_pair, "target", "draft", tmp_path, NUMPY)
    assert "draft" in message and "target" in message and "vocabular" in message


# ---------------------------------------------------------------- sizes and backends


def test_a_model_is_found_by_name_and_by_path(folder):
    assert utils.find_folder(folder.name, folder.parent) == folder
    assert utils.find_folder(str(folder), folder.parent / "elsewhere") == folder


@pytest.mark.parametrize("size", ["125M", "", "no/such/folder", "two\nlines", "\0"])
def test_an_unknown_size_lists_what_is_there(folder, size):
    (folder.parent / "empty").mkdir()
    message = refusal(utils.find_folder, size, folder.parent)
    assert repr(size) in message and str(folder.parent) in message
    assert "there are model)" in message  # and not the empty folder


def test_an_unknown_size_where_there_are_no_models(tmp_path):
    assert "none" in refusal(utils.find_folder, "124M", tmp_path)


def test_an_unknown_backend():
    message = refusal(utils.get_backend, "torch")
    assert "'torch'" in message and "numpy" in message and "cupy" in message


@pytest.mark.parametrize(
    "kernels", ["", "fast", "64", "64x", "x2", "0x2", "64x0", "-64x2", "64x2x2", "64x2\n"]
)
def test_unknown_kernels(kernels):
    message = refusal(utils.get_backend, "numpy", kernels)
    assert repr(kernels) in message and "64x2" in message


def test_a_model_larger_than_the_memory(folder):
    def plan(config, dtype):
        raise MemoryError("the model needs 6.2 GB, 4.0 GB are free")

    message = refusal(utils.load_model, folder, dataclasses.replace(NUMPY, plan=plan))
    assert "6.2 GB" in message and "smaller model" in message


@pytest.fixture
def install_cupy(monkeypatch):
    """A function that puts something in CuPy's place, also for those who have CuPy."""

    def install(module):
        monkeypatch.setitem(sys.modules, "cupy", module)
        monkeypatch.delitem(sys.modules, "backends.gpu", raising=False)
        monkeypatch.delattr("backends.gpu", raising=False)

    return install


def test_cupy_that_is_not_installed(install_cupy):
    install_cupy(None)
    message = refusal(utils.get_backend, "cupy")
    assert "'cupy'" in message and "not installed" in message and "pip install" in message


def test_cupy_without_a_gpu(install_cupy):
    """A driver's error of several lines still becomes one."""

    class NoGPU:
        def __getattr__(self, name):
            return self

        def __call__(self):
            raise RuntimeError("cudaErrorNoDevice: no device\nis detected")

    install_cupy(NoGPU())
    message = refusal(utils.get_backend, "cupy")
    assert "cudaErrorNoDevice" in message and "--backend numpy" in message


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers(tmp_path, bad):
    tensors = random_tensors(toys.TINY)
    tensors["h.1.mlp.c_fc.weight"][3, 4] = bad
    folder = write_checkpoint(tmp_path / "bad", tensors=tensors)
    with pytest.raises(utils.InputError, match="h.1.mlp.c_fc.weight.*NaN or infinity"):
        utils.load_model(folder, NUMPY)
