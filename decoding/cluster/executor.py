"""Executors: they call a function with prompts, in this process or on the workers of a cluster.

An executor only calls function(models, items), which returns one result for each item. So the loop
over prompts is written once, for one machine and for many. In this process, an error ends the run;
on a cluster, the error is recorded, and the other prompts go on.
"""

from decoding.cluster.failed import require_no_failures


class Local:
    """Runs the work in this process, with models that it loads. Raises InputError."""

    machines = None

    def __init__(self, spec, download=False):
        self.models = spec.load(download=download)
        self.kernels = spec.kernels_in(self.models)

    def run(self, function, items, failed, group=1, name=str):
        """As Cluster.run, but an item that fails raises its error."""
        return function(self.models, items)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def new_executor(cluster, spec, download=False):
    """The executor for a value of --cluster: a Cluster, or a Local if it is empty. models: a
    ModelSpec. Raises InputError.
    """
    if not cluster:
        return Local(spec, download)
    from decoding.cluster.submit import Cluster  # here, as only a cluster needs Dask

    return Cluster(cluster, spec, download)


def run_prompts(executor, function, prompts, group):
    """Yield the result of each Prompt, in order, or Failed. function(models, prompts) -> results
    is called with `group` prompts at a time. Raises InputError at the end if any prompt failed.
    """
    if prompts:
        failed = {}
        name = lambda prompt: f"prompt {prompt.number}"
        with executor:
            yield from executor.run(function, prompts, failed, group, name)
        require_no_failures(failed)
