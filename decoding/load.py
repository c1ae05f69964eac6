"""Loads a target, its drafts and their encoder, from the names that a user gives."""

from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

import utils
from backends.machine import kernels_of
from checkpoints.errors import InputError
from checkpoints.files import sha256_of
from checkpoints.folder import PARTS
from checkpoints.registry import MODELS_DIR
from checkpoints.search import find_folder
from decoding.drafts import Draft, HeadDraft, ModelDraft
from decoding.ngrams import NGrams
from gpt2 import Config, Model
from utils import CHECKPOINT, RANDOM

NGRAM = "ngram"  # what --draft_model_size calls the look-up of n-grams
HEADS = ("eagle", "medusa")  # and trained heads of the target
AUTO = "auto"  # what --K calls a K that is chosen anew each round


@dataclass(frozen=True, eq=False)
class Pair:
    """A target, its draft (None for autoregressive decoding alone), and their encoder."""

    target: Model
    draft: Draft | None
    encoder: Any

    @property
    def models(self):
        """[Model]: the target, then the models of the draft. Each of them needs a cache."""
        return [self.target, *(self.draft.models if self.draft else ())]

    def over(self, stand_in):
        """The same pair with stand_in(model) in place of each model."""
        draft = self.draft and self.draft.over(stand_in)
        return Pair(stand_in(self.target), draft, self.encoder)


@dataclass(frozen=True)
class Pairs:
    """A target with several drafts, {name: Draft}."""

    target: Model
    drafts: dict
    encoder: Any

    def pair(self, name=None):
        return Pair(self.target, self.drafts.get(name), self.encoder)


def is_size(name):
    """Whether a draft's name is a size or a folder, not a head of the target and not n-grams."""
    return name != NGRAM and name not in HEADS


def load(target, drafts, models_dir, backend, weights=CHECKPOINT, download=False):
    """Load a target and its drafts, and return their Pairs. drafts: a list of sizes, folders, names
    of HEADS, or NGRAM. Raises InputError, before it reads weights, for a draft that cannot pair.
    """
    heads = [name for name in drafts if name in HEADS]
    if heads and weights == RANDOM:
        raise InputError(
            f"--draft_model_size {heads[0]} with --weights random: expected a size, a folder or "
            f"{NGRAM}, as a head fits the weights it was trained on"
        )
    sizes = [name for name in drafts if is_size(name)]
    (target_model, *smaller), encoder = utils.load_models(
        [target, *sizes], models_dir, backend, weights, download
    )
    loaded = {NGRAM: NGrams()} | dict(zip(sizes, map(ModelDraft, smaller)))
    for name in heads:
        from decoding.head_files import load_head

        folder = find_folder(target, models_dir)
        loaded[name] = HeadDraft(load_head(name, folder, target_model))
    return Pairs(target_model, {name: loaded[name] for name in drafts}, encoder)


@dataclass(frozen=True)
class ModelStub:
    """The Config of a model whose weights are in other processes, for code that needs no more."""

    config: Config


@dataclass(frozen=True)
class ModelSpec:
    """The names of a target and its drafts, and how to multiply. It can be sent to a worker."""

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

    @property
    def sizes(self):
        """[size or folder] of the models with weights of their own, the target first."""
        return [self.target, *filter(is_size, self.drafts)]

    def load(self, choices=None, download=False):
        """Load and return Pairs. choices: from `kernel_choices`, or None. Raises InputError."""
        backend = utils.get_backend(self.backend, self.kernels, self.exact, self.dtype)
        if choices:
            from backends import autotune

            def plan_layouts(config, dtype):
                return autotune.layout_function(config, dtype, choices[config], self.exact)

            backend = replace(backend, plan_layouts=plan_layouts)
        return load(self.target, self.drafts, self.models_dir, backend, self.weights, download)

    def shapes(self, download=False):
        """([Config] of self.sizes, their encoder), without reading weights. Raises InputError."""
        args = self.sizes, self.models_dir, self.weights, download
        configs, _, encoder = utils.sources_of(*args)
        return configs, encoder

    def load_stub(self, download=False):
        """Pairs that are enough to prepare prompts with: the target's ModelStub, and no drafts."""
        configs, encoder = self.shapes(download)
        return Pairs(ModelStub(configs[0]), {}, encoder)

    def kernel_choices(self):
        """Time kernels here: {Config: {Weight: Kernel}}; {} if the settings leave no choice."""
        if (self.backend, self.kernels) != ("numpy", "auto"):
            return {}
        from backends import autotune

        configs, _ = self.shapes()
        return {
            config: autotune.choose_kernels(config, np.float32, exact=self.exact)
            for config in configs
        }

    def fingerprints(self):
        """{size or head: SHA-256 of its files}, to compare the models of two machines."""
        if self.weights == RANDOM:
            return {size: repr(utils.config_of(size, self.models_dir)) for size in self.sizes}
        folders = {size: find_folder(size, self.models_dir) for size in self.sizes}
        files = {
            size: {*folder.glob("model*"), *(folder / name for name in chain(*PARTS))}
            for size, folder in folders.items()
        }
        for head in {*self.drafts} & {*HEADS}:
            files[head] = {folders[self.target] / f"{head}.safetensors"}
        return {
            model: sha256_of(sorted(path for path in paths if path.is_file()))
            for model, paths in files.items()
        }

    def kernels_in(self, pairs):
        """{size: {weight: its kernel in words}} of loaded Pairs, for the JSON object."""
        models = {name: draft.standalone_model for name, draft in pairs.drafts.items()}
        models = {self.target: pairs.target} | models
        return {name: kernels_of(model) for name, model in models.items() if model}
