"""How a program ends: its exit code, its one line on stderr, and signals.

0: done. 2: something its user can put right, said in one line: bad input, a full disk, a file that
is not theirs. 130: interrupted by Ctrl-C. 141: nobody reads its output any more. 143, 129: told to
end (SIGTERM), or its terminal was closed (SIGHUP).
"""

import errno
import io
import os
import signal
import sys
from contextlib import suppress

import numpy as np

from checkpoints.errors import InputError, printable, with_filename

# raised for input, or a model, that cannot be used; the last where a model's numbers overflow
UNUSABLE = (InputError, MemoryError, FloatingPointError)
OUTPUT = "standard output"
ADVICE = {  # for an OSError
    errno.ENOSPC: "make room, then try again",
    errno.EACCES: "use one that you may read and write",
}


class Output(io.TextIOWrapper):
    """Standard output whose OSErrors have a file name, so that a message can say it."""

    def write(self, text):
        with with_filename(OUTPUT):
            return super().write(text)

    def flush(self):
        with with_filename(OUTPUT):
            super().flush()


def print_error(problem):
    """Print an error or a text as one line on stderr, with control characters escaped."""
    print("error:", printable(str(problem)), file=sys.stderr)


def run_for_exit_code(run):
    """Call run(), a function, and return the exit code: 0; 130 for Ctrl-C; 141 for a broken pipe; 2
    for an error that the user can put right, printed as one line on stderr. Other exceptions pass.
    """
    try:
        # a model that overflows is reported once, where its logits are used
        with np.errstate(over="ignore", invalid="ignore"):
            run()
        sys.stdout.flush()
        return 0
    except UNUSABLE as error:
        print_error(error)
        return 2
    except ModuleNotFoundError as missing:
        print_error(f"{missing.name} is not installed: pip install -r requirements.txt")
        return 2
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        broken_pipe = isinstance(error, BrokenPipeError)
        with suppress(OSError):
            sys.stdout.flush()  # if the error is another file's, this writes what is left
        if broken_pipe or error.filename in (None, OUTPUT):
            # stdout failed: leave nothing in its buffer that Python would flush again at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if broken_pipe:
            return 141
        name = f"{error.filename}: " if error.filename else ""
        advice = ADVICE.get(error.errno, "try another")
        print_error(f"{name}{error.strerror or error}; {advice}")
        return 2


def exit_on_signal(number, frame):
    """Handle a signal: raise SystemExit, so that `finally` blocks can delete unfinished files."""
    sys.exit(128 + number)


def run_program(main):
    """Install signal handlers, replace sys.stdout and closed standard streams, call main(), and end
    the process with the exit code (int) that main() returns.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        # under nohup, SIGHUP is ignored (SIG_IGN): keep that
        if number and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, exit_on_signal)
    # a stream that the shell has closed is None
    sys.stdin = sys.stdin or open(os.devnull)
    sys.stdout = sys.stdout or open(os.devnull, "w")
    sys.stderr = sys.stderr or open(os.devnull, "w", errors="backslashreplace")
    # the same stream, but errors have a file name, and characters it cannot write become "?"
    options = {
        name: getattr(sys.stdout, name) for name in ("encoding", "line_buffering", "write_through")
    }
    sys.stdout = Output(sys.stdout.detach(), errors="replace", **options)
    sys.exit(main())
