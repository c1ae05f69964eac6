"""Tensors in files: what the readers of all formats return."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from checkpoints.files import REFETCH

DTYPES = {  # {name: NumPy's code of what is stored}; bfloat16 is the upper half of a float32
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "bfloat16": "<u2",
    "int64": "<i8",
    "int32": "<i4",
    "uint8": "u1",
    "bool": "?",
}
FLOATS = ("float64", "float32", "float16", "bfloat16")
MAX_AXES = 4  # of a causal mask; more only serve to make a product of sizes huge


@dataclass(frozen=True)
class Tensor:
    """Where an array lies in a file. Its numbers are read only when asked for.

    dtype: one of DTYPES. offset: its first byte in the file. order: "C" if its rows follow one
    another, "F" if its columns do, as PyTorch stores a transposed matrix, None for a view of which
    neither is true.

    Raises ValueError for a shape or offset that cannot be, and for another dtype.
    """

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    order: Literal["C", "F"] | None = "C"

    def __post_init__(self):
        """Raise ValueError for fields that a damaged file may have: True and 2.0 are no sizes."""
        are_sizes = all(type(n) is int and n >= 0 for n in (self.offset, *self.shape))
        if not are_sizes or len(self.shape) > MAX_AXES:  # maybe by thousands: not all are shown
            raise ValueError(f"{self.name!r} has shape {self.shape[:MAX_AXES]} at {self.offset!r}")
        if self.dtype not in DTYPES:
            raise ValueError(f"{self.name!r} is of type {self.dtype!r}, which cannot be read")

    @property
    def size(self) -> int:
        """How many bytes it takes in the file."""
        return math.prod(self.shape) * itemsize(self.dtype)

    def stored(self) -> np.ndarray:
        """The array, mapped into memory read-only from the file, in the float type in which it is
        stored; of bfloat16, which NumPy lacks, a float32 copy. Raises ValueError, which names the
        file, if dtype is no float type (one of FLOATS), and for a view with gaps (order is None).
        """
        where, expected = f"{self.path}: {self.name}", f"expected one of {', '.join(FLOATS)}"
        if self.order is None:
            raise ValueError(f"{where} is a view with gaps; {expected}")
        if self.dtype not in FLOATS:
            raise ValueError(f"{where} is {self.dtype}; {expected}")
        code, shape = DTYPES[self.dtype], self.shape
        array: np.ndarray = np.memmap(self.path, code, "r", self.offset, shape, self.order)
        if self.dtype == "bfloat16":  # two bytes of each number: the upper half of a float32
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array

    def read(self, dtype: DTypeLike) -> np.ndarray:
        """A copy of the array in memory, in this dtype. Raises ValueError for what `stored`
        refuses, and for NaN, infinity or a number too large for dtype.
        """
        with np.errstate(over="ignore"):  # a number too large becomes infinity, refused below
            array = np.array(self.stored(), dtype=dtype, order="C", subok=False)  # no memmap
        if not np.isfinite([array.min(), array.max()]).all():  # of NaN, min() is NaN
            problem = f"{self.name!r} holds NaN or infinity; fetch the file again"
            raise ValueError(f"{self.path}: {problem}")
        return array


def itemsize(dtype: str) -> int:
    """How many bytes a number of one of DTYPES takes."""
    return np.dtype(DTYPES[dtype]).itemsize


def require_contiguous(path: Path, tensors: Iterable[Tensor], begin: int = 0) -> None:
    """Raise ValueError unless the tensors fill the file at `path`, which the error names, from byte
    `begin` to its end: no gap, no overlap.
    """
    end, n_bytes = begin, path.stat().st_size
    # where two begin at one byte, the first has to be empty
    for tensor in sorted(tensors, key=lambda tensor: (tensor.offset, tensor.size)):
        if tensor.offset != end:
            raise ValueError(f"{path}: its tensors do not fill it from byte {end}; {REFETCH}")
        end += tensor.size
    if end != n_bytes:
        raise ValueError(f"{path}: has {n_bytes} bytes of {end}; {REFETCH}")
