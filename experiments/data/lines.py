"""Files of JSON lines that are written line by line, and that an interrupted run goes on with.

Lines are appended to FILE.partial, which becomes FILE when all are there. While a run writes the
partial file it holds a lock on it: one file, one writer. The lock ends with its process, also when
that is killed.

A line with "failed" keeps the place of one that could not be had. The next run tries that again.
"""

import gzip
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from experiments.data.files import replacing, whole
from experiments.data.prompts import some
from experiments.data.reading import load_json
from utils import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
    import msvcrt

LOCKED_BYTE = 0x7FFFFFF0  # for Windows, which locks bytes: one beyond the end of the file
DAMAGED = (ValueError, KeyError, TypeError)  # what a damaged line raises


def lock(file):
    """Lock an open file until it is closed. Raises BlockingIOError or PermissionError if another
    process, or another open file of this one, has the lock.
    """
    if fcntl:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        file.seek(LOCKED_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)


@dataclass(frozen=True)
class Failed:
    """In place of a result that could not be had."""

    reason: str


class SomeFailed(InputError):
    """Raised after the last result, if some could not be had. failed: {what: why}."""

    def __init__(
        self, failed, rest="the others are done, give the same command to try these again"
    ):
        self.failed = failed
        n_prompts = f"{len(failed)} prompt{'s' if len(failed) > 1 else ''}"
        named = some([f"{name}: {why}" for name, why in failed.items()])
        super().__init__(f"{n_prompts} failed three times: {named}; {rest}")


def spared(results, failed):
    """The results; what SomeFailed says after the last is put into the dict `failed`."""
    try:
        yield from results
    except SomeFailed as error:
        failed |= error.failed


def encoded(value):
    return json.dumps(value).encode() + b"\n"


class Lines:
    """The lines of FILE. `done` are those of an interrupted run, and what was `put` since.

    header: a first line that says what the run is; it is not among `done`.
    expected: for lines without a header, the fields that each must have, in order.

    Raises InputError for a partial file that is another run's, is damaged, or is being written.
    Leaving the block gives the file free; `close` before that lets FILE appear.
    """

    def __init__(self, path, header=None, expected=None):
        self.path, self.partial = Path(path), Path(f"{path}.partial")
        self.header = json.loads(json.dumps(header))
        self.file = self.open()
        try:
            self.done, self.end = self.read(expected)
            self.is_empty, self.is_refilled = not self.done, False
        except BaseException:
            self.file.close()
            raise

    def open(self):
        """The partial file, open and locked."""
        try:
            file = self.partial.open("a+b")
        except OSError as error:
            raise InputError(f"{self.partial}: cannot be written ({error.strerror})") from None
        try:
            lock(file)
            # the run before may have renamed the file after it was opened here
            if os.path.samestat(os.fstat(file.fileno()), self.partial.stat()):
                return file
        except (BlockingIOError, PermissionError, FileNotFoundError):
            pass
        file.close()
        raise InputError(
            f"{self.partial}: is being written by another run; "
            "wait for its end, or give another name"
        )

    def read(self, expected):
        """The whole lines after the header, and where they end: the last line may be cut."""
        self.file.seek(0)
        data = self.file.read()
        end = data.rfind(b"\n") + 1
        try:
            if data and not data.startswith(b"{"):
                raise ValueError("not a line of ours, whole or cut")
            found = [load_json(line) for line in data[:end].decode("utf-8").split("\n")[:-1]]
            if self.header is None:
                same = len(found) <= len(expected)
                same = same and all(line | one == line for line, one in zip(found, expected))
            else:
                same = found[:1] in ([], [self.header])
                found = found[1:]
        except DAMAGED:
            raise InputError(f"{self.partial}: is damaged; delete it") from None
        if not same:
            raise InputError(
                f"{self.partial}: is of a run with other settings or prompts, or other files of a "
                "model; delete it, or give the same"
            )
        return found, end

    def todo(self, n):
        """The places, of n lines, of those that failed and those that are not there yet."""
        failed = [i for i, line in enumerate(self.done) if "failed" in line]
        return failed + [*range(len(self.done), n)]

    def put(self, place, value, **name):
        """Write the line of a place that is `todo`: its name, and the value or why it Failed."""
        value = name | ({"failed": value.reason} if isinstance(value, Failed) else value)
        if place < len(self.done):
            self.done[place] = value
            self.is_refilled = True
        else:
            self.add(value)
            self.done.append(value)

    def results(self):
        """The lines of all places, in order, but for those that failed."""
        return [line for line in self.done if "failed" not in line]

    def rewrite(self):
        """Write the lines of `done` again, some of which had failed before: into a new file that
        takes the place of the partial one, so that a kill leaves one of the two whole.
        """
        self.file.seek(0)
        lines = self.file.read().splitlines(keepends=True)
        first = 0 if self.header is None else 1
        lines[first : first + len(self.done)] = map(encoded, self.done)
        with replacing(self.partial) as new:
            new.write_bytes(b"".join(lines))
            self.file.close()  # Windows replaces no open file
        self.file, self.is_refilled = self.open(), False

    def add(self, value):
        """Append a line."""
        if self.end is not None:
            # cut off half a line before the first one is added
            self.file.truncate(self.end)
            if self.end == 0 and self.header is not None:
                self.write(self.header)
            self.end = None
        self.write(value)
        self.is_empty = False

    def write(self, value):
        self.file.write(encoded(value))
        self.file.flush()

    def close(self):
        """Let FILE appear, compressed if its name ends in .gz. Raises InputError if it is there."""
        if self.is_refilled:
            self.rewrite()
        if os.path.lexists(self.path):
            raise InputError(
                f"{self.path}: appeared while this run wrote {self.partial}, which is complete; "
                "rename that"
            )
        if self.path.suffix == ".gz":
            self.file.seek(0)
            with whole(self.path) as part, gzip.open(part, "wb") as packed:
                shutil.copyfileobj(self.file, packed)
            self.discard()
            return
        if fcntl is None:
            self.file.close()  # Windows renames no open file
        self.partial.replace(self.path)
        self.file.close()

    def discard(self):
        """Delete the partial file."""
        if fcntl is None:
            self.file.close()  # Windows deletes no open file
        self.partial.unlink(missing_ok=True)
        self.file.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.is_empty and not self.file.closed:
            self.discard()  # nothing to go on with
        elif self.is_refilled:
            self.rewrite()
        self.file.close()
