"""Limits for a function that a reader has written, and its errors in one line.

The function gets other functions as arguments. Its calls of these are counted, and the time between
two calls is limited: a second thread raises an error in the thread that takes too long. This works
in every thread and on every system that runs CPython.
"""

import ctypes
import inspect
import threading
import time
import traceback
from functools import cache, wraps

import numpy as np

from proving.enumeration import WrongAnswer

MAX_CALLS = 1000  # of the functions among its arguments, in one call of the reader's function
MAX_SECONDS = 5  # without such a call


class TookTooLong(BaseException):
    """Raised in a function that computes for too long. `except Exception` does not catch it."""


# ---------------------------------------------------------------- seconds

deadlines = {}  # {identifier of a thread: when its function has computed for too long}
lock = threading.Lock()


def set_deadline(deadline):
    """Set the deadline of this thread, None for no deadline. Returns the deadline before."""
    start_watching()
    thread = threading.get_ident()
    with lock:
        before = deadlines.pop(thread, None)
        if deadline is not None:
            deadlines[thread] = deadline
    return before


@cache
def start_watching():
    """Start the thread of `watch`, once."""
    threading.Thread(target=watch, daemon=True).start()


def watch():
    """Raise TookTooLong in every thread whose deadline is over, again and again until it ends."""
    raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc
    while True:
        time.sleep(0.1)
        with lock:  # meanwhile no function returns
            for thread, deadline in deadlines.items():
                if time.monotonic() > deadline:
                    raise_in_thread(ctypes.c_ulong(thread), ctypes.py_object(TookTooLong))


# ---------------------------------------------------------------- one function


def with_limits(function, name=None, returns=True):
    """The function with limits: it raises WrongAnswer if it does not end, ends the program, or
    returns None. NumPy's warnings are off in it.

    name: of the function returned, by default the function's own
    returns: whether the function has to return a value
    """
    if not callable(function):
        raise WrongAnswer(f"it is {function!r}, expected a function")

    @wraps(function)
    def limited_function(*arguments):
        n_calls = 0

        def counted(argument):
            def call(*values):
                nonlocal n_calls
                n_calls += 1
                if n_calls > MAX_CALLS:
                    raise WrongAnswer(f"it does not end: {MAX_CALLS} calls of what it is given")
                # the time that an argument takes does not count
                before = set_deadline(None)
                try:
                    return argument(*values)
                finally:
                    if before is not None:
                        set_deadline(time.monotonic() + MAX_SECONDS)

            return call

        arguments = [counted(value) if callable(value) else value for value in arguments]
        try:
            try:
                set_deadline(time.monotonic() + MAX_SECONDS)
                with np.errstate(all="ignore"):
                    result = function(*arguments)
            finally:
                set_deadline(None)
        except TookTooLong:
            set_deadline(None)  # if the error came before the first time took effect
            raise WrongAnswer(f"it does not end within {MAX_SECONDS} seconds") from None
        except SystemExit as error:
            raise WrongAnswer(f"it ends the program with {describe_error(error)}") from None
        if result is None and returns:
            raise WrongAnswer("it returns None, expected a value: is a `return` missing?")
        return result

    limited_function.__name__ = name or getattr(function, "__name__", "it")
    return limited_function


def describe_error(error):
    """An error in one line, "ValueError: its message"."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def describe_line(error, file):
    """The last line of a file that an error has passed through, as " in line 3: x = y". "" if the
    error has passed through no line of the file; without the text if the file cannot be read.
    """
    frames = traceback.extract_tb(error.__traceback__)
    in_file = [frame for frame in frames if frame.filename == file]
    return f" in line {in_file[-1].lineno}: {in_file[-1].line}".rstrip(": ") if in_file else ""


def file_of(function):
    """The path of the file that a function is written in, None if it has no Python code."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code and code.co_filename
