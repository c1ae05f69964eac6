"""New files: they appear whole, and overwrite nothing."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def require_new(path: str | Path, *endings: str) -> Path:
    """The Path of a file that is to be made. Raises ValueError if it is there already, if its
    folder is not, or unless its name has one of the endings.
    """
    path = Path(path)
    if endings and path.suffix not in endings:
        raise ValueError(f"{path}: expected a name that ends in {' or '.join(endings)}")
    if os.path.lexists(path):
        raise ValueError(f"{path}: is there already; delete it, or give another name")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}")
    return path


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Let an OSError that names no file, such as that of a full disk, name this one."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def line_writer(path: str | Path) -> Iterator[Callable[[str], None]]:
    """Open a file, and yield a function that adds a line to it. Nothing waits in a buffer. The
    function raises ValueError if another program writes to the file, too.
    """
    with open(path, "ab", buffering=0) as file:
        is_file, size = Path(path).is_file(), os.fstat(file.fileno()).st_size  # or it is a device

        def write(line: str) -> None:
            nonlocal size
            if is_file and os.fstat(file.fileno()).st_size != size:
                raise ValueError(f"{path}: another program writes to it, too; give another name")
            rest = f"{line}\n".encode()
            size += len(rest)
            with named(path):
                while rest:
                    rest = rest[file.write(rest) :]

        yield write


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """Yield the path of a temporary file beside `path`. It gets the name `path` if the block
    succeeds, and is deleted if the block raises. Raises ValueError if `path` is there already.
    """
    path = require_new(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
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
