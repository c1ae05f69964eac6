"""The pairs that a command compares, a target with each of its drafts: from checkpoints, or of the
same shapes with random weights.
"""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import utils
from checkpoints.files import sha256_of
from checkpoints.folder import PARTS
from checkpoints.search import locate
from encoder import Encoder
from experiments.drafting.stored import HEADS, load_head
from gpt2 import Model
from utils import SIZES, InputError

NGRAM = "ngram"  # in place of a draft model: drafts are looked up in the text itself
CHECKPOINT, RANDOM = "checkpoint", "random"  # where weights come from


@dataclass(frozen=True)
class Pairs:
    """A target with each of its drafts, {size: Model, head of the target or NGRAM}; encoder turns
    prompts into ids.
    """

    target: Model
    drafts: dict
    encoder: Encoder


class AnyTokens:
    """Turns prompts into ids for a model with random weights, to which all ids mean the same."""

    def __init__(self, encoder, n_vocab):
        self.encoder, self.n_vocab = encoder, n_vocab

    def encode(self, text):
        return [i % self.n_vocab for i in self.encoder.encode(text)]


def config_of(size, models_dir):
    """The shape of a size, or of a folder that holds at least a config.json. Raises InputError."""
    if size in SIZES:
        return SIZES[size]
    folder = locate(size, models_dir)
    if folder is None:
        raise InputError(
            f"--weights random: no shape {size!r}; "
            f"expected {', '.join(SIZES)}, or a folder with a config.json"
        )
    return utils.read_config(folder)


def random_model(size, models_dir, arrays, seed=0):
    """A Model of a size's shape with random weights. Raises InputError."""
    return utils.random_model(config_of(size, models_dir), arrays, seed=seed)


def load_one(size, models_dir, weights, arrays):
    """One Model by size or folder, of these weights. Raises InputError."""
    if weights == RANDOM:
        return random_model(size, models_dir, arrays)
    return utils.load_model(utils.find_folder(size, models_dir), arrays)


def load_draft(size, models_dir, arrays, vocabulary, other):
    """A draft by size or folder: a Model or NGRAM. Raises InputError if its tokenizer has another
    vocabulary, (fingerprint, number of tokens), than that of `other`.
    """
    if size == NGRAM:
        return NGRAM
    if size in HEADS:
        raise InputError(f"--draft_model_size {size}: a head needs to see its target, not a log")
    folder = utils.find_folder(size, models_dir)
    encoder = utils.load_encoder(folder)
    if (encoder.fingerprint, encoder.n_vocab) != vocabulary:
        raise InputError(f"draft {size} and {other} have different vocabularies: they cannot pair")
    utils.require_vocabulary(folder, utils.read_config(folder), encoder)
    return utils.load_model(folder, arrays)


def load_pairs(target_size, draft_sizes, models_dir, weights, arrays):
    """The Pairs of these sizes or folders. Raises InputError, before any weight is read, for a
    draft that cannot pair with the target.
    """
    if weights == RANDOM:
        return random_pairs(target_size, draft_sizes, models_dir, arrays)
    sizes = [size for size in draft_sizes if size != NGRAM and size not in HEADS]
    (target, *models), encoder = utils.load_models([target_size, *sizes], models_dir, arrays)
    found = dict(zip(sizes, models)) | {NGRAM: NGRAM}
    for size in draft_sizes:
        if size in HEADS:
            found[size] = load_head(size, utils.find_folder(target_size, models_dir), target)
    return Pairs(target, {size: found[size] for size in draft_sizes}, encoder)


def random_pairs(target_size, draft_sizes, models_dir, arrays):
    """The same with random weights; the embedded tokenizer cuts the prompts."""
    heads = [size for size in draft_sizes if size in HEADS]
    if heads:
        raise InputError(
            f"--draft_model_size {heads[0]} with --weights random: expected a size, a folder or "
            f"{NGRAM}, as a head grows on a trained target"
        )
    configs = {
        size: config_of(size, models_dir) for size in (target_size, *draft_sizes) if size != NGRAM
    }
    n_vocab = configs[target_size].n_vocab
    for size, config in configs.items():
        if config.n_vocab != n_vocab:
            raise InputError(
                f"draft {size} has {config.n_vocab} tokens, target {target_size} {n_vocab}: "
                "they cannot pair"
            )
    drafts = {}
    for seed, size in enumerate(draft_sizes, 1):
        drafts[size] = NGRAM
        if size != NGRAM:
            drafts[size] = utils.random_model(configs[size], arrays, seed=seed)
    target = utils.random_model(configs[target_size], arrays)
    return Pairs(target, drafts, embedded_encoder(n_vocab))


def fingerprints(target_size, draft_sizes, models_dir, weights=CHECKPOINT):
    """{model: SHA-256 of its files} of the models that load_pairs would load, for two runs or two
    machines to compare. A file that is missing is left out: loading says so. Raises InputError.
    """
    sizes = [target_size, *(size for size in draft_sizes if size not in (NGRAM, *HEADS))]
    if weights == RANDOM:
        return {size: repr(config_of(size, models_dir)) for size in sizes}
    folders = {size: utils.find_folder(size, models_dir) for size in sizes}
    files = {
        size: {*folder.glob("model*"), *(folder / name for name in chain(*PARTS))}
        for size, folder in folders.items()
    }
    for head in {*draft_sizes} & {*HEADS}:
        files[head] = {folders[target_size] / f"{head}.safetensors"}
    return {
        model: sha256_of(sorted(path for path in paths if path.is_file()))
        for model, paths in files.items()
    }


def embedded_encoder(n_vocab):
    """The tokenizer of the embedded models, for a model with random weights."""
    folder = Path(utils.__file__).resolve().parent / "models" / "17M"
    return AnyTokens(utils.load_encoder(folder), n_vocab)
