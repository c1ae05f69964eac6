"""What a command writes: files that are checked before its work begins, and whole or not there."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

from utils import InputError


def temporary_name(path):
    """A name beside `path` for what is not whole yet."""
    return path.with_name(f"{path.name}.{os.getpid()}.part")


def check_output(flag, path, endings):
    """Raises InputError unless a new file of that name, with one of these endings, can be written:
    what is there already may be an input, or hours of work.
    """
    text, path = str(path), Path(path)
    if not path.name:  # of "." and "/"
        raise InputError(f"--{flag} {text!r}: expected the name of a new file or folder")
    # not path.name, which does not see a slash at the end
    if not os.path.basename(text).endswith(endings):
        raise InputError(f"--{flag} {text!r}: expected a name that ends in {' or '.join(endings)}")
    # try it out: only that tells names that are too long, and places like /proc
    temporary = temporary_name(path)
    try:
        temporary.open("xb").close()
        temporary.unlink()
    except OSError as error:
        raise InputError(
            f"--{flag} {text[:300]!r}: cannot be written ({error.strerror}); "
            "expected a file in a folder that is there and yours"
        ) from None
    if os.path.lexists(path):  # even a link to nothing
        raise InputError(f"--{flag}: {text!r} is there already; delete it or give another name")


@contextmanager
def whole(path, replaces=False):
    """A temporary name beside `path`, renamed to it if the block ends well and deleted if not.

    Raises InputError if `path` has appeared meanwhile, unless it is to be replaced: then the result
    keeps its temporary name.
    """
    temporary = temporary_name(Path(path))
    try:
        yield temporary
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.path.lexists(path) and not replaces:
        raise InputError(f"{path}: appeared during this run; its result is in {temporary}")
    temporary.replace(path)


@contextmanager
def whole_folder(path):
    """The same for a folder: an empty one of a temporary name."""
    temporary = temporary_name(Path(path))
    temporary.mkdir()
    try:
        yield temporary
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
