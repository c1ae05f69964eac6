"""Files that are written: new ones appear whole and overwrite nothing, others grow by lines."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def require_writable(path: Path) -> None:
    """Raise ValueError, which says why, if a file cannot be written, or cannot be made in its
    folder; OSError for a name that no file can have, such as one that is too long.
    """
    with suppress(FileNotFoundError):
        path.stat()  # raises OSError for a name that is too long, or a link to itself
    if path.is_dir():
        raise ValueError(f"{path}: cannot be written: a folder")
    place = path if path.exists() else path.resolve().parent  # of what a link leads to
    if not place.exists():
        raise ValueError(f"{path}: cannot be written: there is no folder {place}")
    if not os.access(place, os.W_OK):
        raise ValueError(f"{path}: cannot be written: no permission, or read-only")


def require_new(path: str | Path, *endings: str) -> Path:
    """The Path of a file that is to be made; nothing is written yet. Raises ValueError for another
    ending, if it is there already, or cannot be made; OSError for a name that no file can have.

    endings: the name must end in one of them, such as ".svg"; without any, all names will do
    """
    path = Path(path)
    if endings and not str(path).endswith(endings):
        raise ValueError(f"{path}: expected a name that ends in {' or '.join(endings)}")
    if os.path.lexists(path) and not path.is_dir():
        raise ValueError(f"{path}: is there already; delete it, or give another name")
    require_writable(path)  # refuses a folder, too
    return path


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Let an OSError that names no file, such as that of a full disk, name this one."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_all(descriptor: int, path: Path, line: str) -> None:
    """Write a line, and its "\\n", to an open file. Raises OSError, which names its path.

    descriptor: the number of the open file, as os.open returns it
    """
    rest = f"{line}\n".encode()
    with named(path):
        while rest:
            n_written = os.write(descriptor, rest)  # a pipe may take a piece at a time
            rest = rest[n_written:]


def line_writer(path: str | Path) -> Callable[[str], None]:
    """A function write(line), which adds a line to the end of a file, whole or not at all; a
    missing file is made. It raises ValueError if another program writes to the file, too, and
    OSError if the disk is full. Raises ValueError now if the file cannot be written. A named pipe
    or a device gets the lines as they are; for a pipe, this waits until a program reads from it.
    """
    path = Path(path)
    require_writable(path)
    if path.exists() and not path.is_file():
        # a named pipe stays open from line to line: when it is closed, its reader takes that for
        # the end
        return partial(write_all, os.open(path, os.O_WRONLY), path)
    size = path.stat().st_size if path.exists() else 0

    def write(line: str) -> None:
        nonlocal size
        size = append(line, path, size)  # the file's new size; checks the old one

    return write


def append(line: str, path: Path, size: int) -> int:
    """Add a line to the end of a file, whole or not at all; a missing file is made. Returns the
    file's new size in bytes. Raises OSError, which names the file, if the disk is full.

    size: of the file before; with any other, another program writes to it, too, and ValueError is
        raised
    """
    itself = path.resolve()  # the file, where `path` is a link to it
    is_new = not itself.exists()
    with named(path), path.open("ab", buffering=0) as file:
        lock(file)  # no other program writes a line until this one is there
        if os.fstat(file.fileno()).st_size != size:
            raise ValueError(f"{path}: another program writes to it, too; give another name")
        try:
            write_all(file.fileno(), path, line)
        except OSError:  # leave no piece of a line, and no new file
            file.truncate(size)
            if is_new:
                itself.unlink()
            raise
        return os.fstat(file.fileno()).st_size


def lock(file: IO) -> None:
    """Wait until no other program holds an open file, and hold it until it is closed. Does nothing
    on a system or a disk without locks.
    """
    if fcntl:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """Yield the path of a temporary file beside `path`, which the block writes. It gets the name
    `path` if the block succeeds, and is deleted if the block raises; an OSError of the block that
    names no file then names `path`. Raises ValueError before the block if `path` is there already
    or cannot be made, and after it if `path` has appeared: the temporary file then stays.
    """
    path = require_new(path)
    temporary = path.with_name(f"{token_hex(8)}.part")
    try:
        with named(path):
            yield temporary
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    try:
        os.link(temporary, path)  # unlike a rename, a link refuses a name that has appeared since
    except FileExistsError:
        raise ValueError(f"{path}: has appeared meanwhile; the result is {temporary}") from None
    except OSError:  # a disk without links
        require_new(path)
        temporary.rename(path)
    temporary.unlink(missing_ok=True)
