"""The errors that a user can fix, and functions that word messages."""

import sys
from contextlib import contextmanager

MAX_NAMED = 10  # prompts in a message


class InputError(ValueError):
    """An input that cannot be used.

    The message is one line: the value, what was expected, what to do. Control characters, which a
    damaged file may contain, are escaped, so that none reaches a terminal.
    """

    def __init__(self, message):
        super().__init__(printable(str(message)))


class SettingError(InputError):
    """A setting that cannot be used. The message names it as the flag it has on the command line;
    `name` and `problem` are kept apart for callers that have no flags.
    """

    def __init__(self, name, problem):
        super().__init__(f"--{name} {problem}")
        self.name, self.problem = name, problem


def printable(text):
    r"""The text with everything escaped that does not print: "a\nb" becomes "a\\nb"."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def with_filename(path):
    """Context manager: an OSError of the block that names no file, such as that of a full disk,
    gets the name of `path`.
    """
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def note(message):
    """Print one line on stderr, with control characters escaped."""
    print("note:", printable(str(message)), file=sys.stderr)


def abbreviated(items):
    """The first 10 items of an iterable as text, and how many more there are.

    >>> abbreviated(range(15))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 5 more'
    """
    items = [*map(str, items)]
    named, n_more = ", ".join(items[:MAX_NAMED]), len(items) - MAX_NAMED
    return f"{named} and {n_more} more" if n_more > 0 else named


def plural(n: int, noun: str) -> str:
    """The number and the noun: "1 prompt", "2 prompts"."""
    return f"{n} {noun}{'s' if n != 1 else ''}"
