"""Small models, tokenizers and helpers that the tests share."""

import dataclasses
import json

import numpy as np
import pytest

from backends.backend import get_backend
from checkpoints.folder import read_config
from decoding import random_models
from encoder import END_OF_TEXT, byte_symbols
from gpt2 import Config
from utils import build_model, stored_weights

TINY = Config(n_vocab=259, n_ctx=24, n_embd=16, n_head=2, n_layer=2)
# NumPy's own products, on one thread
NUMPY = dataclasses.replace(
    get_backend(), lay_out=np.asarray, run_on_threads=lambda function, n, size: function(0, n)
)


def tiny_model(seed=0, config=TINY, dtype=np.float64, scale=0.3):
    """A model with random weights large enough that its predictions are far from uniform."""
    return random_models.random_model(config, NUMPY, dtype=dtype, seed=seed, scale=scale)


def load_model(folder):
    """The model in a checkpoint folder, whose tokenizer is not looked at."""
    config = read_config(folder)
    return build_model(config, stored_weights(folder, config), NUMPY)


def renumbered(symbols):
    return {symbol: i for i, symbol in enumerate(symbols)}


def tokens_of(rounds):
    """The text that rounds make up, as a tuple."""
    return tuple(token for one in rounds for token in one.tokens)


def refusal(function, *args):
    """The message of the ValueError that function(*args) must raise: one line."""
    with pytest.raises(ValueError) as refused:
        function(*args)
    message = str(refused.value)
    assert message and "\n" not in message
    return message


def tiny_vocabulary():
    """(vocabulary, merges) of 259 tokens: the bytes, two merges, <|endoftext|>."""
    merges = [("t", "h"), ("th", "e")]
    symbols = [*sorted(byte_symbols()), *("".join(pair) for pair in merges), END_OF_TEXT]
    return renumbered(symbols), merges


def random_tensors(config, seed=0, dtype=np.float32):
    """{name: array} for every parameter of a model."""
    rng = np.random.default_rng(seed)
    return {
        name: (0.1 * rng.standard_normal(shape)).astype(dtype)
        for name, shape in config.shapes().items()
    }


def write_safetensors(path, tensors):
    """Store {name: array} by the format's description; uint16 arrays are stored as bfloat16."""
    codes = {"float64": "F64", "float32": "F32", "float16": "F16", "uint16": "BF16"}
    header, start = {"__metadata__": {"format": "pt"}}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": codes[array.dtype.name], "shape": list(array.shape)}
        end = start + array.nbytes
        header[name]["data_offsets"], start = [start, end], end
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.writelines([len(text).to_bytes(8, "little"), text])
        file.writelines(array.tobytes() for array in tensors.values())


def write_shards(folder, tensors, n=3):
    """Store {name: array} in several files and their index; returns the files' names."""
    where = {name: f"model-{1 + i % n:05}-of-{n:05}.safetensors" for i, name in enumerate(tensors)}
    files = sorted({*where.values()})
    for file in files:
        own = {name: tensors[name] for name in tensors if where[name] == file}
        write_safetensors(folder / file, own)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": where})
    )
    return files


def write_checkpoint(
    folder, config=TINY, tensors=None, names=("config.json", "vocab.json", "merges.txt")
):
    """A whole checkpoint folder, with Hugging Face's file names or other `names`, say OpenAI's."""
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", tensors or random_tensors(config))
    shape = {name: value for name, value in vars(config).items() if name != "epsilon"}
    vocabulary, merges = tiny_vocabulary()
    (folder / names[0]).write_text(json.dumps(shape))
    (folder / names[1]).write_text(json.dumps(vocabulary))
    (folder / names[2]).write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    return folder


def write_pair(folder, config, target=None):
    """A models folder: a target 17M, a draft that often agrees with it, one with other words."""
    target = target or {name: 3 * x for name, x in random_tensors(config, 1).items()}
    draft = {name: target[name] + noise for name, noise in random_tensors(config, 2).items()}
    write_checkpoint(folder / "17M", config, target)
    write_checkpoint(folder / "0.7M-17M", config, draft)
    path = write_checkpoint(folder / "other words", config) / "vocab.json"
    vocabulary = json.loads(path.read_text())
    path.write_text(json.dumps(vocabulary | {"a": vocabulary["b"], "b": vocabulary["a"]}))
    return folder
