"""What a checkpoint folder holds: which files, the shape of the model, its tensors.

Everything that cannot be used raises InputError.
"""

import re

import numpy as np

from checkpoints.errors import InputError
from checkpoints.files import first_of, read_json
from checkpoints.formats import safetensors
from checkpoints.registry import TF_DATA, TF_INDEX
from gpt2 import Config

SHARDS_INDEX = "model.safetensors.index.json"


def read_tf_checkpoint(path):
    """Imported when a folder holds that format: a plain run reads no code that it does not need."""
    from checkpoints.formats.tf_checkpoint import read_table

    return read_table(path)


WEIGHTS = {
    "model.safetensors": safetensors.read_table,
    SHARDS_INDEX: safetensors.read_sharded,
    TF_INDEX: read_tf_checkpoint,
}
PARTS = [
    ("config.json", "hparams.json"),
    ("vocab.json", "encoder.json"),
    ("merges.txt", "vocab.bpe"),
    tuple(WEIGHTS),
]
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
MASK = r"h\.\d+\.attn\.(masked_)?bias"  # Hugging Face's name of a causal mask

MAX_DIMENSION = 10**7
MAX_LAYERS = 1000
NUMBERS = {  # of gpt2.Config: Hugging Face's name, the least, the most
    "n_vocab": ("vocab_size", 2, MAX_DIMENSION),
    "n_ctx": ("n_positions", 1, MAX_DIMENSION),
    "n_embd": ("n_embd", 2, MAX_DIMENSION),  # a matrix of one column is no matrix
    "n_head": ("n_head", 1, MAX_DIMENSION),
    "n_layer": ("n_layer", 1, MAX_LAYERS),
}
GPT2 = {  # all that gpt2.py computes, where config.json says more than numbers
    "model_type": ["gpt2"],
    "activation_function": ["gelu_pytorch_tanh", "gelu_new"],
    "scale_attn_weights": [True],
    "scale_attn_by_inverse_layer_idx": [False],
    "tie_word_embeddings": [True],
}

# ---------------------------------------------------------------- which files


def missing_files(folder):
    """The files that a folder lacks, such as "config.json or hparams.json"; [] for none."""
    lacks = []
    for names in PARTS:
        if not any((folder / name).is_file() for name in names):
            lacks.append(" or ".join(names))
    there = [folder / name for name in WEIGHTS if (folder / name).is_file()]
    needed = other_weights_files(there[0]) if there else []
    return lacks + [path.name for path in needed if not path.is_file()]


def other_weights_files(path):
    """The Paths of the files with the weights, as a list, if `path` is only an index; else []."""
    if path.name == SHARDS_INDEX:
        return sorted({*safetensors.shards(path).values()})
    if path.name == TF_INDEX:
        return [path.with_name(TF_DATA)]
    return []


def weights_files(folder):
    """The Paths of a folder's weights as a list, first the file to open. Raises InputError."""
    there = [name for name in (*WEIGHTS, *PICKLES) if (folder / name).is_file()]
    if there and there[0] in PICKLES:
        raise InputError(
            f"{folder / there[0]} is a pickle, which can run any code when opened, so it never is; "
            "convert it where you trust it: transformers' GPT2LMHeadModel.from_pretrained(FOLDER)"
            ".save_pretrained(FOLDER) writes model.safetensors"
        )
    path = first_of(folder, *WEIGHTS)
    return [path, *other_weights_files(path)]


# ---------------------------------------------------------------- the shape


def read_config(folder):
    """The Config in hparams.json or config.json, one that gpt2.py can compute."""
    path = first_of(folder, "config.json", "hparams.json")
    values = read_json(path)
    shape = {}
    for name, (other, least, most) in NUMBERS.items():
        shape[name] = value = values.get(name, values.get(other))
        if type(value) is not int or not least <= value <= most:  # not isinstance: True is an int
            raise InputError(
                f"{path}: {name} is {value!r}; expected a whole number, {least} to {most}"
            )
    if shape["n_embd"] % shape["n_head"]:
        raise InputError(f"{path}: n_embd is {shape['n_embd']}; expected a multiple of n_head")
    for name, allowed in (GPT2 | {"n_inner": [None, 4 * shape["n_embd"]]}).items():
        if name in values and values[name] not in allowed:
            raise InputError(
                f"{path}: {name} is {values[name]!r}; only GPT-2's {allowed[-1]!r} can be computed"
            )
    epsilon = values.get("layer_norm_epsilon", 1e-5)
    if type(epsilon) not in (int, float) or not 0 < epsilon < 1:
        raise InputError(
            f"{path}: layer_norm_epsilon is {epsilon!r}; expected a small number above 0"
        )
    return Config(**shape, epsilon=epsilon)


# ---------------------------------------------------------------- the tensors


def open_weights(folder, config):
    """{name in config.shapes(): Tensor} of a folder: each in its shape, and no unknown one. Nothing
    is read yet but headers.

    Left out are Hugging Face's prefix, its causal masks, and its second copy of the embedding,
    which must be a copy.
    """
    path, *others = weights_files(folder)
    shapes = config.shapes()
    for other in others:
        if not other.is_file():
            raise InputError(f"{other}: is missing, but {path.name} needs it; fetch it")
    stored = WEIGHTS[path.name](path)
    table = {name.removeprefix("transformer."): tensor for name, tensor in stored.items()}
    if len(table) < len(stored):
        raise InputError(f"{path}: has a tensor with and without 'transformer.'; fetch it again")
    table = {name: table[name] for name in table if not re.fullmatch(MASK, name)}
    expected = dict(shapes)
    if "lm_head.weight" in table:
        expected["lm_head.weight"] = shapes["wte.weight"]
    for name, shape in expected.items():
        if name not in table:
            raise InputError(f"{path}: lacks the tensor {name}; the file does not match its config")
        if table[name].shape != shape:
            raise InputError(
                f"{path}: {name} has shape {list(table[name].shape)}; its config says {list(shape)}"
            )
    if extra := sorted(table.keys() - expected.keys()):
        raise InputError(f"{path}: has {len(extra)} tensors GPT-2 does not, such as {extra[0]!r}")
    head = table.pop("lm_head.weight", None)
    if head and not np.array_equal(head.numbers(), table["wte.weight"].numbers()):
        raise InputError(f"{path}: lm_head.weight differs from wte.weight; GPT-2 ties them")
    return {name: table[name] for name in shapes}
