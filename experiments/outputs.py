"""Files that a command writes: checked before its work begins, and whole or not there at all."""

import os
from contextlib import contextmanager
from pathlib import Path

from utils import InputError


def check_output(flag, path, endings):
    """Raises InputError unless a file of that name, with one of these endings, can be written."""
    path = Path(path)
    if not path.name.endswith(endings):
        raise InputError(f"--{flag} {str(path)!r}: expected a name that ends in {' or '.join(endings)}")
    if path.is_dir() or not path.parent.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(f"--{flag} {str(path)!r}: cannot be written; give a file in a folder that is there and yours")


@contextmanager
def whole(path):
    """A temporary name beside `path`, renamed to it if the block ends well and deleted if not."""
    path = Path(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
