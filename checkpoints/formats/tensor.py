"""What every checkpoint comes down to, whatever its format: files, and named tensors that lie in
them.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from checkpoints.formats.crc32c import crc32c

# as they are stored
DTYPES = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}


class InputError(ValueError):
    """Something the user gave cannot be used. The message is one line: what it was, what was
    expected, what to do.
    """


def read_json(path, kind=dict):
    """The JSON value in a file, which must be of the given kind. Raises InputError."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({str(error).splitlines()[0]})") from None
    if not isinstance(value, kind):
        raise InputError(f"{path}: expected a JSON {'object' if kind is dict else kind.__name__}")
    return value


def first_of(folder, *names):
    """The first of these files that is in the folder. Raises InputError if none is."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: has no {' or '.join(names)}; a model folder needs one")


@dataclass(frozen=True)
class Tensor:
    """Where an array lies: numbers of `dtype` from byte `offset` of a file on.

    dtype is one of DTYPES, or what the file calls one that is none of them: such a tensor may be
    there, and is not read. crc32c is the checksum that the file states of its bytes, or None.
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
        array = self.stored()
        if self.dtype == "bfloat16":  # the upper half of a float32
            array = (array.astype(np.uint32) << 16).view(np.float32)
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
                f"{self.path}: the bytes of {self.name} do not match their checksum; fetch the file again"
            )
