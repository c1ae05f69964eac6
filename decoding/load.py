"""From names to models: a target, its drafts and their encoder."""

from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

import utils
from backends.machine import kernels_of
from checkpoints.files import InputError, sha256_of
from checkpoints.folder import PARTS
from decoding.drafts import Draft, HeadDraft, ModelDraft
from decoding.ngrams import NGrams
from gpt2 import Config, Model
from utils import CHECKPOINT, MODELS_DIR, RANDOM

NGRAM = "ngram"  # what --draft_model_size calls the look-up of n-grams
HEADS = ("eagle", "medusa")  # and trained heads of the target
AUTO = "auto"  # what --K calls a K that is chosen anew each round


@dataclass(frozen=True, eq=False)
class Pair:
    """What decodes: a target, its draft (None where nothing speculates), and their encoder."""

    target: Model
    draft: Draft | None
    encoder: Any

    @property
    def models(self):
        """All that needs caches."""
        return [self.target, *(self.draft.models if self.draft else ())]


@dataclass(frozen=True)
class Pairs:
    """A target with several drafts, {name: Draft}."""

    target: Model
    drafts: dict
    encoder: Any

    def pair(self, name=None):
        return Pair(self.target, self.drafts.get(name), self.encoder)


def is_size(name):
    """Whether a draft's name is that of a model with weights of its own."""
    return name != NGRAM and name not in HEADS


def load(target, drafts, models_dir, backend, weights=CHECKPOINT, download=False):
    """The Pairs of a target and its drafts, each a size, a folder, or the name of a head or of
    n-grams. Raises InputError, before any weight is read, for a draft that cannot pair.
    """
    heads = [name for name in drafts if name in HEADS]
    if heads and weights == RANDOM:
        raise InputError(
            f"--draft_model_size {heads[0]} with --weights random: expected a size, a folder or "
            f"{NGRAM}, as a head fits the weights it was trained on"
        )
    sizes = [name for name in drafts if is_size(name)]
    (model, *smaller), encoder = utils.load_models(
        [target, *sizes], models_dir, backend, weights, download
    )
    found = {NGRAM: NGrams()} | {name: ModelDraft(one) for name, one in zip(sizes, smaller)}
    for name in heads:
        from decoding.head_files import load_head

        folder = utils.find_folder(target, models_dir)
        found[name] = HeadDraft(load_head(name, folder, model))
    return Pairs(model, {name: found[name] for name in drafts}, encoder)


@dataclass(frozen=True)
class Shape:
    """Stands in for a model whose weights are in other processes."""

    config: Config


@dataclass(frozen=True)
class ModelNames:
    """A target and its drafts by name, and how they are multiplied: what a process has to load."""

    target: str
    drafts: tuple = ()
    models_dir: str = MODELS_DIR
    weights: str = CHECKPOINT
    backend: str = "numpy"
    kernels: str = "auto"
    exact: bool = False
    dtype: str = "float32"

    @classmethod
    def of(cls, settings, target=None, drafts=None):
        """As the flags of a command say, those that it has. Without names, the target and the draft
        of generate.
        """
        if target is None:
            target = settings.target_model_size
            drafts = [settings.draft_model_size] if settings.speculates else []
        names = ("models_dir", "weights", "backend", "kernels", "exact", "dtype")
        flags = {name: getattr(settings, name) for name in names if hasattr(settings, name)}
        return cls(target, tuple(drafts or ()), **flags)

    def __getstate__(self):  # for pickle: another machine has its own place for models
        return {name: value for name, value in vars(self).items() if value != MODELS_DIR}

    @property
    def sizes(self):
        """The models with weights of their own, the target first."""
        return [self.target, *filter(is_size, self.drafts)]

    def load(self, choices=None, download=False):
        """The Pairs, their weights held as {Config: kernels} says."""
        backend = utils.get_backend(self.backend, self.kernels, self.exact, self.dtype)
        if choices:
            from backends import autotune

            def plan(config, dtype):
                return autotune.lay_out_by(config, dtype, choices[config], self.exact)

            backend = replace(backend, plan=plan)
        return load(self.target, self.drafts, self.models_dir, backend, self.weights, download)

    def shapes(self, download=False):
        """([Config] of the sizes, their encoder)."""
        sources = utils.sources_of(self.sizes, self.models_dir, self.weights, download)
        configs, _, encoder = sources
        return configs, encoder

    def outline(self, download=False):
        """Pairs to prepare prompts with: the target's Shape, and no drafts."""
        configs, encoder = self.shapes(download)
        return Pairs(Shape(configs[0]), {}, encoder)

    def kernel_choices(self):
        """{Config: kernels} by trial on this machine; {} where there is nothing to choose."""
        if (self.backend, self.kernels) != ("numpy", "auto"):
            return {}
        from backends import autotune

        configs, _ = self.shapes()
        return {one: autotune.choose(one, np.float32, exact=self.exact) for one in configs}

    def fingerprints(self):
        """{model: SHA-256 of its files}, for two runs or two machines to compare."""
        if self.weights == RANDOM:
            return {size: repr(utils.config_of(size, self.models_dir)) for size in self.sizes}
        folders = {size: utils.find_folder(size, self.models_dir) for size in self.sizes}
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
        """{model: {shape: how it is multiplied}} of the models that are loaded, by size."""
        models = {name: draft.alone for name, draft in pairs.drafts.items() if draft.alone}
        models = {self.target: pairs.target} | models
        return {name: kernels_of(model) for name, model in models.items()}


def load_pair(settings, download=False):
    """The Pair of the settings of generate. Raises InputError."""
    return ModelNames.of(settings).load(download=download).pair(settings.draft_model_size)
