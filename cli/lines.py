"""Files of JSON lines that an interrupted run goes on with.

FILE.partial is only added to. It begins with a line that says what the run is; then comes [place,
line] for each line that is done, in any order. Each has a checksum before it. FILE appears, whole
and in order, when all are there. While a run writes the partial file it holds a lock on it: one
file, one writer. The lock ends with its process, also when that is killed.
"""

import gzip
import json
import zlib
from contextlib import ExitStack
from pathlib import Path

from checkpoints.files import InputError, naming
from cli.files import whole
from decoding.cluster.failed import Failed

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


def encoded(value):
    return json.dumps(value).encode() + b"\n"


def sealed(value):
    """A line of the partial file: a checksum, and the value."""
    data = encoded(value)
    return b"%08x %s" % (zlib.crc32(data), data)


def unsealed(line):
    """The value of such a line. Raises ValueError if the line has changed."""
    checksum, _, data = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(data):
        raise ValueError("another checksum")
    return json.loads(data)


class Lines:
    """The lines of FILE. stored: {place: line} of an interrupted run, and what was put since.

    header: says what the run is, any JSON value; it is not part of FILE.

    Raises InputError for a partial file that is another run's, is damaged, or is being written.
    Leaving the block gives the file free; `close` before that lets FILE appear.
    """

    def __init__(self, path, header):
        self.path, self.partial = Path(path), Path(f"{path}.partial")
        try:
            self.file = self.partial.open("a+b")
        except OSError as error:
            problem = f"cannot be written ({error.strerror}); delete it, or give another name"
            raise InputError(f"{self.partial}: {problem}") from None
        with ExitStack() as closing:
            closing.enter_context(self.file)
            try:
                lock(self.file)
            except OSError:
                problem = "is being written by another run; wait for its end, or give another name"
                raise InputError(f"{self.partial}: {problem}") from None
            self.stored = self.read(sealed(header))
            closing.pop_all()

    def read(self, header):
        """{place: line} of the whole lines after the header. Cuts off a line that is not whole."""
        self.file.seek(0)
        data = self.file.read()
        if not (data.startswith(header) or header.startswith(data)):
            raise InputError(
                f"{self.partial}: is of a run with other settings or prompts, or other files of a "
                "model; delete it, or give the same"
            )
        end = data.rfind(b"\n") + 1
        try:
            stored = dict(map(unsealed, data[len(header) : end].splitlines(keepends=True)))
        except ValueError:
            raise InputError(f"{self.partial}: is damaged; delete it") from None
        self.file.truncate(end)
        if not end:
            self.file.write(header)
        return stored

    @property
    def done(self):
        """The lines that are there, in the order of their places."""
        return [self.stored[place] for place in sorted(self.stored)]

    def todo(self, n):
        """The places, of n, whose lines are not there yet."""
        return [place for place in range(n) if place not in self.stored]

    def put(self, place, value, **more):
        """Write the line of a place, with more fields before its own; not one that Failed."""
        if isinstance(value, Failed):
            return
        line = more | value if more else value
        with naming(self.partial):
            self.file.write(sealed([place, line]))
            self.file.flush()
        self.stored[place] = line  # now, as the disk may be full

    def add(self, line):
        """Write one line more."""
        self.put(len(self.stored), line)

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
        with naming(self.partial):
            if not (self.stored or self.file.closed):
                self.discard()  # nothing to go on with
            self.file.close()
