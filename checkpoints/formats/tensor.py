"""Tensors in files: the readers of all checkpoint formats return them."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from checkpoints.errors import InputError

# as they are stored
DTYPES = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}
MAX_AXES = 32  # of a shape in a file; more only serve to make a product of sizes huge


@dataclass(frozen=True)
class Tensor:
    """A named array in a file: numbers of `dtype` in `size` bytes from byte `offset` on.

    dtype: one of DTYPES, or any other name for a tensor that cannot be read. crc32c: the checksum
    of its bytes that the file states, or None. Raises TypeError if offset, size or shape are not
    whole numbers.
    """

    path: Path
    name: str
    dtype: str
    shape: tuple
    offset: int
    size: int
    crc32c: int | None = None

    def __post_init__(self):
        if {type(n) for n in (self.offset, self.size, *self.shape)} != {int}:
            raise TypeError(f"{self.name} lies at {self.offset!r}, in the shape {self.shape}")

    def stored(self):  # -> [*shape]
        """Map the bytes of the file as a read-only array, bfloat16 as uint16. Raises InputError if
        the dtype cannot be read.

        The file stays mapped as long as the array lives. There is a map for each tensor, because
        the pages of a map that were read count as memory of this process.
        """
        if self.dtype not in DTYPES:
            raise InputError(
                f"{self.path}: {self.name} is {self.dtype}; expected one of {', '.join(DTYPES)}"
            )
        return np.memmap(self.path, DTYPES[self.dtype], "r", self.offset, self.shape)

    def numbers(self):  # -> [*shape]
        """The stored array in its own dtype; bfloat16, which NumPy lacks, as float32."""
        array = self.stored()
        if self.dtype == "bfloat16":
            return (array.astype(np.uint32) << 16).view(np.float32)  # its upper 16 bits
        return array

    def read(self, dtype):  # -> [*shape]
        """Read the tensor into memory, as an array of `dtype`. Raises InputError if it holds NaN,
        infinity or a number too large for dtype.
        """
        with np.errstate(over="ignore"):  # a number too large for dtype becomes infinity, refused
            array = np.array(self.numbers(), dtype=dtype, order="C", subok=False)  # no memmap
        if not np.isfinite([array.min(), array.max()]).all():
            raise InputError(
                f"{self.path}: {self.name!r} holds NaN or infinity; fetch the file again"
            )
        return array

    def compare_checksum(self):
        """Compare the bytes to the checksum that the file states: "right", "wrong", "none stated",
        or "unknown" without google-crc32c, which computes it. Raises InputError as `stored` does.
        """
        if self.crc32c is None:
            return "none stated"
        try:
            import google_crc32c
        except ImportError:
            return "unknown"
        crc32c = google_crc32c.value(self.stored().tobytes())
        return "right" if crc32c == self.crc32c else "wrong"


def require_contiguous(path, tensors, begin=0):
    """Raise InputError unless these Tensors fill the file at a Path from byte `begin` to its end:
    no gap, no overlap, and each in exactly the bytes that its shape and dtype take.
    """
    end = begin
    for tensor in sorted(tensors, key=lambda tensor: (tensor.offset, tensor.size)):
        if tensor.offset > end:
            raise InputError(
                f"{path}: bytes {end} to {tensor.offset} are no tensor's, as if one were missing; "
                "fetch it again"
            )
        if tensor.offset < end or not has_right_size(tensor):
            shape = list(tensor.shape[:MAX_AXES])
            raise InputError(
                f"{path}: {tensor.name!r} of shape {shape} cannot lie in {tensor.size} bytes "
                f"from byte {tensor.offset} on; fetch it again"
            )
        end += tensor.size
    n_bytes = path.stat().st_size
    if end != n_bytes:
        problem = "is truncated" if end > n_bytes else "has bytes that are no tensor's"
        raise InputError(f"{path}: {problem}: {n_bytes} of {end}; fetch it again")


def has_right_size(tensor):
    """Whether a Tensor's size is that of its shape (at most MAX_AXES axes) and dtype. A dtype that
    cannot be read may have any size from 0 on.
    """
    if len(tensor.shape) > MAX_AXES or tensor.size < 0:
        return False
    if tensor.dtype not in DTYPES:
        return True
    return tensor.size == math.prod(tensor.shape) * np.dtype(DTYPES[tensor.dtype]).itemsize
