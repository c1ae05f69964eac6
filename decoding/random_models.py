"""Models with random weights: their texts mean nothing, but their times are real."""

import re

import backends.before_numpy  # noqa: F401, isort: skip: BLAS kernels and threads, before NumPy

import numpy as np

from backends.backend import Backend
from checkpoints.folder import CONFIGS, read_config
from checkpoints.registry import INCLUDED, SIZES
from checkpoints.search import locate
from checkpoints.tokenizer import load_encoder
from gpt2 import Config, Model
from utils import Read, build_model, require_memory


def random_weights(config: Config, dtype=np.float32, seed: int = 0, scale: float = 0.02) -> Read:
    """A function read(name) -> array, for build_model: new weights of a normal distribution at each
    call, with 1 added to the gains of a layer norm.

    config: has their names and shapes
    dtype: of the arrays
    seed: of the random numbers; scale: their standard deviation
    """
    rng = np.random.default_rng(seed)
    shapes = config.shapes()

    def read(name):
        noise = scale * rng.standard_normal(shapes[name], dtype=dtype)
        if re.search(r"ln_\w+\.weight", name):  # a gain
            noise += 1
        return noise

    return read


def random_model(
    config: Config, backend: Backend, dtype=np.float32, seed: int = 0, scale: float = 0.02
) -> Model:
    """Build a Model with random weights, of a standard deviation of `scale`. Raises ValueError if
    memory does not suffice. dtype: of the weights; seed: of the random numbers
    """
    require_memory([config])
    return build_model(config, random_weights(config, dtype, seed, scale), backend)


def random_models(
    names: list[str], models_dir: str, backend: Backend
) -> tuple[list[Model], "AnyTokens"]:
    """Make models with random weights: (the target and its drafts, in the order of their names; an
    encoder for the target's vocabulary). Raises ValueError for a name of no shape, or if memory
    does not suffice.

    names: each of OpenAI's SIZES, such as "124M", or of a folder, which may be in models_dir
    """
    configs = [config_of(name, models_dir) for name in names]
    require_memory(configs)  # of all together
    models = [random_model(config, backend, seed=seed) for seed, config in enumerate(configs)]
    return models, AnyTokens(configs[0].n_vocab)  # the target's


def config_of(name: str, models_dir: str) -> Config:
    """The Config of a model: of a folder, or of its name in models_dir, if there is a config file;
    else of one of OpenAI's SIZES, such as "124M". Raises ValueError for any other name.
    """
    folder = locate(name, models_dir)
    has_config = folder and any((folder / file).is_file() for file in CONFIGS)
    if name in SIZES and not has_config:  # a folder may be what a download left
        return SIZES[name]
    if folder is None:
        expected = f"{', '.join(SIZES)}, or a folder with a config.json"
        raise ValueError(f"no shape {name!r} for random weights: expected {expected}")
    return read_config(folder)


class AnyTokens:
    """An encoder for any vocabulary: the included tokenizer's ids modulo n_vocab."""

    def __init__(self, n_vocab: int):
        self.encoder = load_encoder(INCLUDED / "17M")
        self.n_vocab, self.end_of_text = n_vocab, None

    def encode(self, text: str) -> list[int]:
        """The ids of a text, all below n_vocab; they do not tell the text any more."""
        return [i % self.n_vocab for i in self.encoder.encode(text)]
