"""Files of JSON lines that an interrupted run goes on with.

FILE.partial begins with a line that says what the run is; then comes [place, line] for each line
that is done, in any order. FILE appears, whole and in order, when all are there. While a run writes
the partial file it holds a lock on it: one file, one writer. The lock ends with its process, also
when that is killed.
"""

import gzip
import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from checkpoints.files import naming
from experiments.data.files import whole
from experiments.data.prompts import some
from utils import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
    import msvcrt

LOCKED_BYTE = 0x7FFFFFF0  # for Windows, which locks bytes: one beyond the end of the file


def lock(file):
    """Lock an open file until it is closed. Raises OSError if it is locked already."""
    if fcntl:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        file.seek(LOCKED_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)


@dataclass(frozen=True)
class Failed:
    """In place of a result that could not be had."""

    reason: str


def require_all(failed, rest="the others are done, give the same command to try these again"):
    """Raises InputError if there is any {what: why it could not be had}."""
    if failed:
        n_prompts = f"{len(failed)} prompt{'s' if len(failed) > 1 else ''}"
        named = some([f"{name}: {why}" for name, why in failed.items()])
        raise InputError(f"{n_prompts} failed: {named}; {rest}")


def encoded(value):
    return json.dumps(value).encode() + b"\n"


class Lines:
    """The lines of FILE. found: {place: line} of an interrupted run, and what was put since.

    header: says what the run is, any JSON value; it is not part of FILE.

    Raises InputError for a partial file that is another run's, is damaged, or is being written.
    Leaving the block gives the file free; `close` before that lets FILE appear.
    """

    def __init__(self, path, header):
        self.path, self.partial = Path(path), Path(f"{path}.partial")
        self.header = encoded(header)
        with ExitStack() as closing:
            try:
                self.file = closing.enter_context(self.partial.open("a+b"))
                lock(self.file)
            except OSError:
                raise InputError(
                    f"{self.partial}: is being written by another run, or not yours; "
                    "wait for its end, or give another name"
                ) from None
            self.found, end = self.read()
            closing.pop_all()
        self.file.truncate(end)  # the last line may be cut
        self.file.seek(end)

    def read(self):
        """({place: line} of the whole lines after the header, where they end)."""
        self.file.seek(0)
        data = self.file.read()
        if not (data.startswith(self.header) or self.header.startswith(data)):
            raise InputError(
                f"{self.partial}: is of a run with other settings or prompts, or other files of a "
                "model; delete it, or give the same"
            )
        end = data.rfind(b"\n") + 1
        try:
            return dict(map(json.loads, data[len(self.header) : end].splitlines())), end
        except (ValueError, TypeError):
            raise InputError(f"{self.partial}: is damaged; delete it") from None

    @property
    def done(self):
        """The lines that are there, in the order of their places."""
        return [self.found[place] for place in sorted(self.found)]

    def todo(self, n):
        """The places, of n, whose lines are not there yet."""
        return [place for place in range(n) if place not in self.found]

    def put(self, place, value, **more):
        """Write the line of a place, with more fields before its own; not one that Failed."""
        if isinstance(value, Failed):
            return
        line = more | value if more else value
        with naming(self.partial):
            if not self.file.tell():
                self.file.write(self.header)
            self.file.write(encoded([place, line]))
            self.file.flush()
        self.found[place] = line  # now, as the disk may be full

    def add(self, line):
        """Write one line more."""
        self.put(len(self.found), line)

    def close(self, first=(), last=()):
        """Let FILE appear, with these lines around the others, compressed if its name ends in .gz.
        Raises InputError if it is there.
        """
        open_file = gzip.open if self.path.suffix == ".gz" else open
        with whole(self.path) as part, open_file(part, "wb") as file:
            file.writelines(map(encoded, [*first, *self.done, *last]))
        self.discard()

    def discard(self):
        """Delete the partial file."""
        if fcntl is None:
            self.file.close()  # Windows deletes no open file
        self.partial.unlink(missing_ok=True)
        self.file.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if not (self.found or self.file.closed):
            self.discard()  # nothing to go on with
        with naming(self.partial):  # it writes again what did not fit on the disk
            self.file.close()
