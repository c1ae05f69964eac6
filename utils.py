"""What main needs before it can run: a model and an encoder from a checkpoint folder, on the array
backend of choice.

What such a folder holds, and where it may be, is said in checkpoints/__init__.py, behind which the
file formats are.
"""

import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Callable

import numpy as np

import checkpoints
from backends import autotune, memory
from backends.threads import alone, share
from checkpoints import InputError, first_of, read_config, read_json
from encoder import Encoder
from gpt2 import Config, Model

MODELS_DIR = os.environ.get("GPT2_MODELS_DIR") or str(Path(__file__).resolve().parent / "models")

SIZES = {
    "82M": Config(50257, 1024, 768, 12, 6),
    "124M": Config(50257, 1024, 768, 12, 12),
    "355M": Config(50257, 1024, 1024, 16, 24),
    "774M": Config(50257, 1024, 1280, 20, 36),
    "1558M": Config(50257, 1024, 1600, 25, 48),
}


# ---------------------------------------------------------------- backends


@dataclass(frozen=True)
class Backend:
    """Where arrays live and how they are multiplied; everything that differs between NumPy and
    CuPy.

    xp is the array module; asarray and to_host move arrays there and back to NumPy; plan(config,
    dtype) returns a function that lays out a matrix [n_in, n_out] so that `x @ weight(w)` is fast;
    synchronize waits until all work is done; share(function, n, n_rows) calls function(a, b) for
    ranges that make up 0 to n, on threads if n_rows are worth it; exact means that every position
    has to be computed in a way that does not depend on how many are computed together.
    """

    name: str
    xp: Any
    asarray: Callable
    to_host: Callable
    plan: Callable
    synchronize: Callable
    share: Callable = alone
    exact: bool = False


def get_backend(name="numpy", kernels="auto", exact=False, dtype="float32"):
    """The backend of that name, "numpy" or "cupy". Raises InputError if there is none or it cannot
    run here.

    kernels, for NumPy: "auto" measures what is fastest here, "plain" is NumPy's own product, "64x2"
    is tiles 64 columns wide on 2 threads. exact, for NumPy: a position's logits are the same to the
    last bit however many are computed together. dtype, for CuPy: "float16" halves the weights and
    multiplies in float16.
    """
    if name not in ("numpy", "cupy"):
        raise InputError(f"backend {name!r}: expected numpy or cupy")
    if dtype not in (("float32",) if name == "numpy" else ("float32", "float16")):
        raise InputError(f"dtype {dtype!r}: expected float32, or float16 with --backend cupy")
    if name == "numpy":
        try:
            kernel = autotune.kernel_named(kernels)
        except ValueError as error:
            raise InputError(str(error)) from None
        plan = partial(autotune.plan, kernel=kernel, exact=exact)
        threads = alone if kernel and kernel.threads[-1] == 1 else share
        return Backend("numpy", np, np.asarray, np.asarray, plan, lambda: None, threads, exact)
    if exact:
        raise InputError(
            "exact: expected --backend numpy; what cuBLAS computes for a row depends on the others"
        )
    try:
        from backends import gpu
    except ImportError:
        raise InputError(
            "backend 'cupy': CuPy is not installed; try pip install cupy-cuda12x"
        ) from None
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
    require_memory([config], backend, dtype)

    def read(name):
        noise = scale * rng.standard_normal(shapes[name], dtype=dtype)
        return noise + dtype(1) if re.search(r"ln_\w+\.weight", name) else noise

    return build_model(config, read, backend, dtype)


def find_folder(size, models_dir=MODELS_DIR, download=False):
    """The folder of a model given by size or path, or in Hugging Face's cache; fetched first with
    `download`.

    Somebody at a terminal is asked instead. Raises InputError that says what is there and what to
    do.
    """
    folder = checkpoints.locate(size, models_dir)
    if folder and (folder != Path(models_dir) / size or not checkpoints.missing_files(folder)):
        return folder
    if checkpoints.repository(size) and (found := checkpoints.cached(size)):
        return found
    if checkpoints.repository(size):
        from checkpoints.download import fetch_if_wanted  # only then, as requests is slow to import

        if fetched := fetch_if_wanted(size, models_dir, download):
            return fetched
    if folder and size not in checkpoints.REPOSITORIES:
        return folder  # whoever reads it says what it lacks
    there = sorted(path.parent.name for path in Path(models_dir).glob("*/model.safetensors"))
    state = f"there are {', '.join(there)}" if there else "there are none"
    state = (
        f"it is incomplete: {folder} lacks {', '.join(checkpoints.missing_files(folder))}"
        if folder
        else state
    )
    hint = (
        f"use --download or python main.py download {size}"
        if size in checkpoints.REPOSITORIES
        else "put its folder there"
    )
    raise InputError(
        f"no model {size!r} in {models_dir} ({state}): {hint}, or give a folder's path"
    )


def load_encoder(folder):
    """The Encoder of a checkpoint folder. Raises InputError for files that are missing or do not
    belong together.
    """
    vocabulary = read_json(first_of(folder, "vocab.json", "encoder.json"))
    path = first_of(folder, "merges.txt", "vocab.bpe")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        merges = [
            tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")
        ]
        return Encoder(vocabulary, merges)
    except ValueError as error:
        raise InputError(
            f"{path}: {error}; expected the vocabulary and merges of one tokenizer"
        ) from None


def require_vocabulary(folder, config, encoder):
    """Raises InputError if a model and the vocabulary beside it do not have as many tokens."""
    if (n := config.n_vocab) != encoder.n_vocab:
        raise InputError(
            f"{folder}: the model has {n} tokens, its vocabulary {encoder.n_vocab}; use the files of one model"
        )


def require_memory(configs, backend, dtype=np.float32):
    """Raises InputError if models of these shapes do not fit into this machine's memory together."""
    if backend.name == "numpy":  # on a GPU, plan sees to that
        memory.require(configs, dtype)


def load_model(folder, backend, dtype=np.float32):
    """The Model of a checkpoint folder, its parameters of one dtype. Raises InputError."""
    config = read_config(folder)
    tensors = checkpoints.open_weights(folder, config)
    require_memory([config], backend, dtype)
    return build_model(config, lambda name: tensors[name].read(dtype), backend, dtype)


def load_pair(target_size, draft_size, models_dir, backend, download=False):
    """(target, draft, encoder) by size or path; draft is None where draft_size is None or "ngram".

    Raises InputError, also for a draft and a target with different vocabularies: token 17 must mean
    the same to both.
    """
    sizes = [target_size] + ([draft_size] if draft_size not in (None, "ngram") else [])
    folders = [find_folder(size, models_dir, download) for size in sizes]
    encoder, configs = load_encoder(folders[0]), []
    if any(load_encoder(folder) != encoder for folder in folders[1:]):
        raise InputError(
            f"draft {draft_size} and target {target_size} have different vocabularies: they cannot pair"
        )
    for folder in folders:  # before any weight is read
        configs.append(read_config(folder))
        require_vocabulary(folder, configs[-1], encoder)
    require_memory(configs, backend)
    models = [load_model(folder, backend) for folder in folders]
    return models[0], models[1] if models[1:] else None, encoder
