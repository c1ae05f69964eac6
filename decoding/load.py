"""Loads a target, its drafts and their encoder, from the names that a user gives."""

from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import utils
from backends.kernels import kernels_of, layout_function
from checkpoints.errors import InputError
from checkpoints.files import sha256_of
from checkpoints.folder import PARTS
from checkpoints.registry import MODELS_DIR
from checkpoints.search import find_folder
from decoding.drafts import Draft, HeadDraft, ModelDraft
from decoding.ngrams import NGrams
from gpt2 import Model
from utils import CHECKPOINT, RANDOM

NGRAM = "ngram"  # what --draft_model_size calls the look-up of n-grams
HEADS = ("eagle", "medusa")  # and trained heads of the target
AUTO = "auto"  # what --K calls a K that is chosen anew each round


@dataclass(frozen=True, eq=False)
class Pair:
    """A target and one draft (None for autoregressive decoding alone): what a text is decoded with.

    encoder: an encoder.Encoder, or utils.AnyTokens
    """

    target: Model
    draft: Draft | None
    encoder: Any

    @property
    def models(self):
        """[Model]: the target, then the models of the draft. Each of them needs a cache."""
        return [self.target, *(self.draft.models if self.draft else ())]

    def map_models(self, function):
        """A copy of this pair with function(Model) in place of each of its models."""
        draft = self.draft and self.draft.map_models(function)
        return Pair(function(self.target), draft, self.encoder)


@dataclass(frozen=True)
class LoadedModels:
    """All that a ModelSpec names: a target, its drafts {name: Draft}, and their encoder."""

    target: Model
    drafts: dict
    encoder: Any

    def pair(self, name=None):
        """The Pair of the target and the draft of this name (str); draft None if it is unknown."""
        return Pair(self.target, self.drafts.get(name), self.encoder)


def is_size(name):
    """Whether a draft's name is a size or a folder, not a head of the target and not n-grams."""
    return name != NGRAM and name not in HEADS


def load(target, drafts, models_dir, backend, weights=CHECKPOINT, download=False):
    """Load a target and its drafts, and return LoadedModels. Raises InputError if a model is not
    there or cannot be used. A draft model that does not fit the target is refused before weights
    are read.

    target: a size or a folder; drafts: [size, folder, name of HEADS, or NGRAM]
    backend: a utils.Backend; weights: CHECKPOINT or RANDOM; download: True fetches missing models
    """
    heads = [name for name in drafts if name in HEADS]
    if heads and weights == RANDOM:
        raise InputError(
            f"--draft_model_size {heads[0]} with --weights random: expected a size, a folder or "
            f"{NGRAM}, as a head fits the weights it was trained on"
        )
    sizes = [name for name in drafts if is_size(name)]
    models, encoder = utils.load_models([target, *sizes], models_dir, backend, weights, download)
    target_model = models[0]
    loaded = {NGRAM: NGrams()} | dict(zip(sizes, map(ModelDraft, models[1:])))
    for name in heads:
        from decoding.head_files import load_head  # here: most runs have no head

        folder = find_folder(target, models_dir)
        loaded[name] = HeadDraft(load_head(name, folder, target_model))
    return LoadedModels(target_model, {name: loaded[name] for name in drafts}, encoder)


@dataclass(frozen=True)
class ModelSpec:
    """Names a target, its drafts and a backend. It can be sent to another process."""

    target: str  # a size or a folder
    drafts: tuple = ()  # of sizes, folders, names of HEADS, or NGRAM
    models_dir: str = MODELS_DIR
    weights: str = CHECKPOINT
    backend: str = "numpy"
    kernels: str = "auto"
    exact: bool = False
    dtype: str = "float32"

    def __getstate__(self):  # for pickle: MODELS_DIR stays here, each machine has its own
        return {name: value for name, value in vars(self).items() if value != MODELS_DIR}

    @property
    def sizes(self):
        """[size or folder] of the models with weights of their own, the target first."""
        return [self.target, *filter(is_size, self.drafts)]

    def load(self, choices=None, download=False):
        """Load and return LoadedModels. choices: {Config: {Weight: Kernel}}, chosen on another
        machine, or None to let the backend choose. download: whether to fetch models that are not
        there. Raises InputError if a model is not there or cannot be used.
        """
        backend = utils.get_backend(self.backend, self.kernels, self.exact, self.dtype)
        if choices:  # replace the trials of the backend

            def plan_layouts(config, dtype):
                return layout_function(config, dtype, choices[config], self.exact)

            backend = replace(backend, plan_layouts=plan_layouts)
        return load(self.target, self.drafts, self.models_dir, backend, self.weights, download)

    def fingerprints(self):
        """{size or head: SHA-256 of its files}, to compare the models of two machines; of random
        weights {size: its Config in words}. Raises InputError if a model is not there.
        """
        if self.weights == RANDOM:
            return {size: repr(utils.config_of(size, self.models_dir)) for size in self.sizes}
        folders = {size: find_folder(size, self.models_dir) for size in self.sizes}
        files = {  # {size or head: set of paths}: weights, and PARTS under all their names
            size: {*folder.glob("model*"), *(folder / name for name in chain(*PARTS))}
            for size, folder in folders.items()
        }
        for head in set(self.drafts) & set(HEADS):
            files[head] = {folders[self.target] / f"{head}.safetensors"}
        return {
            model: sha256_of(sorted(path for path in paths if path.is_file()))
            for model, paths in files.items()
        }

    def kernels_in(self, models):
        """{size: {weight: its kernel in words}} of LoadedModels, for the JSON object."""
        # standalone_model is None for heads and n-grams: no kernels are chosen for them
        drafts = {name: draft.standalone_model for name, draft in models.drafts.items()}
        by_name = {self.target: models.target} | drafts
        return {name: kernels_of(model) for name, model in by_name.items() if model}
