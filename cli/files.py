"""What a command writes: files that are checked before its work begins, and whole or not there."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

from checkpoints.files import InputError, naming


def temporary_name(path):
    """A name beside `path` for what is not whole yet."""
    path = Path(path)
    return path.with_name(f"{path.name}.{os.getpid()}.part")


def check_output(flag, path, endings):
    """Raises InputError unless a new file of that name, with one of these endings, can be written:
    what is there already may be an input, or hours of work.
    """
    text = str(path)
    if not (Path(text).name and text.endswith(endings)):
        expected = f"a name that ends in {' or '.join(endings)}" if any(endings) else "a new name"
        raise InputError(f"--{flag} {text!r}: expected {expected}")
    try:
        # try it out: only that tells names that are too long, and places like /proc
        Path(path).open("xb").close()
        Path(path).unlink()
    except FileExistsError:  # even a link to nothing, or a folder
        raise InputError(
            f"--{flag}: {text!r} is there already; delete it or give another name"
        ) from None
    except OSError as error:
        raise InputError(
            f"--{flag} {text[:300]!r}: cannot be written ({error.strerror}); "
            "expected a file in a folder that is there and yours"
        ) from None


@contextmanager
def whole(path):
    """A temporary name beside `path` for a file or a folder, renamed to it if the block ends well
    and deleted if not. Raises InputError if the path has appeared meanwhile: then the result keeps
    its temporary name.
    """
    temporary = temporary_name(path)
    try:
        with naming(path):
            yield temporary
    except BaseException:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)
        raise
    if os.path.lexists(path):
        raise InputError(f"{path}: appeared during this run; its result is in {temporary}")
    temporary.rename(path)


@contextmanager
def replacing(path):
    """A temporary name beside `path`, which takes its place if the block ends well."""
    temporary = temporary_name(path)
    try:
        with naming(path):
            yield temporary
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path, text):
    """Write a file, whole or not at all."""
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
