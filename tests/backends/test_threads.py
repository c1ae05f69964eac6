"""Work that is shared: all of it is done, errors arrive, and a forked process shares as well."""

import os
import threading
import time
from queue import SimpleQueue

import pytest
from command_line import python
from hypothesis import given, settings
from hypothesis import strategies as st

from backends import threads

POOLS = {n: threads.Threads(n) for n in (1, 2, 3, 5)}


def test_an_error_in_a_thread_reaches_the_caller():
    done = []

    def broken(a, b):
        done.append((a, b))
        if b == 4:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        POOLS[2].run_on_threads(broken, 4, 2)
    POOLS[2].run_on_threads(broken, 3, 2)  # it leaves nothing behind
    assert sorted(done) == [(0, 2), (0, 2), (2, 3), (2, 4)]


def test_an_error_in_the_part_of_the_caller_waits_for_the_others():
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
@settings(max_examples=30)
@given(n=st.integers(0, 40), too_many=st.sampled_from([0, 99]))
def test_threads_have_nearly_equal_ranges(n_threads, n, too_many):
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
    thread = threading.Thread(target=lambda: got.append(bell.get(inbox)))
    thread.start()
    time.sleep(0.05)  # it sleeps
    inbox.put(1)
    bell.ring()
    thread.join()
    assert got == [1] and not bell.rung


def test_work_that_shares_work_is_done():
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


def test_callers_that_are_preempted_again_and_again_make_threads_impatient(monkeypatch):
    """Another program wants the cores; a thread that spins would take one from one that works."""
    monkeypatch.setattr(threads, "PREEMPTION_SECONDS", 1000)
    pool = threads.Threads(2)

    def are_patient():
        pool.run_on_threads(lambda a, b: None, 2, 2)
        return {bell.patient for bell in pool.workers[0][1:]}

    assert are_patient() == {True}
    for _ in range(threads.PREEMPTION_COUNT):
        pool.run_on_threads(lambda a, b: time.sleep(3 * threads.PREEMPTED), 2, 2)
    assert are_patient() == {False}
    monkeypatch.setattr(threads, "PREEMPTION_SECONDS", 0)
    assert are_patient() == {True}


FORK = """
import os, signal
from backends.threads import Threads

def add(n):
    done = []
    threads.run_on_threads(lambda a, b: done.append((a, b)), n, 3)
    return sorted(done) == [(0, n // 3), (n // 3, 2 * n // 3), (2 * n // 3, n)]

threads = Threads(3)
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
