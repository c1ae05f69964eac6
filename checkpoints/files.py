"""Reading the small files of a checkpoint folder, and hashing files of any size. What cannot be
read raises InputError.
"""

import hashlib
import json

from checkpoints.errors import InputError


def digest(files, algorithm):
    """A checksum of hashlib over the contents of files, one after the other, in hexadecimal."""
    found = hashlib.new(algorithm, usedforsecurity=False)
    for path in files:
        try:
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    found.update(block)
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror}); expected a file"
            ) from None
    return found.hexdigest()


def sha256_of(files):
    return digest(files, "sha256")


def first_of(folder, *names):
    """The first of these files that is in the folder."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: has no {' or '.join(names)}; a model folder needs one")


def read_json(path, optional=False):
    """The JSON object in a file, {} for one that is optional and not there."""
    if optional and not path.is_file():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: cannot be read as JSON ({reason})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object")
    return value
