"""What all of checkpoints/ uses: reading a folder's small files, and checksums of large ones.

A file that cannot be opened, read or written is an OSError with its name in it.
"""

import hashlib
import json
import math
from pathlib import Path

from checkpoints.errors import InputError


def name_of(model):
    """The name of a model for output, without a path of this machine.

    >>> name_of("124M"), name_of("models/mine"), name_of("/home/me/models/mine")
    ('124M', 'models/mine', 'mine')
    """
    return Path(model).name if Path(model).is_absolute() else model


def digest(files, algorithm: str) -> str:
    """Hash the contents of [Path], one after the other, and return the hash in hexadecimal.
    algorithm: a name of hashlib. Raises OSError.
    """
    state = hashlib.new(algorithm, usedforsecurity=False)
    for path in files:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                state.update(block)
    return state.hexdigest()


def sha256_of(files):
    """Hash the contents of [Path], one after the other. Returns the SHA-256 in hexadecimal."""
    return digest(files, "sha256")


def first_of(folder, *names):
    """Return the Path of the first of these names that is a file in the folder, a Path. Raises
    InputError if none is.
    """
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: has no {' or '.join(names)}; a model folder needs one")


def strict_json(text):
    """Parse a JSON text, str or bytes. Raises ValueError, also for numbers that JSON does not have,
    such as NaN.
    """

    def finite(number):  # text -> float
        if not math.isfinite(float(number)):  # NaN, Infinity, and numbers as large as 1e999
            raise ValueError(f"{number} is no number of JSON")
        return float(number)

    return json.loads(text, parse_float=finite, parse_constant=finite)


def read_json(path, optional=False):
    """Read the JSON object in the file at a Path, as a dict; {} if the file is optional and not
    there. Raises InputError if it holds anything else, OSError if it cannot be read.
    """
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
