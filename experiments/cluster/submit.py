"""Groups of prompts to the workers of a Dask cluster, and their results back in the order of the
prompts.

As many groups are on their way as there are workers, so that what a dying worker takes along is
the group it works on. The prompts of a group that fails are tried again one by one, which shows
whose fault it is.
"""

import logging
import pickle
import re
import signal
import sys
import time
import uuid
from collections import Counter, deque
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker

from experiments.data.lines import Failed, SomeFailed
from utils import InputError

try:
    import cloudpickle
    import dask
    from distributed import CancelledError, Client, KilledWorker, LocalCluster, TimeoutError, wait

    from experiments.cluster import worker
except ModuleNotFoundError as missing:
    problem = f"--cluster: {missing.name} is not installed; use pip install distributed"
    raise InputError(problem) from None

TIMEOUT = 10  # seconds, for a scheduler to answer
PATIENCE = 60  # seconds, for its first worker to come
TRIES = 3  # of a prompt
LIMIT = 3600  # seconds, after which a group counts as hanging
GONE = 300  # seconds without any worker, after which none is expected to come back
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
            return client
        except TimeoutError:
            problem = "has no worker; use python -m experiments.cluster.worker "
            problem += f"{self.address} on each machine"
        except (OSError, ValueError) as error:
            problem = f"no scheduler answers there ({type(error).__name__}); "
            problem += "give the address that dask scheduler prints when it starts"
        raise InputError(f"--cluster {self.address}: {problem}")

    def load(self):
        """Let every worker load the models."""
        wanted = self.wanted, self.wanted.choices(), self.wanted.fingerprints()
        cloudpickle.register_pickle_by_value(worker)
        loader = worker.Loader(self.name, worker.project_fingerprint(), pickle.dumps(wanted))
        try:
            self.client.register_plugin(loader, name=self.name)
        except Exception as refusal:  # of the first worker that cannot take part
            advice = "give all machines the same project, packages and models"
            if not self.workers():
                raise InputError(
                    f"--cluster {self.address}: no worker can take part: {refusal}; {advice}"
                ) from None
            print(f"note: {refusal}, and is refused; {advice}", file=sys.stderr)
        reports = self.client.run(worker.describe, self.name, workers=self.workers())
        self.machines = dict(Counter(machine for machine, _ in reports.values()))
        self.kernels = next(iter(reports.values()))[1]

    def unload(self):
        with suppress(Exception):  # a scheduler that is gone has said so already
            self.client.unregister_worker_plugin(self.name)

    def workers(self):
        """The addresses of those that have loaded the models."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return [address for address, one in workers.items() if self.name in one["resources"]]

    def submit(self, function, items):
        """The Future of function(pairs, items), for a worker that has loaded the models."""
        job = cloudpickle.dumps((function, items))
        needs = {self.name: 1}
        return self.client.submit(worker.work, self.name, job, LIMIT, pure=False, resources=needs)

    def run(self, function, items, group=1, name=str):
        """Yield the result of each item, in their order, Failed for one that fails three times.

        function(pairs, items) is called by a worker, with `group` items at a time. name(item) says
        what an item is called. Raises SomeFailed after the last, if any failed.
        """
        begin, items, failed = time.monotonic(), list(items), {}
        found, n_given = {}, 0  # {place: result}
        for places, results in self.results(function, items, group):
            found |= zip(places, results, strict=True)
            while n_given in found:
                result = found.pop(n_given)
                if isinstance(result, Failed):
                    failed[name(items[n_given])] = result.reason
                n_given += 1
                yield result
        if failed:
            raise SomeFailed(failed)
        if items:
            where = ", ".join(f"{n} x {machine}" for machine, n in self.machines.items())
            took = f"{time.monotonic() - begin:.1f} s"
            print(f"note: {len(items)} prompts in {took}, workers: {where}", file=sys.stderr)

    def results(self, function, items, group):
        """Yield (places among the items, their results), as groups are done."""
        places = range(len(items))
        waiting = deque(places[i : i + group] for i in places[::group])
        running, tries = {}, Counter()
        try:
            while waiting or running:
                while waiting and len(running) < max(1, len(self.workers())):
                    some = waiting.popleft()
                    tries.update(some)
                    running[self.submit(function, [items[place] for place in some])] = some
                for future in self.first_of([*running]):
                    some = running.pop(future)
                    if future.status == "finished":
                        yield some, future.result()
                    elif tries[some[0]] == TRIES:
                        yield some, [Failed(reason(future.exception()))]
                    else:
                        waiting.extendleft([place] for place in reversed(some))
        except UNREACHABLE:
            raise InputError(self.lost("the scheduler is gone")) from None
        finally:
            with suppress(Exception):
                self.client.cancel([*running])

    def first_of(self, futures):
        """Those of some Futures that are done, as soon as one is."""
        while True:
            with suppress(TimeoutError):
                return wait(futures, GONE, "FIRST_COMPLETED").done
            if not self.workers():
                raise InputError(self.lost("no worker is left"))

    def lost(self, problem):
        return f"--cluster {self.address}: {problem}; give the same command again to go on"


def reason(error):
    """Why a prompt failed, in one line."""
    if isinstance(error, KilledWorker):
        return "every worker that tried it died"
    return f"{type(error).__name__}: {error}".splitlines()[0]


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

    A worker that dies fails its task: `results` tries again.
    """
    quiet = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        with unheard():
            cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, **quiet)
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
