"""Which kernels NumPy's BLAS has, and the tiles that go with them."""

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from backends.tiles import Tiles, one_row, several_rows

# a smaller weight stays in a core's cache, where NumPy's own product of one row is the fastest
SMALL = 100_000  # numbers
# OpenBLAS's kernels that do not pack small products
AVX512 = ("SkylakeX", "Cooperlake", "SapphireRapids")


@cache
def openblas_kernels() -> str | None:
    """The name of the kernels that OpenBLAS runs here, such as "SkylakeX" or "Haswell". None if
    NumPy has another BLAS, such as Apple's Accelerate, or if its library cannot be asked.
    """
    # dlsym looks into the libraries that this one needs; Windows does not, so name the wheel's DLL
    library = np.linalg._umath_linalg.__file__
    if sys.platform == "win32":
        libraries = Path(np.__file__).parents[1].glob("numpy.libs/*openblas*.dll")
        library = next(map(str, libraries), library)
    functions = ctypes.CDLL(library)
    for name in ("openblas_get_corename", "scipy_openblas_get_corename"):
        for suffix in ("", "64_"):  # of a build whose integers have 64 bits
            if hasattr(functions, name + suffix):
                get_corename = functions[name + suffix]
                get_corename.restype = ctypes.c_char_p
                return get_corename().decode()
    return None


def lay_out(weight: np.ndarray) -> Any:
    """Return what `x @ weight` [n_in, n_out] is fastest with: Tiles that suit OpenBLAS's kernels;
    the array itself if it is small, or if this is another BLAS, of which nothing is known.
    """
    kernels = openblas_kernels()
    if kernels is None or weight.size < SMALL:
        return weight
    if kernels in AVX512:
        return Tiles(weight, width=64, max_depth=1024, rows_at_a_time=several_rows)
    return Tiles(weight, width=32, max_depth=512, rows_at_a_time=one_row)
