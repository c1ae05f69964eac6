"""Reading the small files of a checkpoint folder, and hashing files of any size."""

import hashlib
import json

from checkpoints.errors import InputError


def feed(found, path):
    """Add the content of a file to a hash of hashlib, a piece at a time."""
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)


def sha256_of(files):
    """The SHA-256 of the contents of files, one after the other, in hexadecimal. Raises InputError
    for one that cannot be read.
    """
    found = hashlib.sha256()
    for path in files:
        try:
            feed(found, path)
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror}); expected a file"
            ) from None
    return found.hexdigest()


def first_of(folder, *names):
    """The first of these files that is in the folder. Raises InputError if none is."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: has no {' or '.join(names)}; a model folder needs one")


def without_duplicates(pairs):
    """The dict of a JSON object's pairs. Raises ValueError for a name that stands there twice."""
    found = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is in it twice")
        found[name] = value
    return found


def parse_json(raw):
    """The value of a JSON text. Raises ValueError or RecursionError."""
    return json.loads(raw, object_pairs_hook=without_duplicates)


def read_json(path, kind=dict):
    """The JSON value in a file, which must be of the given kind. Raises InputError."""
    try:
        value = parse_json(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: cannot be read as JSON ({reason})") from None
    if not isinstance(value, kind):
        expected = "object" if kind is dict else kind.__name__
        raise InputError(f"{path}: expected a JSON {expected}")
    return value
