"""Builds models for a backend, NumPy or CuPy, with the weights of a checkpoint folder or random
weights.

The folders themselves, their file formats and downloads, are in checkpoints/.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import backends.before_numpy  # noqa: F401, isort: skip: BLAS kernels and threads, before NumPy

import numpy as np

from backends import memory
from backends.kernels import lay_out
from backends.threads import on_all_threads, on_one_thread
from checkpoints.errors import InputError
from checkpoints.folder import open_weights, read_config
from checkpoints.registry import SIZES
from checkpoints.search import find_folder, locate
from checkpoints.tokenizer import fit_vocabulary, load_encoder
from gpt2 import Config, Model, nested

# ---------------------------------------------------------------- backends

CHECKPOINT, RANDOM = "checkpoint", "random"  # where weights come from


@dataclass(frozen=True)
class Backend:
    """The array module, and how weights are laid out: all that differs between NumPy and CuPy."""

    name: str
    xp: Any  # the array module: numpy or cupy
    asarray: Callable  # from NumPy to this backend
    to_host: Callable  # and back
    lay_out: Callable  # x @ lay_out(w), for a weight w [n_in, n_out], is the product, but fast
    synchronize: Callable  # wait until all work is done
    # run_on_threads(f, n, size): call f(a, b) for ranges that cover 0 to n; size: see threads.py
    run_on_threads: Callable = on_one_thread


def get_backend(name: str = "numpy") -> Backend:
    """The Backend "numpy"; or "cupy", on a GPU; or "cupy-float16", whose weights take half the
    memory and are multiplied in float16. Raises ValueError if it is not to be had.
    """
    if name in ("cupy", "cupy-float16"):
        return cupy_backend(half=name == "cupy-float16")
    if name != "numpy":
        raise ValueError(f"backend {name!r}: expected numpy, cupy or cupy-float16")
    return Backend(
        name="numpy",
        xp=np,
        asarray=np.asarray,
        to_host=np.asarray,
        lay_out=lay_out,
        synchronize=nothing_to_wait_for,
        run_on_threads=on_all_threads,
    )


def nothing_to_wait_for():
    """NumPy's `synchronize`: a call has done its work when it returns."""


def cupy_backend(half: bool) -> Backend:
    """The Backend of CuPy; half: float16. Raises ValueError without a GPU or CuPy."""
    try:
        from backends import gpu

        gpu.cupy.cuda.runtime.getDeviceCount()
    except ImportError:
        raise ValueError(
            "backend 'cupy': CuPy is not installed; try pip install cupy-cuda12x"
        ) from None
    except Exception as error:  # CuPy's own: no driver, no GPU, a wrong version
        raise ValueError(f"backend 'cupy': no GPU here ({error!r}); use --backend numpy") from None
    return Backend(
        name="cupy",
        xp=gpu.cupy,
        asarray=gpu.cupy.asarray,
        to_host=gpu.cupy.asnumpy,
        lay_out=gpu.Half if half else gpu.cupy.asarray,
        synchronize=gpu.synchronize,
    )


# ---------------------------------------------------------------- memory


def require_memory(configs, backend, n_texts=1, dtype=np.float32, loaded=False):
    """Raise InputError if the models of [Config], and their caches for n_texts texts each, do not
    fit into free memory. loaded: the weights are in memory already. CuPy's memory is not checked.
    """
    if backend.name != "numpy":
        return  # CuPy says itself what does not fit
    needed = n_texts * sum(memory.cache_bytes(config, dtype) for config in configs)
    subject, advice = f"{n_texts} texts together", "use a smaller --batch_size"
    if not loaded:
        needed += sum(memory.weights_bytes(config, dtype) for config in configs)
        subject, advice = "weights and caches", "use a smaller model"
    free = memory.available_bytes()
    if needed > free:
        raise InputError(
            f"{subject} need {needed / 1e9:.1f} GB of memory, {max(0, free) / 1e9:.1f} GB are "
            f"available; {advice}, or close other programs"
        )


# ---------------------------------------------------------------- models


def build_model(config: Config, read: Callable, backend: Backend, dtype) -> Model:
    """Build the Model. read(name) -> array of dtype, for each name in config.shapes()."""
    parameters = {}
    for name, shape in config.shapes().items():
        # the matrices of the blocks are laid out for products, and so is the head, below
        is_matrix = name.startswith("h.") and len(shape) == 2
        store = backend.lay_out if is_matrix else backend.asarray
        # a vector as one row: NumPy adds arrays of one shape twice as fast as others
        parameters[name] = store(np.atleast_2d(read(name)))
    tree = nested(parameters)
    wte = tree["wte"]["weight"]
    head = backend.lay_out(wte.T)  # GPT-2's output head is its token embedding, transposed
    params = {
        # one copy in two roles, unless the head has no T to look up rows in: gpu.Half has none
        "wte": head.T if hasattr(head, "T") else wte,
        "wpe": tree["wpe"]["weight"],
        "blocks": [tree["h"][str(i)] for i in range(config.n_layer)],
        "ln_f": tree["ln_f"],
        "head": head,
    }
    return Model(config, params, backend)


