"""Checkpoint folders: the one door through which utils.py comes to the files of a model, whatever
their kind.

A folder holds, under Hugging Face's names or OpenAI's,

    config.json    or hparams.json               the shape
    vocab.json     or encoder.json               the vocabulary
    merges.txt     or vocab.bpe                  the merges
    model.safetensors                            the weights (safetensors.py)
    or model.safetensors.index.json              the weights in several such files
    or model.ckpt.index, model.ckpt.data-...     the weights, as OpenAI stores them (tensorflow.py)

and is found by path, by its name in the models directory, or in Hugging Face's cache. download.py
fetches folders, doctor.py examines them.
"""

import os
import re
from pathlib import Path

import numpy as np

from checkpoints.formats import safetensors
from checkpoints.formats import tf_checkpoint as tensorflow
from checkpoints.formats.tensor import InputError, Tensor, first_of, read_json
from gpt2 import Config

__all__ = [
    "InputError",
    "Tensor",
    "first_of",
    "read_json",
    "read_config",
    "open_weights",
    "locate",
    "missing_files",
]

REPOSITORIES = {  # on Hugging Face
    "82M": "distilbert/distilgpt2",
    "124M": "openai-community/gpt2",
    "355M": "openai-community/gpt2-medium",
    "774M": "openai-community/gpt2-large",
    "1558M": "openai-community/gpt2-xl",
}
WEIGHTS = {
    "model.safetensors": safetensors.read_table,
    "model.safetensors.index.json": safetensors.read_sharded,
    "model.ckpt.index": tensorflow.read_table,
}
PARTS = [
    ("config.json", "hparams.json"),
    ("vocab.json", "encoder.json"),
    ("merges.txt", "vocab.bpe"),
    tuple(WEIGHTS),
]
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")

# ---------------------------------------------------------------- where a folder is


def missing_files(folder):
    """What the folder lacks to be a model: names of files, as "config.json or hparams.json"; []
    where it is whole.
    """
    lacks = [
        " or ".join(names)
        for names in PARTS
        if not any((folder / name).is_file() for name in names)
    ]
    if (folder / "model.safetensors").is_file():
        return lacks
    if (folder / "model.safetensors.index.json").is_file():
        needed = set(safetensors.shards(folder / "model.safetensors.index.json").values())
    else:
        needed = (
            {folder / "model.ckpt.data-00000-of-00001"}
            if (folder / "model.ckpt.index").is_file()
            else set()
        )
    return lacks + sorted(path.name for path in needed if not path.is_file())


def repository(size):
    """The Hugging Face repository of a size, or "owner/name" itself; None for what is neither."""
    plain = re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", size, re.ASCII)
    return REPOSITORIES.get(size) or (size if plain else None)


def cached(size):
    """The folder of a whole model in Hugging Face's cache on this machine, or None."""
    home = Path(
        os.environ.get("HF_HOME")
        or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    )
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    name = repository(size)
    for name in (name, name.partition("/")[2]) if size in REPOSITORIES else (name,) if name else ():
        # the short names are those of old versions
        model = cache / f"models--{name.replace('/', '--')}"
        main = model / "refs" / "main"
        commits = (
            [main.read_text().strip()]
            if main.is_file()
            else os.listdir(model / "snapshots")
            if model.is_dir()
            else []
        )
        for folder in (model / "snapshots" / commit for commit in commits):
            if not missing_files(folder):
                return folder
    return None


def locate(size, models_dir):
    """The folder of a model given by size or path; None where there is none."""
    folders = [Path(models_dir) / size, Path(size)] if size else []
    return next((folder for folder in folders if os.path.isdir(folder)), None)


# ---------------------------------------------------------------- what it holds


def read_config(folder):
    """The Config in hparams.json or config.json. Raises InputError for one that gpt2.py does not
    compute.
    """
    path = first_of(folder, "config.json", "hparams.json")
    values = read_json(path)
    names = {
        "n_vocab": "vocab_size",
        "n_ctx": "n_positions",
        "n_embd": "",
        "n_head": "",
        "n_layer": "",
    }
    found = {name: values.get(name, values.get(other)) for name, other in names.items()}
    for name, value in found.items():
        least = 2 if name in ("n_vocab", "n_embd") else 1  # a matrix of one column is no matrix
        if type(value) is not int or value < least:  # not isinstance: True is an int
            raise InputError(
                f"{path}: {name} is {value!r}; expected a whole number, at least {least}"
            )
        if value > (1000 if name == "n_layer" else 10**7):
            raise InputError(f"{path}: {name} is {value}; that is no GPT-2, fetch the file again")
    if found["n_embd"] % found["n_head"]:
        raise InputError(
            f"{path}: n_embd {found['n_embd']} is not a multiple of n_head {found['n_head']}"
        )
    expected = {
        "model_type": ("gpt2",),
        "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
        "n_inner": (None, 4 * found["n_embd"]),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "tie_word_embeddings": (True,),
    }
    for name, allowed in expected.items():
        if name in values and values[name] not in allowed:
            raise InputError(
                f"{path}: {name} is {values[name]!r}; only GPT-2's {allowed[-1]!r} can be computed"
            )
    epsilon = values.get("layer_norm_epsilon", 1e-5)
    if type(epsilon) not in (int, float) or not 0 < epsilon < 1:
        raise InputError(
            f"{path}: layer_norm_epsilon is {epsilon!r}; expected a small number above 0"
        )
    return Config(**found, epsilon=epsilon)


def weights_path(folder):
    """The file to begin with when reading a folder's weights. Raises InputError where there is
    none, or only a pickle.
    """
    if not any((folder / name).is_file() for name in WEIGHTS):
        for pickle in PICKLES:
            if (folder / pickle).is_file():
                raise InputError(
                    f"{folder / pickle} is a pickle, which can run any code when opened, so it never is; convert it "
                    "where you trust it: transformers' GPT2LMHeadModel.from_pretrained(FOLDER).save_pretrained(FOLDER) "
                    "writes model.safetensors"
                )
    return first_of(folder, *WEIGHTS)


def match(path, table, config):
    """{name in config.shapes(): Tensor}, with every tensor that config asks for, in its shape, and
    no unknown one.

    Hugging Face's prefix, causal masks and second copy of the embedding go; the copy must be one.
    Raises InputError.
    """
    table = {name.removeprefix("transformer."): tensor for name, tensor in table.items()}
    table = {
        name: table[name]
        for name in table
        if not re.fullmatch(r"h\.\d+\.attn\.(masked_)?bias", name)
    }
    shapes = config.shapes()
    for name, shape in (shapes | {"lm_head.weight": shapes["wte.weight"]}).items():
        if name not in table and name != "lm_head.weight":
            raise InputError(f"{path}: lacks the tensor {name}; the file does not match its config")
        if name in table and table[name].shape != shape:
            raise InputError(
                f"{path}: {name} has shape {list(table[name].shape)}; its config says {list(shape)}"
            )
    head = table.pop("lm_head.weight", None)
    if extra := sorted(table.keys() - shapes.keys()):
        raise InputError(f"{path}: has {len(extra)} tensors GPT-2 does not, such as {extra[0]!r}")
    if head and not np.array_equal(head.stored(), table["wte.weight"].stored()):
        raise InputError(f"{path}: lm_head.weight differs from wte.weight; GPT-2 ties them")
    return {name: table[name] for name in shapes}


def open_weights(folder, config):
    """{name in config.shapes(): Tensor} of a folder; nothing is read yet but headers. Raises
    InputError.
    """
    path = weights_path(folder)
    return match(path, WEIGHTS[path.name](path), config)
