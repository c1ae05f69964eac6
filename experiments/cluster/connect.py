"""From --cluster to a client of Dask, with workers that are started here, or a scheduler's."""

import logging
import re
import signal
import sys
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker

from utils import InputError

TIMEOUT = 10  # seconds, for a scheduler to answer
PATIENCE = 60  # seconds, for its first worker to come
MOST_WORKERS = 256  # on one machine
RETRIES = 2  # after a worker's death: a prompt has three workers to kill
EXPECTED = "expected local:N, with 1 to 256 workers, or tcp://HOST:PORT"


def check(address):
    """The number of workers to start here, or None for a scheduler. Raises InputError."""
    match = re.fullmatch(r"local:(\d{1,4})", address)
    if match and not 1 <= int(match[1]) <= MOST_WORKERS:
        raise InputError(f"--cluster {address}: {EXPECTED}")
    if not match and not re.fullmatch(r"(tcp|tls)://\S+:\d{1,5}", address):
        raise InputError(f"--cluster {address!r}: {EXPECTED}")
    try:
        import distributed  # noqa: F401
    except ModuleNotFoundError as missing:
        raise InputError(
            f"--cluster: {missing.name} is not installed; "
            "use pip install -r requirements-cluster.txt"
        ) from None
    return int(match[1]) if match else None


@contextmanager
def connected(address):
    """A client of the cluster, which has at least one worker. Raises InputError."""
    n_workers = check(address)
    # what goes wrong is said in one line, not in Dask's log
    for name in ("asyncio", "distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with started(n_workers) if n_workers else found(address) as client:
        try:
            yield client
        except KeyboardInterrupt:
            print(f"note: --cluster {address}: interrupted", file=sys.stderr)
            raise


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


@contextmanager
def started(n_workers):
    """Workers in processes of their own, one thread each, that end with the block."""
    import dask
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        stack.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": RETRIES}))
        with unheard():
            cluster = LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )
            stack.enter_context(cluster)
        yield stack.enter_context(Client(cluster, set_as_default=False))


@contextmanager
def found(address):
    """The workers of a scheduler."""
    from distributed import Client

    try:
        client = Client(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--cluster {address}: no scheduler answers there ({type(error).__name__}); "
            "give the address that dask scheduler prints when it starts"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise InputError(
                f"--cluster {address}: has no worker; use python -m experiments.cluster.worker "
                f"{address} on each machine"
            ) from None
        yield client
