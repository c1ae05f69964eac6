"""Sends groups of prompts to the workers of a Dask cluster, and yields their results in the order
of the prompts.
"""

import asyncio
import logging
import pickle
import re
import signal
import time
import uuid
from collections import Counter, deque
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker

import numpy as np

from backends.kernels import choose_kernels
from checkpoints.errors import InputError, note, plural
from decoding.cluster.failed import Failed
from decoding.load import LoadedModels
from gpt2 import Config
from utils import find_sources

try:
    import cloudpickle
    import dask
    from distributed import (
        CancelledError,
        Client,
        KilledWorker,
        LocalCluster,
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
HEARTBEAT_TIMEOUT = 60  # of silence of a local worker, after which it is restarted

MAX_TRIES = 3  # of a group whose local worker dies; a running scheduler has its own limit
UNREACHABLE = (CancelledError, OSError, RuntimeError)  # raised where the scheduler is gone


@dataclass(frozen=True)
class ModelStub:
    """Stands for a Model whose weights are only in the workers: has its Config alone."""

    config: Config


class Cluster:
    """An executor on the workers of a Dask cluster, to be used in a `with` block. Raises InputError
    if the address or the models cannot be used.

    spec: the ModelSpec that the workers load
    models: LoadedModels of a ModelStub and the encoder, to prepare prompts with
    machines: {machine, in words: its number of workers}; kernels: as ModelSpec.kernels_in. Both are
        known in the `with` block.
    """

    def __init__(self, address, spec, download=False):
        self.address, self.spec = address, spec
        self.n_local = count_local_workers(address)
        sources = spec.sizes, spec.models_dir, spec.weights, download
        self.configs, _, encoder = find_sources(*sources)
        self.models = LoadedModels(ModelStub(self.configs[0]), {}, encoder)
        self.name = f"speculation-{uuid.uuid4().hex}"

    def __enter__(self):
        """Connect to the cluster, or start it for local:N; let the workers load the models. Raises
        InputError if no worker comes or none can take part.
        """
        with ExitStack() as stack:
            self.client = self.connect(stack)
            self.load()
            stack.callback(self.unload)
            self.stack = stack.pop_all()  # nothing failed: what was entered stays until __exit__
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def connect(self, stack):
        """Start or find the cluster, wait for a worker, and return Dask's Client. When the
        ExitStack `stack` closes, the client and a cluster started here end. Silences Dask's log.
        Raises InputError if no worker comes.
        """
        # what goes wrong is said in one line, not in Dask's log
        for name in ("asyncio", "distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            address = self.address
            if self.n_local:
                address = stack.enter_context(start_workers(self.n_local))
            client = stack.enter_context(Client(address, timeout=SCHEDULER_TIMEOUT))
            client.wait_for_workers(1, timeout=FIRST_WORKER_TIMEOUT)
        except (asyncio.TimeoutError, OSError, ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0].removesuffix(".")
            expected = "expected a running scheduler with workers"
            if self.n_local:
                expected = "the workers cannot be started; try fewer"
            raise InputError(
                f"--cluster {self.address}: {reason}; {expected} (docs/cluster.md)"
            ) from None
        return client

    def load(self):
        """Let every worker load the models. Sets `machines`, {description: number of workers}, and
        `kernels`, the choices in words. Prints a note if some workers cannot take part; raises
        InputError if none can.
        """
        choices = choose_kernels_once(self.spec, self.configs)
        payload = self.spec, choices, worker.fingerprints(self.spec)
        # send the code of `worker`, too: the scheduler lacks it, workers may have other versions
        cloudpickle.register_pickle_by_value(worker)
        loader = worker.Loader(self.name, pickle.dumps(payload))
        try:
            self.client.register_plugin(loader, name=self.name)
        except Exception as refusal:  # of the first worker that cannot take part
            advice = "give all machines the same project, packages and models"
            if not self.workers():
                raise InputError(
                    f"--cluster {self.address}: no worker can take part: {refusal}; {advice}"
                ) from None
            note(f"left out: {refusal}; {advice}")
        name = self.name  # so that `describe` is sent without this object
        describe = lambda dask_worker: dask_worker.plugins[name].description
        # [(machine, kernels), in words, of each worker]
        descriptions = list(self.client.run(describe, workers=self.workers()).values())
        self.machines = dict(Counter(machine for machine, _ in descriptions))
        _, self.kernels = descriptions[0]  # all got the same choices

    def unload(self):
        """Let every worker forget the models. Does nothing if the scheduler is gone."""
        with suppress(Exception):  # a scheduler that is gone has said so already
            # Client.unregister_worker_plugin would wait without a limit
            unregister = self.client.scheduler.unregister_worker_plugin
            self.client.sync(unregister, name=self.name, callback_timeout=SCHEDULER_TIMEOUT)

    def workers(self):
        """[address, a str] of the workers that have loaded the models."""
        # a worker that has loaded them announces a resource of this name: see worker.Loader
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return [address for address, about in workers.items() if self.name in about["resources"]]

    def run(self, function, items, group_size):
        """Yield the result of each item, in the order of the items, or a Failed. If none failed,
        prints the seconds and the workers at the end. Raises InputError if the scheduler is gone.

        function: called by a worker as function(models, items), with a list of up to group_size
            items at a time; returns one result for each
        """
        begin, n_failed = time.monotonic(), 0
        for result in self.results(function, items, group_size):
            n_failed += isinstance(result, Failed)
            yield result
        if not n_failed:
            workers = ", ".join(f"{n} x {machine}" for machine, n in self.machines.items())
            seconds = f"{time.monotonic() - begin:.1f} s"
            note(f"{plural(len(items), 'prompt')} in {seconds}, workers: {workers}")

    def results(self, function, items, group_size):
        """Yield the result of each item, in the order of the items, or a Failed.

        function: called by a worker as function(models, items), with a list of up to group_size
            items at a time; returns one result for each
        """
        groups = [items[i : i + group_size] for i in range(0, len(items), group_size)]
        done = {}  # {index of a group: its results}, which wait for groups before it
        next_index = 0
        for index, results in self.done_groups(function, groups):
            done[index] = results
            while next_index in done:
                yield from done.pop(next_index)
                next_index += 1

    def done_groups(self, function, groups):
        """Let the workers call function(models, group) for each of [group], a list of items. Yield
        (index of a group, list of its items' results, some of them Failed) as groups are done.

        No more groups are sent than there are workers: when a worker dies, Dask counts a try
        against every group that the worker holds. Raises InputError if the scheduler is gone.
        """
        waiting = deque(enumerate(groups))
        running, futures = {}, as_completed()  # running: {future: index of its group}
        try:
            while waiting or running:
                # without a worker one group is sent all the same: it waits for a worker to come
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
            with suppress(Exception):  # the scheduler may be gone
                self.client.cancel([*running])

    def submit(self, function, items):
        """Let a worker call function(models, items). Returns the Future of its list of results."""

        # a function inside of another is sent with its code: the scheduler lacks this module
        def work(name, job, seconds):
            return get_worker().plugins[name].work(job, seconds)

        job = cloudpickle.dumps((function, items))
        task = work, self.name, job, GROUP_TIMEOUT
        # only workers that have loaded the models have the resource of this name. pure=False: run
        # an equal task anew, rather than take the result that Dask has of it
        return self.client.submit(*task, pure=False, resources={self.name: 1})


def choose_kernels_once(spec, configs):
    """Time kernels here, for all workers: {Config: {Weight: Kernel}}, for [Config] of the models of
    a ModelSpec; {} if its backend or its kernels leave no choice.
    """
    if (spec.backend, spec.kernels) != ("numpy", "auto"):
        return {}
    return {config: choose_kernels(config, np.float32, exact=spec.exact) for config in configs}


def collect_results(future, items):
    """Return the list of results that the Future of a task gives: one for each of the task's items.
    If every worker that tried the task died, these are all Failed.
    """
    try:
        return future.result()
    except KilledWorker:
        return [Failed("every worker that tried its group died or took too long")] * len(items)


def count_local_workers(address):
    """N for local:N, None for the address of a scheduler. Raises InputError for anything else.

    >>> count_local_workers("local:4"), count_local_workers("tcp://host:8786")
    (4, None)
    """
    match = re.fullmatch(r"local:([1-9]\d{0,2})|(tcp|tls)://\S+:\d{1,5}", address)
    if not match:
        raise InputError(
            f"--cluster {address!r}: expected local:N, with 1 to 999 workers, or tcp://HOST:PORT"
        )
    return int(match[1]) if match[1] else None


@contextmanager
def start_workers(n_workers):
    """Start n_workers processes of one thread each; the `with` block gets the address of their
    scheduler, and they end with it. A worker that dies, or is silent for HEARTBEAT_TIMEOUT seconds,
    is started again.
    """
    limits = {
        "distributed.scheduler.allowed-failures": MAX_TRIES - 1,
        "distributed.scheduler.worker-ttl": HEARTBEAT_TIMEOUT,
        # Dask gives up a worker that is not back by then; on a busy machine its 15 s are too short
        "distributed.deploy.lost-worker-timeout": "1 day",
    }
    quiet = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with dask.config.set(limits):
        with ignoring_sigint():
            cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, **quiet)
        with cluster:
            yield cluster.scheduler_address


@contextmanager
def ignoring_sigint():
    """Let the processes that start in this block ignore Ctrl-C, which a terminal sends to all
    processes. Does nothing on Windows, which cannot block signals.
    """
    can_block = hasattr(signal, "pthread_sigmask")
    if can_block:
        resource_tracker.ensure_running()  # starting it unblocks SIGINT: do it first
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if can_block:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
