"""Named tensors in files: what each checkpoint format is read as."""

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
    """Where an array lies: numbers of `dtype` in `size` bytes of a file from `offset` on.

    dtype is one of DTYPES, or another name for a tensor that may be there but cannot be read.
    crc32c is the checksum that the file states of its bytes, or None. Raises TypeError for a place
    or a shape that is not of whole numbers.
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
        """The bytes in the file as a read-only array, bfloat16 as uint16. The map is gone when the
        array is.

        One map for each tensor, not one for the file: pages that were read count as this process's
        memory while mapped.
        """
        if self.dtype not in DTYPES:
            raise InputError(
                f"{self.path}: {self.name} is {self.dtype}; expected one of {', '.join(DTYPES)}"
            )
        return np.memmap(self.path, DTYPES[self.dtype], "r", self.offset, self.shape)

    def numbers(self):  # -> [*shape]
        """The stored array in a dtype of NumPy: bfloat16 becomes float32."""
        array = self.stored()
        if self.dtype == "bfloat16":
            return (array.astype(np.uint32) << 16).view(np.float32)  # its upper 16 bits
        return array

    def read(self, dtype):  # -> [*shape]
        """The tensor as an array of `dtype`, in memory. Refuses NaN and infinity."""
        with np.errstate(over="ignore"):
            array = np.array(self.numbers(), dtype=dtype, order="C", subok=False)
        if not np.isfinite([array.min(), array.max()]).all():
            raise InputError(
                f"{self.path}: {self.name!r} holds NaN or infinity; fetch the file again"
            )
        return array

    def checksum(self):
        """Whether the bytes have the checksum that the file states, in words; "unknown" without
        google-crc32c, which computes it.
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
        shape = tensor.shape[:MAX_AXES]
        size = tensor.size  # a dtype that cannot be read: believe the file
        if tensor.dtype in DTYPES:
            size = math.prod(shape) * np.dtype(DTYPES[tensor.dtype]).itemsize
        if tensor.offset > end:
            raise InputError(
                f"{path}: bytes {end} to {tensor.offset} are no tensor's, as if one were missing; "
                "fetch it again"
            )
        if size < 0 or (tensor.shape, tensor.offset, tensor.size) != (shape, end, size):
            raise InputError(
                f"{path}: {tensor.name!r} of shape {list(shape)} cannot lie in {tensor.size} bytes "
                f"from byte {tensor.offset} on; fetch it again"
            )
        end += size
    n_bytes = path.stat().st_size
    if end != n_bytes:
        problem = "is truncated" if end > n_bytes else "has bytes that are no tensor's"
        raise InputError(f"{path}: {problem}: {n_bytes} of {end}; fetch it again")
