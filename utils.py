"""What main needs before it can run: a model and an encoder from a checkpoint folder, on the array backend of choice.

A checkpoint folder holds

    model.safetensors                            weights, under Hugging Face's names for GPT-2
    config.json    or hparams.json               the shape, as Hugging Face or OpenAI write it
    vocab.json     or encoder.json               the vocabulary, likewise
    merges.txt     or vocab.bpe                  the merges, likewise

and is found by path, or by its name ("7M", "124M") in the models directory.
"""

import json
import math
import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Callable

import numpy as np

from backends import cpu
from encoder import Encoder
from gpt2 import Config, Model

MODELS_DIR = os.environ.get("GPT2_MODELS_DIR") or str(Path(__file__).resolve().parent / "models")

SIZES = {
    "124M": Config(50257, 1024, 768, 12, 12),
    "355M": Config(50257, 1024, 1024, 16, 24),
    "774M": Config(50257, 1024, 1280, 20, 36),
    "1558M": Config(50257, 1024, 1600, 25, 48),
}


class InputError(ValueError):
    """Something the user gave cannot be used. The message is one line: what it was, what was expected, what to do."""


# ---------------------------------------------------------------- backends


@dataclass(frozen=True)
class Backend:
    """Where arrays live and how they are multiplied; everything that differs between NumPy and CuPy.

    xp is the array module; asarray and to_host move arrays there and back to NumPy; plan(config, dtype) returns a function
    that lays out a matrix [n_in, n_out] so that `x @ weight(w)` is fast; synchronize waits until all work is done; exact
    means that every position has to be computed in a way that does not depend on how many are computed together.
    """

    name: str
    xp: Any
    asarray: Callable
    to_host: Callable
    plan: Callable
    synchronize: Callable
    exact: bool = False


def get_backend(name="numpy", kernels="auto", exact=False, dtype="float32"):
    """The backend of that name, "numpy" or "cupy". Raises InputError if there is none or it cannot run here.

    kernels, for NumPy: "auto" measures what is fastest here, "plain" is NumPy's own product, "64x2" is tiles 64 columns
    wide on 2 threads. exact, for NumPy: a position's logits are the same to the last bit however many are computed together.
    dtype, for CuPy: "float16" halves the weights and multiplies in float16.
    """
    if name not in ("numpy", "cupy"):
        raise InputError(f"backend {name!r}: expected numpy or cupy")
    if dtype not in (("float32",) if name == "numpy" else ("float32", "float16")):
        raise InputError(f"dtype {dtype!r}: expected float32, or float16 with --backend cupy")
    if name == "numpy":
        try:
            plan = partial(cpu.plan, kernel=cpu.kernel_named(kernels), exact=exact)
        except ValueError as error:
            raise InputError(str(error)) from None
        return Backend("numpy", np, np.asarray, np.asarray, plan, synchronize=lambda: None, exact=exact)
    if exact:
        raise InputError("exact: expected --backend numpy; what cuBLAS computes for a row depends on the others")
    try:
        from backends import gpu
    except ImportError:
        raise InputError("backend 'cupy': CuPy is not installed; try pip install cupy-cuda12x") from None
    except RuntimeError as error:
        raise InputError(f"backend 'cupy': no usable GPU ({error}); use --backend numpy") from None
    plan = partial(gpu.plan, half=dtype == "float16")
    return Backend("cupy", gpu.cupy, gpu.cupy.asarray, gpu.cupy.asnumpy, plan, gpu.synchronize)


def kernels_of(model):
    """What was chosen for each shape of weight: {"768x3072": description}."""
    block = model.params["blocks"][0]
    weights = [part["weight"] for parts in (block["attn"], block["mlp"]) for part in parts.values()]
    weights.append(model.params["head"])
    return {"x".join(map(str, w.shape)): str(getattr(w, "kernel", "plain")) for w in weights}


# ---------------------------------------------------------------- checkpoint files


def read_json(path, kind=dict):
    """The JSON value in a file, which must be of the given kind. Raises InputError."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({str(error).splitlines()[0]})") from None
    if not isinstance(value, kind):
        raise InputError(f"{path}: expected a JSON {'object' if kind is dict else kind.__name__}")
    return value


def first_of(folder, *names):
    """The first of these files that is in the folder. Raises InputError if none is."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: has no {' or '.join(names)}; a model folder needs one")


