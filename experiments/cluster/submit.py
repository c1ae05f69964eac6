"""Groups of prompts to the workers, and their results back in the order of the prompts.

As many groups are on their way as there are workers, so that what a dying worker takes along is
the group it works on. Dask tries a group again whose worker dies (allowed-failures). Of a group
that fails for good each prompt is tried alone, with nothing else on its way, which shows whose
fault it is.
"""

import pickle
import sys
import time
import uuid
from collections import Counter, deque
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue

import cloudpickle
from distributed import KilledWorker

from experiments.cluster import worker
from experiments.cluster.connect import check, connected
from experiments.data.lines import Failed, SomeFailed
from utils import InputError

FIRST_LIMIT = 3600  # seconds for a group, before any has been done
LEAST_LIMIT = 300  # then so many, or TIMES as long as the slowest took
TIMES = 20
GONE = 300  # seconds without any worker, after which none is expected to come back
REFRESH = 1  # seconds that the number of workers is remembered


class Call:
    """A call that is made where this is unpickled. The scheduler, which looks into what it passes
    on, sees bytes, and so needs nothing of this project.
    """

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


class Cluster:
    """The workers that have loaded the models a run wants. Raises InputError.

    pairs: the shape of the target, and its encoder. machines: {machine: its number of workers}.
    """

    def __init__(self, address, wanted, download=False):
        check(address)
        self.address, self.wanted = address, wanted
        self.pairs = wanted.outline(download)
        self.name = f"speculation-{uuid.uuid4().hex}"
        self.seconds = 0.0  # of the slowest group
        self.counted, self.last_seen = 0.0, time.monotonic()

    def __enter__(self):
        with ExitStack() as stack:
            self.client = stack.enter_context(connected(self.address))
            self.load()
            stack.callback(self.unload)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def load(self):
        """Let every worker load the models. Raises InputError if none can."""
        wanted = self.wanted.elsewhere(), self.wanted.choices(), self.wanted.fingerprints()
        cloudpickle.register_pickle_by_value(worker)
        loader = worker.Loader(self.name, worker.project_fingerprint(), pickle.dumps(wanted))
        self.client.register_plugin(loader, name=self.name)
        reports = self.client.run(worker.describe, self.name, on_error="return")
        taken, refused = [], {}
        for address, report in reports.items():
            if isinstance(report, tuple) and report[0] is None:
                taken.append(report)
            else:
                refused[address] = report[0] if isinstance(report, tuple) else str(report)
        if not taken:
            problems = "; ".join({*refused.values()})
            raise InputError(f"--cluster {self.address}: no worker can take part: {problems}")
        for address, problem in refused.items():
            print(f"note: worker {address} is refused: it {problem}", file=sys.stderr)
        self.machines = dict(Counter(machine for _, machine, _ in taken))
        self.kernels = taken[0][2]

    def unload(self):
        """Let the workers forget the models."""
        with suppress(Exception):  # a scheduler that is gone has said so already
            self.client.unregister_worker_plugin(self.name)

    def n_workers(self):
        """How many workers have loaded the models. Raises InputError if none has for long."""
        now = time.monotonic()
        if now - self.counted > REFRESH:
            try:
                workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
            except (OSError, RuntimeError):
                raise InputError(self.lost("the scheduler does not answer any more")) from None
            self.n = sum(self.name in one["resources"] for one in workers)
            self.counted = now
            if self.n:
                self.last_seen = now
            elif now - self.last_seen > GONE:
                raise InputError(self.lost("no worker is left"))
        return self.n

    def lost(self, problem):
        return f"--cluster {self.address}: {problem}; give the same command again to go on"

    def limit(self):
        """Seconds after which a group counts as hanging."""
        return max(LEAST_LIMIT, TIMES * self.seconds) if self.seconds else FIRST_LIMIT

    def submit(self, function, items, retries):
        """The Future of a group."""
        job = cloudpickle.dumps((function, items))
        call = Call(worker.work, self.name, job, self.limit())
        return self.client.submit(
            pickle.loads,
            cloudpickle.dumps(call),
            pure=False,
            retries=retries,
            resources={self.name: 1},
        )

    def run(self, function, items, group=1, name=str, **watch):
        """Yield the result of each item, in their order, Failed for one that fails three times.

        function(pairs, items) is called by a worker, with `group` items at a time. name(item) says
        what an item is called. Raises SomeFailed after the last, if any failed.
        """
        begin, items = time.monotonic(), list(items)
        run = Run(self, function, items, group)
        yield from run
        if run.failed:
            raise SomeFailed({name(items[i]): why for i, why in sorted(run.failed.items())})
        if items:
            where = ", ".join(f"{n} x {machine}" for machine, n in self.machines.items())
            took = f"{time.monotonic() - begin:.1f} s"
            print(f"note: {len(items)} prompts in {took}, workers: {where}", file=sys.stderr)


class Run:
    """One run over some items; each is known by its place among them."""

    def __init__(self, cluster, function, items, group):
        self.cluster, self.function, self.items = cluster, function, items
        n = len(items)
        self.waiting = deque([*range(a, min(a + group, n))] for a in range(0, n, group))
        self.suspects = deque()  # places to try alone
        self.running = {}  # {Future's key: (Future, places, alone)}
        self.done = SimpleQueue()  # Futures
        self.found, self.failed = {}, {}

    def __iter__(self):
        try:
            for place in range(len(self.items)):
                self.send()
                while place not in self.found:
                    self.receive()
                    self.send()
                yield self.found.pop(place)
        finally:
            with suppress(Exception):
                self.cluster.client.cancel([future for future, *_ in self.running.values()])

    def send(self):
        """Give the workers what they can begin."""
        if self.suspects:
            if not self.running:
                self.submit([self.suspects.popleft()], retries=1)
            return
        while self.waiting and len(self.running) < self.cluster.n_workers():
            self.submit(self.waiting.popleft())

    def submit(self, places, retries=0):
        alone = retries > 0
        items = [self.items[place] for place in places]
        future = self.cluster.submit(self.function, items, retries)
        self.running[future.key] = future, places, alone
        future.add_done_callback(self.done.put)

    def receive(self):
        """Take a group that is done, if that is so within a second."""
        try:
            future = self.done.get(timeout=1)
        except Empty:
            self.cluster.n_workers()  # raises InputError when all are gone
            return
        _, places, alone = self.running.pop(future.key)
        if future.status == "finished":
            results, seconds = future.result()
            self.cluster.seconds = max(self.cluster.seconds, seconds)
            self.found |= dict(zip(places, results, strict=True))
        elif future.status == "error":
            self.failure(places, alone, future.exception())
        else:
            raise InputError(self.cluster.lost("the scheduler is gone"))

    def failure(self, places, alone, error):
        """Try the prompts of a group alone; one that was alone has failed."""
        if not alone:
            self.suspects.extend(places)
            return
        (place,) = places
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        if isinstance(error, KilledWorker):
            why = "every worker that tried it died"
        self.found[place] = Failed(why)
        self.failed[place] = why
