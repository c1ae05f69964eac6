"""From names to models: a target, its drafts and their encoder."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import utils
from checkpoints.files import sha256_of
from checkpoints.folder import PARTS
from experiments.drafting.drafts import Draft, HeadDraft, ModelDraft, NGrams
from experiments.drafting.stored import HEADS, load_head
from gpt2 import Model
from utils import InputError

NGRAM = "ngram"  # what --draft_model_size calls the look-up of n-grams
CHECKPOINT, RANDOM = "checkpoint", "random"  # where weights come from


@dataclass(frozen=True)
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
            f"{NGRAM}, as a head grows on a trained target"
        )
    sizes = [name for name in drafts if is_size(name)]
    (model, *smaller), encoder = utils.load_models(
        [target, *sizes], models_dir, backend, weights, download
    )
    found = {NGRAM: NGrams()} | {name: ModelDraft(one) for name, one in zip(sizes, smaller)}
    for name in heads:
        folder = utils.find_folder(target, models_dir)
        found[name] = HeadDraft(load_head(name, folder, model))
    return Pairs(model, {name: found[name] for name in drafts}, encoder)


def fingerprints(target, drafts, models_dir, weights=CHECKPOINT):
    """{model: SHA-256 of its files} of the models that `load` would load, for two runs or two
    machines to compare. A file that is missing is left out: loading says so. Raises InputError.
    """
    sizes = [target, *filter(is_size, drafts)]
    if weights == RANDOM:
        return {size: repr(utils.config_of(size, models_dir)) for size in sizes}
    folders = {size: utils.find_folder(size, models_dir) for size in sizes}
    files = {
        size: {*folder.glob("model*"), *(folder / name for name in chain(*PARTS))}
        for size, folder in folders.items()
    }
    for head in {*drafts} & {*HEADS}:
        files[head] = {folders[target] / f"{head}.safetensors"}
    return {
        model: sha256_of(sorted(path for path in paths if path.is_file()))
        for model, paths in files.items()
    }
