"""A Dask cluster: a map over its workers, each of which keeps its models.

    with connect("local:4") as map_groups:
        for result in map_groups(function, items): ...

Dask hands out the items, and gives those of a worker that died to another one. A worker needs this
project, its models and the same packages.
"""

import logging
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import resource_tracker
from typing import Any

try:
    import dask
    from distributed import Client, KilledWorker, LocalCluster
    from distributed.comm import CommClosedError
except ModuleNotFoundError as missing:
    problem = f"--cluster: {missing.name} is not installed; use pip install distributed"
    raise ValueError(problem) from None

TIMEOUT = 10  # seconds, for a scheduler to answer
FIRST_WORKER = 60  # seconds, for its first worker to come
EXPECTED = "expected local:N or a running scheduler with workers"
SETTINGS = {
    "distributed.scheduler.allowed-failures": 2,  # workers that an item may kill
    "distributed.deploy.lost-worker-timeout": "1 day",  # to start one again, on a busy machine
}


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until this block ends, and does not reach the processes that it starts: they
    would print tracebacks beside the one line of this one. On Windows nothing is held.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # multiprocessing would start its resource tracker with the first worker, and then unblock
    # SIGINT: so it is started before SIGINT is blocked
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def processes_of(address: str) -> int:
    """The N of local:N; 0 for the address of a scheduler. Raises ValueError for an N that is no
    number of processes for this machine: from 1 to 4 for each core.
    """
    kind, _, number = address.partition(":")
    if kind != "local":
        return 0
    most = 4 * (os.cpu_count() or 1)
    if not number.isdecimal() or not 1 <= int(number) <= most:
        problem = f"from 1 to {most} processes make sense here"
        raise ValueError(f"--cluster {address}: {problem}; {EXPECTED}")
    return int(number)


@contextmanager
def local_client(n: int) -> Iterator[Client]:
    """Start n worker processes of Dask on this machine, each with one thread, and yield a Client,
    which has functions called on them. They end with the block, even if it raises. Ctrl-C waits
    until they have started. Raises Dask's error, often an OSError, if they cannot be started, or do
    not answer for 10 seconds (TIMEOUT).
    """
    with interrupts_held():
        cluster = LocalCluster(
            n_workers=n,
            threads_per_worker=1,
            dashboard_address=":0",  # any free port
            silence_logs=logging.CRITICAL,
        )
    with cluster, Client(cluster, timeout=TIMEOUT) as client:
        yield client


@contextmanager
def connect(address: str) -> Iterator[Callable[[Callable, Iterable], Iterator[Any]]]:
    """Connect to a Dask cluster, and wait up to a minute for its first worker. Yields a function
    map_groups(function, items), which yields function(item) for each item, as map does, but calls
    it on the cluster's workers. After the block the connection is closed. Dask's log stays silent.

    address: tcp://HOST:8786, of a scheduler; or local:N, to start N processes here, which end with
        the block
    Raises ValueError if no worker is to be had, or if N is none (processes_of).
    """
    n_local = processes_of(address)
    # what goes wrong is said in one line, not in Dask's log
    for name in ("distributed", "distributed.client", "asyncio", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # what the stack has entered ends with the block, the last first, and also after an error
    with dask.config.set(SETTINGS), ExitStack() as stack:
        try:
            if n_local:
                client = stack.enter_context(local_client(n_local))
            else:
                client = stack.enter_context(Client(address, timeout=TIMEOUT))
            client.wait_for_workers(1, timeout=FIRST_WORKER)
        except (OSError, ValueError, RuntimeError, TypeError) as error:  # TypeError: TLS, no keys
            reason = first_line(error) or "no answer"
            raise ValueError(f"--cluster {address}: {reason}; {EXPECTED}") from None

        yield partial(map_on_workers, client, address)


def first_line(error: Exception) -> str:
    """The first line of an error's message; Dask's may have more."""
    return str(error).partition("\n")[0]


def map_on_workers(
    client: Client, address: str, function: Callable, items: Iterable
) -> Iterator[Any]:
    """Yield function(item) for each of the items, in their order. Raises what the function raises,
    and ValueError if an item killed its workers, if the scheduler is gone, or if the workers cannot
    read the function.

    client: of the cluster, to which all items are sent at once; address: of the cluster, for errors
    """
    try:
        # not pure: each item is computed, even one that an earlier call has computed
        futures = client.map(function, list(items), pure=False)
        for future in futures:
            yield future.result()
    except KilledWorker as error:
        raise ValueError(f"--cluster {address}: {first_line(error)}") from None
    except (CancelledError, CommClosedError):
        raise ValueError(f"--cluster {address}: the scheduler is gone") from None
    except RuntimeError as error:
        if "deserialization" not in str(error):
            raise
        advice = "pip install . in this project, wherever it and its workers run"
        raise ValueError(f"--cluster {address}: it cannot read the job; {advice}") from None
