"""One run at a time: the models compute for the newest request, and older ones are cancelled."""

import threading
from contextlib import contextmanager

MOST_WAITING = 4
# why a run was told to stop
NEWER = "cancelled: a newer run took its place"
STOPPED = "cancelled: the server was stopped"


class Cancelled(Exception):
    """This run was told to stop; the message says why."""


class Busy(Exception):
    """Too many runs wait already."""


class Job:
    """A run that can be told to stop; whoever computes calls `check` now and then.

    turn: when it was asked for, as the page counts
    """

    def __init__(self, turn):
        self.turn = turn
        self.cancelled = ""  # why

    def check(self):
        if self.cancelled:
            raise Cancelled(self.cancelled)


class Jobs:
    """The runs of a server, of which one computes and the newest is next."""

    def __init__(self):
        self.computing = threading.Lock()
        self.guard = threading.Lock()
        self.known = []

    @contextmanager
    def newest(self, turn=0.0):
        """A Job whose turn it is. Cancels all that were asked for before; raises Cancelled where
        one was asked for after it, as requests may overtake each other, or Busy.
        """
        job = Job(turn)
        with self.guard:
            if len(self.known) > MOST_WAITING:
                raise Busy
            if any(other.turn > turn for other in self.known):
                raise Cancelled(NEWER)
            for other in self.known:
                other.cancelled = NEWER
            self.known.append(job)
        try:
            with self.computing:
                job.check()
                yield job
        finally:
            with self.guard:
                self.known.remove(job)

    def cancel_all(self):
        """Tell every run to stop, and wait until none computes."""
        with self.guard:
            for job in self.known:
                job.cancelled = STOPPED
        with self.computing:
            pass
