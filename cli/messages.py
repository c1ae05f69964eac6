"""What is said on stderr, in lines of characters that print; and the error for a small number."""

import os
import sys
from contextlib import suppress

SHORT = 800  # characters of an error that is printed whole


def printable(text: str) -> str:
    r"""The text with everything escaped that does not print: "a\nb" becomes "a\\nb"."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def as_called(text: str) -> str:
    """The text with the name by which this program was called: an installed one is `speculate`."""
    name = os.path.basename(sys.argv[0])
    return text.replace("python main.py", name) if name == "speculate" else text


def say(*lines: str) -> None:
    """Print lines on stderr, if that can be written, with escapes for what does not print."""
    with suppress(OSError):
        print(*(as_called(printable(line)) for line in lines), sep="\n", file=sys.stderr)


def print_error(error: BaseException) -> None:
    """Print an error as one line on stderr: "error: " and its message, or its repr if it has none;
    for an error of the system the file's name and what is wrong; for a missing package how to
    install it. Of 800 characters (SHORT) or more, only the first 400 and the last 300 are printed.
    """
    words = str(error) or repr(error)
    if isinstance(error, OSError) and error.strerror:
        # without a file's name, it comes from stdout
        words = f"{error.filename or 'output'}: {error.strerror}"
    elif isinstance(error, ModuleNotFoundError):
        words = f"{error.name} is not installed: pip install {error.name}"
    if len(words) >= SHORT:
        words = f"{words[:400]} ... {words[-300:]}"
    say(f"error: {words}")


def require_at_least(least: int, **flags: int) -> None:
    """Raise ValueError for a flag below the least value."""
    for name, value in flags.items():
        if value < least:
            raise ValueError(f"--{name} {value}: expected {least} or more")
