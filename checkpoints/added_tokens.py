"""Tokens that a folder lists besides its vocabulary, such as <|user|>: they are found in a prompt
before it is cut into words, as by transformers. The vocabulary may have them, too.
"""

import math
import warnings
from collections.abc import Iterable
from pathlib import Path

from checkpoints.files import OTHER_TOKENS, errors_about, read_json, require_unset

SPACES = ("lstrip", "rstrip", "single_word")  # flags of a token that depends on what is around it


def read_added_tokens(
    folder: Path, names: Iterable[str], vocabulary: dict[str, int]
) -> dict[str, int]:
    """The tokens {text: id} that files of these names list, each with the id that the vocabulary
    gives it, else the last of the files.

    Warns of those it leaves out: tokens without a row in the model, and tokens of the vocabulary
    that take spaces around them. Raises ValueError for other tokens that do, and for a wrong id.
    """
    listed = [token for name in names for token in listed_tokens(folder / name, vocabulary)]
    tokens = {token["content"]: token for token in listed}
    config = read_json(folder / "config.json", optional=True)
    n_rows = config.get("vocab_size") or config.get("n_vocab") or math.inf
    plain = [text for text, token in tokens.items() if any(map(token.get, SPACES))]
    new = sorted(tokens.keys() - vocabulary)
    lost = [text for text in new if tokens[text]["id"] >= n_rows]
    if plain:
        warnings.warn(f"{folder}: in a prompt, these tokens are text: {' '.join(plain)[:80]}")
    if lost:
        shown = " ".join(lost)[:80]
        warnings.warn(f"{folder}: its model has no row for these tokens, left out: {shown}")
    found = tokens.keys() - {*plain, *lost}
    return {text: token["id"] for text, token in tokens.items() if text in found}


def listed_tokens(path: Path, vocabulary: dict[str, int]) -> list[dict]:
    """The tokens that a file lists, which may be missing: {"content": text, "id": that of the
    vocabulary, else the file's, and flags}. Those without an id are left out. Raises ValueError for
    what require_new refuses.

    A tokenizer_config.json may have {"pad_token": "<pad>"} and {"added_tokens_decoder": {"7":
    {"content": "<pad>"}}}, an added_tokens.json {"<pad>": 7}.
    """
    values = read_json(path, optional=True)
    with errors_about(path, OTHER_TOKENS):
        if path.name == "tokenizer.json":
            tokens = values.get("added_tokens") or []
        elif path.name == "added_tokens.json":
            tokens = [{"content": text, "id": i} for text, i in values.items()]
        else:
            decoder = values.get("added_tokens_decoder", {})
            tokens = named_tokens(values) + [t | {"id": int(i)} for i, t in decoder.items()]
        tokens = [token for token in tokens if token["content"]]
        known = [t | {"id": vocabulary[t["content"]]} for t in tokens if t["content"] in vocabulary]
        new = [t for t in tokens if t["content"] not in vocabulary and "id" in t]
        for token in new:
            require_new(token)
        return known + new


def require_new(token: dict) -> None:
    """Raise ValueError for a token besides the vocabulary that is no text, takes spaces around it,
    or has an id that is no whole number from 0 on.
    """
    text, i = token["content"], token["id"]
    require_unset(token, *SPACES)
    if type(text) is not str or type(i) is not int or i < 0:
        raise ValueError(f"the token {text!r} has the id {i!r}")


def named_tokens(settings: dict) -> list[dict]:
    """The tokens that settings name, such as {"pad_token": "<pad>"} or {"pad_token": {"content":
    "<pad>", "lstrip": True}}: [{"content": text, and flags}].
    """
    named = [value for name, value in settings.items() if name.endswith("_token")]
    for name in ("additional_special_tokens", "extra_special_tokens"):
        more = settings.get(name) or []
        named += more.values() if isinstance(more, dict) else more
    tokens = [{"content": value} if isinstance(value, str) else value for value in named]
    return [token for token in tokens if isinstance(token, dict)]  # add_bos_token is false
