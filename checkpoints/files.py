"""What all of checkpoints/ uses: the error for input that cannot be used, reading a folder's small
files, and checksums of files of any size.

A file that cannot be opened, read or written is an OSError with its name in it.
"""

import hashlib
import json
from contextlib import contextmanager


class InputError(ValueError):
    """Something the user gave cannot be used.

    The message is one line: what it was, what was expected, what to do. Control characters, which
    a damaged file may bring along, are escaped, so that none of them reaches a terminal.
    """

    def __init__(self, message):
        super().__init__(printable(str(message)))


def printable(text):
    r"""The text with everything escaped that does not print: "a\nb" becomes "a\\nb"."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def naming(path):
    """An OSError in this block has a file's name: that of a full disk comes without one."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def digest(files, algorithm):
    """A checksum of hashlib over the contents of files, one after the other, in hexadecimal."""
    state = hashlib.new(algorithm, usedforsecurity=False)
    for path in files:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                state.update(block)
    return state.hexdigest()


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
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: cannot be read as JSON ({reason})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object")
    return value