class SafeTensors:
    """The tensors of a .safetensors file: a length, a JSON header {name: dtype, shape, offsets}, then the raw bytes.

    Tensors are read one at a time when asked for, so that a large model never lies in memory twice. Raises InputError for
    a header that does not match the file.
    """

    DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}

    def __init__(self, path):
        self.path, size = path, path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(size - 8, 100_000_000):
                raise InputError(f"{path}: is truncated or no safetensors file; fetch it again")
            try:
                self.header = json.loads(file.read(length))
                self.header.pop("__metadata__", None)
                spans = sorted(self._check(name, size - 8 - length) for name in self.header)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                what = error if isinstance(error, InputError) else f"{path}: has a damaged header; fetch it again"
                raise InputError(str(what)) from None
        ends = [0, *(end for _, end in spans)]
        if [begin for begin, _ in spans] != ends[:-1] or ends[-1] != size - 8 - length:
            raise InputError(f"{path}: its tensors overlap or leave gaps in its {size - 8 - length} bytes; fetch it again")
        self.start = 8 + length

    def _check(self, name, n_bytes):
        entry = self.header[name]
        begin, end = entry["data_offsets"]
        if not {type(n) for n in [begin, end, *entry["shape"]]} <= {int}:
            raise TypeError
        known = entry["dtype"] in self.DTYPES
        width = np.dtype(self.DTYPES[entry["dtype"]]).itemsize if known else 0
        if end > n_bytes:
            raise InputError(f"{self.path}: is truncated: {name!r} ends at byte {end} of {n_bytes}; fetch it again")
        if not 0 <= begin <= end or (known and end - begin != width * math.prod(entry["shape"])):
            raise InputError(f"{self.path}: {name!r} has impossible offsets; fetch the file again")
        return begin, end

    def read(self, name, dtype):
        """The tensor as an array of `dtype`."""
        entry = self.header[name]
        if entry["dtype"] not in self.DTYPES:
            raise InputError(f"{self.path}: {name} is {entry['dtype']}; expected one of {', '.join(self.DTYPES)}")
        count, offset = math.prod(entry["shape"]), self.start + entry["data_offsets"][0]
        array = np.fromfile(self.path, self.DTYPES[entry["dtype"]], count, offset=offset)
        if entry["dtype"] == "BF16":  # the upper half of a float32
            array = (array.astype(np.uint32) << 16).view(np.float32)
        if not np.isfinite(array.sum(dtype=np.float64)):
            raise InputError(f"{self.path}: {name!r} holds NaN or infinity; fetch the file again")
        return array.reshape(entry["shape"]).astype(dtype, copy=False)


def read_config(folder):
    """The Config in hparams.json or config.json. Raises InputError for one that gpt2.py does not compute."""
    path = first_of(folder, "config.json", "hparams.json")
    values = read_json(path)
    names = {"n_vocab": "vocab_size", "n_ctx": "n_positions", "n_embd": "", "n_head": "", "n_layer": ""}
    found = {name: values.get(name, values.get(other)) for name, other in names.items()}
    for name, value in found.items():
        if type(value) is not int or value < 1:  # not isinstance: True is an int
            raise InputError(f"{path}: {name} is {value!r}; expected a whole number above 0")
    if found["n_embd"] % found["n_head"]:
        raise InputError(f"{path}: n_embd {found['n_embd']} is not a multiple of n_head {found['n_head']}")
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
            raise InputError(f"{path}: {name} is {values[name]!r}; only GPT-2's {allowed[-1]!r} can be computed")
    epsilon = values.get("layer_norm_epsilon", 1e-5)
    if type(epsilon) not in (int, float) or not 0 < epsilon < 1:
        raise InputError(f"{path}: layer_norm_epsilon is {epsilon!r}; expected a small number above 0")
    return Config(**found, epsilon=epsilon)


def tensor_names(checkpoint, config):
    """{our name: name in the file}, with every tensor that config asks for there, in its shape, and no unknown one."""
    names = {name.removeprefix("transformer."): name for name in checkpoint.header}
    names = {name: stored for name, stored in names.items() if not re.fullmatch(r"h\.\d+\.attn\.(masked_)?bias", name)}
    shapes = config.shapes()
    for name, shape in (shapes | {"lm_head.weight": shapes["wte.weight"]}).items():
        if name not in names and name != "lm_head.weight":
            raise InputError(f"{checkpoint.path}: lacks the tensor {name}; the file does not match its config")
        if name in names and tuple(checkpoint.header[names[name]]["shape"]) != shape:
            found = checkpoint.header[names[name]]["shape"]
            raise InputError(f"{checkpoint.path}: {name} has shape {found}; its config says {list(shape)}")
    if extra := sorted(names.keys() - shapes.keys() - {"lm_head.weight"}):
        raise InputError(f"{checkpoint.path}: has {len(extra)} tensors GPT-2 does not, such as {extra[0]!r}")
    return names


