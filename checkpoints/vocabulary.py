"""The vocabulary and the merges of a checkpoint folder, which make an Encoder."""

from checkpoints.errors import InputError
from checkpoints.files import first_of, read_json
from encoder import Encoder


def load_encoder(folder):
    """The Encoder of a checkpoint folder. Raises InputError for files that are missing or do not
    belong together.
    """
    vocabulary = read_json(first_of(folder, "vocab.json", "encoder.json"))
    path = first_of(folder, "merges.txt", "vocab.bpe")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        merges = [
            tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")
        ]
        return Encoder(vocabulary, merges)
    except ValueError as error:
        raise InputError(
            f"{path}: {error}; expected the vocabulary and merges of one tokenizer"
        ) from None


def require_vocabulary(folder, config, encoder):
    """Raises InputError if a model and the vocabulary beside it do not have as many tokens."""
    if config.n_vocab != encoder.n_vocab:
        found = f"the model has {config.n_vocab} tokens, its vocabulary {encoder.n_vocab}"
        raise InputError(f"{folder}: {found}; use the files of one model")
