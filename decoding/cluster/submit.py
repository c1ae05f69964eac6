"""Groups of prompts to the workers of a Dask cluster, and their results back in the order of the
prompts.
"""

import logging
import pickle
import re
import signal
import time
import uuid
from collections import Counter, deque
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker

from checkpoints.files import InputError, counted, note
from decoding.cluster.failed import Failed

try:
    import cloudpickle
    import dask
    from distributed import (
        CancelledError,
        Client,
        KilledWorker,
        LocalCluster,
        TimeoutError,
        as_completed,
        get_worker,
    )

    from decoding.cluster import worker
except ModuleNotFoundError as missing:
    problem = f"--cluster: {missing.name} is not installed; use pip install distributed"
    raise InputError(problem) from None

# in seconds
TIMEOUT = 10  # for a scheduler to answer
PATIENCE = 60  # for its first worker to come
LIMIT = 6 * 3600  # for a group, after which its worker is restarted
SILENCE = 60  # of a worker, after which it is restarted; a running scheduler has its own limit

TRIES = 3  # of a group whose worker dies; a running scheduler has its own limit
UNREACHABLE = (CancelledError, OSError, RuntimeError)  # raised where the scheduler is gone


class Cluster:
    """The workers that have loaded the models a run wants. Raises InputError.

    pairs: the shape of the target, and its encoder. machines: {machine: its number of workers}.
    """

    def __init__(self, address, wanted, download=False):
        self.address, self.wanted = address, wanted
        self.n_local = n_local(address)
        self.pairs = wanted.outline(download)
        self.name = f"speculation-{uuid.uuid4().hex}"

    def __enter__(self):
        with ExitStack() as stack:
            self.client = self.connect(stack)
            self.load()
            stack.callback(self.unload)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def connect(self, stack):
        """A client of the cluster, which has at least one worker."""
        # what goes wrong is said in one line, not in Dask's log
        for name in ("asyncio", "distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        where = stack.enter_context(started(self.n_local)) if self.n_local else self.address
        try:
            client = stack.enter_context(Client(where, timeout=TIMEOUT))
            client.wait_for_workers(1, timeout=PATIENCE)
        except (TimeoutError, OSError, ValueError) as error:
            problem = f"{error}; expected a running scheduler with workers (docs/cluster.md)"
            raise InputError(f"--cluster {self.address}: {problem}") from None
        return client

    def load(self):
        """Let every worker load the models."""
        wanted = self.wanted, self.wanted.kernel_choices(), worker.fingerprints(self.wanted)
        cloudpickle.register_pickle_by_value(worker)
        loader = worker.Loader(self.name, pickle.dumps(wanted))
        try:
            self.client.register_plugin(loader, name=self.name)
        except Exception as refusal:  # of the first worker that cannot take part
            advice = "give all machines the same project, packages and models"
            if not self.workers():
                raise InputError(
                    f"--cluster {self.address}: no worker can take part: {refusal}; {advice}"
                ) from None
            note(f"left out: {refusal}; {advice}")
        name = self.name
        describe = lambda dask_worker: dask_worker.plugins[name].description
        reports = [*self.client.run(describe, workers=self.workers()).values()]
        self.machines = dict(Counter(machine for machine, _ in reports))
        self.kernels = reports[0][1]

    def unload(self):
        with suppress(Exception):  # a scheduler that is gone has said so already
            self.client.unregister_worker_plugin(self.name)

    def workers(self):
        """The addresses of those that have loaded the models."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return [address for address, one in workers.items() if self.name in one["resources"]]

    def run(self, function, items, failed, group=1, name=str):
        """Yield the result of each item, in their order, Failed for one that fails.

        function(pairs, items) is called by a worker, with `group` items at a time. failed: the dict
        that gets {name(item): why}
        """
        begin = time.monotonic()
        for item, result in zip(items, self.results(function, items, group)):
            if isinstance(result, Failed):
                failed[name(item)] = result.reason
            yield result
        if items and not failed:
            where = ", ".join(f"{n} x {machine}" for machine, n in self.machines.items())
            took = f"{time.monotonic() - begin:.1f} s"
            note(f"{counted(len(items), 'prompt')} in {took}, workers: {where}")

    def results(self, function, items, group):
        """Yield the result of each item, in their order.

        As many groups are on their way as there are workers: when one dies, Dask gives another try
        to all that it holds, and counts it against them.
        """
        groups = [items[i : i + group] for i in range(0, len(items), group)]
        waiting = deque(range(len(groups)))
        begun, done, futures = {}, {}, as_completed()  # {future: group}, {group: its results}
        try:
            for next_group in range(len(groups)):
                while next_group not in done:
                    while waiting and futures.count() < max(1, len(self.workers())):
                        i = waiting.popleft()
                        future = self.submit(function, groups[i])
                        begun[future] = i
                        futures.add(future)
                    future = next(futures)
                    i = begun.pop(future)
                    done[i] = gathered(future, groups[i])
                yield from done.pop(next_group)
        except UNREACHABLE:
            raise InputError(
                f"--cluster {self.address}: the scheduler is gone; "
                "give the same command again to go on"
            ) from None
        finally:
            with suppress(Exception):
                self.client.cancel([*begun])

    def submit(self, function, items):
        """The Future of function(pairs, items)."""

        # a function inside of another is sent with its code: the scheduler lacks this module
        def work(name, job, limit):
            return get_worker().plugins[name].work(job, limit)

        task = work, self.name, cloudpickle.dumps((function, items)), LIMIT
        return self.client.submit(*task, pure=False, resources={self.name: 1})


def gathered(future, items):
    """What a Future gives for these items, Failed for each of them where its workers died."""
    try:
        return future.result()
    except KilledWorker:
        return [Failed("every worker that tried its group died or took too long")] * len(items)


def n_local(address):
    """The number of workers to start here, or None for a scheduler. Raises InputError."""
    match = re.fullmatch(r"local:([1-9]\d{0,2})|(tcp|tls)://\S+:\d{1,5}", address)
    if not match:
        raise InputError(
            f"--cluster {address!r}: expected local:N, with 1 to 999 workers, or tcp://HOST:PORT"
        )
    return match[1] and int(match[1])


@contextmanager
def started(n_workers):
    """The address of workers in processes of their own, one thread each, that end with the block.

    A worker that dies, or is silent for long, is started again.
    """
    limits = {"allowed-failures": TRIES - 1, "worker-ttl": SILENCE}
    quiet = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with dask.config.set({f"distributed.scheduler.{name}": n for name, n in limits.items()}):
        with ignoring_sigint():
            cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, **quiet)
        with cluster:
            yield cluster.scheduler_address


@contextmanager
def ignoring_sigint():
    """What begins in this block, and what that begins, ignores Ctrl-C: a terminal sends it to all
    processes. On Windows, where no signal can be blocked, nothing is done.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # if a worker began it, it would undo the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
