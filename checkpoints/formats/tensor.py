"""What every checkpoint comes down to, whatever its format: named tensors that lie in files."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from checkpoints.errors import InputError
from checkpoints.formats.crc32c import crc32c

# as they are stored
DTYPES = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}
MOST_AXES = 32  # of a shape in a file; more only serve to make a product of sizes huge


@dataclass(frozen=True)
class Tensor:
    """Where an array lies: numbers of `dtype` in `size` bytes of a file from `offset` on.

    dtype is one of DTYPES, or another name for a tensor that may be there but cannot be read.
    crc32c is the checksum that the file states of its bytes, or None.
    """

    path: Path
    name: str
    dtype: str
    shape: tuple
    offset: int
    size: int
    crc32c: int | None = None

    def stored(self):  # -> [*shape]
        """The bytes in the file as a read-only array, bfloat16 as uint16. The map is gone when the
        array is.

        One map for each tensor, not one for the file: pages that were read count as this process's
        memory while mapped.
        """
        if self.dtype not in DTYPES:
            raise InputError(
                f"{self.path}: {self.name} is {self.dtype}; expected one of {', '.join(DTYPES)}"
            )
        if 0 in self.shape:  # nothing cannot be mapped
            return np.empty(self.shape, DTYPES[self.dtype])
        return np.memmap(self.path, DTYPES[self.dtype], "r", self.offset, self.shape)

    def read(self, dtype):  # -> [*shape]
        """The tensor as an array of `dtype`, in memory. Raises InputError for one that holds NaN or
        infinity.
        """
        array = numbers(self.stored(), self.dtype)
        with np.errstate(over="ignore"):
            array = np.array(array, dtype=dtype, order="C", subok=False)
        if array.size and not np.isfinite([array.min(), array.max()]).all():
            raise InputError(
                f"{self.path}: {self.name!r} holds NaN or infinity; fetch the file again"
            )
        return array

    def verify(self):
        """Compare the bytes with the checksum the file states, if it states one. Raises InputError
        where they differ.
        """
        if self.crc32c is not None and crc32c(self.stored()) != self.crc32c:
            raise InputError(
                f"{self.path}: the bytes of {self.name} do not match their checksum; "
                "fetch the file again"
            )


def require_fit(path, tensors, begin=0):
    """Raises InputError unless the tensors of a file lie behind byte `begin`, side by side, each in
    the bytes that its shape takes.
    """
    n_bytes, end = path.stat().st_size, begin
    for tensor in sorted(tensors, key=lambda tensor: (tensor.offset, tensor.size)):
        name, shape = tensor.name, list(tensor.shape)
        if len(shape) > MOST_AXES:
            raise InputError(f"{path}: {name!r} has {len(shape)} axes; fetch it again")
        size = tensor.size  # that of a tensor which is never read is what the file says
        if tensor.dtype in DTYPES:
            size = math.prod(shape) * np.dtype(DTYPES[tensor.dtype]).itemsize
        if size != tensor.size or min([size, *shape]) < 0:
            problem = f"{name!r} of shape {shape} lies in {tensor.size} bytes"
            raise InputError(f"{path}: {problem}; fetch it again")
        if tensor.offset < end:
            raise InputError(f"{path}: {name!r} overlaps with what lies before; fetch it again")
        end = tensor.offset + size
        if end > n_bytes:
            raise InputError(
                f"{path}: is truncated: {name!r} ends at byte {end} of {n_bytes}; fetch it again"
            )


def numbers(array, dtype):
    """Stored numbers as NumPy can compute with them: bfloat16 is the upper half of a float32."""
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def same_numbers(a, b):
    """Whether two tensors of one shape hold the same numbers, however each stores them."""
    return np.array_equal(numbers(a.stored(), a.dtype), numbers(b.stored(), b.dtype))
