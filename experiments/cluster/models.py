"""Which models a run wants: what every process that takes part has to load, to the byte."""

from dataclasses import dataclass, replace

import numpy as np

import utils
from backends import autotune
from experiments.data.machine import kernels_of
from experiments.drafting.load import CHECKPOINT, RANDOM, Pairs, fingerprints, is_size, load
from gpt2 import Model
from utils import MODELS_DIR, get_backend


@dataclass(frozen=True)
class Wanted:
    """A target and its drafts by size or folder, and how they are multiplied."""

    target: str
    drafts: tuple = ()
    models_dir: str = MODELS_DIR
    weights: str = CHECKPOINT
    backend: str = "numpy"
    kernels: str = "auto"
    exact: bool = False
    dtype: str = "float32"

    def __getstate__(self):  # for pickle: another machine has the project's models elsewhere
        default = self.models_dir == MODELS_DIR
        return vars(self) | {"models_dir": None if default else self.models_dir}

    def __setstate__(self, state):
        vars(self).update(state, models_dir=state["models_dir"] or MODELS_DIR)

    def load(self, choices=None):
        """The Pairs, their weights held as {Config: kernels} says. Raises InputError."""
        backend = get_backend(self.backend, self.kernels, self.exact, self.dtype)
        if choices:

            def plan(config, dtype):
                return autotune.layout(config, dtype, choices[config], self.exact)

            backend = replace(backend, plan=plan)
        return load(self.target, self.drafts, self.models_dir, backend, self.weights)

    def sizes(self):
        """The models that have weights of their own."""
        return [self.target, *filter(is_size, self.drafts)]

    def shapes(self, download=False):
        """({size: Config}, encoder), without any weights. Raises InputError."""
        read = utils.random_sources if self.weights == RANDOM else utils.stored_sources
        configs, _, encoder = read(self.sizes(), self.models_dir, download)
        return dict(zip(self.sizes(), configs)), encoder

    def outline(self, download=False):
        """Pairs to prepare prompts with: no drafts, and a target without weights."""
        configs, encoder = self.shapes(download)
        return Pairs(Model(configs[self.target], {}, None), {}, encoder)

    def choices(self):
        """{Config: kernels} by trial on this machine; {} where there is nothing to choose."""
        if (self.backend, self.kernels) != ("numpy", "auto"):
            return {}
        configs, _ = self.shapes()
        return {one: autotune.choose(one, np.float32, exact=self.exact) for one in configs.values()}

    def fingerprints(self):
        """{model: SHA-256 of its files}, for two machines to compare."""
        return fingerprints(self.target, self.drafts, self.models_dir, self.weights)


def kernels_in(pairs, target):
    """{model: {shape: how it is multiplied}} of the models that are loaded, by size."""
    models = {target: pairs.target}
    models |= {name: draft.alone for name, draft in pairs.drafts.items() if draft.alone}
    return {name: kernels_of(model) for name, model in models.items()}