def random_weights(config, dtype=np.float32, seed=0, scale=0.02):
    """A function read(name) -> random array of the parameter's shape, for build_model. scale: their
    standard deviation. The texts of such a model mean nothing, but its times are real.
    """
    rng, shapes = np.random.default_rng(seed), config.shapes()

    def read(name):
        noise = scale * rng.standard_normal(shapes[name], dtype=dtype)
        # layer norms scale by about one
        return noise + dtype(1) if re.search(r"ln_\w+\.weight", name) else noise

    return read


def stored_weights(folder, config):
    """A function read(name) -> float32 array in a checkpoint folder (a Path), for build_model."""
    tensors = open_weights(folder, config)
    return lambda name: tensors[name].read(np.float32)


def random_model(config, backend, dtype=np.float32, seed=0, scale=0.02):
    """Build a Model with random weights of a normal distribution; scale: its standard deviation.
    Raises InputError if memory does not suffice.
    """
    require_memory([config], backend, dtype=dtype)
    return build_model(config, random_weights(config, dtype, seed, scale), backend, dtype)


def load_model(folder: Path, backend: Backend) -> Model:
    """Load a checkpoint folder in float32. Raises InputError, also if memory does not suffice."""
    config = read_config(folder)
    require_memory([config], backend)
    return build_model(config, stored_weights(folder, config), backend, np.float32)


def load_models(sizes, models_dir, backend, weights=CHECKPOINT, download=False):
    """Load ([Model], encoder) for a list of sizes or folders (str): a target, then its drafts.

    backend: a Backend. weights: "checkpoint", or "random" for the same shapes with texts that mean
    nothing. download: fetch missing models. Raises InputError before any weight is read, also if
    vocabularies differ: token 17 must mean the same to all of them.
    """
    if isinstance(sizes, str):
        raise InputError(f"sizes {sizes!r}: expected a list, such as [{sizes!r}]")
    configs, reads, encoder = find_sources(sizes, models_dir, weights, download)
    require_memory(configs, backend)
    models = [
        build_model(config, read, backend, np.float32) for config, read in zip(configs, reads)
    ]
    return models, encoder


def find_sources(sizes, models_dir, weights, download):
    """Find ([Config], [read], encoder) for a list of sizes or folders. read(name) -> array is the
    function for build_model; no weight is read yet. The parameters are those of load_models. Raises
    InputError if a model cannot be found, or vocabularies differ.
    """
    sources = random_sources if weights == RANDOM else stored_sources
    return sources(sizes, models_dir, download)


def stored_sources(sizes, models_dir, download):
    """What find_sources returns and raises, for model folders. download: fetch missing ones."""
    folders = [find_folder(size, models_dir, download) for size in sizes]
    configs = [read_config(folder) for folder in folders]  # which tells a model of another kind
    encoder = load_encoder(folders[0])
    for size, folder in zip(sizes[1:], folders[1:]):
        if load_encoder(folder) != encoder:
            raise ValueError(
                f"draft {size} and target {sizes[0]} have different vocabularies: they cannot pair"
            )
    configs = [fit_vocabulary(*of, encoder) for of in zip(folders, configs)]
    reads = [stored_weights(folder, config) for folder, config in zip(folders, configs)]
    return configs, reads, encoder


def random_sources(sizes, models_dir, download):
    """What find_sources returns and raises, for random weights. download is not used."""
    configs = [config_of(size, models_dir) for size in sizes]
    for size, config in zip(sizes, configs):
        if config.n_vocab != configs[0].n_vocab:
            raise InputError(
                f"draft {size} has {config.n_vocab} tokens, target {sizes[0]} "
                f"{configs[0].n_vocab}: they cannot pair"
            )
    reads = [random_weights(config, seed=seed) for seed, config in enumerate(configs)]
    return configs, reads, AnyTokens(configs[0].n_vocab)


def config_of(size, models_dir):
    """The Config of a size or of a folder, for random weights. Raises InputError for any other."""
    if size in SIZES:
        return SIZES[size]
    folder = locate(size, models_dir)
    if folder is None:
        raise InputError(
            f"--weights random: no shape {size!r}; "
            f"expected {', '.join(SIZES)}, or a folder with a config.json"
        )
    return read_config(folder)


class AnyTokens:
    """The encoder of models with random weights: the included tokenizer's ids modulo n_vocab."""

    def __init__(self, n_vocab):
        # the included tokenizer, wherever the user keeps models
        self.encoder = load_encoder(Path(__file__).resolve().parent / "models" / "17M")
        self.n_vocab = n_vocab

    def encode(self, text):
        """Encode a text to a list of ids, each below n_vocab."""
        return [i % self.n_vocab for i in self.encoder.encode(text)]
