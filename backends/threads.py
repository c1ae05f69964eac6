"""Threads that share one piece of work: a product's tiles, or the heads of attention.

NumPy releases the GIL while it computes, so Python's own threads run on several cores.

Waking a thread that sleeps takes 20 to 100 microseconds, in which a core reads 1 to 3 MB of
weights, and a pass shares dozens of products. So a thread first spins on a `Bell` for about a
millisecond: work that arrives meanwhile begins 10 to 30 microseconds later. On two cores of an AMD
EPYC, threads that fall asleep at once make plain decoding with the included 17M take 1.2 to 1.7
times as long (in turns, 120 tokens each).

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
from typing import Any, Callable

import numpy as np

from backends.before_numpy import N_THREADS

# scores of a layer's attention (heads x new positions x all positions, added up over the texts),
# from which on the heads are shared. With 6,000, passes of 17M after 64 tokens lost more by waking
# a thread than they gained
WORTH_SHARING = 20_000
SPINS = 3_000_000  # looks at a bell before falling asleep: about a millisecond
PAUSE = 1200  # more looks after it has rung, slower ones: 3 to 9 microseconds together

# seconds off the CPU in the middle of its work, from which on a thread was preempted; more where
# the clock is coarser
PREEMPTED = max(1e-3, 2 * time.get_clock_info("thread_time").resolution)
PREEMPTION_COUNT, PREEMPTION_SECONDS = 3, 0.2  # three within 0.2 s: the cores are wanted


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up.

    >>> ceil_div(7, 2)
    4
    """
    return -(-a // b)


@cache
def ranges(n: int, n_threads: int) -> list[tuple[int, int]]:
    """Cut 0 to n into n_threads ranges (start, end), without `end`, of nearly equal length.

    >>> ranges(10, 3)
    [(0, 4), (4, 7), (7, 10)]
    """
    ends = [ceil_div(n * i, n_threads) for i in range(1, n_threads + 1)]
    return list(zip([0, *ends], ends))


class Bell:
    """A spin lock that spins without the GIL: one NumPy call looks at a byte until it is set.

    So a thread learns that something was put into a queue without falling asleep. The bell is only
    a hint: a thread that heard it, or has spun in vain, then waits for the queue.

    The thread that rings keeps the GIL a little longer, and a thread that asks for it too early
    falls asleep. So a thread goes on looking for n_pauses pauses after the ring.
    """

    def __init__(self, n_pauses: int = 1):
        self.patient = True  # whether to spin before falling asleep; Threads.run_ranges sets it
        self.rung = np.zeros(1, bool)
        # an array whose SPINS elements are all that one byte: np.logical_or over it reads the byte
        # again and again, and stops at the first read that is true
        self.looks = np.broadcast_to(self.rung, SPINS)
        # reduceat: first over all elements, then over the last one, PAUSE times a pause
        self.parts = np.array([0] + n_pauses * PAUSE * [SPINS - 1])

    def ring(self) -> None:
        """Let the thread that spins on this bell stop, or the next thread to spin on it."""
        self.rung[0] = True

    def spin(self) -> None:
        """Read the byte until the bell has rung, at most SPINS times, and return after a pause."""
        np.logical_or.reduceat(self.looks, self.parts)  # one call: NumPy needs no GIL in it

    def get(self, queue: SimpleQueue) -> Any:
        """Wait for the next item of a queue and return it: if `patient`, spin first, without the
        GIL; then sleep. A thread that puts an item there rings this bell after it.
        """
        if self.patient and queue.empty():
            self.spin()
        item = queue.get()
        # Only now: the put may have woken this thread before the ring. A ring that comes even later
        # merely cuts the next spin short
        self.rung[0] = False
        return item


def worker_loop(inbox: SimpleQueue, bell: Bell) -> None:
    """Run all work that callers put into `inbox`, without end. Then they ring `bell`, on which this
    loop spins before it falls asleep.

    Work is (function, start, end, done, done_bell). After function(start, end), None or the error
    that it raised is put into the queue `done`, on which the caller waits, and done_bell is rung.
    """
    while True:
        function, start, end, done, done_bell = bell.get(inbox)  # waits for work
        try:
            function(start, end)
            done.put(None)
        except BaseException as error:
            done.put(error)
        done_bell.ring()
        del function, done  # they may hold large arrays, and the next call may be far away


def off_cpu() -> float:
    """Seconds that this thread was off the CPU: take the difference of two calls."""
    return time.perf_counter() - time.thread_time()


class Threads:
    """The caller's thread and n - 1 workers, threads that wait for work.

    The workers are started with the first work that is shared, in each process anew: a forked
    process has only the thread that forked it.
    """

    def __init__(self, n: int):
        self.n = n
        self.workers: list[tuple] = []
        self.process: int | None = None  # id of the process in which the workers run
        self.free = threading.Lock()  # held while a call uses the workers
        self.preemptions: deque = deque(
            maxlen=PREEMPTION_COUNT
        )  # times when a caller was preempted

    def start_workers(self) -> None:
        """Start self.n - 1 threads and set self.workers: for each thread (queue of its work, Bell
        that it waits on, Bell on which a caller waits for it). Notes the process in self.process.
        Raises ValueError if a thread cannot be started.
        """
        # n_pauses differs, so that the threads do not ask for the GIL at the same time
        self.workers = [(SimpleQueue(), Bell(n_pauses=i), Bell()) for i in range(1, self.n)]
        try:
            for inbox, bell, _ in self.workers:
                threading.Thread(target=worker_loop, args=(inbox, bell), daemon=True).start()
        except RuntimeError as error:  # a limit of threads or memory
            raise ValueError(f"{self.n} threads: {error}; set OMP_NUM_THREADS=1") from None
        self.process = os.getpid()  # a forked process has another id, and no threads

    def has_competition(self) -> bool:
        """Whether another program wants the cores: callers were preempted PREEMPTION_COUNT times in
        the last PREEMPTION_SECONDS.
        """
        times = self.preemptions  # the last ones, at most PREEMPTION_COUNT
        if len(times) < PREEMPTION_COUNT:
            return False
        return time.perf_counter() - times[0] < PREEMPTION_SECONDS

    def run_on_threads(self, function: Callable, n: int, n_threads: int) -> None:
        """Call function(start, end) on at most n_threads threads, for ranges that make up 0 to n.
        If the threads are busy with another call, this thread calls function(0, n). When all
        threads are done, raises an error that the function raised.
        """
        n_threads = min(n_threads, self.n)
        # without waiting for the lock: this thread can do the work meanwhile
        if n_threads == 1 or not self.free.acquire(blocking=False):
            function(0, n)
            return
        try:
            self.run_ranges(function, *ranges(n, n_threads))
        finally:
            self.free.release()

    def run_ranges(self, function: Callable, caller_range: tuple, *worker_ranges: tuple) -> None:
        """Call function(start, end) on this thread for caller_range, and on a worker for each of
        the other ranges; a range is (start, end). When all are done, raises what the function
        raised.
        """
        if self.process != os.getpid():  # the first call, or the first after a fork
            self.start_workers()
        waiting = []
        for (start, end), (inbox, bell, done_bell) in zip(worker_ranges, self.workers):
            if start < end:  # wake no worker for nothing
                done: SimpleQueue = SimpleQueue()
                inbox.put((function, start, end, done, done_bell))
                waiting.append((bell, done, done_bell))
        before = off_cpu()
        patient = not self.has_competition()  # whether to spin before falling asleep
        for bell, _, done_bell in waiting:
            bell.patient = done_bell.patient = patient
            bell.ring()
        try:
            function(*caller_range)
        finally:  # wait for all, also after an error: no worker may still be writing
            if off_cpu() - before > PREEMPTED:
                self.preemptions.append(time.perf_counter())  # for has_competition
            errors = [done_bell.get(done) for _, done, done_bell in waiting]
        for error in errors:
            if error is not None:
                raise error


THREADS = Threads(N_THREADS)


def on_one_thread(function: Callable, n: int, size: int) -> None:
    """Call function(0, n) on this thread. Called like on_all_threads, so size is not used."""
    function(0, n)


def on_all_threads(function: Callable, n: int, size: int) -> None:
    """Call function(start, end) for ranges that together are 0 to n, on all threads if `size`, the
    number of attention scores to compute, is above WORTH_SHARING.
    """
    THREADS.run_on_threads(function, n, N_THREADS if size > WORTH_SHARING else 1)
