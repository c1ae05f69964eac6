"""Output files: checked before the work begins, and written completely or not at all.

Unfinished output lies beside its place, under the name of `temporary_path`, until it is renamed.
"""

import os
import platform
import shutil
from contextlib import contextmanager
from pathlib import Path

from checkpoints.errors import InputError, with_filename


class OutputAppeared(InputError):
    """The output has appeared during the run; the result is kept under another name."""


def temporary_path(path):
    """The Path for the unfinished output of this process: "a.json" -> "a.json.HOST.PID.part"."""
    return path.with_name(f"{path.name}.{platform.node()}.{os.getpid()}.part")


def delete_leftovers(path):
    """Delete the unfinished output for `path` of processes that were killed on this machine."""
    start, end = f"{path.name}.{platform.node()}.", ".part"
    files = path.parent.iterdir() if path.parent.is_dir() else []
    for file in files:
        if file.name.startswith(start) and file.name.endswith(end):
            pid = file.name[len(start) : -len(end)]
            if pid.isdecimal() and not is_running(int(pid)):
                delete(file)


def is_running(pid: int) -> bool:
    """Whether the process exists; on Windows always True, because os.kill would end it."""
    try:
        if os.name == "posix":
            os.kill(pid, 0)  # signal 0: only asks
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        pass
    return True


def delete(path):
    """Delete the file or the whole folder at a Path, if it is there. Files in a folder that
    cannot be deleted are left there; a single file that cannot be deleted raises OSError.
    """
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def check_output(flag, path, endings):
    """Raise InputError unless a new file `path`, str or Path, with one of these endings can be
    written: an old file may be an input, or hours of work. Creates files to try, and deletes them.

    flag: the name of the setting, for the message; endings: a tuple of str, ("",) for any
    """
    text, path = str(path), Path(path)
    if not (path.name and text.endswith(endings)):
        expected = f"a name that ends in {' or '.join(endings)}" if any(endings) else "a new name"
        raise InputError(f"--{flag} {repr(text) if text else 'missing'}: expected {expected}")
    try:
        # creating both files is the only way to notice long names, and places such as /proc
        for name in (path, temporary_path(path)):
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
def write_temporary(path: Path):
    """Yield a temporary Path for a file or folder, which is deleted if the block raises; else the
    caller has to rename it to `path`. Deletes the leftovers of killed processes. An OSError of the
    block names `path`.
    """
    delete_leftovers(path)
    temporary = temporary_path(path)
    try:
        with with_filename(path):
            yield temporary
    except BaseException:
        delete(temporary)
        raise


@contextmanager
def create_atomically(path):
    """Yield a temporary Path for a new file or folder. It is renamed to `path` if the block
    succeeds, and deleted if the block raises. If `path` has appeared meanwhile, raises
    OutputAppeared, whose message says under which name beside it the result is kept.
    """
    path = Path(path)
    with write_temporary(path) as temporary:
        yield temporary
    # the block has succeeded, so the temporary file is still there
    if os.path.lexists(path):
        kept = path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}")
        temporary.rename(kept)
        raise OutputAppeared(
            f"{path}: appeared during this run; expected none; its result is in {kept}"
        )
    temporary.rename(path)


@contextmanager
def replace_atomically(path):
    """Yield a temporary Path for a file, which replaces the file `path` if the block succeeds."""
    path = Path(path)
    with write_temporary(path) as temporary:
        yield temporary
        temporary.replace(path)


def write_atomically(path, text):
    """Write text to a new file, completely or not at all. Raises OutputAppeared if `path` is there,
    and keeps the text beside it.
    """
    with create_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
