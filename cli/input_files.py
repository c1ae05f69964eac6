"""Reading what people give: unpacked, of a size that fits, text in UTF-8, JSON of the right shape.
Every refusal is an InputError of one line that names the place.
"""

import bz2
import gzip
import json
import zlib
from pathlib import Path

from checkpoints.errors import InputError
from checkpoints.files import strict_json

MAX_BYTES = 256 << 20  # of a file, unpacked


def parse_json(text, where):
    """The value of a JSON text. Raises InputError for another text; its message begins with
    `where`, the place in a file.
    """
    try:
        return strict_json(text)
    except (ValueError, RecursionError) as error:  # or nested too deeply
        raise InputError(f"{where}: expected JSON ({error})") from None


def read_bytes(path, max_bytes=MAX_BYTES):
    """The content of a file as bytes, unpacked if its name ends in .gz or .bz2. Raises InputError
    if it cannot be read, is damaged, or has more than max_bytes after unpacking.
    """
    path = Path(path)
    open_file = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    try:
        with open_file(path, "rb") as file:
            # one byte more than allowed shows that a file is too long, even an endless one
            data = file.read(max_bytes + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:  # ValueError: a NUL in the path
        problem = getattr(error, "strerror", None) or "is truncated or damaged"
        raise InputError(f"{path}: {problem}; expected a file") from None
    if len(data) > max_bytes:
        raise InputError(f"{path}: is longer than {max_bytes >> 20} MiB; expected a smaller file")
    return data


def read_lines(path, max_bytes=MAX_BYTES):
    """The lines of a text file as a list of str, without line ends and byte order mark. A file of
    .gz or .bz2 is unpacked. The last item is "" if the file ends in a line end.

    Raises InputError if the file cannot be read, is damaged, has more than max_bytes, or has a line
    that is not UTF-8.
    """
    data = read_bytes(path, max_bytes)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path}, line {line}: is not UTF-8; convert the file first") from None
    # not splitlines: JSON strings may hold U+2028
    return [line.removesuffix("\r") for line in text.split("\n")]


# ---------------------------------------------------------------- the shape of JSON values
#
# A check is a function of a JSON value that returns whether it is valid, such as Limits.allow.


def is_text(value):
    return isinstance(value, str)


def is_object(value):
    return isinstance(value, dict)


def optional(check):
    """Return a check for what `check` accepts, or None."""
    return lambda value: value is None or check(value)


def list_of(check, min_length=0):
    """Return a check for a list of min_length or more items, each of which `check` accepts."""

    def check_list(value):
        return isinstance(value, list) and len(value) >= min_length and all(map(check, value))

    return check_list


def check_fields(record, checks, where, expected):
    """Raise InputError if `record`, a JSON value, is no object, or a field fails its check.

    checks: {name of a field: function, value -> bool}; a missing field has the value None
    where, expected: the place in a file, and what is expected there, in words for the message
    """
    if not is_object(record):
        raise InputError(f"{where}: is no JSON object; {expected}")
    for name, check in checks.items():
        if not check(record.get(name)):
            value = json.dumps(record.get(name))
            shown = value if len(value) <= 60 else f"{value[:60]}..."
            raise InputError(f"{where}: {name} cannot be {shown}; {expected}")
