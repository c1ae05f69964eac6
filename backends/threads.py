"""Threads that share one piece of work: a product's tiles, or the heads of attention.

NumPy releases the GIL while it computes, so Python's own threads run on several cores.

Waking a thread that sleeps takes 20 to 100 microseconds, in which a core reads 1 to 3 MB of
weights, and a pass shares dozens of products. So a thread first spins on a `Bell` for about a
millisecond: work that arrives meanwhile begins 10 to 30 microseconds later. Without spinning, plain
decoding with the included 17M took 1.2 to 1.7 times as long (two cores of an AMD EPYC).

Another program may take the core of a thread that is in the middle of its part, and the caller then
waits for milliseconds. So each call that shares its work enters what that gained or lost into an
account; when it is overdrawn, the next calls compute alone (`Threads.enter`).
"""

import os
import threading
import time
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, Callable

import numpy as np

from backends.before_numpy import N_THREADS

# scores of a layer's attention (heads x new positions x all positions, added up over the texts),
# from which on the heads are shared. With 6,000, passes of 17M after 64 tokens lost more by waking
# a thread than they gained
WORTH_SHARING = 20_000
SPINS = 3_000_000  # looks at a bell before falling asleep: about a millisecond
PAUSE = 1200  # more looks after it has rung, slower ones: 3 to 9 microseconds together

CREDIT = 0.005  # seconds of gains, at most, that are kept against losses
ALONE = 20  # for this many times as long as was lost, calls compute alone: then they try again
MOST_LOST = 0.02  # seconds that count of a loss: a program that was stopped for hours tries soon

