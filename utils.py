"""Builds models for a backend, NumPy or CuPy, with the weights of a checkpoint folder or random
weights.

The folders themselves, their file formats and downloads, are in checkpoints/.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import backends.before_numpy  # noqa: F401, isort: skip: BLAS kernels and threads, before NumPy

import numpy as np

from backends.kernels import lay_out
from backends.threads import on_all_threads, on_one_thread
from checkpoints.folder import open_weights, read_config
from checkpoints.registry import MODELS_DIR
from checkpoints.search import find_folder
from checkpoints.tokenizer import fit_vocabulary, load_encoder
from gpt2 import Config, Model, nested

# ---------------------------------------------------------------- backends


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
    """The Backend "numpy"; or "cupy", on a GPU; or "cupy-float16", whose layers' weights take
    half the memory and are multiplied in float16. Raises ValueError if it is not to be had.
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


def nothing_to_wait_for() -> None:
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
        name="cupy-float16" if half else "cupy",
        xp=gpu.cupy,
        asarray=gpu.cupy.asarray,
        to_host=gpu.cupy.asnumpy,
        lay_out=gpu.Half if half else gpu.cupy.asarray,
        synchronize=gpu.synchronize,
    )


# ---------------------------------------------------------------- models

Read = Callable[[str], Any]  # name of a parameter -> its array


def build_model(config: Config, read: Read, backend: Backend) -> Model:
    """Build the Model. `read` is called once for each name in config.shapes()."""
    shapes = config.shapes()
    del shapes["wte.weight"]  # the largest: its copy is gone before the others are read
    wte = backend.asarray(read("wte.weight"))
    head = backend.lay_out(wte.T)  # GPT-2's output head is its token embedding, transposed
    if hasattr(head, "T"):  # gpu.Half has no T to look up rows in
        wte = head.T  # one array in two roles
    parameters = {}
    for name, shape in shapes.items():
        is_matrix = name.startswith("h.") and len(shape) == 2
        store = backend.lay_out if is_matrix else backend.asarray
        # a vector as one row: NumPy adds arrays of one shape twice as fast as others
        parameters[name] = store(np.atleast_2d(read(name)))
    tree = nested(parameters)
    blocks = [tree["h"][str(i)] for i in range(config.n_layer)]
    if config.exact_gelu:
        for block in blocks:
            block["mlp"]["activation"] = exact_gelu
    params = {
        "wte": wte,
        "wpe": tree["wpe"]["weight"],
        "blocks": blocks,
        "ln_f": tree["ln_f"],
        "head": head,
    }
    return Model(config, params, backend)


def exact_gelu(x, xp):  # [..., n] -> [..., n], in place of gpt2.gelu
    # x times the probability that a standard normal number is below it, to 1e-7. NumPy has no erf:
    # Abramowitz and Stegun (1964), 7.1.26
    t = 1 / (1 + (0.3275911 * math.sqrt(0.5)) * abs(x))
    tail = 0.0
    for c in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail = (tail + c) * t
    tail = 0.5 * tail * xp.exp(-0.5 * x * x)  # the probability of more than |x|
    return x * xp.where(x < 0, tail, 1 - tail)


def random_weights(config: Config, dtype=np.float32, seed: int = 0, scale: float = 0.02) -> Read:
    """Weights of a normal distribution, for build_model; scale: its standard deviation. The texts
    of such a model mean nothing, but its times are real.
    """
    rng, shapes = np.random.default_rng(seed), config.shapes()

    def read(name):
        noise = scale * rng.standard_normal(shapes[name], dtype=dtype)
        # layer norms scale by about one
        return noise + dtype(1) if re.search(r"ln_\w+\.weight", name) else noise

    return read


def require_nonzero(array: np.ndarray, where: str) -> None:
    """Raise ValueError, which begins with `where`, if all of a tensor is 0, as in a file that was
    not copied to its end.
    """
    if not array.any():
        raise ValueError(f"{where} is all zeros: damaged; fetch the weights again")


def stored_weights(folder: Path, config: Config) -> Read:
    """The weights in a checkpoint folder, in float32, for build_model. To read a layer norm's gains
    raises ValueError if all are 0.
    """
    tensors = open_weights(folder, config)

    def read(name: str) -> np.ndarray:
        array = tensors[name].read(np.float32)
        if "ln_" in name and name.endswith("weight"):
            require_nonzero(array, f"{folder}: {name}")
        return array

    return read


def random_model(
    config: Config, backend: Backend, dtype=np.float32, seed: int = 0, scale: float = 0.02
) -> Model:
    """Build a Model with random weights. Raises ValueError if memory does not suffice."""
    require_memory([config])
    return build_model(config, random_weights(config, dtype, seed, scale), backend)


def load_model(folder: Path, backend: Backend) -> Model:
    """Load a checkpoint folder in float32. Raises ValueError if it cannot be used, or if memory
    does not suffice.
    """
    config = read_config(folder)
    require_memory([config])
    return build_model(config, stored_weights(folder, config), backend)


def load_models(
    names: list[str], models_dir: str = MODELS_DIR, backend: Backend | None = None
) -> tuple[list[Model], Any]:
    """Load a target, then its drafts, and their encoder. A name is a size in models_dir, a folder,
    or an owner/name of Hugging Face. Without a backend, that is NumPy.

    Raises ValueError before any weight is read, also if vocabularies differ: token 17 must mean the
    same to all of them.
    """
    if isinstance(names, str) or not names:
        raise ValueError(f"sizes {names!r}: expected a list, such as [{names or '17M'!r}]")
    folders = [find_folder(name, models_dir) for name in names]
    configs = [read_config(folder) for folder in folders]  # which tells a model of another kind
    encoders = [load_encoder(folder) for folder in folders]
    for name, encoder in zip(names, encoders):
        if encoder != encoders[0]:
            raise ValueError(
                f"draft {name} and target {names[0]} have different vocabularies: they cannot pair"
            )
    configs = [fit_vocabulary(*of, encoders[0]) for of in zip(folders, configs)]
    require_memory(configs)
    reads = [stored_weights(*of) for of in zip(folders, configs)]
    backend = backend or get_backend()
    return [build_model(*of, backend) for of in zip(configs, reads)], encoders[0]


# ---------------------------------------------------------------- memory


def require_memory(configs: list[Config]) -> None:
    """Raise ValueError if models of these shapes, and a cache for each, do not fit into the memory
    that is free: a machine that swaps is busy for hours. Systems that do not say are believed.
    """
    numbers = sum(c.n_parameters + c.n_ctx * c.n_embd * (2 * c.n_layer + 1) for c in configs)
    needed, free = 4 * numbers, available_bytes()
    if needed > free:
        raise ValueError(
            f"weights and caches need {needed / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are "
            "available; use a smaller model, or close other programs"
        )


def available_bytes(proc: str = "/proc", cgroup: str = "/sys/fs/cgroup") -> float:
    """How many bytes this process can still allocate, on Linux: what the machine has available, or
    what its container still allows. Elsewhere infinity.
    """
    free = float("inf")
    try:
        meminfo = Path(proc, "meminfo").read_text()
        free = 1024 * int(re.findall(r"MemAvailable:\s+(\d+) kB", meminfo)[0])
        limit = Path(cgroup, "memory.max").read_text()
        used = int(Path(cgroup, "memory.current").read_text())
        cached = re.findall(r"inactive_file (\d+)", Path(cgroup, "memory.stat").read_text())
        return min(free, int(limit) - used + int(cached[0]))  # cached pages are freed when needed
    except (OSError, ValueError, IndexError):  # no such file, or no limit: "max"
        return free
