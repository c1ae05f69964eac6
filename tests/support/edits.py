"""A small checkpoint folder: what it computes, ways to damage it, the command that examines it."""

import json

import numpy as np
import pytest
from toys import NUMPY

import utils
from gpt2 import Config

# 259: write_checkpoint's vocabulary
SMALL = Config(n_vocab=259, n_ctx=6, n_embd=8, n_head=2, n_layer=2)
SMALLEST = Config(n_vocab=3, n_ctx=2, n_embd=4, n_head=2, n_layer=1)
IDS = [0, 258, 17, 17]

HUGGING_FACE = ("config.json", "vocab.json", "merges.txt")
OPENAI = ("hparams.json", "encoder.json", "vocab.bpe")


@pytest.fixture
def check(program, tmp_path):
    """A function (*words) -> code, out, err of python main.py check."""
    return lambda *words: program("check", f"--models_dir={tmp_path}", *words)


def logits(model, ids=IDS):
    return model.read(ids, model.new_cache(), n_last=len(ids))


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


def with_entry(name, **changes):
    """An edit of a JSON object of objects: `changes` made to the one of that name."""
    return lambda header: header | {name: header.get(name, {}) | changes}


# multiples of 1/128 below 1/2: exact in every dtype, bfloat16 with its 8 significant bits included
RNG = np.random.default_rng(0)
TENSORS = {
    name: (RNG.integers(-63, 64, shape) / 128).astype(np.float32)
    for name, shape in SMALL.shapes().items()
}
EXPECTED = logits(utils.build_model(SMALL, TENSORS.__getitem__, NUMPY))

DTYPES = {
    "float64": lambda array: array.astype(np.float64),
    "float32": lambda array: array,
    "float16": lambda array: array.astype(np.float16),
    "bfloat16": lambda array: (array.view(np.uint32) >> 16).astype(np.uint16),
}
