"""What differs between computing with NumPy and on a GPU: Backend, and how to get one."""

import ctypes
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import backends.before_numpy  # noqa: F401, isort: skip: BLAS kernels and threads, before NumPy

import numpy as np

import gpt2
from backends.threads import on_all_threads
from backends.tiles import Tiles, one_row, several_rows

# a smaller weight stays in a core's cache, where NumPy's own product of one row is the fastest
SMALL = 100_000  # numbers
# OpenBLAS's kernels that do not pack small products
AVX512 = ("SkylakeX", "Cooperlake", "SapphireRapids")
# the function of OpenBLAS that names them; 64_: of a build whose integers have 64 bits
CORENAME = "openblas_get_corename"
CORENAMES = (CORENAME, f"{CORENAME}64_", f"scipy_{CORENAME}", f"scipy_{CORENAME}64_")


def on_one_thread(function: Callable, n: int, size: int) -> None:
    """Call function(0, n): the run_on_threads of arrays that need no threads; size is not used."""
    function(0, n)


def exact_gelu(x, xp):  # [..., n] -> [..., n]
    """x times the probability that a standard normal number is below it, to 1e-7, as a new array:
    for the few models that want it, in place of gpt2.gelu, which approximates it by tanh.
    """
    # NumPy has no erf: Abramowitz and Stegun (1964), 7.1.26
    t = 1 / (1 + (0.3275911 * math.sqrt(0.5)) * abs(x))
    polynomial = 0.0
    for c in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        polynomial = (polynomial + c) * t
    tail = 0.5 * polynomial * xp.exp(-0.5 * x * x)  # the probability of more than |x|
    return x * xp.where(x < 0, tail, 1 - tail)


@dataclass(frozen=True)
class Backend:
    """The array module, how weights are multiplied and work is shared, and the parts of a block of
    which a backend may bring a faster form: all that differs between NumPy and CuPy. The parts
    themselves are defined in gpt2.py, exact_gelu above.
    """

    name: str
    xp: Any  # the array module: numpy or cupy
    asarray: Callable  # from NumPy to this backend
    to_host: Callable  # logits, x @ lay_out(w), as a NumPy array
    lay_out: Callable  # x @ lay_out(w), for a weight w [n_in, n_out], is the product, but fast
    # run_on_threads(f, n, size): call f(a, b) for ranges that cover 0 to n; size: see threads.py
    run_on_threads: Callable = on_one_thread
    looks_up: bool = True  # whether lay_out(w).T[ids] are rows of w.T, unrounded
    layer_norm: Callable = gpt2.layer_norm
    dot_product_attention: Callable = gpt2.dot_product_attention
    gelu: Callable = gpt2.gelu
    exact_gelu: Callable = exact_gelu


def get_backend(name: str = "numpy") -> Backend:
    """The Backend "numpy"; or on a GPU "cupy", or "cupy-float16", whose layers' weights are stored
    and multiplied in float16. Raises ValueError for another name, and without CuPy or a GPU.
    """
    if name == "numpy":
        return Backend(name, np, np.asarray, np.asarray, lay_out, run_on_threads=on_all_threads)
    if name not in ("cupy", "cupy-float16"):
        raise ValueError(f"backend {name!r}: expected numpy, cupy or cupy-float16")
    try:
        from backends import gpu

        gpu.cupy.cuda.runtime.getDeviceCount()  # raises an error if there is no GPU
    except ImportError:
        raise ValueError(f"backend {name!r} needs CuPy: pip install cupy-cuda12x") from None
    except Exception as error:  # CuPy's own: no driver, no GPU, a wrong version
        raise ValueError(f"backend {name!r}: no GPU ({error!r}); use --backend numpy") from None
    dtype = np.float16 if name == "cupy-float16" else np.float32
    return Backend(name, **gpu.parts(dtype))


@cache
def openblas_kernels() -> str | None:
    """The name of the kernels that OpenBLAS runs here, such as "SkylakeX" or "Haswell". None if
    NumPy has another BLAS, such as Apple's Accelerate, or one without a function of CORENAMES.
    """
    # a part of NumPy: functions of OpenBLAS, which it needs, are found in it, but on Windows
    library = np.linalg._umath_linalg.__file__
    if sys.platform == "win32":
        for dll in Path(np.__file__).parents[1].glob("numpy.libs/*openblas*.dll"):
            library = str(dll)
    functions = ctypes.CDLL(library)
    for name in CORENAMES:
        get_corename = getattr(functions, name, None)
        if get_corename is not None:
            get_corename.restype = ctypes.c_char_p
            return get_corename().decode()
    return None


def lay_out(weight: np.ndarray) -> Any:
    """What `x @ weight` [n_in, n_out] is fastest with: Tiles that suit OpenBLAS's kernels (why:
    docs/performance.md); the array itself if it has fewer than SMALL numbers, or without OpenBLAS.
    """
    kernels = openblas_kernels()
    if kernels is None or weight.size < SMALL:
        return weight
    if kernels in AVX512:
        return Tiles(weight, width=64, max_depth=1024, rows_at_a_time=several_rows)
    return Tiles(weight, width=32, max_depth=512, rows_at_a_time=one_row)
