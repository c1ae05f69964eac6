"""What a worker does: load the models once, then work on groups of prompts.

    python -m experiments.cluster.worker tcp://HOST:8786 --nthreads 1 --nworkers 4

starts workers for a scheduler, in the project's folder; it takes the flags of `dask worker`.

The code of this module is sent along (submit.py). So a worker that has another version of the
project, or none, can say so.
"""

import asyncio
import faulthandler
import hashlib
import logging
import pickle
import time
from pathlib import Path

import backends.blas  # noqa: F401, isort: skip: before NumPy

import numpy as np
from distributed import Status, WorkerPlugin, get_worker

SOURCES = ("*.py", "backends/**/*.py", "checkpoints/**/*.py", "experiments/**/*.py")


def project_fingerprint():
    """The SHA-256 of the project's code where this runs."""
    import gpt2

    root = Path(gpt2.__file__).resolve().parent
    found = hashlib.sha256()
    for path in sorted({path for pattern in SOURCES for path in root.glob(pattern)}):
        found.update(path.relative_to(root).as_posix().encode())
        found.update(path.read_bytes())
    return found.hexdigest()


class Loader(WorkerPlugin):
    """Loads the models on every worker, also on those that come later.

    A worker that has them announces a resource of this name, which the groups of prompts ask for:
    Dask gives them to no other worker, and one at a time.

    project: the fingerprint it must have. wanted: pickled (Wanted, its choices, its fingerprints).
    """

    def __init__(self, name, project, wanted):
        self.name, self.project, self.wanted = name, project, wanted
        self.pairs = self.problem = None

    async def setup(self, worker):
        self.problem = await asyncio.to_thread(self.load)
        if self.problem is None:
            await worker.set_resources(**{self.name: 1})
            # one that is short of memory works on, until it is restarted: if all paused, none would
            worker.memory_manager.memory_pause_fraction = False
            # groups that nobody could take, as all workers died, are given out on a change of state
            worker.status = Status.paused
            worker.status = Status.running
        else:
            logging.getLogger("distributed.worker").error("refused: %s", self.problem)

    def load(self):
        """Load the models. Returns why that cannot be, or None."""
        try:
            if project_fingerprint() != self.project:
                return "has another version of the project; give all machines the same"
            wanted, choices, fingerprints = pickle.loads(self.wanted)
            wanted = wanted.here()
            found = wanted.fingerprints()
            for model, one in fingerprints.items():
                if found[model] != one:
                    return f"has other files of the model {model}; give all machines the same"
            self.pairs, self.target = wanted.load(choices), wanted.target
        except ModuleNotFoundError as missing:
            return (
                f"does not find {missing.name}; give it the project's folder to start in, "
                "and requirements-cluster.txt"
            )
        except Exception as error:  # whatever it is, it concerns this worker only
            return str(error) or type(error).__name__

    def teardown(self, worker):
        self.pairs = None


def describe(name, dask_worker):
    """What became of a Loader: (why this worker is refused or None, its machine, its kernels)."""
    loader = dask_worker.plugins[name]
    if loader.problem:
        return loader.problem, None, None
    from experiments.cluster.models import kernels_in
    from experiments.data.machine import label

    return None, label(), kernels_in(loader.pairs, loader.target)


def work(name, job, limit):
    """(the results of pickled (function, items), seconds). Raises what the function raises.

    A group that takes longer than `limit` seconds ends the worker, with a traceback of where it
    hangs: as for any worker that dies, Dask starts it again and gives the group to another.
    """
    faulthandler.dump_traceback_later(limit, exit=True)
    try:
        begin = time.perf_counter()
        function, items = pickle.loads(job)
        # a model that overflows is reported once, where its logits are used
        with np.errstate(over="ignore", invalid="ignore"):
            results = list(function(get_worker().plugins[name].pairs, items))
        return results, time.perf_counter() - begin
    finally:
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    from distributed.cli.dask_worker import main

    main()
