"""Threads that share one piece of work: a product's tiles, or the heads of attention.

NumPy lets go of the interpreter while it computes, so Python's own threads run on several cores.
"""

import os
import threading
from queue import SimpleQueue

from backends.blas import N_THREADS

LONG = 64  # rows of a pass, from which on what comes between the products is worth sharing, too


def ranges(n, n_threads, ahead):
    """0 to n in n_threads ranges of equal size, but for the first, which is longer by `ahead`."""
    ahead = min(ahead, n)
    ends = [ahead + (n - ahead) * i // n_threads for i in range(1, n_threads + 1)]
    return list(zip([0, *ends], ends))


def serve(inbox):
    """Do what arrives in an inbox, and report each piece of work as done, or its error."""
    while True:
        function, start, end, done = inbox.get()
        try:
            function(start, end)
            done.put(None)
        except BaseException as error:
            done.put(error)
        del function, done  # they may hold large arrays, and the next call may be far away


class Threads:
    """The caller's thread and n - 1 more, which wait for work.

    Those begin with the first work that is shared, in each process anew: a forked process has only
    the thread that forked it. Waking one takes 20 to 100 microseconds, in which a core reads 1 to
    3 MB.
    """

    def __init__(self, n):
        self.n, self.process, self.inboxes = n, None, []

    def begin(self):
        self.inboxes = [SimpleQueue() for _ in range(self.n - 1)]
        for inbox in self.inboxes:
            threading.Thread(target=serve, args=(inbox,), daemon=True).start()
        self.process = os.getpid()

    def share(self, function, n, n_threads, ahead=0):
        """function(start, end) on n_threads threads, for ranges that together are 0 to n.

        The caller's thread begins at once, and so is given `ahead` more than the others.
        """
        n_threads = min(n_threads, self.n)
        if n_threads == 1:
            function(0, n)
            return
        if self.process != os.getpid():
            self.begin()
        (start, end), *others = ranges(n, n_threads, ahead)
        # wake nobody for nothing
        others = [part for part in others if part[0] < part[1]]
        done = SimpleQueue()
        for inbox, part in zip(self.inboxes, others):
            inbox.put((function, *part, done))
        try:
            function(start, end)
        finally:  # wait for all: when this returns, nobody writes any more, whatever happened
            errors = [done.get() for _ in others]
        for error in errors:
            if error is not None:
                raise error


THREADS = Threads(N_THREADS)


def alone(function, n, n_rows):
    """function(0, n)."""
    function(0, n)


def share(function, n, n_rows):
    """function(start, end) for ranges that together are 0 to n: on all threads in a long pass."""
    THREADS.share(function, n, N_THREADS if n_rows >= LONG else 1)
