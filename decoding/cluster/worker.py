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

import backends.before_numpy  # noqa: F401, isort: skip: before NumPy

from distributed import Status, WorkerPlugin

ROOMS = "backends", "checkpoints", "cli", "decoding", "experiments", "page", "proving"
SOURCES = ("*.py", *(f"{room}/**/*.py" for room in ROOMS))


def fingerprints(spec):
    """{"project" or a model of the ModelSpec: SHA-256 of its files} on this machine. Raises
    InputError if a model is not there.
    """
    import gpt2  # here and below: the scheduler, which has this module too, lacks the project
    from checkpoints.files import sha256_of

    root = Path(gpt2.__file__).parent
    sources = sorted(path for pattern in SOURCES for path in root.glob(pattern))
    return {"project": sha256_of(sources)} | spec.fingerprints()


class Loader(WorkerPlugin):
    """A plugin that loads the models on every worker, also on workers that come later, and works
    with them.

    A worker that has the models announces a resource of the plugin's name. Groups of prompts ask
    for this resource: so Dask gives them to no other worker, and one at a time.

    name: str, of the plugin and its resource
    payload: pickled (ModelSpec, {Config: {Weight: Kernel}} to use, the fingerprints to have)
    models: LoadedModels; description: (machine, kernels of the models), both in words. Both are
        there once the worker has loaded the models.
    """

    def __init__(self, name, payload):
        self.name, self.payload = name, payload

    async def setup(self, worker):
        """Load the models, and announce it; Dask calls this with each of its Workers. Raises
        RuntimeError if the models cannot be loaded.
        """
        try:
            await asyncio.to_thread(self.load)
        except Exception as error:  # whatever it is, it concerns this worker only
            raise RuntimeError(f"worker {worker.address} {error}") from None
        await worker.set_resources(**{self.name: 1})
        # Dask would pause a worker that is short of memory. If all paused, the run would not end;
        # so the worker goes on, until it is restarted for taking too much
        worker.memory_manager.memory_pause_fraction = False
        # a change of status makes Dask give out the groups that wait because all workers had died
        worker.status = Status.paused
        worker.status = Status.running

    def load(self):
        """Load the models; set `models` and `description`, (machine, kernels) in words. Raises
        RuntimeError if the files here are not those of the sender, InputError if one is missing.
        """
        from backends.machine import machine_name

        spec, choices, expected = pickle.loads(self.payload)
        for name, fingerprint in fingerprints(spec).items():
            if fingerprint != expected[name]:
                raise RuntimeError(f"has other files of {name}")
        self.models = spec.load(choices)
        self.description = machine_name(), spec.kernels_in(self.models)

    def work(self, job, seconds):
        """Call function(models, items), and return a list with the result of each item, a Failed if
        it fails. job: pickled (function, items). Ends the process if it takes more than `seconds`.
        """
        import numpy as np

        function, items = pickle.loads(job)
        function = partial(function, self.models)
        # no warnings of overflow here: the error says it, where the logits are used
        with exit_after(seconds), np.errstate(over="ignore", invalid="ignore"):
            try:
                return list(function(items))
            except Exception:  # one item failed, or all of them together: try them one by one
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
    """Call function([item]), which returns a list, and return its one result: a Failed if it raises
    an error.
    """
    from decoding.cluster.failed import Failed  # here: the scheduler lacks the project

    try:
        (result,) = function([item])
        return result
    except Exception as error:
        return Failed(f"{type(error).__name__}: {error}".splitlines()[0])


if __name__ == "__main__":
    from distributed.cli.dask_worker import main

    main()
