"""Sends groups of prompts to the workers of a Dask cluster, and yields their results in the order
of the prompts.
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

from checkpoints.errors import InputError, note, plural
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
SCHEDULER_TIMEOUT = 10  # for a scheduler to answer
FIRST_WORKER_TIMEOUT = 60  # for its first worker to come
GROUP_TIMEOUT = 6 * 3600  # for a group, after which its worker is restarted
HEARTBEAT_TIMEOUT = 60  # without a sign of life from a worker, which is then restarted

MAX_TRIES = 3  # of a group whose worker dies; a running scheduler has its own limit
UNREACHABLE = (CancelledError, OSError, RuntimeError)  # raised where the scheduler is gone


class Cluster:
    """An executor on the workers of a cluster, which load the models of a ModelSpec, `spec`.

    models: LoadedModels with a ModelStub and the encoder. machines: {machine: n_workers}.
    Raises InputError, also on entering the `with` block.
    """

    def __init__(self, address, spec, download=False):
        self.address, self.spec = address, spec
        self.n_local = count_local_workers(address)
        self.models = spec.load_stub(download)
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
        """Start or find the cluster, wait for a worker, and return a Client. Raises InputError."""
        # what goes wrong is said in one line, not in Dask's log
        for name in ("asyncio", "distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            where = (
                stack.enter_context(start_workers(self.n_local)) if self.n_local else self.address
            )
            client = stack.enter_context(Client(where, timeout=SCHEDULER_TIMEOUT))
            client.wait_for_workers(1, timeout=FIRST_WORKER_TIMEOUT)
        except (TimeoutError, OSError, ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            expected = "expected a running scheduler with workers"
            if self.n_local:
                expected = "the workers cannot be started; try fewer"
            raise InputError(
                f"--cluster {self.address}: {reason}; {expected} (docs/cluster.md)"
            ) from None
        return client

    def load(self):
        """Let every worker load the models. Prints a note if some workers cannot take part; raises
        InputError if none can.
        """
        spec = self.spec, self.spec.choose_kernels(), worker.fingerprints(self.spec)
        cloudpickle.register_pickle_by_value(worker)
        loader = worker.Loader(self.name, pickle.dumps(spec))
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
        """[address] of the workers that have loaded the models."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return [address for address, one in workers.items() if self.name in one["resources"]]

    def run(self, function, items, failed, group=1, name=str):
        """Yield the result of each item, in their order, or Failed. Prints a note at the end.

        function(models, items) -> results is called by a worker, with `group` items at a time.
        failed: a dict that is filled with {name(item): reason}
        """
        begin = time.monotonic()
        for item, result in zip(items, self.results(function, items, group)):
            if isinstance(result, Failed):
                failed[name(item)] = result.reason
            yield result
        if items and not failed:
            where = ", ".join(f"{n} x {machine}" for machine, n in self.machines.items())
            took = f"{time.monotonic() - begin:.1f} s"
            note(f"{plural(len(items), 'prompt')} in {took}, workers: {where}")

    def results(self, function, items, group):
        """Yield the result of each item, in their order. function(models, items) -> results gets a
        group of items at a time.
        """
        groups = [items[i : i + group] for i in range(0, len(items), group)]
        done = {}  # {index of a group: its results}, which wait for groups before it
        next_index = 0
        for index, results in self.done_groups(function, groups):
            done[index] = results
            while next_index in done:
                yield from done.pop(next_index)
                next_index += 1

    def done_groups(self, function, groups):
        """Yield (index of a group, the list of its results), in the order in which groups are done.

        No more groups are sent than there are workers: when a worker dies, Dask counts a try
        against every group that the worker holds. Raises InputError if the scheduler is gone.
        """
        waiting = deque(enumerate(groups))
        running, futures = {}, as_completed()  # running: {future: index of its group}
        try:
            while waiting or running:
                while waiting and len(running) < max(1, len(self.workers())):
                    index, items = waiting.popleft()
                    future = self.submit(function, items)
                    running[future] = index
                    futures.add(future)
                future = next(futures)
                index = running.pop(future)
                yield index, collect_results(future, groups[index])
        except UNREACHABLE:
            raise InputError(
                f"--cluster {self.address}: the scheduler is gone, and its workers end; "
                "start both, then give the same command again to go on"
            ) from None
        finally:
            with suppress(Exception):
                self.client.cancel([*running])

    def submit(self, function, items):
        """Send function(models, items) to a worker, and return the Future of its results."""

        # a function inside of another is sent with its code: the scheduler lacks this module
        def work(name, job, limit):
            return get_worker().plugins[name].work(job, limit)

        task = work, self.name, cloudpickle.dumps((function, items)), GROUP_TIMEOUT
        return self.client.submit(*task, pure=False, resources={self.name: 1})


def collect_results(future, items):
    """The list of results of a Future; Failed for each item if the workers that tried it died."""
    try:
        return future.result()
    except KilledWorker:
        return [Failed("every worker that tried its group died or took too long")] * len(items)


def count_local_workers(address):
    """N for local:N, None for the address of a scheduler. Raises InputError for anything else."""
    match = re.fullmatch(r"local:([1-9]\d{0,2})|(tcp|tls)://\S+:\d{1,5}", address)
    if not match:
        raise InputError(
            f"--cluster {address!r}: expected local:N, with 1 to 999 workers, or tcp://HOST:PORT"
        )
    return match[1] and int(match[1])


@contextmanager
def start_workers(n_workers):
    """Start n_workers processes of one thread each, and give the address of their scheduler. They
    end with the block. A worker that dies, or is silent for HEARTBEAT_TIMEOUT, is started again.
    """
    limits = {"allowed-failures": MAX_TRIES - 1, "worker-ttl": HEARTBEAT_TIMEOUT}
    quiet = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with dask.config.set({f"distributed.scheduler.{name}": n for name, n in limits.items()}):
        with ignoring_sigint():
            cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, **quiet)
        with cluster:
            yield cluster.scheduler_address


@contextmanager
def ignoring_sigint():
    """Processes that start in this block ignore Ctrl-C, which a terminal sends to all of them. On
    Windows, which cannot block signals, this does nothing.
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
