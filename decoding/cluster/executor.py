"""Executors: they call a function with prompts, in this process or on the workers of a cluster.

An executor only calls function(models, items), which returns one result for each item. So the loop
over prompts is written once, for one machine and for many. In this process, an error ends the run;
on a cluster, the error is recorded, and the other prompts go on.
"""

from checkpoints.errors import InputError, abbreviated, plural
from decoding.cluster.failed import Failed


class Local:
    """Runs the work in this process. Loads the models of `spec`, a ModelSpec, when it is made, and
    raises InputError if that fails; `download` allows to fetch them. Its `with` block does nothing.
    """

    def __init__(self, spec, download=False):
        self.models = spec.load(download=download)
        self.kernels = spec.kernels_in(self.models)

    def run(self, function, items, group_size):
        """Call function(models, items) once, with LoadedModels and all items, and return its
        results. An error of an item is raised. Only Cluster.run uses group_size.
        """
        return function(self.models, items)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def new_executor(cluster, spec, download=False):
    """Make the executor for a value of --cluster: a Local if it is empty, else a Cluster. spec: the
    ModelSpec to load; download: whether models that are missing may be downloaded. Raises
    InputError if the models or the address cannot be used.
    """
    if not cluster:
        return Local(spec, download)
    from decoding.cluster.submit import Cluster  # here, because only a cluster needs Dask

    return Cluster(cluster, spec, download)


def run_prompts(executor, function, items, group_size, name):
    """Yield the result of each item, in order; on a cluster, a Failed for an item that failed. If
    there were any, raises InputError at the end. In this process, raises the error at once.

    executor: a Local or Cluster, whose `with` block this enters and leaves
    function: called as function(models, items), with group_size items at a time on a cluster and
        with all of them here; returns one result for each
    items: a list with an item for each prompt; name: a function item -> str, for messages
    """
    if not items:
        return
    reasons = []
    with executor:
        # the results come first in zip, because Cluster.run prints a note behind the last one
        for result, item in zip(executor.run(function, items, group_size), items):
            if isinstance(result, Failed):
                reasons.append(f"{name(item)}: {result.reason}")
            yield result
    if reasons:
        advice = "the others are done, give the same command to try these again"
        failed = plural(len(reasons), "prompt")
        raise InputError(f"{failed} failed: {abbreviated(reasons)}; {advice}")
