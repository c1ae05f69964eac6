"""Output files: checked before the work begins, and written completely or not at all."""

import os
import platform
import shutil
from contextlib import contextmanager
from pathlib import Path

from checkpoints.errors import InputError, with_filename


class OutputAppeared(InputError):
    """The output has appeared during the run; the result is kept under another name."""


def temporary_name(path):
    """Return a Path beside `path` for unfinished output; its name has this machine and process.
    Deletes the unfinished output of processes that were killed on this machine.
    """
    path, ours = Path(path), f"{Path(path).name}.{platform.node()}."
    for left in path.parent.iterdir() if path.parent.is_dir() else ():
        pid = left.name.removeprefix(ours).removesuffix(".part")
        if left.name == f"{ours}{pid}.part" and pid.isdecimal() and not is_running(int(pid)):
            delete(left)
    return path.with_name(f"{ours}{os.getpid()}.part")


def is_running(pid):
    """Whether the process exists; on Windows always True, because os.kill would end it."""
    try:
        if os.name == "posix":
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        pass
    return True


def delete(path):
    """Delete a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


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
        for name in (Path(path), temporary_name(path)):  # which is longer
            name.open("xb").close()
            name.unlink()
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
def create_atomically(path):
    """Yield a temporary Path for a new file or folder. It is renamed to `path` if the block
    succeeds, else deleted. Raises OutputAppeared if `path` has appeared meanwhile.
    """
    path, temporary = Path(path), temporary_name(path)
    try:
        with with_filename(path):
            yield temporary
    except BaseException:
        delete(temporary)
        raise
    if os.path.lexists(path):
        kept = path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}")
        temporary.rename(kept)
        raise OutputAppeared(
            f"{path}: appeared during this run; expected none; its result is in {kept}"
        )
    temporary.rename(path)


@contextmanager
def replace_atomically(path):
    """Yield a temporary Path, which replaces the file `path` if the block succeeds."""
    temporary = temporary_name(path)
    try:
        with with_filename(path):
            yield temporary
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path, text):
    """Write text to a new file, completely or not at all."""
    with create_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
