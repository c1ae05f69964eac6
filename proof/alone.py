"""A process that judges a program alone: what it imports, prints or closes harms nobody else, and
it can be stopped whatever it does. It writes lines of JSON, on the stdout that it was born with, of
which the last tells all that is known:

    {"name": the function's, "where": "in the case K = 1", "cases": entries of those before it}
    {"results": those of `prove`}, or {"error": what a user can put right}
"""

import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from json import dumps, loads
from pathlib import Path
from time import time
from types import ModuleType
from typing import Any, TextIO

from . import prove
from .cases import filtered
from .enumerate import LeftOut, Undecidable, describe_error
from .program import find, is_adapter, load


def main(program: str, settings: str, began: str) -> None:
    """Judge FILE.py[:NAME] or an adapter of docs/referee, a file judge_*.py, and write lines of
    JSON to stdout: {"name", "where", "cases"} before each case, at the end {"results": those of
    `prove`}, or {"error": the message of a ValueError or OSError}; after KeyboardInterrupt neither.
    Then this process ends, with exit code 0, or by another error. Its stdin, stdout, sys.stderr,
    prove.say and threading.excepthook are replaced, and stay so.

    settings: JSON, {"batch", "timeout", "seed", "temperature", "top_k", "top_p"}
    began: time.time() when it was started: until FILE.py is imported, its time runs, too
    """
    lines = set_apart()

    def write(**line: Any) -> None:
        print(dumps(line), file=lines, flush=True)

    prove.say = lambda name, where, entries: write(name=name, where=where, cases=entries)
    copy_of_stderr = os.dup(2)
    try:
        sys.stderr = stream_to(2)
        judge = judge_of(program, loads(settings), float(began))  # runs the file, as an import does
        sys.stderr = stream_to(copy_of_stderr)  # the file may have closed sys.stderr, or 2
        write(results=judge())
    except OSError as error:
        write(error=f"{error.filename}: {error.strerror}")
    except ValueError as error:
        write(error=str(error))
    except KeyboardInterrupt:
        pass
    lines.close()
    os._exit(0)  # at once, whatever a program wants to do at its end


def set_apart() -> TextIO:
    """Change this process: what it runs reads nothing from stdin and prints nothing to stdout, and
    its threads are quiet_threads; it ends with its parent, which must hold the other end of stdin.
    Returns a stream to stdout as it was, which processes that it forks do not have.
    """
    stdin, stdout = 0, 1  # file descriptors
    parent = os.dup(stdin)
    lines = os.fdopen(os.dup(stdout), "w")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, stdin)
    os.dup2(nowhere, stdout)
    threading.Thread(target=end_with, args=[parent], daemon=True).start()
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=partial(os.dup2, nowhere, lines.fileno()))
    quiet_threads()
    return lines


def quiet_threads() -> None:
    """From now on, a thread that ends by Undecidable or LeftOut, which this package raises, prints
    no traceback. Other errors are printed as before.
    """
    say_raised = threading.excepthook

    def say_unless_ours(what: threading.ExceptHookArgs) -> None:
        if not issubclass(what.exc_type, (Undecidable, LeftOut)):
            say_raised(what)

    threading.excepthook = say_unless_ours


def stream_to(file: int) -> TextIO:
    """A stream of text to an open file descriptor, which stays open when the stream is closed."""
    return open(file, "w", errors="backslashreplace", closefd=False)


def end_with(parent: int) -> None:
    """Wait until the parent process ends, then end this one at once, with exit code 1 and without
    any clean-up. It blocks, so it needs a thread of its own.

    parent: file descriptor of a pipe from the parent, who never writes to it: it is read, and its
        end comes when the parent ends, however that is
    """
    os.read(parent, 1)
    os._exit(1)


def judge_of(program: str, settings: dict[str, Any], began: float) -> Callable:
    """Import a program, but do not judge it yet. Returns a function without arguments that judges
    it and returns a list of results of `prove`.

    program: FILE.py or FILE.py:NAME, one function, with one result; or an adapter to a known
        program, a file judge_*.py, whose function referee() gives the results
    settings: {"batch", "timeout", "seed", "temperature", "top_k", "top_p"}, as the flags of these
        names. An adapter gets the timeout only, for each call of `prove`: prove.TIMEOUT, a global
        of this package, is set to it
    began: a time of time.time(). FILE.py may take the timeout from then on, with its import; for an
        adapter it is not used
    Raises OSError without such a file; ValueError if it cannot be imported, if it has no such
    function, and for temperature, top_k or top_p out of bounds.
    """
    timeout, batch, seed = settings["timeout"], settings["batch"], settings["seed"]
    if is_adapter(program):
        prove.TIMEOUT = timeout  # adapters call prove without one
        return partial(fitting, load(Path(program)))
    function, name = find(program)
    to_probs = filtered(settings["temperature"], settings["top_k"], settings["top_p"])
    after_import = timeout - (time() - began)  # seconds that are left

    def judge() -> list[dict[str, Any]]:
        result = prove.prove(
            function, name=name, to_probs=to_probs, batch=batch, timeout=after_import, seed=seed
        )
        return [result]

    return judge


def fitting(adapter: ModuleType) -> list[dict[str, Any]]:
    """The results of `prove` that adapter.referee() returns, for the functions of a program.
    Raises ValueError in place of any error of that but KeyboardInterrupt, such as for another
    version of the program, and for a result in which every case has a problem "it raised ...".
    """
    try:
        results = adapter.referee()
    except (KeyboardInterrupt, ValueError):
        raise
    except BaseException as error:
        problem = describe_error(error)
        raise ValueError(f"{adapter.__file__} does not fit the program: {problem}") from error
    for result in results:
        if all(case["problem"].startswith("it raised") for case in result["cases"]):
            name, reason = result["name"], result["reason"]
            raise ValueError(f"this version of {name} does not run: {reason}")
    return results