clock = time.perf_counter
# seconds that this thread was on a core; where that clock is coarse, as on Windows, all seconds
is_coarse = time.get_clock_info("thread_time").resolution > 1e-4
cpu_clock = clock if is_coarse else time.thread_time


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up: 7 / 2 to 4."""
    return -(-a // b)


@cache
def ranges(n: int, n_threads: int) -> list[tuple[int, int]]:
    """Cut 0 to n into n_threads ranges (start, end), without `end`, of nearly equal length.

    >>> ranges(10, 3)
    [(0, 4), (4, 7), (7, 10)]
    """
    cuts = [ceil_div(n * i, n_threads) for i in range(n_threads + 1)]
    return list(zip(cuts, cuts[1:]))


class Bell:
    """A thread waits for it by spinning, awake and without the GIL: one NumPy call looks at a byte
    until it is set.

    The bell is only a hint that something was put into a queue: a thread that heard it, or has spun
    in vain, then waits for the queue. The thread that rings keeps the GIL a little longer, and one
    that asks for it too early falls asleep: so it looks on after the ring, for n_pauses pauses.
    """

    def __init__(self, n_pauses: int = 1):
        """A silent bell. Sets self.rung, the byte, and self.spin, a function that looks at it."""
        self.rung = np.zeros(1, bool)
        looks = np.broadcast_to(self.rung, SPINS)  # SPINS elements, all that one byte
        # reduceat reads part after part: first all elements, until one is true, as after the ring;
        # then n_pauses * PAUSE times the last one alone, which only takes time
        last = SPINS - 1
        begins_of_parts = np.array([0] + n_pauses * PAUSE * [last])
        self.spin = partial(np.logical_or.reduceat, looks, begins_of_parts)

    def ring(self) -> None:
        """Let the thread that spins on this bell stop, or the next thread to spin on it."""
        self.rung[0] = True

    def wait_for_item(self, queue: SimpleQueue) -> Any:
        """Wait for the next item of a queue and return it; whoever puts one there rings this bell
        after it. Spins while the queue is empty, for a millisecond at most, then sleeps.
        """
        if queue.empty():
            self.spin()
        item = queue.get()
        # Silent again, only now, as the ring may come after the put that woke this thread. One that
        # comes even later merely cuts the next spin short
        self.rung[0] = False
        return item


def worker_loop(inbox: SimpleQueue, bell: Bell) -> None:
    """For ever, wait for work in `inbox`, and do it. Whoever puts work there rings `bell` after it.

    Work is (function, start, end, done, done_bell). After function(start, end), None or the error
    that it raised is put into the queue `done`, and done_bell is rung.
    """
    while True:
        function, start, end, done, done_bell = bell.wait_for_item(inbox)
        try:
            function(start, end)
            done.put(None)
        except BaseException as error:
            done.put(error)
        done_bell.ring()
        del function, done  # they may hold large arrays, and the next call may be far away


class Threads:
    """n threads: the caller's and n - 1 workers, which wait for work. The workers start with the
    first work that is shared, in each process anew: a fork has only the thread that made it.
    """

    def __init__(self, n: int):
        """No thread is started. n: how many there may be, the caller's among them."""
        self.n = n
        # of each: its inbox, the bell that is rung for it, the bell that it rings when it is done
        self.workers: list[tuple[SimpleQueue, Bell, Bell]] = []
        self.process: int | None = None  # id of the process in which the workers run
        self.free = threading.Lock()  # held while a call uses the workers
        self.credit = 0.0  # seconds that sharing has gained lately
        self.alone_until = 0.0  # the time on `clock` up to which work is not shared: see `enter`

    def start_workers(self) -> None:
        """Start self.n - 1 threads that run worker_loop until the process ends; set self.workers
        and self.process. Raises ValueError if a thread cannot be started; others may then live on.
        """
        # n_pauses differs, so that the threads do not ask for the GIL at the same time
        self.workers = [(SimpleQueue(), Bell(n_pauses=i), Bell()) for i in range(1, self.n)]
        try:
            for inbox, bell, _done_bell in self.workers:
                threading.Thread(target=worker_loop, args=(inbox, bell), daemon=True).start()
        except RuntimeError as error:  # a limit of threads or memory
            raise ValueError(f"{self.n} threads: {error}; set OMP_NUM_THREADS=1") from None
        self.process = os.getpid()  # a fork of this process has none of them

    def run_on_threads(self, function: Callable, n: int, n_threads: int) -> None:
        """Call function(start, end) on at most n_threads threads, for ranges that make up 0 to n.
        If the threads are busy with another call, or until self.alone_until (see `enter`), this
        thread calls function(0, n). When all are done, raises an error that the function raised.
        """
        n_threads = min(n_threads, self.n, n)  # no range is empty
        # without waiting for the lock: this thread can do the work meanwhile
        if n_threads <= 1 or clock() < self.alone_until or not self.free.acquire(blocking=False):
            function(0, n)
            return
        try:
            self.run_ranges(function, ranges(n, n_threads))
        finally:
            self.free.release()

    def run_ranges(self, function: Callable, parts: list[tuple[int, int]]) -> None:
        """Call function(start, end) for all `parts`, at most self.n, at the same time: the first on
        this thread, each other on a worker. The caller has to hold self.free. When all have ended,
        enters the seconds gained (`enter`), and raises the error of the first part that has one.
        """
        if self.process != os.getpid():  # the first call, or the first after a fork
            self.start_workers()
        began = clock()
        waiting = []
        for (start, end), (inbox, bell, done_bell) in zip(parts[1:], self.workers):
            done: SimpleQueue = SimpleQueue()
            inbox.put((function, start, end, done, done_bell))
            bell.ring()
            waiting.append((done_bell, done))
        cpu_began = cpu_clock()
        try:
            function(*parts[0])
        finally:  # wait for all, also after an error: no worker may still be writing
            alone = len(parts) * (cpu_clock() - cpu_began)  # all parts, nearly equal, on one thread
            errors = [done_bell.wait_for_item(done) for done_bell, done in waiting]
            self.enter(alone - (clock() - began))
        for error in errors:
            if error is not None:
                raise error

    def enter(self, gain: float) -> None:
        """Enter into the account self.credit what a call gained by sharing its work, in seconds:
        the time of all parts on one thread, less the time that it took. The account holds at most
        CREDIT. Once it is overdrawn, calls do not share until self.alone_until, which is set to
        ALONE times the debt from now (a debt counts up to MOST_LOST), and the account becomes 0.
        """
        # a quarter of a gain, because a thread that is alone has all of the memory's bandwidth
        counted = gain / 4 if gain > 0 else gain
        self.credit = min(CREDIT, self.credit + counted)
        if self.credit < 0:
            self.alone_until = clock() + ALONE * min(MOST_LOST, -self.credit)
            self.credit = 0.0


THREADS = Threads(N_THREADS)


def on_all_threads(function: Callable, n: int, size: int) -> None:
    """Call function(start, end) for ranges that together are 0 to n, on all threads if `size`, the
    number of attention scores to compute, is above WORTH_SHARING.
    """
    THREADS.run_on_threads(function, n, N_THREADS if size > WORTH_SHARING else 1)
