"""What a worker does: load the models once, then work on groups of prompts.

    python -m experiments.cluster.worker tcp://HOST:8786 --nthreads 1 --nworkers 4

starts workers for a scheduler, in the project's folder; it takes the flags of `dask worker`.

The code of this module is sent along (submit.py). So a worker that has another version of the
project, or none, can say so, and the scheduler needs neither the project nor NumPy.
"""

import asyncio
import faulthandler
import pickle
from pathlib import Path

import backends.blas  # noqa: F401, isort: skip: before NumPy

from distributed import Status, WorkerPlugin, get_worker

SOURCES = ("*.py", "backends/**/*.py", "checkpoints/**/*.py", "experiments/**/*.py")


def project_fingerprint():
    """The SHA-256 of the project's code where this runs."""
    import gpt2
    from checkpoints.files import sha256_of

    root = Path(gpt2.__file__).parent
    return sha256_of(sorted(path for pattern in SOURCES for path in root.glob(pattern)))


class Loader(WorkerPlugin):
    """Loads the models on every worker, also on those that come later.

    A worker that has them announces a resource of this name, which the groups of prompts ask for:
    Dask gives them to no other worker, and one at a time.

    project: the fingerprint it must have. wanted: pickled (Wanted, its choices, its fingerprints).
    """

    def __init__(self, name, project, wanted):
        self.name, self.project, self.wanted = name, project, wanted

    async def setup(self, worker):
        try:
            await asyncio.to_thread(self.load)
        except Exception as error:  # whatever it is, it concerns this worker only
            raise RuntimeError(f"worker {worker.address} {error}") from None
        await worker.set_resources(**{self.name: 1})
        # one that is short of memory works on, until it is restarted: if all paused, none would
        worker.memory_manager.memory_pause_fraction = False
        # groups that nobody could take, as all workers died, are given out on a change of state
        worker.status = Status.paused
        worker.status = Status.running

    def load(self):
        if project_fingerprint() != self.project:
            raise RuntimeError("has another version of the project")
        wanted, choices, fingerprints = pickle.loads(self.wanted)
        for model, found in wanted.fingerprints().items():
            if found != fingerprints[model]:
                raise RuntimeError(f"has other files of the model {model}")
        self.pairs = wanted.load(choices)
        self.kernels = wanted.kernels_in(self.pairs)


def describe(name, dask_worker):
    """The machine of a worker that has loaded the models, and their kernels."""
    from experiments.data.machine import label

    return label(), dask_worker.plugins[name].kernels


def work(name, job, limit):
    """The results of pickled (function, items). Raises what the function raises.

    A group that takes longer than `limit` seconds ends the worker, with a traceback of where it
    hangs: Dask starts it again, as any worker that dies.
    """
    import numpy as np

    faulthandler.dump_traceback_later(limit, exit=True)
    try:
        function, items = pickle.loads(job)
        # a model that overflows is reported once, where its logits are used
        with np.errstate(over="ignore", invalid="ignore"):
            return list(function(get_worker().plugins[name].pairs, items))
    finally:
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    from distributed.cli.dask_worker import main

    main()
