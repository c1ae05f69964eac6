"""Resumable JSON Lines: an interrupted run continues where it stopped.

FILE.partial is only appended to. Its first line, the header, identifies the run; each further line
is [place, line], in any order. Each line begins with a checksum. FILE is written, complete and in
order, when all lines are there. A run locks the partial file while it writes: one file, one writer.
The lock ends with its process, also if the process is killed.
"""

import gzip
import json
import zlib
from contextlib import ExitStack
from pathlib import Path

from checkpoints import locks
from checkpoints.errors import InputError, with_filename
from checkpoints.output import OutputAppeared, create_atomically
from decoding.cluster.failed import Failed


def encoded(value):
    """A JSON value as the bytes of one line."""
    return json.dumps(value).encode() + b"\n"


def checksum(data):
    """The CRC-32 of bytes, as eight hexadecimal digits."""
    return f"{zlib.crc32(data):08x}"


def with_checksum(value):
    """The bytes of a line of the partial file: a checksum, then the value as JSON."""
    data = encoded(value)
    return b"%s %s" % (checksum(data).encode(), data)


def parse_with_checksum(line):
    """The JSON value of a line of the partial file. Raises ValueError if its checksum is wrong."""
    stored, _, data = line.partition(b" ")
    if stored != checksum(data).encode():
        raise ValueError("another checksum")
    return json.loads(data)


class ResumableLines:
    """A context manager for the lines of FILE. stored: {place: line}, also of an interrupted run.

    header: any JSON value that identifies the run; it is not part of FILE.

    Raises InputError for a partial file of another run, one that is damaged, or one that is locked.
    Leaving the block unlocks the file. Call `close` in the block, when all is done, to write FILE.
    """

    def __init__(self, path, header):
        self.path, self.partial = Path(path), Path(f"{path}.partial")
        try:
            self.file = self.partial.open("a+b")
            if not self.partial.is_file():
                self.file.close()
                raise OSError
        except OSError as error:
            reason = error.strerror or "it is no plain file"  # a pipe or a device
            problem = f"cannot be written ({reason}); delete it, or give another name"
            raise InputError(f"{self.partial}: {problem}") from None
        with ExitStack() as closing:
            closing.enter_context(self.file)
            try:
                locks.lock(self.file)
            except OSError:
                problem = "is being written by another run; wait for its end, or give another name"
                raise InputError(f"{self.partial}: {problem}") from None
            self.stored = self.read(with_checksum(header))
            closing.pop_all()

    def read(self, header):
        """Return {place: line} of the complete lines. Deletes an incomplete last line."""
        self.file.seek(0)
        data = self.file.read()
        if not (data.startswith(header) or header.startswith(data)):
            raise InputError(
                f"{self.partial}: is of a run with other settings or prompts, or other files of a "
                "model; delete it, or give the same"
            )
        end = data.rfind(b"\n") + 1
        try:
            stored = dict(
                map(parse_with_checksum, data[len(header) : end].splitlines(keepends=True))
            )
        except ValueError:
            raise InputError(f"{self.partial}: is damaged; delete it") from None
        self.file.truncate(end)
        if not end:
            self.file.write(header)
        return stored

    @property
    def done(self):
        """The stored lines as a list, in the order of their places."""
        return [self.stored[place] for place in sorted(self.stored)]

    def missing_places(self, n):
        """The places in range(n) that have no line yet, as a list."""
        return [place for place in range(n) if place not in self.stored]

    def write(self, place, value, **more):
        """Append the line of a place to the partial file; a Failed value is not written.

        more: fields to put before those of the value, if it is an object
        """
        if isinstance(value, Failed):
            return
        line = more | value if more else value
        with with_filename(self.partial):
            self.file.write(with_checksum([place, line]))
            self.file.flush()
        self.stored[place] = line  # now, as the disk may be full

    def append(self, line):
        """Write a line at the next free place."""
        self.write(len(self.stored), line)

    def close(self, first=(), last=()):
        """Write FILE: the lines `first`, the stored ones, the lines `last`; compressed if its name
        ends in .gz. Deletes the partial file. Raises InputError if FILE exists already.
        """
        open_file = gzip.open if self.path.suffix == ".gz" else open
        try:
            with create_atomically(self.path) as part, open_file(part, "wb") as file:
                file.writelines(map(encoded, [*first, *self.done, *last]))
        except OutputAppeared:  # all lines are in another file
            self.discard()
            raise
        self.discard()

    def discard(self):
        """Delete the partial file."""
        if locks.fcntl is None:
            self.file.close()  # Windows deletes no open file
        self.partial.unlink(missing_ok=True)
        self.file.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        with with_filename(self.partial):
            if not (self.stored or self.file.closed):
                self.discard()  # nothing to go on with
            self.file.close()
