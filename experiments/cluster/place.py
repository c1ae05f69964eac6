"""Which models a run wants, and where its prompts are worked on: in this process, or by the workers
of a cluster.

A function (pairs, items) -> results, one for each item, is all that a place knows of the work. So
the loop over prompts is written once, and what a worker does is what one machine does.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

import utils
from backends import autotune
from experiments.data.machine import kernels_of
from experiments.decoding.session import Session
from experiments.drafting.load import CHECKPOINT, RANDOM, Pairs, fingerprints, is_size, load
from gpt2 import Model
from utils import MODELS_DIR, get_backend


@dataclass(frozen=True)
class Wanted:
    """A target and its drafts by size or folder, and how they are multiplied: what every process
    that takes part has to load, to the byte. Raises InputError.
    """

    target: str
    drafts: tuple = ()
    models_dir: str = MODELS_DIR
    weights: str = CHECKPOINT
    backend: str = "numpy"
    kernels: str = "auto"
    exact: bool = False
    dtype: str = "float32"

    def __getstate__(self):  # for pickle: another machine has its own place for models
        return {name: value for name, value in vars(self).items() if value != MODELS_DIR}

    def load(self, choices=None):
        """The Pairs, their weights held as {Config: kernels} says."""
        backend = get_backend(self.backend, self.kernels, self.exact, self.dtype)
        if choices:

            def plan(config, dtype):
                return autotune.layout(config, dtype, choices[config], self.exact)

            backend = replace(backend, plan=plan)
        return load(self.target, self.drafts, self.models_dir, backend, self.weights)

    def shapes(self, download=False):
        """([Config] of the models with weights of their own, the target first; their encoder)."""
        read = utils.random_sources if self.weights == RANDOM else utils.stored_sources
        sizes = [self.target, *filter(is_size, self.drafts)]
        configs, _, encoder = read(sizes, self.models_dir, download)
        return configs, encoder

    def outline(self, download=False):
        """Pairs to prepare prompts with: no drafts, and a target without weights."""
        configs, encoder = self.shapes(download)
        return Pairs(Model(configs[0], {}, None), {}, encoder)

    def choices(self):
        """{Config: kernels} by trial on this machine; {} where there is nothing to choose."""
        if (self.backend, self.kernels) != ("numpy", "auto"):
            return {}
        configs, _ = self.shapes()
        return {one: autotune.choose(one, np.float32, exact=self.exact) for one in configs}

    def fingerprints(self):
        """{model: SHA-256 of its files}, for two machines to compare."""
        return fingerprints(self.target, self.drafts, self.models_dir, self.weights)

    def kernels_in(self, pairs):
        """{model: {shape: how it is multiplied}} of the models that are loaded, by size."""
        models = {name: draft.alone for name, draft in pairs.drafts.items() if draft.alone}
        models = {self.target: pairs.target} | models
        return {name: kernels_of(model) for name, model in models.items()}


class Here:
    """This process: it loads the models, and works on one item after the other."""

    machines = None

    def __init__(self, wanted):
        self.pairs = wanted.load()
        self.kernels = wanted.kernels_in(self.pairs)

    def run(self, function, items, group=1, name=str):
        """The results, in order."""
        return function(self.pairs, items)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def place(cluster, wanted, download=False):
    """The place that --cluster names, with these models; this process for "". Raises InputError."""
    if not cluster:
        return Here(wanted)
    from experiments.cluster.submit import Cluster  # here, as only a cluster needs Dask

    return Cluster(cluster, wanted, download)


# ---------------------------------------------------------------- what generate does with a file


def texts(settings, batch_size, pairs, prompts):
    """The JSON object of each Prompt, as on one machine."""
    session = Session(settings, pairs.pair(settings.draft_model_size))
    yield from session.run_together(prompts, batch_size)


def name_of(prompt):
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
        self.cluster = place(cluster, wanted, download)
        super().__init__(settings, self.cluster.pairs.pair())

    def run_together(self, prompts, batch_size):
        """Yield the JSON object of each Prompt, in their order, Failed for one that failed."""
        self.totals = {}  # a speed of several machines together would mean little
        if prompts:
            with self.cluster as workers:
                function = partial(texts, self.settings, batch_size)
                yield from workers.run(function, prompts, batch_size, name_of)
