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

    def run(self, function, items, group=1, name=str, **watch):
        """Yield the result of each item, in their order, Failed for one that fails three times.

        function(pairs, items) is called by a worker, with `group` items at a time. name(item) says
        what an item is called. Raises SomeFailed after the last, if any failed.
        """
        begin, items, failed = time.monotonic(), list(items), {}
        results = in_order(self.results(function, items, group))
        for item, result in zip(items, results, strict=True):
            if isinstance(result, Failed):
                failed[name(item)] = result.reason
            yield result
        if failed:
            raise SomeFailed(failed)
        if items:
            where = ", ".join(f"{n} x {machine}" for machine, n in self.machines.items())
            took = f"{time.monotonic() - begin:.1f} s"
            print(f"note: {len(items)} prompts in {took}, workers: {where}", file=sys.stderr)

    def results(self, function, items, group):
        """Yield (place, result) of the items, each known by its place among them, as groups are
        done.
        """
        places = range(len(items))
        groups = deque(places[i : i + group] for i in places[::group])
        suspects, running, tries = deque(), {}, Counter()
        try:
            while groups or suspects or running:
                # give the workers what they can begin; a lost one may be on its way back
                n_free = max(1, len(self.workers())) - len(running)
                if suspects:
                    begun = [] if running else [[suspects.popleft()]]
                else:
                    begun = [groups.popleft() for _ in range(min(n_free, len(groups)))]
                for some in begun:
                    tries.update(some)
                    running[self.submit(function, [items[place] for place in some])] = some
                for future in self.first_of([*running]):
                    some = running.pop(future)
                    if future.status == "finished":
                        yield from zip(some, future.result(), strict=True)
                        continue
                    failed = [place for place in some if tries[place] == TRIES]
                    yield from ((place, Failed(reason(future.exception()))) for place in failed)
                    suspects += [place for place in some if place not in failed]
        except UNREACHABLE:
            raise InputError(self.lost("the scheduler is gone")) from None
        finally:
            with suppress(Exception):
                self.client.cancel([*running])

    def first_of(self, futures):
        """Those of some Futures that are done, as soon as one is. Raises InputError if no worker
        has been there for long.
        """
        while True:
            with suppress(TimeoutError):
                return wait(futures, GONE, "FIRST_COMPLETED").done
            if not self.workers():
                raise InputError(self.lost("no worker is left"))

    def lost(self, problem):
        return f"--cluster {self.address}: {problem}; give the same command again to go on"


def in_order(results):
    """The results of (place, result) in the order of their places."""
    found, n_given = {}, 0
    for place, result in results:
        found[place] = result
        while n_given in found:
            yield found.pop(n_given)
            n_given += 1


def reason(error):
    """Why a prompt failed, in one line."""
    if isinstance(error, KilledWorker):
        return "every worker that tried it died"
    return f"{type(error).__name__}: {error}".splitlines()[0]
