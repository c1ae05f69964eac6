"""Where prompts are worked on: in this process, or by the workers of a cluster.

A function (pairs, items) -> results, one for each item, is all that a place knows of the work. So
the loop over prompts is written once, and what a worker does is what one machine does. Here, what
fails ends the run; on a cluster it is noted, and the others go on.
"""

from functools import partial

from decoding.cluster.failed import require_all
from decoding.together import results_of


class Here:
    """This process: it loads the models, and works on one item after the other."""

    machines = None

    def __init__(self, models):
        self.pairs = models.load()
        self.kernels = models.kernels_in(self.pairs)

    def run(self, function, items, failed, group=1, name=str):
        """As Cluster.run, but an item that fails ends it."""
        return function(self.pairs, items)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def place(cluster, models, download=False):
    """The place that --cluster names, with the models of ModelNames; this process for ""."""
    if not cluster:
        return Here(models)
    from decoding.cluster.submit import Cluster  # here, as only a cluster needs Dask

    return Cluster(cluster, models, download)


# ---------------------------------------------------------------- what generate does with a file


def json_of_prompts(settings, batch_size, pairs, prompts):
    """The JSON object of each Prompt, as on one machine."""
    pair = pairs.pair(settings.draft_model_size)
    # no totals: a speed of several machines together would mean little
    yield from results_of(settings, pair, prompts, batch_size, totals={})


def spread(cluster, settings, prompts, batch_size):
    """Yield the JSON object of each Prompt, in their order, Failed for one that failed."""
    if prompts:
        failed = {}
        function = partial(json_of_prompts, settings, batch_size)
        name = lambda prompt: f"prompt {prompt.number}"
        with cluster as workers:
            yield from workers.run(function, prompts, failed, batch_size, name)
        require_all(failed)
