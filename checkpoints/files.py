"""Small files of a checkpoint folder, and errors that name their file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EINVAL
from pathlib import Path

LFS = b"version https://git-lfs.github.com/spec/v1"  # begins a pointer that Git LFS left
TEXT_LIMIT = 1 << 24  # bytes of a file of text; a tokenizer.json of 250,000 tokens has 15,000,000
TABLE_LIMIT = 1 << 20  # bytes of the list of tensors in a file of weights; 1558M's has 70,000
REFETCH = "delete it and fetch it again"  # advice about a damaged file
OTHER_TOKENS = "prompts would have other tokens than GPT-2's"  # advice about a tokenizer's files


def first_of(folder: Path, *names: str) -> Path:
    """The path of the first of these names that is a file in the folder.

    Raises ValueError if none is, naming files of other programs that are there; and if that first
    file is only the pointer that Git LFS leaves in its place.
    """
    for name in names:
        path = folder / name
        if path.is_file():
            with errors_about(path, "use git lfs pull"), path.open("rb") as file:
                if file.read(len(LFS)) == LFS:
                    raise ValueError("is only a pointer of Git LFS")
            return path
    from checkpoints.others import files_of_others  # here, as most folders have what is sought

    hint = "; ".join(files_of_others(folder)[:3]) or "a model folder needs one"
    raise ValueError(f"{folder}: has no {' or '.join(names)}; {hint}")


@contextmanager
def errors_about(path: Path, advice: str = REFETCH) -> Iterator[None]:
    """A context manager for a block that reads the file at `path`: any error becomes a ValueError
    of one line, "PATH: what is wrong; what to do". A plain ValueError says what is wrong, `advice`
    what to do. Any other comes from a library: the file is damaged, and what to do is REFETCH. But
    an OSError of the disk passes, and names the file at `path` if it names none.
    """
    try:
        yield
    except Exception as error:  # a damaged or hostile file can provoke any
        if isinstance(error, OSError) and error.errno != EINVAL:  # EINVAL: a place far off the file
            error.filename = error.filename or str(path)
            raise
        first_line = str(error).partition("\n")[0][:200]
        if type(error) is ValueError:  # of this program, which raises no derived class here
            message = f"{first_line}; {advice}"
        else:
            message = f"is damaged ({type(error).__name__}: {first_line}); {REFETCH}"
        raise ValueError(f"{path}: {message}") from None


def read_text_file(path: Path) -> bytes:
    """The content of a file of text or JSON. Raises ValueError, which does not name the file, for
    more than TEXT_LIMIT bytes.
    """
    with path.open("rb") as file:
        raw = file.read(TEXT_LIMIT + 1)
    if len(raw) > TEXT_LIMIT:
        raise ValueError(f"has more than {TEXT_LIMIT:,} bytes")
    return raw


def read_json(path: Path, optional: bool = False) -> dict:
    """The JSON object in a file; {} if `optional` is True and the file is not there. Raises
    ValueError, which names the file, if it holds anything else or more than TEXT_LIMIT bytes.
    """
    if optional and not path.is_file():
        return {}
    with errors_about(path):
        value = json.loads(read_text_file(path))
        if not isinstance(value, dict):
            raise ValueError("is no JSON object")
        return value


def require_unset(values: dict, *names: str) -> None:
    """Raise ValueError, which names no file, if one of these names has a true value in values."""
    for name in names:
        if values.get(name):
            raise ValueError(f"{name} is {values[name]!r}, not false")
