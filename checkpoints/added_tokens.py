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
    listed = [token for name in names for token in listed_tokens(folder / name)]
    known = [token for token in listed if token["content"] in vocabulary]
    new = [token for token in listed if token["content"] not in vocabulary and "id" in token]
    config = read_json(folder / "config.json", optional=True)
    n_rows = config.get("vocab_size") or config.get("n_vocab") or math.inf
    return tokens_in(vocabulary, known, folder) | new_tokens(new, n_rows, folder)


def listed_tokens(path: Path) -> list[dict]:
    """The tokens that a file lists, which may be missing: {"content": text, "file": path}, with an
    "id" unless only the text is named, and flags. Raises ValueError for a token that is no text.

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
        if wrong := [token for token in tokens if type(token["content"]) is not str]:
            raise ValueError(f"the token {wrong[0]['content']!r} is no text")
        return [token | {"file": path} for token in tokens if token["content"]]


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


def tokens_in(vocabulary: dict[str, int], tokens: list[dict], folder: Path) -> dict[str, int]:
    """Those of the listed tokens that are found whole, with the vocabulary's ids. Warns of those
    that take spaces around them: they are text like any other.
    """
    takes_spaces = {token["content"]: any(map(token.get, SPACES)) for token in tokens}
    if plain := [text for text, takes in takes_spaces.items() if takes]:
        warnings.warn(f"{folder}: in a prompt, {several(plain)} is text like any other")
    return {text: vocabulary[text] for text, takes in takes_spaces.items() if not takes}


def new_tokens(tokens: list[dict], n_rows: float, folder: Path) -> dict[str, int]:
    """Those of the listed tokens that have one of the n_rows rows of the model, {text: id}. Warns
    of the others. Raises ValueError for one that takes spaces around it, and for a wrong id.
    """
    ids: dict[str, int] = {}
    for token in tokens:
        text, i = token["content"], token["id"]
        with errors_about(token["file"], OTHER_TOKENS):
            require_unset(token, *SPACES)
            if type(i) is not int or i < 0:
                raise ValueError(f"the token {text!r} has the id {i!r}")
        ids[text] = i
    if lost := [text for text, i in ids.items() if i >= n_rows]:
        warnings.warn(f"{folder}: its model has no row for {several(lost)}, left out")
    return {text: i for text, i in ids.items() if i < n_rows}


def several(texts: list[str]) -> str:
    """What to call tokens, in one line however many.

    >>> several(["<a>"]), several(["<a>", "<b>", "<c>"])
    ("the token '<a>'", "the token '<a>' (and 2 more)")
    """
    others = f" (and {len(texts) - 1:,} more)" if len(texts) > 1 else ""
    return f"the token {texts[0]!r}{others}"
