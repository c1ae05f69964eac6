"""What `generate` does with a file of prompts, by the workers of a cluster."""

from functools import partial

from experiments.cluster.place import Wanted
from experiments.cluster.submit import Cluster
from experiments.decoding.session import Session


def texts(settings, batch_size, pairs, prompts):
    """The JSON object of each Prompt, as on one machine."""
    session = Session(settings, pairs.pair(settings.draft_model_size))
    yield from session.run_together(prompts, batch_size)


def name(prompt):
    """What a Prompt is called that has failed: by how it begins, in text or in token ids."""
    begin = prompt.ids[:10] if prompt.text is None else prompt.text[:30]
    return f"prompt {prompt.number} ({begin!r})"


class ClusterSession(Session):
    """A Session whose models are on the workers that `cluster` names. Raises InputError."""

    def __init__(self, settings, cluster, download=False):
        wanted = Wanted(
            settings.target_model_size,
            (settings.draft_model_size,) if settings.speculates else (),
            settings.models_dir,
            backend=settings.backend,
            kernels=settings.kernels,
            exact=settings.exact,
            dtype=settings.dtype,
        )
        self.cluster = Cluster(cluster, wanted, download)
        super().__init__(settings, self.cluster.pairs.pair())

    def run_together(self, prompts, batch_size):
        """Yield the JSON object of each Prompt, in their order, Failed for one that failed."""
        self.totals = {}  # a speed of several machines together would mean little
        if not prompts:
            return
        with self.cluster:
            function = partial(texts, self.settings, batch_size)
            yield from self.cluster.run(function, prompts, batch_size, name)
