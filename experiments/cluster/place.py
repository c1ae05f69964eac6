"""Where a run's prompts are worked on: in this process, or by the workers of a cluster.

A function (pairs, items) -> results, one for each item, is all that either knows of the work. So
the loop over prompts is written once, and what a worker does is what one machine does.
"""

from experiments.cluster.models import kernels_in


class Here:
    """This process: it loads the models, and works on one item after the other."""

    machines = None

    def __init__(self, wanted):
        self.pairs = wanted.load()
        self.kernels = kernels_in(self.pairs, wanted.target)

    def run(self, function, items, group=1, name=str, **watch):
        """The results, in order. watch: further arguments, for a function to report to."""
        return function(self.pairs, items, **watch)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def place(cluster, wanted):
    """The place that --cluster names, with these models; this process for "". Raises InputError."""
    if not cluster:
        return Here(wanted)
    from experiments.cluster.submit import Cluster  # here, as only a cluster needs Dask

    return Cluster(cluster, wanted)
