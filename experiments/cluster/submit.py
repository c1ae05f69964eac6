"""Groups of prompts to the workers, and their results back in the order of the prompts.

As many groups are on their way as there are workers, so that what a dying worker takes along is
the group it works on. Of a group that fails each prompt is tried alone, with nothing else on its
way, which shows whose fault it is.
"""

import pickle
import sys
import time
import uuid
from collections import Counter, deque
from contextlib import ExitStack, suppress

import cloudpickle
from distributed import CancelledError, KilledWorker, TimeoutError, wait

from experiments.cluster import worker
from experiments.cluster.connect import check, connected
from experiments.data.lines import Failed, SomeFailed
from utils import InputError

TRIES = 3  # of a prompt
LIMIT = 3600  # seconds, after which a group counts as hanging
GONE = 300  # seconds without any worker, after which none is expected to come back
UNREACHABLE = (CancelledError, OSError, RuntimeError)  # raised where the scheduler is gone


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
        wanted = self.wanted, self.wanted.choices(), self.wanted.fingerprints()
        cloudpickle.register_pickle_by_value(worker)
        loader = worker.Loader(self.name, worker.project_fingerprint(), pickle.dumps(wanted))
        try:
            self.client.register_plugin(loader, name=self.name)
        except Exception as refusal:  # of the first worker that cannot take part
            advice = "give all machines the same project, its requirements-cluster.txt and models"
            if not self.workers():
                raise InputError(
                    f"--cluster {self.address}: no worker can take part: {refusal}; {advice}"
                ) from None
            print(f"note: {refusal}, and is refused; {advice}", file=sys.stderr)
        reports = self.client.run(worker.describe, self.name, workers=self.workers())
        self.machines = dict(Counter(machine for machine, _ in reports.values()))
        self.kernels = next(iter(reports.values()))[1]

    def unload(self):
        """Let the workers forget the models."""
        with suppress(Exception):  # a scheduler that is gone has said so already
            self.client.unregister_worker_plugin(self.name)

    def workers(self):
        """The addresses of those that have loaded the models."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return [address for address, one in workers.items() if self.name in one["resources"]]

    def submit(self, function, items):
        """The Future of function(pairs, items), for a worker that has loaded the models."""
        call = Call(worker.work, self.name, cloudpickle.dumps((function, items)), LIMIT)
        job = cloudpickle.dumps(call)
        return self.client.submit(pickle.loads, job, pure=False, resources={self.name: 1})

    def lost(self, problem):
        return f"--cluster {self.address}: {problem}; give the same command again to go on"

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
        places = range(len(items))
        self.groups = deque(places[i : i + group] for i in places[::group])
        self.suspects = deque()  # places to try alone
        self.running = {}  # {Future: places}
        self.tries = Counter()
        self.found, self.failed = {}, {}

    def __iter__(self):
        try:
            for place in range(len(self.items)):
                while place not in self.found:
                    self.send()
                    self.receive()
                yield self.found.pop(place)
        except UNREACHABLE:
            raise InputError(self.cluster.lost("the scheduler is gone")) from None
        finally:
            with suppress(Exception):
                self.cluster.client.cancel([*self.running])

    def send(self):
        """Give the workers what they can begin."""
        if self.suspects:
            if not self.running:
                self.submit([self.suspects.popleft()])
            return
        # at least one: a worker may be on its way back
        while self.groups and len(self.running) < max(1, len(self.cluster.workers())):
            self.submit(self.groups.popleft())

    def submit(self, places):
        self.tries.update(places)
        items = [self.items[place] for place in places]
        self.running[self.cluster.submit(self.function, items)] = places

    def receive(self):
        """Wait for a group. The prompts of one that failed are tried alone, up to TRIES times."""
        try:
            done = wait([*self.running], GONE, "FIRST_COMPLETED").done
        except TimeoutError:
            if self.cluster.workers():
                return
            raise InputError(self.cluster.lost("no worker is left")) from None
        for future in done:
            places = self.running.pop(future)
            if future.status == "finished":
                self.found |= dict(zip(places, future.result(), strict=True))
                continue
            self.suspects += [place for place in places if self.tries[place] < TRIES]
            for place in places:
                if self.tries[place] == TRIES:
                    self.failed[place] = reason(future.exception())
                    self.found[place] = Failed(self.failed[place])


def reason(error):
    """Why a prompt failed, in one line."""
    if isinstance(error, KilledWorker):
        return "every worker that tried it died"
    return f"{type(error).__name__}: {error}".splitlines()[0]