# ---------------------------------------------------------------- models


def build_model(config, read, backend, dtype):
    """A Model from `read(name) -> array of dtype`, which is asked once for each of config.shapes()."""
    try:
        weight, tree = backend.plan(config, dtype), {}
    except MemoryError as error:
        raise InputError(f"{error}; choose a smaller model or --backend numpy") from None
    for name, shape in config.shapes().items():
        *path, leaf = name.split(".")
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
        matrix = len(shape) == 2 and path[0] == "h"
        branch[leaf] = (weight if matrix else backend.asarray)(read(name))
    wte = tree["wte"]["weight"]
    blocks = [tree["h"][str(i)] for i in range(config.n_layer)]
    params = {"wte": wte, "wpe": tree["wpe"]["weight"], "blocks": blocks, "ln_f": tree["ln_f"]}
    return Model(config, params | {"head": weight(wte.T)}, backend)  # one array in two roles


def random_model(config, backend, dtype=np.float32, seed=0, scale=0.02):
    """A Model of that shape with random weights: to measure and test with, its text means nothing."""
    rng, shapes = np.random.default_rng(seed), config.shapes()

    def read(name):
        noise = scale * rng.standard_normal(shapes[name], dtype=dtype)
        return noise + dtype(1) if re.search(r"ln_\w+\.weight", name) else noise

    return build_model(config, read, backend, dtype)


def find_folder(size, models_dir=MODELS_DIR):
    """The folder of a model given by size or path. Raises InputError that says what is there and what to do."""
    for folder in (Path(models_dir) / size, Path(size)):
        if size and os.path.isdir(folder):
            return folder
    there = sorted(path.parent.name for path in Path(models_dir).glob("*/model.safetensors"))
    hint = f"there are {', '.join(there)}" if there else "there are none"
    raise InputError(f"no model {size!r} in {models_dir} ({hint}): put its folder there, or give a folder's path")


def load_encoder(folder):
    """The Encoder of a checkpoint folder. Raises InputError for files that are missing or do not belong together."""
    vocabulary = read_json(first_of(folder, "vocab.json", "encoder.json"))
    path = first_of(folder, "merges.txt", "vocab.bpe")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
        return Encoder(vocabulary, merges)
    except ValueError as error:
        raise InputError(f"{path}: {error}; expected the vocabulary and merges of one tokenizer") from None


def load_model(folder, backend, dtype=np.float32):
    """The Model of a checkpoint folder, its parameters of one dtype. Raises InputError."""
    config = read_config(folder)
    checkpoint = SafeTensors(first_of(folder, "model.safetensors"))
    names = tensor_names(checkpoint, config)
    if "lm_head.weight" in names:
        head, wte = (checkpoint.read(names[name], dtype) for name in ("lm_head.weight", "wte.weight"))
        if not np.array_equal(head, wte):
            raise InputError(f"{checkpoint.path}: lm_head.weight differs from wte.weight; GPT-2 ties them")
    return build_model(config, lambda name: checkpoint.read(names[name], dtype), backend, dtype)


def load_pair(target_size, draft_size, models_dir, backend):
    """(target, draft, encoder) by size or path; draft is None where draft_size is None or "ngram".

    Raises InputError, also for a draft and a target with different vocabularies: token 17 must mean the same to both.
    """
    folder = find_folder(target_size, models_dir)
    encoder, draft_folder = load_encoder(folder), None
    if draft_size not in (None, "ngram"):
        draft_folder = find_folder(draft_size, models_dir)
        if load_encoder(draft_folder) != encoder:
            raise InputError(f"draft {draft_size} and target {target_size} have different vocabularies: they cannot pair")
    for path in filter(None, (folder, draft_folder)):  # before any weight is read
        if (n_vocab := read_config(path).n_vocab) != encoder.n_vocab:
            raise InputError(f"{path}: the model has {n_vocab} tokens, its vocabulary {encoder.n_vocab}; use the files of one model")
    target = load_model(folder, backend)
    return target, load_model(draft_folder, backend) if draft_folder else None, encoder
