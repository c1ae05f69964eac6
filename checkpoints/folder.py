"""What a checkpoint folder holds: which files, the shape of the model, its tensors.

Everything that cannot be used raises InputError.
"""

import re

import numpy as np

from checkpoints.errors import InputError
from checkpoints.files import first_of, read_json
from checkpoints.formats import safetensors
from checkpoints.limits import Limits
from checkpoints.registry import TF_DATA, TF_INDEX
from gpt2 import Config

SHARDS_INDEX = "model.safetensors.index.json"


def read_tf_checkpoint(path):
    """Read OpenAI's .index file at a Path: {name: Tensor}. Only here its reader is needed."""
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
NUMBERS = {  # {field of gpt2.Config: (Hugging Face's name, what it may be)}
    "n_vocab": ("vocab_size", Limits(2, MAX_DIMENSION, whole=True)),
    "n_ctx": ("n_positions", Limits(1, MAX_DIMENSION, whole=True)),
    "n_embd": ("n_embd", Limits(2, MAX_DIMENSION, whole=True)),  # one column makes no matrix
    "n_head": ("n_head", Limits(1, MAX_DIMENSION, whole=True)),
    "n_layer": ("n_layer", Limits(1, MAX_LAYERS, whole=True)),
}
SUPPORTED = {  # {name in config.json: [value]}, all that gpt2.py computes besides numbers
    "model_type": ["gpt2"],
    "activation_function": ["gelu_pytorch_tanh", "gelu_new"],
    "scale_attn_weights": [True],
    "scale_attn_by_inverse_layer_idx": [False],
    "tie_word_embeddings": [True],
}

# ---------------------------------------------------------------- which files


def missing_files(folder):
    """The files that a folder (Path) lacks, a list of str such as "config.json or hparams.json".
    Raises InputError if an index of weights is damaged.
    """
    missing = []
    for names in PARTS:
        if not any((folder / name).is_file() for name in names):
            missing.append(" or ".join(names))
    weights = [folder / name for name in WEIGHTS if (folder / name).is_file()]
    if weights:
        others = other_weights_files(weights[0])
        missing += [path.name for path in others if not path.is_file()]
    return missing


def other_weights_files(path):
    """If the file at a Path is only an index of weights, the Paths of the files with the weights as
    a list; else []. Raises InputError if the index is damaged.
    """
    if path.name == SHARDS_INDEX:
        return sorted({*safetensors.read_shard_paths(path).values()})
    if path.name == TF_INDEX:
        return [path.with_name(TF_DATA)]
    return []


def weights_files(folder):
    """The Paths of all files with the weights of a folder (Path), as a list; the first is the one
    to open. Raises InputError if there are none, or only a pickle, which is never opened.
    """
    names = [name for name in (*WEIGHTS, *PICKLES) if (folder / name).is_file()]
    if names and names[0] in PICKLES:
        raise InputError(
            f"{folder / names[0]} is a pickle, which can run any code when opened, so it is never "
            "opened; convert it where you trust it: transformers' "
            "GPT2LMHeadModel.from_pretrained(FOLDER).save_pretrained(FOLDER) writes "
            "model.safetensors"
        )
    path = first_of(folder, *WEIGHTS)
    return [path, *other_weights_files(path)]


# ---------------------------------------------------------------- the shape


def read_config(folder):
    """Read config.json or hparams.json of a folder (Path) as a gpt2.Config. Raises InputError if
    gpt2.py cannot compute such a model.
    """
    path = first_of(folder, "config.json", "hparams.json")
    values = read_json(path)
    shape = {}
    for name, (hugging_face_name, limits) in NUMBERS.items():
        value = values.get(name, values.get(hugging_face_name))
        if not limits.allow(value):
            raise InputError(f"{path}: {name} is {value!r}; expected {limits}")
        shape[name] = value
    if shape["n_embd"] % shape["n_head"]:
        raise InputError(f"{path}: n_embd is {shape['n_embd']}; expected a multiple of n_head")
    supported = SUPPORTED | {"n_inner": [None, 4 * shape["n_embd"]]}
    for name, allowed in supported.items():  # the last one allowed is GPT-2's
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
    """Open the weights of a folder (Path): {name in config.shapes(): Tensor}. Raises InputError if
    a tensor is missing, unknown, or of another shape than the gpt2.Config says.

    Hugging Face's prefix of names is removed. Its causal masks are left out, and so is its output
    head, which must be equal to the embedding: only these two are read, of all others the headers.
    """
    files, shapes = weights_files(folder), config.shapes()
    path = files[0]
    for file in files[1:]:
        if not file.is_file():
            raise InputError(f"{file}: is missing, but {path.name} needs it; fetch it")
    stored = WEIGHTS[path.name](path)
    table = {name.removeprefix("transformer."): tensor for name, tensor in stored.items()}
    if len(table) < len(stored):
        raise InputError(f"{path}: has a tensor with and without 'transformer.'; fetch it again")
    table = {name: tensor for name, tensor in table.items() if not re.fullmatch(MASK, name)}
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
