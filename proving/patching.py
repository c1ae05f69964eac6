"""How a mistake is switched on: the code of a function is replaced by that of its own source with a
few pieces exchanged, and restored afterwards.

Meanwhile every caller of the function makes the mistake. No loop is copied.
"""

import inspect
import textwrap
from contextlib import contextmanager
from functools import cache

import numpy as np


@cache
def patch_source(function, *pieces):
    """Compile a function's source with a few pieces exchanged. Returns (right source, wrong source,
    code object of the wrong source). The function itself stays as it is.

    pieces: pairs of source, (right piece, wrong piece)
    Raises LookupError for a right piece that is not in the function's source exactly once.
    """
    lines, first_line = inspect.getsourcelines(function)
    right = wrong = textwrap.dedent("".join(lines))
    for right_piece, wrong_piece in pieces:
        n_times = right.count(right_piece)
        if n_times != 1:
            raise LookupError(
                f"{function.__qualname__} has {right_piece!r} {n_times} times: expected once"
            )
        wrong = wrong.replace(right_piece, wrong_piece)
    # compiled at the function's place in its file, so that a traceback finds it there
    padded = "\n" * (first_line - 1) + wrong
    namespace = {}
    code = compile(padded, inspect.getsourcefile(function), "exec", dont_inherit=True)
    exec(code, function.__globals__, namespace)  # defines the wrong function in `namespace` only
    return right, wrong, namespace[function.__name__].__code__


def changed_lines(function, pieces):
    """The lines of a function that a mistake changes: [(right line, wrong line)].

    pieces: {right piece: wrong piece} of the function's source, as in Mistake.changes
    """
    right_source, wrong_source, _ = patch_source(function, *pieces.items())
    # line by line, because no mistake changes the number of lines
    pairs = zip(right_source.splitlines(), wrong_source.splitlines())
    return [(right, wrong) for right, wrong in pairs if right != wrong]


@contextmanager
def apply_mistake(mistake):
    """Replace the code of the functions that a Mistake changes while a `with` block runs, for every
    caller and in every thread. NumPy's warnings are off in the block. Raises LookupError if the
    code to change is not there.
    """
    right_code, wrong_code = {}, {}
    for function, pieces in mistake.changes.items():
        right_code[function] = function.__code__
        _, _, wrong_code[function] = patch_source(function, *pieces.items())
    try:
        for function, code in wrong_code.items():
            function.__code__ = code
            function.__globals__.update(mistake.helpers)
        # a wrong rule may divide by zero: without NumPy's warnings
        with np.errstate(all="ignore"):
            yield
    finally:
        for function, code in right_code.items():
            function.__code__ = code
            for name in mistake.helpers:
                function.__globals__.pop(name, None)
