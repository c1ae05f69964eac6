"""From --cluster to a client of Dask, with workers that are started here, or a scheduler's."""

import logging
import re
import signal
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker

from utils import InputError

TIMEOUT = 10  # seconds, for a scheduler to answer
PATIENCE = 60  # seconds, for its first worker to come


def check(address):
    """The number of workers to start here, or None for a scheduler. Raises InputError."""
    match = re.fullmatch(r"local:([1-9]\d{0,2})|(tcp|tls)://\S+:\d{1,5}", address)
    if not match:
        raise InputError(
            f"--cluster {address!r}: expected local:N, with 1 to 999 workers, or tcp://HOST:PORT"
        )
    try:
        import distributed  # noqa: F401
    except ModuleNotFoundError as missing:
        raise InputError(
            f"--cluster: {missing.name} is not installed; use pip install distributed"
        ) from None
    return match[1] and int(match[1])


@contextmanager
def connected(address):
    """A client of the cluster, which has at least one worker. Raises InputError."""
    from distributed import Client, TimeoutError

    n_workers = check(address)
    # what goes wrong is said in one line, not in Dask's log
    for name in ("asyncio", "distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        where = stack.enter_context(started(n_workers)) if n_workers else address
        try:
            client = stack.enter_context(Client(where, timeout=TIMEOUT))
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise InputError(
                f"--cluster {address}: has no worker; use python -m experiments.cluster.worker "
                f"{address} on each machine"
            ) from None
        except (OSError, ValueError) as error:
            raise InputError(
                f"--cluster {address}: no scheduler answers there ({type(error).__name__}); "
                "give the address that dask scheduler prints when it starts"
            ) from None
        yield client


@contextmanager
def started(n_workers):
    """The address of workers in processes of their own, one thread each, that end with the block.

    A worker that dies fails its task: submit.py tries again.
    """
    import dask
    from distributed import LocalCluster

    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        with unheard():
            cluster = LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )
        with cluster:
            yield cluster.scheduler_address


@contextmanager
def unheard():
    """Threads and processes that begin in this block, and those that they begin, never hear of
    Ctrl-C: a terminal sends it to all.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # if it began in the block, it would undo the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
