"""Tensors in files: what the readers of all formats return."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

# as they are stored; bfloat16 is the upper half of a float32
DTYPES = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}
MAX_AXES = 4  # of a causal mask; more only serve to make a product of sizes huge


@dataclass(frozen=True)
class Tensor:
    """An array in a file, from byte `offset` on in `size` bytes. It is read only when asked.

    dtype: one of DTYPES, or any other name for a tensor that cannot be read. order: "F" if the
    columns follow one another, as PyTorch stores a transposed matrix. n_rows: how many of the first
    rows are wanted, None for all. query_scale: what the first third of the columns is multiplied
    by; in c_attn, these make the queries. Raises ValueError for numbers that are no sizes.
    """

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int
    order: Literal["C", "F"] = "C"
    n_rows: int | None = None
    query_scale: float = 1

    def __post_init__(self):
        sizes = (self.offset, self.size, *self.shape)
        if len(self.shape) > MAX_AXES or not all(type(n) is int and n >= 0 for n in sizes):
            raise ValueError(f"{self.name!r} at {self.offset!r} has shape {self.shape[:MAX_AXES]}")

    def stored(self) -> np.ndarray:
        """The numbers as they are stored, mapped into memory; bfloat16 as float32."""
        if self.dtype not in DTYPES:
            raise ValueError(
                f"{self.path}: {self.name} is {self.dtype}; expected one of {', '.join(DTYPES)}"
            )
        array: np.ndarray = np.memmap(
            self.path, DTYPES[self.dtype], "r", self.offset, self.shape, self.order
        )
        if self.n_rows is not None:
            array = array[: self.n_rows]
        if self.dtype == "bfloat16":
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array

    def read(self, dtype: np.typing.DTypeLike) -> np.ndarray:
        """Read the tensor into memory. Raises ValueError if it holds NaN, infinity or a number too
        large for dtype.
        """
        with np.errstate(over="ignore"):  # a number too large becomes infinity, refused below
            array = np.array(self.stored(), dtype=dtype, order="C", subok=False)
        if not np.isfinite([array.min(), array.max()]).all():
            raise ValueError(
                f"{self.path}: {self.name!r} holds NaN or infinity; fetch the file again"
            )
        if self.query_scale != 1:
            array[..., : array.shape[-1] // 3] *= self.query_scale
        return array


def require_contiguous(path: Path, tensors: Iterable[Tensor], begin: int = 0):
    """Raise ValueError unless the tensors fill the file from byte `begin` to its end: no gap, no
    overlap, and each in as many bytes as its shape and dtype take.
    """
    end, n_bytes = begin, path.stat().st_size
    for tensor in sorted(tensors, key=lambda tensor: (tensor.offset, tensor.size)):
        dtype = DTYPES.get(tensor.dtype)
        size = math.prod(tensor.shape) * np.dtype(dtype).itemsize if dtype else tensor.size
        if (tensor.offset, tensor.size) != (end, size):
            raise ValueError(
                f"{path}: its tensors do not fill it from byte {end} on; fetch it again"
            )
        end += size
    if end != n_bytes:
        raise ValueError(f"{path}: has {n_bytes} bytes of {end}; fetch it again")
