"""Models with random weights: their texts mean nothing, but their times are real."""

from pathlib import Path

from backends.backend import Backend
from checkpoints.folder import CONFIGS, read_config
from checkpoints.registry import SIZES
from checkpoints.search import locate
from checkpoints.tokenizer import load_encoder
from gpt2 import Config, Model
from utils import build_model, random_weights, require_memory

INCLUDED = Path(__file__).resolve().parents[1] / "models" / "17M"  # wherever the user keeps models


def random_models(
    names: list[str], models_dir: str, backend: Backend
) -> tuple[list[Model], "AnyTokens"]:
    """Make a target, then its drafts, with random weights in the shapes of these sizes or folders,
    and an encoder. Raises ValueError for another name, or if memory does not suffice.
    """
    configs = [config_of(name, models_dir) for name in names]
    require_memory(configs)
    reads = [random_weights(config, seed=seed) for seed, config in enumerate(configs)]
    models = [build_model(*of, backend) for of in zip(configs, reads)]
    return models, AnyTokens(configs[0].n_vocab)


def config_of(name: str, models_dir: str) -> Config:
    """The Config of a size or of a folder. Raises ValueError for any other name."""
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
        self.encoder = load_encoder(INCLUDED)
        self.n_vocab, self.end_of_text = n_vocab, None

    def encode(self, text: str) -> list[int]:
        """Encode a text to ids below n_vocab."""
        return [i % self.n_vocab for i in self.encoder.encode(text)]
