"""What a checkpoint folder holds: which files, the shape of the model, its tensors. Everything that
cannot be used raises ValueError.
"""

import math
import re
import warnings
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints.files import first_of, read_json
from checkpoints.formats.tensor import Tensor
from checkpoints.registry import SIZES
from gpt2 import Config

WEIGHTS = (  # the preferred first
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
# {ending: the module of checkpoints/formats/ that reads such a file, imported when one is there}
READERS = {".safetensors": "safetensors", ".bin": "pytorch", ".index": "tf_checkpoint"}
SHARD = r"[\w.-]{1,200}\.(safetensors|bin)"  # a name that leads to no other folder
CONFIGS = ("config.json", "hparams.json")
PREFIX = r"(module\.|_orig_mod\.|model\.)*(transformer\.)?"  # what training leaves before names
# causal masks, and heads that a language model does not use
UNUSED = r"h\.\d+\.attn\.(masked_)?bias|multiple_choice_head\..*|v_head\..*"

NUMBERS = {  # {field of gpt2.Config: (its names, transformers' choice first; the least; the most)}
    "n_vocab": (("vocab_size", "n_vocab"), 2, 10**7),
    "n_ctx": (("max_position_embeddings", "n_positions", "n_ctx"), 1, 10**7),
    "n_embd": (("hidden_size", "n_embd"), 2, 10**7),  # one column makes no matrix
    "n_head": (("num_attention_heads", "n_head"), 1, 10**7),
    "n_layer": (("num_hidden_layers", "n_layer"), 1, 1000),
}
TANH_GELU = ("gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_accurate")
EXACT_GELU = ("gelu", "gelu_python")
SUPPORTED = {  # {name in config.json: the values that can be computed}, besides numbers
    "model_type": ("gpt2",),
    "activation_function": TANH_GELU + EXACT_GELU,
    "scale_attn_weights": (True, False),
    "scale_attn_by_inverse_layer_idx": (True, False),
    "add_cross_attention": (False,),
    "quantization_config": (None,),
}

# ---------------------------------------------------------------- which files


def tokenizer_files(folder: Path) -> list[Path]:
    """tokenizer.json, else the vocabulary and the merges."""
    vocabulary = first_of(folder, "tokenizer.json", "vocab.json", "encoder.json")
    if vocabulary.name == "tokenizer.json":
        return [vocabulary]
    return [vocabulary, first_of(folder, "merges.txt", "vocab.bpe")]


def weights_files(folder: Path) -> list[Path]:
    """The files with the weights of a folder, some of which may be missing."""
    note = folder / "checkpoint"  # of TensorFlow, which names the newest
    text = note.read_text(errors="replace") if note.is_file() else ""
    newest = re.findall(r'^model_checkpoint_path: "(?:.*[/\\])?(.+)"', text)
    indexes = [f"{name}.index" for name in newest]
    indexes = indexes or sorted(path.name for path in folder.glob("[!.]*.index"))
    path = first_of(folder, *WEIGHTS, *(indexes or ["model.ckpt.index"]))
    if path.suffix == ".index":
        from checkpoints.formats import tf_checkpoint  # here: few folders have one

        return [path, tf_checkpoint.data_of(path)]
    if path.suffix != ".json":
        return [path]
    names = read_json(path).get("weight_map")
    names = {*map(str, names.values())} if isinstance(names, dict) else {}
    if not names or not all(re.fullmatch(SHARD, name, re.ASCII) for name in names):
        raise ValueError(
            f"{path}: expected the files of tensors beside it; delete it and fetch it again"
        )
    return [folder / name for name in sorted(names)]


def problem_with(folder: Path) -> str:
    """What a folder lacks, in words; "" if it has all files of a model."""
    try:
        files = [first_of(folder, *CONFIGS), *tokenizer_files(folder), *weights_files(folder)]
    except ValueError as error:
        return str(error)
    return "".join(f"{path}: is missing" for path in files if not path.is_file())


# ---------------------------------------------------------------- the shape


def read_config(folder: Path) -> Config:
    """Read config.json or hparams.json of a folder: the shape of the model."""
    path = first_of(folder, *CONFIGS)
    values = read_json(path)
    shape: dict[str, Any] = {}

    def require(is_right: bool, name: str, value: Any, expected: str):
        if not is_right:
            raise ValueError(f"{path}: {name} is {value!r}; expected {expected}")

    for name, allowed in SUPPORTED.items():
        value = values.get(name, allowed[0])
        require(value in allowed, name, value, f"GPT-2's {allowed[0]!r}")
    for field, (names, least, most) in NUMBERS.items():
        found = [values[name] for name in names if values.get(name) is not None]
        if "model_type" in values:
            found.append(getattr(SIZES["124M"], field))  # what transformers takes by default
        value = found[0] if found else None
        is_right = type(value) is int and least <= value <= most
        require(is_right, field, value, f"a whole number from {least} to {most}")
        shape[field] = value
    n_embd, n_inner = shape["n_embd"], values.get("n_inner")
    require(n_embd % shape["n_head"] == 0, "n_embd", n_embd, "a multiple of n_head")
    require(n_inner in (None, 4 * n_embd), "n_inner", n_inner, "4 * n_embd")
    epsilon = values.get("layer_norm_epsilon", 1e-5)
    is_right = type(epsilon) in (int, float) and 0 < epsilon < 1
    require(is_right, "layer_norm_epsilon", epsilon, "a small number above 0")
    exact_gelu = values.get("activation_function") in EXACT_GELU
    return Config(**shape, epsilon=epsilon, exact_gelu=exact_gelu)


# ---------------------------------------------------------------- the tensors


def open_weights(folder: Path, config: Config) -> dict[str, Tensor]:
    """Open the weights of a folder: a Tensor for each name in config.shapes(). Raises ValueError if
    one is missing, unknown, or of another shape than the config says.

    The token embedding may have rows behind its n_vocab tokens, which are left out with a warning.
    So are, without one, masks and heads in UNUSED. An output head must be equal to the embedding.
    """
    shapes = config.shapes()
    stored: dict[str, Tensor] = {}
    for path in weights_files(folder):
        first_of(folder, path.name)  # raises ValueError if it is missing
        if path.suffix in READERS:
            reader = import_module(f".formats.{READERS[path.suffix]}", __package__)
            stored |= reader.read_table(path)
    table = {re.sub(PREFIX, "", name, count=1): tensor for name, tensor in stored.items()}
    if len(table) < len(stored):
        raise ValueError(
            f"{path}: has a tensor with and without 'transformer.'; delete it and fetch it again"
        )
    table = {name: tensor for name, tensor in table.items() if not re.fullmatch(UNUSED, name)}
    # the second name is of programs before transformers
    head = table.pop("lm_head.weight", None) or table.pop("lm_head.decoder.weight", None)
    if head:  # some files have the one matrix under this name only
        table.setdefault("wte.weight", head)
    for name, shape in shapes.items():
        if name not in table:
            raise ValueError(f"{path}: lacks the tensor {name}; the file does not match its config")
        found = table[name].shape
        if name == "wte.weight" and found[1:] == shape[1:] and found[0] > config.n_vocab:
            surplus = found[0] - config.n_vocab
            warnings.warn(f"{path}: the last {surplus} rows of {name} are of no token: left out")
            table[name] = replace(table[name], n_rows=config.n_vocab)
        elif found != shape:
            raise ValueError(
                f"{path}: {name} has shape {list(found)}; its config says {list(shape)}"
            )
    if extra := sorted(table.keys() - shapes.keys()):
        raise ValueError(f"{path}: has {len(extra)} tensors GPT-2 does not, such as {extra[0]!r}")
    wte = table["wte.weight"]
    if head and not np.array_equal(replace(head, n_rows=wte.n_rows).stored(), wte.stored()):
        raise ValueError(f"{path}: lm_head.weight differs from wte.weight; GPT-2 ties them")
    values = read_json(first_of(folder, *CONFIGS))
    for layer in range(config.n_layer):
        scale = 1 / (layer + 1) if values.get("scale_attn_by_inverse_layer_idx") else 1.0
        if not values.get("scale_attn_weights", True):
            scale *= math.sqrt(config.n_embd // config.n_head)  # gpt2.attend divides by it
        for name in (f"h.{layer}.attn.c_attn.weight", f"h.{layer}.attn.c_attn.bias"):
            table[name] = replace(table[name], query_scale=scale)
    return {name: table[name] for name in shapes}
