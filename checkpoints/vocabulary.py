"""The vocabulary and the merges of a checkpoint folder, which make an Encoder."""

import re
from collections import Counter

from checkpoints.errors import InputError
from checkpoints.files import first_of, read_json
from encoder import END_OF_TEXT, Encoder, byte_symbols

# Special tokens, which no merge makes: <|name|>, <name>, [name]
BRACKETS = re.compile(r"<\|[^<>]*\|>|<[^<>]+>|\[[^\[\]]+\]")


def load_encoder(folder):
    """The Encoder of a checkpoint folder. Raises InputError for files that are missing, cut off or
    do not belong together.
    """
    vocabulary = read_json(first_of(folder, "vocab.json", "encoder.json"))
    path = first_of(folder, "merges.txt", "vocab.bpe")
    merges = read_merges(path)
    try:
        encoder = Encoder(vocabulary, merges, end_token(folder, vocabulary))
    except ValueError as error:
        raise InputError(
            f"{path}: {error}; expected the vocabulary and merges of one tokenizer"
        ) from None
    require_all_merges(path, vocabulary, merges, special_tokens(folder))
    return encoder


def read_merges(path):
    """[(left, right)] of a merges file. Raises InputError for a line that is not two symbols."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise InputError(f"{path}: is not UTF-8 ({error}); fetch it again") from None
    merges = []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#version"):
            continue
        pair = tuple(line.split(" "))
        if len(pair) != 2 or "" in pair:
            raise InputError(
                f"{path}: line {number} is {line!r}; expected two symbols and a space between them"
            )
        merges.append(pair)
    return merges


def end_token(folder, vocabulary):
    """The id of the token that ends a text: that of <|endoftext|>, else eos_token_id of config.json
    where that is a token, else None.
    """
    if END_OF_TEXT in vocabulary:
        return vocabulary[END_OF_TEXT]
    path = folder / "config.json"
    value = read_json(path).get("eos_token_id") if path.is_file() else None
    return value if type(value) is int and 0 <= value < len(vocabulary) else None


def special_tokens(folder):
    """The tokens that Hugging Face's side files name as special ones."""
    found = set()
    path = folder / "added_tokens.json"  # {token: id}
    if path.is_file():
        found |= read_json(path).keys()
    path = folder / "special_tokens_map.json"  # {role: token, or {"content": token}, or a list}
    if path.is_file():
        for value in read_json(path).values():
            for token in value if isinstance(value, list) else [value]:
                found.add(str(token.get("content") if isinstance(token, dict) else token))
    return found


def require_all_merges(path, vocabulary, merges, special):
    """Raises InputError for a merges file that is not the vocabulary's: cut off, say.

    Where all 256 bytes are tokens, every longer token was made by one merge, except special tokens.
    Without a merge, its text would be encoded as other tokens than the model was trained with.
    """
    if not byte_symbols().keys() <= vocabulary.keys():
        return
    made = Counter(left + right for left, right in merges)
    for token in vocabulary:
        is_special = token in special or BRACKETS.fullmatch(token)
        if len(token) == 1 or made[token] == 1 or (is_special and not made[token]):
            continue
        raise InputError(
            f"{path}: {made[token]} merges make the token {token!r} of the vocabulary; expected "
            "one; fetch both files again"
        )


def require_vocabulary(folder, config, encoder):
    """Raises InputError if a model and the vocabulary beside it do not have as many tokens."""
    if config.n_vocab != encoder.n_vocab:
        found = f"the model has {config.n_vocab} tokens, its vocabulary {encoder.n_vocab}"
        raise InputError(f"{folder}: {found}; use the files of one model")
