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

# scores of a layer's attention (heads x new positions x all positions), from which on the heads are
# shared. With 6,000, passes of 17M after 64 tokens lost more by waking a thread than they gained
WORTH_SHARING = 20_000
SPINS = 3_000_000  # looks at a bell before falling asleep: about a millisecond
PAUSE = 1200  # more looks after it has rung, slower ones: 3 to 9 microseconds together

# seconds off the CPU in the middle of its work, from which on a thread was preempted; more where
# the clock is coarser
PREEMPTED = max(1e-3, 2 * time.get_clock_info("thread_time").resolution)
# this many preemptions within this many seconds: another program wants the cores
PREEMPTION_COUNT, PREEMPTION_SECONDS = 3, 0.2


def ceil_div(a, b):
    return -(-a // b)


@cache
def ranges(n, n_threads, ahead):
    """[(start, end)] of n_threads ranges from 0 to n; the first is longer by `ahead`."""
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
    """Run, without end, what arrives in an inbox; put None or the error into its `done` queue."""
    while True:
        function, start, end, done, done_bell = bell.get(inbox)
        try:
            function(start, end)
            done.put(None)
        except BaseException as error:
            done.put(error)
        done_bell.ring()
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
        self.preemptions = deque(maxlen=PREEMPTION_COUNT)  # of callers' threads: when

    def begin(self):
        self.others = [(SimpleQueue(), Bell(i), Bell()) for i in range(1, self.n)]
        for inbox, bell, _ in self.others:
            threading.Thread(target=worker_loop, args=(inbox, bell), daemon=True).start()
        self.process = os.getpid()

    def has_competition(self):
        """Whether another program wants the cores: callers were preempted several times lately."""
        times = self.preemptions
        recent = bool(times) and time.perf_counter() - times[0] < PREEMPTION_SECONDS
        return recent and len(times) == PREEMPTION_COUNT

    def run_on_threads(self, function, n, n_threads, ahead=0):
        """Call function(start, end) on n_threads threads, for ranges that together are 0 to n.

        The caller's thread begins first, so its range has `ahead` more than the others. If the
        threads are busy with another call, the whole range runs on the caller's thread. Raises what
        the function raises, when all threads are done.
        """
        n_threads = min(n_threads, self.n)
        if n_threads == 1 or not self.free.acquire(blocking=False):
            function(0, n)
            return
        try:
            self.run_parts(function, *ranges(n, n_threads, ahead))
        finally:
            self.free.release()

    def run_parts(self, function, own, *parts):
        """Call function(start, end) for the own range on this thread, for each part on another."""
        if self.process != os.getpid():
            self.begin()
        waiting = []
        for part, (inbox, bell, done_bell) in zip(parts, self.others):
            if part[0] < part[1]:  # wake nobody for nothing
                done = SimpleQueue()
                inbox.put((function, *part, done, done_bell))
                waiting.append((bell, done, done_bell))
        before = off_cpu()
        patient = not self.has_competition()
        for bell, _, done_bell in waiting:
            bell.patient = done_bell.patient = patient
            bell.ring()
        try:
            function(*own)
        finally:  # wait for all, also after an error: nobody may still be writing
            if off_cpu() - before > PREEMPTED:
                self.preemptions.append(time.perf_counter())
            errors = [done_bell.get(done) for _, done, done_bell in waiting]
        for error in errors:
            if error is not None:
                raise error


THREADS = Threads(N_THREADS)


def on_one_thread(function, n, size):
    """Call function(0, n) on this thread. size: as in on_all_threads, not used."""
    function(0, n)


def on_all_threads(function, n, size):
    """Call function(start, end) for ranges that together are 0 to n, on all threads if `size`, the
    number of attention scores to compute, is above WORTH_SHARING.
    """
    THREADS.run_on_threads(function, n, N_THREADS if size > WORTH_SHARING else 1)
