"""What all of checkpoints/ uses: the error for input that cannot be used, reading a folder's small
files, and checksums of files of any size.

A file that cannot be opened, read or written is an OSError with its name in it.
"""

import hashlib
import json
import math
import sys
from contextlib import contextmanager
from pathlib import Path

MOST_NAMED = 10  # prompts in a message


class InputError(ValueError):
    """Something the user gave cannot be used.

    The message is one line: what it was, what was expected, what to do. Control characters, which
    a damaged file may bring along, are escaped, so that none of them reaches a terminal.
    """

    def __init__(self, message):
        super().__init__(printable(str(message)))


class SettingError(InputError):
    """A setting that cannot be used. The message names it as the flag it has on the command line;
    `name` and `problem` are kept apart for callers that have no flags.
    """

    def __init__(self, name, problem):
        super().__init__(f"--{name} {problem}")
        self.name, self.problem = name, problem


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


def note(message):
    """One line on stderr, without a character that a terminal would obey."""
    print("note:", printable(str(message)), file=sys.stderr)


def some(items):
    """The first of these items, separated by commas; how many more there are."""
    items = [*map(str, items)]
    named = ", ".join(items[:MOST_NAMED])
    return named + (f" and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else "")


def name_of(model):
    """A model, given by size or folder, without where this machine keeps it; a relative folder
    stays as it is.
    """
    return Path(model).name if Path(model).is_absolute() else model


def counted(n, noun):
    """The number and the noun: "1 prompt", "2 prompts"."""
    return f"{n} {noun}{'s' if n != 1 else ''}"


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
        raise InputError(f"{path}: cannot be read as JSON ({reason})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object")
    return value
