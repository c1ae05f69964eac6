"""Limits for a function that a reader has written, and its errors in one line.

The function gets other functions as arguments. The number of its calls of these is limited, and so
is the time between two calls: a second thread raises an error in the thread that takes too long.
This works in every thread and on every system that runs CPython. A call into C, such as
time.sleep(100), ends first.
"""

import ctypes
import inspect
import itertools
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

deadlines = {}  # {identifier of a thread: time.monotonic() when its function has to be done}
lock = threading.Lock()


def set_deadline(deadline):
    """Replace the deadline of this thread, and return the old one. Both are in seconds, as
    time.monotonic() counts them, or None for no deadline. Starts the thread that watches the
    deadlines, if it does not run yet.
    """
    start_watching()
    thread = threading.get_ident()
    with lock:
        old_deadline = deadlines.pop(thread, None)
        if deadline is not None:
            deadlines[thread] = deadline
    return old_deadline


@cache
def start_watching():
    """Start a daemon thread that runs `watch`, at the first call only."""
    threading.Thread(target=watch, daemon=True).start()


def watch():
    """Look at the deadlines ten times a second, and raise TookTooLong in every thread whose
    deadline is over. Never returns.
    """
    raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc
    while True:
        time.sleep(0.1)
        with lock:  # meanwhile no function can end, because that removes its deadline
            for thread, deadline in deadlines.items():
                if time.monotonic() > deadline:
                    raise_in_thread(ctypes.c_ulong(thread), ctypes.py_object(TookTooLong))


# ---------------------------------------------------------------- one function


def with_limits(function, name=None, must_return=True):
    """Wrap a reader's function in limits. The function returned takes the same arguments, by
    position, and raises WrongAnswer if the reader's function ends the program, returns None, calls
    the functions among its arguments more than MAX_CALLS times, or computes for more than
    MAX_SECONDS between two such calls. NumPy's warnings are off in it.

    name: of the function returned, a str; None for the name of `function`
    must_return: False if the function may return None
    Raises WrongAnswer if `function` is no function.
    """
    if not callable(function):
        raise WrongAnswer(f"it is {function!r}, expected a function")

    @wraps(function)
    def limited_function(*arguments):
        """Call the function with limits. Raises WrongAnswer if it goes beyond one of them."""
        call_numbers = itertools.count(1)
        limited_arguments = [
            with_counted_calls(argument, call_numbers) if callable(argument) else argument
            for argument in arguments
        ]
        result = call_within_seconds(function, limited_arguments)
        if result is None and must_return:
            raise WrongAnswer("it returns None, expected a value: is a `return` missing?")
        return result

    limited_function.__name__ = name or getattr(function, "__name__", "it")
    return limited_function


def with_counted_calls(function, call_numbers):
    """Wrap a function that is given to a reader's function, the caller. The function returned
    raises WrongAnswer after MAX_CALLS calls. The time inside a call is not limited, and after each
    call the caller has MAX_SECONDS again.

    call_numbers: an iterator 1, 2, ..., shared by all functions whose calls are counted together
    """

    def counted_function(*arguments, **named_arguments):
        """Count the call, and call the function while the caller has no deadline."""
        if next(call_numbers) > MAX_CALLS:
            raise WrongAnswer(f"it does not end: {MAX_CALLS} calls of what it is given")
        callers_deadline = set_deadline(None)
        try:
            return function(*arguments, **named_arguments)
        finally:
            if callers_deadline is not None:  # None if nothing limits the caller
                set_deadline(time.monotonic() + MAX_SECONDS)

    return counted_function


def call_within_seconds(function, arguments):
    """Return function(*arguments). Raises WrongAnswer if it computes for more than MAX_SECONDS, or
    ends the program.
    """
    try:
        try:
            # from now on `watch` may raise TookTooLong here, at any line
            set_deadline(time.monotonic() + MAX_SECONDS)
            with np.errstate(all="ignore"):
                return function(*arguments)
        finally:
            set_deadline(None)
    except TookTooLong:
        set_deadline(None)  # the error may have interrupted the call in `finally`
        raise WrongAnswer(f"it does not end within {MAX_SECONDS} seconds") from None
    except SystemExit as error:
        raise WrongAnswer(f"it ends the program with {describe_error(error)}") from None


def describe_error(error):
    """An exception as text, "ValueError: its message". Line breaks become spaces."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def describe_line(error, file):
    """The last line of a file that an exception has passed through, as text: " in line 3: x = y",
    without a colon at its end. It is " in line 3" if the file cannot be read, "" if no line of the
    file was passed through.

    error: the exception; file: a path, a str
    """
    frames = traceback.extract_tb(error.__traceback__)
    in_file = [frame for frame in frames if frame.filename == file]
    if not in_file:
        return ""
    line = in_file[-1]
    # no colon at the end: neither before a missing text, nor that of `for x in y:`
    return f" in line {line.lineno}: {line.line}".rstrip(": ")


def file_of(function):
    """The path, a str, of the file that defines a function. None if it has no Python code."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_filename if code else None
