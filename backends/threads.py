"""Threads that share one piece of work: a product's tiles, or the heads of attention.

NumPy releases the GIL while it computes, so Python's own threads run on several cores.

Waking a thread that sleeps takes 20 to 100 microseconds, in which a core reads 1 to 3 MB of
weights, and a pass shares dozens of products. So a thread does not fall asleep at once: it first
spins on a `Bell` for about a millisecond. Work that arrives meanwhile begins 10 to 30 microseconds
later. On two cores of an AMD EPYC, threads that fall asleep at once make plain decoding with the
included 17M take 1.2 to 1.7 times as long (in turns, 120 tokens each).

But while another program wants the cores, a thread that only spins would take one from a thread
that works. So for as long as the caller is preempted again and again, the others fall asleep at
once.
"""

import os
import threading
import time
from collections import deque
from functools import cache
from queue import SimpleQueue

import numpy as np

from backends.blas import N_THREADS

LONG = 64  # a pass of at least this many rows also shares what comes between its products
SPINS = 3_000_000  # looks at a bell before falling asleep: about a millisecond
PAUSE = 1200  # more looks after it has rung, slower ones: 3 to 9 microseconds together

# seconds off the CPU in the middle of its work, from which on a thread was preempted; more where
# the clock is coarser
PREEMPTED = max(1e-3, 2 * time.get_clock_info("thread_time").resolution)
# this many preemptions within this many seconds: another program wants the cores
SEVERAL, WITHIN = 3, 0.2


def ceil_div(a, b):
    return -(-a // b)


@cache
def ranges(n, n_threads, ahead):
    """0 to n in n_threads ranges: the first has `ahead` more, the rest is split evenly."""
    ahead = min(ahead, n)
    ends = [ahead + ceil_div((n - ahead) * i, n_threads) for i in range(1, n_threads + 1)]
    return list(zip([0, *ends], ends))


class Bell:
    """A spin lock that spins without the GIL: one NumPy call looks at a byte until it is set.

    So a thread learns that something was put into a queue without falling asleep. The bell is only
    a hint: whoever heard it, or has spun in vain, then waits for the queue.

    The thread that rings keeps the interpreter a little longer, and one that asks for it too early
    falls asleep. So each waits after the ring, the second longer than the first, and so on.
    """

    def __init__(self, n_pauses=1):
        self.patient = True  # spins before falling asleep
        self.rung = np.zeros(1, bool)
        # the same byte SPINS times over: "is any of them true?" ends as soon as it is
        self.looks = np.broadcast_to(self.rung, SPINS)
        # asked of all of them, then of the last one again and again
        self.parts = np.array([0] + n_pauses * PAUSE * [SPINS - 1])

    def ring(self):
        self.rung[0] = True

    def spin(self):
        """Return when it rings, or after SPINS looks."""
        np.logical_or.reduceat(self.looks, self.parts)

    def get(self, queue):
        """The next item of a queue. Does not hold the interpreter while it spins."""
        if self.patient and queue.empty():
            self.spin()
        item = queue.get()
        self.rung[0] = False  # only now: a thread that slept was woken before the bell was rung
        return item


def worker_loop(inbox, bell):
    """Do what arrives in an inbox, and report each piece of work as done, or its error."""
    while True:
        function, start, end, done, ended = bell.get(inbox)
        try:
            function(start, end)
            done.put(None)
        except BaseException as error:
            done.put(error)
        ended.ring()
        del function, done  # they may hold large arrays, and the next call may be far away


def off_cpu():
    """Seconds for which this thread has not run, counted from some fixed moment."""
    return time.perf_counter() - time.thread_time()


class Threads:
    """The caller's thread and n - 1 more, which wait for work.

    Those begin with the first work that is shared, in each process anew: a forked process has only
    the thread that forked it.
    """

    def __init__(self, n):
        self.n, self.process, self.others = n, None, []
        self.free = threading.Lock()
        self.preemptions = deque(maxlen=SEVERAL)  # of callers' threads: when

    def begin(self):
        self.others = [(SimpleQueue(), Bell(i), Bell()) for i in range(1, self.n)]
        for inbox, bell, _ in self.others:
            threading.Thread(target=worker_loop, args=(inbox, bell), daemon=True).start()
        self.process = os.getpid()

    def has_competition(self):
        """Whether callers were just preempted several times."""
        times = self.preemptions
        return len(times) == SEVERAL and time.perf_counter() - times[0] < WITHIN

    def share(self, function, n, n_threads, ahead=0):
        """function(start, end) on n_threads threads, for ranges that together are 0 to n.

        The caller's thread begins at once, and so is given `ahead` more than the others. Work is
        shared one piece at a time: meanwhile another caller, or a function that shares in turn, is
        served on its own thread.
        """
        n_threads = min(n_threads, self.n)
        if n_threads == 1 or not self.free.acquire(blocking=False):
            function(0, n)
            return
        try:
            self.share_parts(function, *ranges(n, n_threads, ahead))
        finally:
            self.free.release()

    def share_parts(self, function, own, *parts):
        """function(start, end) for the caller's own range, and for each part on another thread."""
        if self.process != os.getpid():
            self.begin()
        waiting = []
        for part, (inbox, bell, ended) in zip(parts, self.others):
            if part[0] < part[1]:  # wake nobody for nothing
                done = SimpleQueue()
                inbox.put((function, *part, done, ended))
                waiting.append((bell, done, ended))
        before = off_cpu()
        patient = not self.has_competition()
        for bell, _, ended in waiting:
            bell.patient = ended.patient = patient
            bell.ring()
        try:
            function(*own)
        finally:  # wait for all, also after an error: nobody may still be writing
            if off_cpu() - before > PREEMPTED:
                self.preemptions.append(time.perf_counter())
            errors = [ended.get(done) for _, done, ended in waiting]
        for error in errors:
            if error is not None:
                raise error


THREADS = Threads(N_THREADS)


def on_one_thread(function, n, n_rows):
    """function(0, n)."""
    function(0, n)


def on_all_threads(function, n, n_rows):
    """function(start, end) for ranges that together are 0 to n: on all of them in a long pass."""
    THREADS.share(function, n, N_THREADS if n_rows >= LONG else 1)
