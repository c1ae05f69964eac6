"""One run at a time: the models compute for the newest request, and older ones are cancelled."""

import threading
from contextlib import contextmanager

MOST_WAITING = 4
# why a run was told to stop
NEWER = "cancelled: a newer run took its place"
STOPPED = "cancelled: the server was stopped"


class Cancelled(Exception):
    """This run was told to stop; the message says why."""

    status = 409  # of HTTP


class Busy(Exception):
    """Too many runs wait already."""

    status = 503


class Turn:
    """A run that can be told to stop; whoever computes calls `check` now and then.

    asked: when it was asked for, as the page counts
    """

    def __init__(self, asked):
        self.asked = asked
        self.cancelled = ""  # why

    def check(self):
        if self.cancelled:
            raise Cancelled(self.cancelled)


class Turns:
    """The runs of a server, of which one computes and the newest is next."""

    def __init__(self):
        self.computing, self.guard = threading.Lock(), threading.Lock()
        self.known = []

    @contextmanager
    def newest(self, asked=0.0):
        """A Turn that has come. Cancels all that were asked for before; raises Cancelled where one
        was asked for after it, as requests may overtake each other, or Busy.
        """
        turn = Turn(asked)
        with self.guard:
            if len(self.known) > MOST_WAITING:
                raise Busy("too many runs are waiting; try again")
            if any(other.asked > asked for other in self.known):
                raise Cancelled(NEWER)
            for other in self.known:
                other.cancelled = NEWER
            self.known.append(turn)
        try:
            with self.computing:
                turn.check()
                yield turn
        finally:
            with self.guard:
                self.known.remove(turn)

    def cancel_all(self):
        """Tell every run to stop, and wait until none computes."""
        with self.guard:
            for turn in self.known:
                turn.cancelled = STOPPED
        with self.computing:
            pass
