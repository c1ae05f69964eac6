"""Tokens that a folder lists besides its vocabulary, such as <|user|>: they are found in a prompt
before it is cut into words, as by transformers. The vocabulary may have them, too.
"""

import math
import warnings
from pathlib import Path

from checkpoints.files import OTHER_TOKENS, errors_about, read_json, require_unset
from checkpoints.folder import LISTS

SPACES = ("lstrip", "rstrip", "single_word")  # flags of a token that depends on what is around it


def read_added_tokens(folder: Path, vocabulary: dict[str, int]) -> dict[str, int]:
    """The tokens {text: id} that the files of LISTS in a folder name, such as <|user|>, whether its
    vocabulary has them or not.

    Left out with a warning are tokens of the vocabulary that take spaces around them, which are
    then text like any other, and new tokens with ids behind the rows of the model, which
    config.json counts. Raises ValueError for a damaged file, and for a new token that takes spaces
    around it or has no right text or id.
    """
    tokens = all_listed(folder, vocabulary)
    config = read_json(folder / "config.json", optional=True)
    n_rows = config.get("vocab_size") or config.get("n_vocab") or math.inf
    spaced = [text for text, token in tokens.items() if any(map(token.get, SPACES))]
    if spaced:
        warnings.warn(f"{folder}: in a prompt, these tokens are text: {' '.join(spaced)[:80]}")
    new = sorted(tokens.keys() - vocabulary)
    rowless = [text for text in new if tokens[text]["id"] >= n_rows]
    if rowless:
        shown = " ".join(rowless)[:80]
        warnings.warn(f"{folder}: its model has no row for these tokens, left out: {shown}")
    left_out = {*spaced, *rowless}
    return {text: token["id"] for text, token in tokens.items() if text not in left_out}


def all_listed(folder: Path, vocabulary: dict[str, int]) -> dict[str, dict]:
    """{text: token} of the tokens in the files of LISTS, which may be missing. A token has the id
    of the vocabulary, else that in the last of the files; one that nothing gives an id is left out.

    Raises ValueError for a damaged file, and for a token outside the vocabulary that takes spaces
    around it or has no right text or id.
    """
    tokens: dict[str, dict] = {}
    for path in (folder / name for name in LISTS):
        values = read_json(path, optional=True)
        with errors_about(path, OTHER_TOKENS):
            for token in listed_tokens(path.name, values):
                text = token["content"]
                if text in vocabulary:
                    tokens[text] = token | {"id": vocabulary[text]}
                elif "id" in token:
                    require_new(token)
                    tokens[text] = token
    return tokens


def listed_tokens(name: str, values: dict) -> list[dict]:
    """The tokens that the JSON object in a file of this name lists: [{"content": text, and what it
    says of "id" and flags}]; empty texts are left out. Raises any error for an object of another
    shape.

    A tokenizer_config.json may have {"pad_token": "<pad>"} and {"added_tokens_decoder": {"7":
    {"content": "<pad>"}}}, an added_tokens.json {"<pad>": 7}.
    """
    if name == "tokenizer.json":
        tokens = values.get("added_tokens") or []
    elif name == "added_tokens.json":
        tokens = [{"content": text, "id": i} for text, i in values.items()]
    else:
        decoder = values.get("added_tokens_decoder", {})
        tokens = named_tokens(values) + [t | {"id": int(i)} for i, t in decoder.items()]
    return [token for token in tokens if token["content"]]


def require_new(token: dict) -> None:
    """Raise ValueError for a token besides the vocabulary whose "content" is no text, which takes
    spaces around it, or whose "id" is no whole number from 0 on.
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
    return [token for token in tokens if isinstance(token, dict)]  # add_bos_token ends so too
