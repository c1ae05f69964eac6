"""What every checkpoint comes down to, whatever its format: named tensors that lie in files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from checkpoints.errors import InputError
from checkpoints.formats.crc32c import crc32c

# as they are stored
DTYPES = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}
MOST_AXES = 32  # of a shape in a file; more only serve to make a product of sizes huge
ROWS = 1024  # compared at a time


@dataclass(frozen=True)
class Tensor:
    """Where an array lies: numbers of `dtype` from byte `offset` of a file on.

    dtype is one of DTYPES, or another name for a tensor that may be there but cannot be read.
    crc32c is the checksum that the file states of its bytes, or None.
    """

    path: Path
    name: str
    dtype: str
    shape: tuple
    offset: int
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


def numbers(array, dtype):
    """Stored numbers as NumPy can compute with them: bfloat16 is the upper half of a float32."""
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def same_numbers(a, b):
    """Whether two tensors of one shape hold the same numbers, however each stores them."""
    rows_a, rows_b = a.stored(), b.stored()
    for first in range(0, len(rows_a), ROWS):  # a copy of some rows at a time
        rows = slice(first, first + ROWS)
        if not np.array_equal(numbers(rows_a[rows], a.dtype), numbers(rows_b[rows], b.dtype)):
            return False
    return True
