"""Work that is shared: all of it is done, errors arrive, and a forked process shares as well."""

import os
import threading
import time
from queue import SimpleQueue

import pytest
from command_line import python
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends import threads

POOLS = {n: threads.Threads(n) for n in (1, 2, 3, 5)}


@pytest.fixture
def sharing(monkeypatch):
    """Work is shared even where that gains nothing."""
    monkeypatch.setattr(threads, "ALONE", 0)


def test_an_error_in_a_thread_reaches_the_caller(sharing):
    done = []

    def broken(a, b):
        done.append((a, b))
        if b == 4:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        POOLS[2].run_on_threads(broken, 4, 2)
    POOLS[2].run_on_threads(broken, 3, 2)  # it leaves nothing behind
    assert sorted(done) == [(0, 2), (0, 2), (2, 3), (2, 4)]


def test_an_error_in_the_part_of_the_caller_waits_for_the_others(sharing):
    done = []

    def broken(a, b):
        if a == 0:
            raise KeyboardInterrupt
        time.sleep(0.1)
        done.append((a, b))

    with pytest.raises(KeyboardInterrupt):
        POOLS[2].run_on_threads(broken, 4, 2)
    assert done == [(2, 4)]


@pytest.mark.parametrize("n_threads", POOLS)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=st.integers(0, 40), too_many=st.sampled_from([0, 99]))
def test_threads_have_nearly_equal_ranges(sharing, n_threads, n, too_many):
    done = []
    POOLS[n_threads].run_on_threads(lambda a, b: done.append((a, b)), n, n_threads + too_many)
    done.sort(key=lambda part: (part[1], part[0]))
    assert len(done) <= n_threads and all(a < b for a, b in done[1:])  # nobody is woken for nothing
    done += [(n, n)] * (n_threads - len(done))
    assert [k for a, b in done for k in range(a, b)] == list(range(n))
    lengths = [b - a for a, b in done]
    assert max(lengths) - min(lengths) <= 1


def test_a_bell_rung_for_a_thread_that_slept_does_not_ring_on():
    """It is woken before the bell rings. Left rung, the bell would never be waited for again."""
    bell, inbox, got = threads.Bell(), SimpleQueue(), []
    thread = threading.Thread(target=lambda: got.append(bell.wait_for_item(inbox)))
    thread.start()
    time.sleep(0.05)  # it sleeps
    inbox.put(1)
    bell.ring()
    thread.join()
    assert got == [1] and not bell.rung


def test_work_that_shares_work_is_done(sharing):
    """On a thread that waits for itself it would never be."""
    pool, done = threads.Threads(3), []
    inner = lambda a, b: pool.run_on_threads(lambda c, d: done.append((a, c, d)), 2, 3)
    pool.run_on_threads(inner, 3, 3)
    assert sorted(done) == [(0, 0, 2), (1, 0, 2), (2, 0, 2)]


