"""How a mistake is switched on: a function gets the code of its own source with a few pieces
exchanged, and gets its own code back afterwards.

Everybody who holds the function makes the mistake meanwhile. No loop is copied.
"""

import inspect
import textwrap
from contextlib import contextmanager
from functools import cache

import numpy as np


@cache
def changed(function, *pieces):
    """(right source, wrong source, code of the wrong one) of a function with a few pieces of its
    source exchanged, each given as (right, wrong).

    Raises LookupError for a piece that is not in the function's source exactly once.
    """
    lines, first_line = inspect.getsourcelines(function)
    right = wrong = textwrap.dedent("".join(lines))
    for old, new in pieces:
        if right.count(old) != 1:
            raise LookupError(
                f"{function.__qualname__} has {old!r} {right.count(old)} times: expected once"
            )
        wrong = wrong.replace(old, new)
    # compiled at the function's place in its file, so that a traceback finds it there
    padded = "\n" * (first_line - 1) + wrong
    namespace = {}
    code = compile(padded, inspect.getsourcefile(function), "exec", dont_inherit=True)
    exec(code, function.__globals__, namespace)
    return right, wrong, namespace[function.__name__].__code__


def changed_lines(function, pieces):
    """[(right, wrong)] of the lines that differ. pieces: {right: wrong}"""
    right, wrong, _ = changed(function, *pieces.items())
    return [both for both in zip(right.splitlines(), wrong.splitlines()) if both[0] != both[1]]


@contextmanager
def made(mistake):
    """Within this context the code makes the mistake."""
    right, wrong = {}, {}
    for function, pieces in mistake.changes.items():
        right[function] = function.__code__
        *_, wrong[function] = changed(function, *pieces.items())
    try:
        for function, code in wrong.items():
            function.__code__ = code
        # what a wrong rule divides by zero is its own affair
        with np.errstate(all="ignore"):
            yield
    finally:
        for function, code in right.items():
            function.__code__ = code
