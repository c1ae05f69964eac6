"""A process that judges a program alone: what it imports, prints or closes harms nobody else, and
it can be stopped whatever it does. It writes lines of JSON, on the stdout that it was born with:

    {"begins": [function, case]}, {"case": [function, the case in the result of `prove`]}
    at last {"results": the list of them}, or {"error": what a user can put right}
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

from . import prove as referee
from .cases import filtered
from .enumerate import LeftOut, Undecidable, describe_error
from .program import find, load


def main(program: str, settings: str, began: str) -> None:
    """Judge FILE.py[:NAME] or an adapter of docs/referee, a file judge_*.py, and write the lines.
    It ends this process, whatever comes, and changes it before (`set_apart`, `prove.say`).

    settings: JSON, {"batch", "timeout", "seed", "temperature", "top_k", "top_p"}
    began: time.time() when it was started: until FILE.py is imported, its time runs, too
    """
    lines = set_apart()

    def write(**line: Any) -> None:
        print(dumps(line), file=lines, flush=True)

    def say(name: str, case: str, result: dict[str, Any] | None) -> None:
        write(case=[name, result]) if result else write(begins=[name, case])

    referee.say = say
    errors = os.dup(2)
    try:
        sys.stderr = stream_to(2)  # a file may close it
        judge = judge_of(program, loads(settings), float(began))
        sys.stderr = stream_to(errors)
        write(results=judge())
    except (ValueError, OSError) as error:
        words = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        write(error=words)
    except KeyboardInterrupt:
        pass
    lines.close()
    os._exit(0)  # whatever a program wants to do at its end


def set_apart() -> TextIO:
    """Change this process, so that what it judges reads nothing and prints nothing, is not told of
    Undecidable in its threads, and ends with the parent. Returns a stream for the lines: stdout as
    it was, which processes that it forks do not have.
    """
    lines, parent = os.fdopen(os.dup(1), "w"), os.dup(0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    threading.Thread(target=end_with, args=[parent], daemon=True).start()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=partial(os.dup2, nowhere, lines.fileno()))
    say_raised = threading.excepthook
    threading.excepthook = lambda what: (
        None if issubclass(what.exc_type, (Undecidable, LeftOut)) else say_raised(what)
    )
    return lines


def stream_to(file: int) -> TextIO:
    """A stream of text to an open file, which it leaves open: whoever drops it is not warned."""
    return open(file, "w", errors="backslashreplace", closefd=False)


def end_with(parent: int) -> None:
    """End this process when its parent ends, however that comes: nobody else has the other end of
    the pipe `parent`, and nobody writes to it.
    """
    os.read(parent, 1)
    os._exit(1)


def judge_of(
    program: str, settings: dict[str, Any], began: float
) -> Callable[[], list[dict[str, Any]]]:
    """Import a program. Returns a function that judges it, and gives the results of `prove`. Of the
    settings an adapter gets the timeout only, for each of its functions: it becomes that of `prove`
    in this process.
    """
    timeout = settings["timeout"]
    if Path(program).stem.startswith("judge_"):
        referee.prove = partial(referee.prove, timeout=timeout)
        adapter = load(Path(program))
        return lambda: fitting(adapter)
    function, name = find(program)
    to_probs = filtered(*(settings[name] for name in ("temperature", "top_k", "top_p")))
    limits = dict(batch=settings["batch"], seed=settings["seed"])
    limits["timeout"] = timeout - (time() - began)
    return lambda: [referee.prove(function, None, name, to_probs, **limits)]


def fitting(adapter: ModuleType) -> list[dict[str, Any]]:
    """What an adapter gives. Raises ValueError if its program is another version, cannot be
    imported, or raises an error in every case.
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
