"""Reads the vocabulary and the merges of a checkpoint folder as an Encoder.

Files that are missing, cut off or do not belong together raise InputError.
"""

import re

from checkpoints.errors import InputError
from checkpoints.files import first_of, read_json
from encoder import END_OF_TEXT, Encoder, byte_symbols

# Special tokens, which no merge makes: <name>, with or without | inside, and [name]
BRACKETS = re.compile(r"<[^<>]+>|\[[^\[\]]+\]")


def load_encoder(folder):
    """Read the tokenizer of a folder, a Path, as an Encoder. Raises InputError if it is damaged."""
    vocabulary = read_json(first_of(folder, "vocab.json", "encoder.json"))
    path = first_of(folder, "merges.txt", "vocab.bpe")
    merges = read_merges(path)
    # ends a text if the vocabulary has no <|endoftext|>
    end = read_json(folder / "config.json", optional=True).get("eos_token_id")
    is_token = type(end) is int and 0 <= end < len(vocabulary)
    try:
        ends = [end] if is_token and END_OF_TEXT not in vocabulary else None
        encoder = Encoder(vocabulary, merges, ends)
    except ValueError as error:
        raise InputError(
            f"{path}: {error}; expected the vocabulary and merges of one tokenizer"
        ) from None
    require_all_merges(path, vocabulary, merges)
    return encoder


def read_merges(path):
    """Read a merges file: [(left, right)], the two tokens of each merge. Raises InputError, with
    the line that is wrong.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except ValueError as error:
        raise InputError(f"{path}: is not UTF-8 ({error}); fetch it again") from None
    merges = []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#version"):
            continue
        left, _, right = line.partition(" ")
        if not (left and right) or " " in right:
            raise InputError(
                f"{path}, line {number}: {line!r}: expected two tokens with a space between; "
                "fetch it again"
            )
        merges.append((left, right))
    return merges


def require_all_merges(path, vocabulary, merges):
    """Raise InputError if the merges, [(left, right)], lack one that made a token of the
    vocabulary, {token: id}; the file of merges at `path` may be cut off.

    Without that merge, texts would be encoded as other tokens than the model was trained with. If
    all 256 bytes are tokens, every longer token was made by a merge, except special tokens.
    """
    if not byte_symbols().keys() <= vocabulary.keys():
        return
    merged = {left + right for left, right in merges}
    for token in vocabulary:
        if len(token) > 1 and token not in merged and not BRACKETS.fullmatch(token):
            raise InputError(
                f"{path}: no merge makes the token {token!r} of the vocabulary; fetch both again"
            )


def require_vocabulary(folder, config, encoder):
    """Raise InputError if the Config and the Encoder of a folder differ in their n_vocab."""
    if config.n_vocab != encoder.n_vocab:
        counts = f"the model has {config.n_vocab} tokens, its vocabulary {encoder.n_vocab}"
        raise InputError(f"{folder}: {counts}; use the files of one model")
