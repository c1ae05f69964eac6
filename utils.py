"""Builds models for a backend, NumPy or CuPy, with the weights of a checkpoint folder."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import backends.before_numpy  # noqa: F401, isort: skip: BLAS kernels and threads, before NumPy

import numpy as np

from backends.backend import Backend, get_backend
from checkpoints.folder import open_weights, read_config
from checkpoints.registry import MODELS_DIR
from checkpoints.search import find_folder
from checkpoints.tokenizer import fit_vocabulary, load_encoder
from gpt2 import Config, Model, nested

Read = Callable[[str], Any]  # name of a parameter -> its array


def build_model(config: Config, read: Read, backend: Backend) -> Model:
    """Build the Model of this shape on a backend. read(name) returns the weight of that name as a
    NumPy array in float32; it is called once for each name in config.shapes().
    """
    shapes = config.shapes()
    del shapes["wte.weight"]  # read first: it is the largest, and its copy is freed at once
    wte, head = embedding_and_head(read("wte.weight"), backend)
    parameters = {}
    for name, shape in shapes.items():
        is_linear = name.startswith("h.") and len(shape) == 2
        store = backend.lay_out if is_linear else backend.asarray
        # a vector as one row: NumPy adds arrays of one shape twice as fast as others
        parameters[name] = store(np.atleast_2d(read(name)))
    tree = nested(parameters)  # {"h": {"0": {"ln_1": {"weight": ...}, ...}, ...}, ...}
    blocks = [tree["h"][str(i)] for i in range(config.n_layer)]
    for block in blocks:
        block["mlp"]["activation"] = backend.exact_gelu if config.exact_gelu else backend.gelu
    params = {
        "wte": wte,
        "wpe": tree["wpe"]["weight"],
        "blocks": blocks,
        "ln_f": tree["ln_f"],
        "head": head,
    }
    return Model(config, params, backend)


def embedding_and_head(weight: np.ndarray, backend: Backend) -> tuple[Any, Any]:
    """The token embedding [n_vocab, n_embd], of which rows are looked up, and the output head
    [n_embd, n_vocab], its transpose: one array in two roles, if the backend looks up rows in it.
    """
    wte = backend.asarray(weight)
    head = backend.lay_out(wte.T)
    return (head.T if backend.looks_up else wte), head


def require_nonzero(array: np.ndarray, where: str) -> None:
    """Raise ValueError, which begins with `where`, if all of a tensor is 0, as in a file that was
    not copied to its end.
    """
    if not array.any():
        raise ValueError(f"{where} is all zeros: damaged; fetch the weights again")


def stored_weights(folder: Path, config: Config) -> Read:
    """Open the weights of a checkpoint folder, which has a model of this shape, and return the
    function read(name) that build_model takes: it reads the weight of that name, in float32.

    Raises ValueError for a file that is missing or damaged, or of another shape. `read` raises it
    for NaN, infinity, and for gains of a layer norm that are all 0, as in a file not fully copied.
    """
    tensors = open_weights(folder, config)

    def read(name: str) -> np.ndarray:
        array = tensors[name].read(np.float32)
        if "ln_" in name and name.endswith("weight"):
            require_nonzero(array, f"{folder}: {name}")
        return array

    return read


def load_models(
    names: list[str], models_dir: str = MODELS_DIR, backend: Backend | None = None
) -> tuple[list[Model], Any]:
    """Load a target and its drafts: (a Model for each name, in their order; their one Encoder). A
    name is a size in models_dir, a folder, or an owner/name on Hugging Face. backend: None is NumPy

    Raises ValueError if names is no list or empty, if a model cannot be used, if vocabularies
    differ (token 17 must mean the same to all of them) or memory does not suffice. All this is
    found before weights are read, except NaN, infinity and zeros in them.
    """
    if isinstance(names, str) or not names:
        raise ValueError(f"sizes {names!r}: expected a list, such as [{names or '17M'!r}]")
    folders = [find_folder(name, models_dir) for name in names]
    stated = [read_config(folder) for folder in folders]  # first: it refuses other architectures
    encoder = load_encoder(folders[0])
    for name, folder in zip(names[1:], folders[1:]):
        if load_encoder(folder) != encoder:
            pair = f"draft {name} and target {names[0]}"
            raise ValueError(f"{pair} have different vocabularies: they cannot pair")
    configs = [fit_vocabulary(folder, config, encoder) for folder, config in zip(folders, stated)]
    require_memory(configs)
    reads = [stored_weights(folder, config) for folder, config in zip(folders, configs)]
    backend = backend or get_backend()
    models = [build_model(config, read, backend) for config, read in zip(configs, reads)]
    return models, encoder


def require_memory(configs: list[Config]) -> None:
    """Raise ValueError if models of these shapes, and a cache for each, do not fit into the memory
    that is free: a machine that swaps is busy for hours. All fit if the system doesn't say.
    """
    # of a cache, for each position: a key and a value for each layer, and one hidden state
    numbers = sum(c.n_parameters + c.n_ctx * c.n_embd * (2 * c.n_layer + 1) for c in configs)
    needed, free = 4 * numbers, available_bytes()  # float32
    if needed > free:
        sizes = f"{needed / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are available"
        advice = "use a smaller model, or close other programs"
        raise ValueError(f"weights and caches need {sizes}; {advice}")


def available_bytes(proc: str = "/proc", cgroup: str = "/sys/fs/cgroup") -> float:
    """How many bytes this process can still allocate: on Linux what the machine has available, or
    its container allows, if less; elsewhere infinity. proc, cgroup: the system's folders for both
    """
    free = allowed = float("inf")
    with suppress(OSError, IndexError):  # no such file, or no such line
        meminfo = Path(proc, "meminfo").read_text()
        free = 1024 * int(re.findall(r"MemAvailable:\s+(\d+) kB", meminfo)[0])
    with suppress(OSError, IndexError, ValueError):  # ValueError: the limit is "max"
        limit = int(Path(cgroup, "memory.max").read_text())
        used = int(Path(cgroup, "memory.current").read_text())
        cached = re.findall(r"inactive_file (\d+)", Path(cgroup, "memory.stat").read_text())
        allowed = limit - used + int(cached[0])  # cached pages are freed when needed
    return min(free, allowed)
