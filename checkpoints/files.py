"""What all of checkpoints/ uses: reading a folder's small files, and checksums of large ones.

A file that cannot be opened, read or written is an OSError with its name in it.
"""

import hashlib
import json
import math
from pathlib import Path

from checkpoints.errors import InputError


def name_of(model):
    """The last part of an absolute model folder; a size or a relative folder as it is given."""
    return Path(model).name if Path(model).is_absolute() else model


def digest(files, algorithm: str) -> str:
    """Hash the contents of several Paths in order, with an algorithm of hashlib, to hexadecimal."""
    state = hashlib.new(algorithm, usedforsecurity=False)
    for path in files:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                state.update(block)
    return state.hexdigest()


def sha256_of(files):
    return digest(files, "sha256")


def first_of(folder, *names):
    """The Path of the first of these files in the folder. Raises InputError if none is there."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: has no {' or '.join(names)}; a model folder needs one")


def strict_json(text):
    """The value of a JSON text. Raises ValueError, also for numbers that JSON does not have."""

    def finite(number):
        if not math.isfinite(float(number)):  # NaN, Infinity, and what is too large, such as 1e999
            raise ValueError(f"{number} is no number of JSON")
        return float(number)

    return json.loads(text, parse_float=finite, parse_constant=finite)


def read_json(path, optional=False):
    """The JSON object in a file, {} for one that is optional and not there."""
    if optional and not path.is_file():
        return {}
    try:
        value = strict_json(path.read_bytes())
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: cannot be read as JSON ({reason}); fetch it again") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object")
    return value
