"""The code of a worker: it loads the models once, then works on groups of prompts.

    python -m decoding.cluster.worker tcp://HOST:8786 --nthreads 1 --nworkers 4

starts workers for a scheduler, in the project's folder; it takes the flags of `dask worker`.

The code of this module is sent along (submit.py). So a worker that has another version of the
project, or none, can say so, and the scheduler needs neither the project nor NumPy.
"""

import asyncio
import faulthandler
import os
import pickle
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import backends.blas  # noqa: F401, isort: skip: before NumPy

from distributed import Status, WorkerPlugin

ROOMS = "backends", "checkpoints", "cli", "decoding", "experiments", "page", "proving"
SOURCES = ("*.py", *(f"{room}/**/*.py" for room in ROOMS))


def fingerprints(wanted):
    """{"project" or a model: SHA-256 of its files} on this machine. wanted: a ModelSpec."""
    import gpt2
    from checkpoints.files import sha256_of

    root = Path(gpt2.__file__).parent
    sources = sorted(path for pattern in SOURCES for path in root.glob(pattern))
    return {"project": sha256_of(sources)} | wanted.fingerprints()


class Loader(WorkerPlugin):
    """Loads the models on every worker, also on those that come later, and works with them.

    A worker that has them announces a resource of this name, which the groups of prompts ask for:
    Dask gives them to no other worker, and one at a time.

    wanted: pickled (ModelSpec, its kernel_choices, the fingerprints that a worker must have).
    """

    def __init__(self, name, wanted):
        self.name, self.wanted = name, wanted

    async def setup(self, worker):
        try:
            await asyncio.to_thread(self.load)
        except Exception as error:  # whatever it is, it concerns this worker only
            raise RuntimeError(f"worker {worker.address} {error}") from None
        await worker.set_resources(**{self.name: 1})
        # one that is short of memory works on, until it is restarted: if all paused, none would
        worker.memory_manager.memory_pause_fraction = False
        # a change of status makes Dask give out groups that wait because all workers had died
        worker.status = Status.paused
        worker.status = Status.running

    def load(self):
        from backends.machine import machine_name

        wanted, choices, expected = pickle.loads(self.wanted)
        for what, found in fingerprints(wanted).items():
            if found != expected[what]:
                raise RuntimeError(f"has other files of {what}")
        self.pairs = wanted.load(choices)
        self.description = machine_name(), wanted.kernels_in(self.pairs)

    def work(self, job, limit):
        """Call a pickled (function, items): the list of results, Failed for an item that fails.
        After `limit` seconds the process ends.
        """
        import numpy as np

        function, items = pickle.loads(job)
        function = partial(function, self.pairs)
        # a model that overflows is reported once, where its logits are used
        with exit_after(limit), np.errstate(over="ignore", invalid="ignore"):
            try:
                return list(function(items))
            except Exception:  # of one item, or of all together: try each item by itself
                return [try_item(function, item) for item in items]


@contextmanager
def exit_after(seconds):
    """End this process if the block takes longer than `seconds`. Dask then starts a new worker."""
    with open(os.devnull, "w") as nowhere:  # for the traceback
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def try_item(function, item):
    """The result of one item; if it fails, Failed, with the error in one line."""
    from decoding.cluster.failed import Failed

    try:
        (result,) = function([item])
        return result
    except Exception as error:
        return Failed(f"{type(error).__name__}: {error}".splitlines()[0])


if __name__ == "__main__":
    from distributed.cli.dask_worker import main

    main()
