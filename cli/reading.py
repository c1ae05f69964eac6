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
    """The value of a JSON text. Raises InputError that begins with `where`."""
    try:
        return strict_json(text)
    except (ValueError, RecursionError) as error:  # or nested too deeply
        raise InputError(f"{where}: expected JSON ({error})") from None


def read_bytes(path, most=MAX_BYTES):
    """The content of a file, unpacked where its name ends in .gz or .bz2."""
    path = Path(path)
    open_file = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    try:
        with open_file(path, "rb") as file:
            # one byte more than may be: an endless file shows itself without being read to the end
            data = file.read(most + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        problem = getattr(error, "strerror", None) or "is truncated or damaged"
        raise InputError(f"{path}: {problem}; expected a file") from None
    if len(data) > most:
        raise InputError(f"{path}: is longer than {most >> 20} MiB; expected a smaller file")
    return data


def read_lines(path, most=MAX_BYTES):
    """The lines of a text file, with or without a byte order mark."""
    data = read_bytes(path, most)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path}, line {line}: is not UTF-8; convert the file first") from None
    # not splitlines: JSON strings may hold U+2028
    return [line.removesuffix("\r") for line in text.split("\n")]


# ---------------------------------------------------------------- the shape of JSON values
#
# A check is a function of a value that says whether it is right.


def is_text(value):
    return isinstance(value, str)


def is_object(value):
    return isinstance(value, dict)


def optional(check):
    return lambda value: value is None or check(value)


def list_of(check, least=0):
    return lambda value: isinstance(value, list) and len(value) >= least and all(map(check, value))


def check_fields(record, checks, where, expected):
    """Raises InputError unless each field of a JSON object passes its check, of {name: check}."""
    if not is_object(record):
        raise InputError(f"{where}: is no JSON object; {expected}")
    for name, check in checks.items():
        if not check(record.get(name)):
            value = json.dumps(record.get(name))
            shown = value if len(value) <= 60 else f"{value[:60]}..."
            raise InputError(f"{where}: {name} cannot be {shown}; {expected}")
