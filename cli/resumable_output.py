"""Resumable JSON Lines: an interrupted run continues where it stopped.

FILE.partial is only appended to. Its first line, the header, identifies the run; each further line
is [place, line], in any order. Each line begins with a checksum. FILE is written, complete and in
order, when all lines are there. A run locks the partial file while it writes: one file, one writer.
The lock ends with its process, also if the process is killed.
"""

import gzip
import json
import zlib
from pathlib import Path

from checkpoints import locks
from checkpoints.errors import InputError, with_filename
from checkpoints.output import OutputAppeared, create_atomically
from decoding.cluster.failed import Failed


def json_line(value):
    """A JSON value as the bytes of one line, with its line end."""
    return json.dumps(value).encode() + b"\n"


def checksum(data):
    """The CRC-32 of bytes, as eight hexadecimal digits."""
    return f"{zlib.crc32(data):08x}"


def checked_line(value):
    """A JSON value as the bytes of a line of the partial file: a checksum, then the value."""
    data = json_line(value)
    return b"%s %s" % (checksum(data).encode(), data)


def parse_checked_line(line):
    """The JSON value in the bytes of a checked_line. Raises ValueError if the checksum is wrong."""
    stored, _, data = line.partition(b" ")
    if stored != checksum(data).encode():
        raise ValueError("another checksum")
    return json.loads(data)


class ResumableLines:
    """The lines of FILE, a JSON value each, at places that are numbered from 0.

    A context manager: the block adds lines with `write` or `append`, and writes FILE with `finish`.
    Lines that it adds are kept in FILE.partial if the block fails, and are here the next time.

    stored: {place: line} of all lines so far
    """

    def __init__(self, path, header):
        """Open and lock FILE.partial, and read the lines that an interrupted run left.

        path: FILE. header: a JSON value that identifies the run; FILE does not hold it
        Raises InputError if the partial file has another header, is damaged, is locked by another
        run, or cannot be written.
        """
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
        try:
            self.lock()
            self.stored = self.read_stored(checked_line(header))
        except BaseException:
            self.file.close()
            raise

    def lock(self):
        """Lock the partial file until it is closed. Raises InputError if another run locked it."""
        try:
            locks.lock(self.file)
        except OSError:
            problem = "is being written by another run; wait for its end, or give another name"
            raise InputError(f"{self.partial}: {problem}") from None

    def read_stored(self, header):
        """Return {place: line} of the complete lines in the partial file. Cuts an incomplete last
        line off the file, and writes the header into an empty file.

        header: the first line, as bytes
        Raises InputError if the file begins with another header, or a line is damaged.
        """
        self.file.seek(0)
        data = self.file.read()
        # a run that was interrupted in its first line left a part of the header
        if not (data.startswith(header) or header.startswith(data)):
            raise InputError(
                f"{self.partial}: is of a run with other settings or prompts, or other files of a "
                "model; delete it, or give the same"
            )
        end = data.rfind(b"\n") + 1  # of the complete lines
        lines = data[len(header) : end].splitlines(keepends=True)
        try:
            stored = dict(map(parse_checked_line, lines))
        except ValueError:
            raise InputError(f"{self.partial}: is damaged; delete it") from None
        self.file.truncate(end)
        if not end:
            self.file.write(header)  # at the new end, because the file was opened for appending
        return stored

    @property
    def lines_in_order(self):
        """The stored lines as a list, in the order of their places."""
        return [self.stored[place] for place in sorted(self.stored)]

    def missing_places(self, n):
        """The list of the places from 0 to n - 1, as int, that have no line yet."""
        return [place for place in range(n) if place not in self.stored]

    def write(self, place, value, **fields):
        """Append the line of a place to the partial file. A Failed value is not written, so that
        the next run tries this place again. Raises OSError if the disk is full.

        place: a number from 0. value: a JSON value, or Failed
        fields: more fields of the line, before those of the value, which is then a dict
        """
        if isinstance(value, Failed):
            return
        line = fields | value if fields else value
        with with_filename(self.partial):
            self.file.write(checked_line([place, line]))
            self.file.flush()
        self.stored[place] = line  # only now, because the disk may be full

    def append(self, line):
        """Append a line, a JSON value, at the next place, if all places before it have lines."""
        self.write(len(self.stored), line)

    def finish(self, first=(), last=()):
        """Write FILE, compressed if its name ends in .gz, and delete the partial file. FILE has the
        lines `first`, the stored lines in order of their places, then the lines `last`.

        first, last: lists of JSON values
        Raises OutputAppeared if FILE exists by now; the lines are then in another file, which the
        error names.
        """
        open_file = gzip.open if self.path.suffix == ".gz" else open
        try:
            with create_atomically(self.path) as part, open_file(part, "wb") as file:
                file.writelines(map(json_line, [*first, *self.lines_in_order, *last]))
        except OutputAppeared:
            self.discard()
            raise
        self.discard()

    def discard(self):
        """Close and delete the partial file."""
        if locks.fcntl is None:
            self.file.close()  # Windows cannot delete an open file, and has no lock
        self.partial.unlink(missing_ok=True)
        self.file.close()  # ends the lock, so only after the deletion; a second time does nothing

    def __enter__(self):
        return self

    def __exit__(self, *error):
        """Close and so unlock the partial file; delete it if it has no lines."""
        with with_filename(self.partial):
            if not (self.stored or self.file.closed):
                self.discard()
            self.file.close()