def test_several_callers_at_once():
    pool, done = threads.Threads(3), []
    run_on_threads = lambda name: pool.run_on_threads(
        lambda a, b: done.append((name, b - a)), 99, 3
    )
    callers = [threading.Thread(target=run_on_threads, args=(name,)) for name in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert [sum(n for one, n in done if one == name) for name in range(8)] == [99] * 8


# ---------------------------------------------------------------- another program wants the cores


class FakeTime:
    """Clocks, a caller whose work takes seconds on them, and a worker, who is its own inbox and
    bells.

    lost(now): seconds for which one of the two has no core, if the caller is at that time in the
    middle of a call that is shared. of: "worker", for which the caller then waits, or "caller".
    cost: of work that is shared, in units of that of one thread that is alone
    """

    def __init__(self, monkeypatch, lost, of="worker", cost=1):
        self.now = self.cpu = 1000.0
        self.lost, self.of, self.cost = lost, of, cost
        self.pool, self.n_shared = threads.Threads(2), 0
        self.pool.workers, self.pool.process = [(self, self, self)], os.getpid()
        monkeypatch.setattr(threads, "clock", lambda: self.now)
        monkeypatch.setattr(threads, "cpu_clock", lambda: self.cpu)

    def work(self, start, end):
        """The caller's part of 200: a microsecond each."""
        is_shared = end < 200
        seconds = 1e-6 * end * (self.cost if is_shared else 1)
        self.cpu += seconds
        self.now += seconds
        if is_shared and self.of == "caller":
            self.now += self.lost(self.now)

    def put(self, work):
        """Begin the worker's part, which takes no time of the caller."""

    ring = lambda self: None

    def wait_for_item(self, done):
        """Wait for the worker."""
        self.n_shared += 1
        self.now += 1e-5 + (self.lost(self.now) if self.of == "worker" else 0)

    def call(self, n_calls):
        """Seconds that calls take, as a fraction of what they take alone; and the fraction of the
        calls that were shared.
        """
        begin, self.n_shared = self.now, 0
        for _ in range(n_calls):
            self.pool.run_on_threads(self.work, 200, 2)
        return (self.now - begin) / (n_calls * 2e-4), self.n_shared / n_calls


def taken(share, period):
    """Another program has the core of one thread for the last `share` of each period."""
    return lambda now: -now % period if now % period >= period * (1 - share) else 0


never = lambda now: 0


@pytest.mark.parametrize("of", ["worker", "caller"])
@pytest.mark.parametrize("lost, cost, longest", [
    (never, 1, 0.56),
    (taken(0.02, 0.1), 1, 0.62),  # a nice-19 loop in the same group: 2 ms of 100
    (taken(0.5, 0.008), 1, 1.1),  # a loop in another group, in turns
    (taken(0.5, 0.08), 1, 1.1),
    (taken(0.7, 0.04), 1, 1.1),
    (taken(0.3, 0.008), 1.8, 1.1),  # threads that share the memory's bandwidth gain little
    (lambda now: 0.15e-3, 1, 1.1),  # each wake-up is late
    (lambda now: 4e-3, 1, 1.1),
    (lambda now: 40e-3, 1, 1.15),
])  # fmt: skip
def test_beside_another_program_two_threads_are_as_fast_as_one(
    monkeypatch, of, lost, cost, longest
):
    time = FakeTime(monkeypatch, never, of, cost)
    time.call(5000)  # whatever sharing gained before
    time.lost = lost
    seconds, _ = time.call(10_000)
    assert seconds < longest


@pytest.mark.parametrize("stopped", [0.02, 3600])
def test_work_is_shared_again_when_the_other_program_has_ended(monkeypatch, stopped):
    time = FakeTime(monkeypatch, lambda now: stopped)
    assert time.call(2)[1] == 0.5
    time.lost = never
    time.call(6000)  # which take a second
    assert time.call(100)[1] == 1


FORK = """
import os, signal
from backends import threads

def add(n):
    done = []
    pool.run_on_threads(lambda a, b: done.append((a, b)), n, 3)
    return sorted(done) == [(0, n // 3), (n // 3, 2 * n // 3), (2 * n // 3, n)]

threads.ALONE = 0  # share even where that gains nothing
pool = threads.Threads(3)
if {shared_before}:
    assert add(6)
child = os.fork()
if child == 0:
    signal.alarm(10)  # ends a process that waits for ever
    grandchild = os.fork()
    if grandchild == 0:
        signal.alarm(10)
        os._exit(not add(9))
    os._exit(not add(9) or os.waitpid(grandchild, 0)[1] != 0)
raise SystemExit(os.waitpid(child, 0)[1] != 0 or not add(12))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("shared_before", [False, True])
def test_a_forked_process_has_threads_of_its_own(shared_before):
    """multiprocessing forks on Linux up to Python 3.13, and so do servers that import first."""
    code = FORK.format(shared_before=shared_before)
    assert python("-c", code).returncode == 0


def test_a_limit_of_threads_is_said(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads.threading.Thread, "start", start)
    with pytest.raises(ValueError, match="2 threads: can't start new thread; set OMP_NUM_THREADS"):
        threads.Threads(2).run_on_threads(lambda start, end: None, 2, 2)
