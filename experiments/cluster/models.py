"""Which models a run wants: what every process that takes part has to load, to the byte."""

import dataclasses
from dataclasses import dataclass
from functools import partial

import numpy as np

import utils
from backends import autotune
from experiments.drafting.pairs import (
    CHECKPOINT,
    NGRAM,
    RANDOM,
    Pairs,
    config_of,
    embedded_encoder,
    fingerprints,
    load_pairs,
)
from experiments.drafting.stored import HEADS
from gpt2 import Config, Model
from utils import MODELS_DIR, get_backend, kernels_of


@dataclass(frozen=True)
class Outline:
    """A model's shape without its weights: enough to prepare prompts for it."""

    config: Config


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

    def load(self, choices=None):
        """The Pairs, their weights held as {Config: kernels} says. Raises InputError."""
        arrays = get_backend(self.backend, self.kernels, self.exact, self.dtype)
        if choices:
            plan = partial(chosen_plan, choices, self.exact)
            arrays = dataclasses.replace(arrays, plan=plan)
        return load_pairs(self.target, [*self.drafts], self.models_dir, self.weights, arrays)

    def elsewhere(self):
        """The same on another machine, which has the project's own models in another place."""
        default = self.models_dir == MODELS_DIR
        return dataclasses.replace(self, models_dir="") if default else self

    def here(self):
        """The inverse of `elsewhere`, on the other machine."""
        return dataclasses.replace(self, models_dir=self.models_dir or MODELS_DIR)

    def outline(self, download=False):
        """The Pairs without weights, and without drafts. Raises InputError."""
        if self.weights == RANDOM:
            config = config_of(self.target, self.models_dir)
            return Pairs(Outline(config), {}, embedded_encoder(config.n_vocab))
        folders = [utils.find_folder(size, self.models_dir, download) for size in self.sizes()]
        return Pairs(Outline(utils.read_config(folders[0])), {}, utils.load_encoder(folders[0]))

    def sizes(self):
        """The models that are no n-grams and no heads."""
        return [self.target, *(one for one in self.drafts if one not in (NGRAM, *HEADS))]

    def configs(self):
        if self.weights == RANDOM:
            return [config_of(size, self.models_dir) for size in self.sizes()]
        return [
            utils.read_config(utils.find_folder(size, self.models_dir)) for size in self.sizes()
        ]

    def choices(self):
        """{Config: kernels} by trial on this machine; {} where there is nothing to choose."""
        if (self.backend, self.kernels) != ("numpy", "auto"):
            return {}
        return {
            config: autotune.choose(config, np.float32, exact=self.exact)
            for config in self.configs()
        }

    def fingerprints(self):
        """{model: SHA-256 of its files}, for two machines to compare."""
        return fingerprints(self.target, self.drafts, self.models_dir, self.weights)


def chosen_plan(choices, exact, config, dtype):
    """A backend's plan that does not measure."""
    return autotune.layout(config, dtype, choices[config], exact)


def kernels_in(pairs, target):
    """{model: {shape: how it is multiplied}} of the models that are loaded, by size."""
    models = {target: pairs.target} | pairs.drafts
    return {name: kernels_of(model) for name, model in models.items() if isinstance(model, Model)}
