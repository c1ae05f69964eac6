"""Tokens that a folder lists besides its vocabulary, such as <|user|>: they are found in a prompt
before it is cut into words, as by transformers. The vocabulary may have them, too.
"""

import math
import warnings
from collections.abc import Iterable
from pathlib import Path

from checkpoints.files import OTHER_TOKENS, errors_about, read_json, require_unset
from checkpoints.folder import TOKEN_LISTS, read_number
from encoder import byte_symbols

# names of single tokens, of which special_tokens_map.json decides; and of lists of others
NAMES = {f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")}
LISTS = ("additional_special_tokens", "extra_special_tokens")
SPACE_FLAGS = ("lstrip", "rstrip", "single_word")  # of a token that depends on its surroundings


def read_added_tokens(folder: Path, vocabulary: dict[str, int]) -> dict[str, int]:
    """The tokens {text: id} that a folder lists in tokenizer.json and three other files
    (TOKEN_LISTS), such as {"<|user|>": 50258}. vocabulary: {text: id} of the folder; it may have
    them, too.

    Some are left out, with a warning. A prompt has as text, like any other, tokens that no file
    gives an id, and those to which the spaces around them would belong (SPACE_FLAGS). New ones
    whose id is not below the vocab_size of config.json have no row in the model. Raises ValueError
    for a damaged file, for a new token with an id that cannot be used (`require_usable`), for
    tokens of which only some can be found (`require_apart`), and for one of the vocabulary that is
    other text there, as "Ġthe" is " the" in byte symbols. Warns of a new one like that.
    """
    tokens = all_listed(folder, vocabulary)
    path = folder / "config.json"
    config = read_json(path, optional=True)
    n_rows = math.inf  # of the embedding
    if config:
        n_rows = read_number("n_vocab", config, path)
    kept = {}
    as_text, rowless = [], []  # texts of the tokens that are left out
    for text, token in tokens.items():
        if "id" not in token or any(token.get(flag) for flag in SPACE_FLAGS):
            as_text.append(text)
        elif text not in vocabulary and token["id"] >= n_rows:
            rowless.append(text)
        else:
            kept[text] = token["id"]
    if as_text:
        warnings.warn(f"{folder}: in a prompt, these tokens are text: {' '.join(as_text)[:80]}")
    if rowless:
        shown = " ".join(sorted(rowless))[:80]
        warnings.warn(f"{folder}: its model has no row for these tokens, left out: {shown}")
    with errors_about(folder, OTHER_TOKENS):
        require_apart({text: tokens[text] for text in kept})
        for text in kept:
            is_other = not text.isascii() and all(symbol in byte_symbols() for symbol in text)
            if text in vocabulary and is_other:
                raise ValueError(f"the token {text!r} is other text in the vocabulary")
            if is_other:  # transformers takes its letters for byte symbols
                warnings.warn(f"{folder}: transformers would show the token {text!r} otherwise")
    return kept


def all_listed(folder: Path, vocabulary: dict[str, int]) -> dict[str, dict]:
    """All tokens, {text: token}, that a folder lists in special_tokens_map.json,
    tokenizer_config.json, added_tokens.json and tokenizer.json (TOKEN_LISTS, in this order), each
    of which may be missing. A token is a dict: "content", its text, such as "<pad>"; "id"; and
    flags such as "lstrip".

    vocabulary: {text: id} of the folder. A token that it has gets its id from there; any other the
        one in the last file that lists it with an id, or else has none

    Raises ValueError, which names the file, if one is damaged; for tokens of tokenizer.json that
    are not in the "added_tokens_decoder" of tokenizer_config.json, if there is one, as programs
    differ on them, or that are out of order (`require_in_order`); and for a token with an id, but
    outside the vocabulary, that cannot be used (`require_usable`). One without an id is not
    checked: it is left out if its text is no str, else it is in the result without an "id".
    """
    files = lists_that_count(folder)
    has_whole_list = "added_tokens_decoder" in files["tokenizer_config.json"]
    tokens: dict[str, dict] = {}
    for name, values in files.items():
        with errors_about(folder / name, OTHER_TOKENS):
            listed = listed_tokens(name, values)
            if name == "tokenizer.json":
                require_in_order(listed, vocabulary)
            for token in listed:
                text = token["content"]
                if has_whole_list and name == "tokenizer.json" and text not in tokens:
                    lacking = "is not in the list of tokenizer_config.json"
                    raise ValueError(f"the token {text!r} {lacking}")
                token = merged(tokens.get(text, {}), token)
                if text in vocabulary:
                    token = token | {"id": vocabulary[text]}
                elif "id" in token:
                    require_usable(token)
                if type(text) is str:
                    text.encode()  # raises for a lone surrogate: the file is damaged
                    tokens[text] = token
    return tokens


def lists_that_count(folder: Path) -> dict[str, dict]:
    """{file name: its JSON object} of the files of TOKEN_LISTS in a folder, {} of a missing one.
    Only some count, as by transformers: an "added_tokens_decoder" in tokenizer_config.json is a
    whole list, and special_tokens_map.json and added_tokens.json are left out of the result. Else a
    "pad_token" of special_tokens_map.json replaces that of tokenizer_config.json, and so for all
    NAMES. Raises ValueError, which names the file, if one is damaged, or if other special tokens
    differ (`require_same_lists`).
    """
    files = {name: read_json(folder / name, optional=True) for name in TOKEN_LISTS}
    settings = files["tokenizer_config.json"]
    if "added_tokens_decoder" in settings:
        del files["special_tokens_map.json"], files["added_tokens.json"]
    older = files.get("special_tokens_map.json", {})
    require_same_lists(folder, settings, older)
    for name in NAMES & older.keys():
        settings.pop(name, None)
    return files


def require_same_lists(folder: Path, settings: dict, older: dict) -> None:
    """Raise ValueError, which names the file, if two lists of special tokens differ of which
    transformers takes one only: the two (LISTS) of one file, or those in `settings`, the
    tokenizer_config.json of a folder, and in `older`, its special_tokens_map.json.
    """
    found = []
    for name, values in (("tokenizer_config.json", settings), ("special_tokens_map.json", older)):
        with errors_about(folder / name, OTHER_TOKENS):
            one, other = (texts_named(values, {name}) for name in LISTS)
            if one and other and one != other:
                raise ValueError(f"its {' and '.join(LISTS)} differ")
            found.append(texts_named(values, values.keys() - NAMES))
    listed, of_older = found
    has_list = any(name in settings for name in LISTS)
    if of_older and of_older != listed and (listed or has_list):
        with errors_about(folder / "special_tokens_map.json", OTHER_TOKENS):
            raise ValueError("its special tokens are not those of tokenizer_config.json")


def texts_named(values: dict, names: Iterable[str]) -> set[str]:
    """The texts of the tokens that these names have in values, as `named_tokens` finds them."""
    return {token["content"] for token in named_tokens({name: values.get(name) for name in names})}


def merged(before: dict, token: dict) -> dict:
    """A token as a file lists it, with what an earlier file says of it, if this one does not. Where
    they disagree, a flag of SPACE_FLAGS is True, and "normalized" None. before: {} if none did.
    """
    flags = {flag: True for flag in SPACE_FLAGS if before.get(flag)}
    is_special = token.get("special", before.get("special"))
    is_normalized = token.get("normalized", not is_special)  # as by transformers
    if before.get("normalized", is_normalized) != is_normalized:
        is_normalized = None
    return before | token | flags | {"normalized": is_normalized}


def listed_tokens(name: str, values: dict) -> list[dict]:
    """The tokens that a file lists: a dict {"content": text} of each, with its "id" and flags such
    as "lstrip" if the file says them. Tokens of an empty text are left out.

    name: of the file, one of TOKEN_LISTS; values: its JSON object. Each file has a form of its own:
        tokenizer.json             {"added_tokens": [{"content": "<pad>", "id": 7}]}
        added_tokens.json          {"<pad>": 7}
        special_tokens_map.json    {"pad_token": "<pad>"}, as `named_tokens` reads it
        tokenizer_config.json      the same, and {"added_tokens_decoder": {"7": {"content":
                                   "<pad>"}}}
    Raises AttributeError, TypeError, KeyError or ValueError for an object of another form.
    """
    if name == "tokenizer.json":
        tokens = values.get("added_tokens") or []  # it may be null
    elif name == "added_tokens.json":
        tokens = [{"content": text, "id": i} for text, i in values.items()]
    else:
        tokens = named_tokens(values)
        for i, token in values.get("added_tokens_decoder", {}).items():
            tokens.append(token | {"id": int(i)})
    return [token for token in tokens if token["content"]]


def require_in_order(tokens: list[dict], vocabulary: dict[str, int]) -> None:
    """Check the tokens of a tokenizer.json, as in `listed_tokens`. Raises ValueError unless the new
    ones have, in their order, the ids behind the vocabulary: transformers gives them those.
    """
    new = [token["id"] for token in tokens if token["content"] not in vocabulary]
    n = len(vocabulary)
    if new != [*range(n, n + len(new))]:
        raise ValueError(f"its added tokens have ids other than {n}, {n + 1} and so on")


def require_usable(token: dict) -> None:
    """Check a token {"content": text, "id": id, and flags} that is not in the vocabulary. Raises
    ValueError if spaces around it in a prompt would be part of it (a flag of SPACE_FLAGS, such as
    "lstrip", is true), if its "content" is no str, or its "id" no int from 0.
    """
    text, i = token["content"], token["id"]
    require_unset(token, *SPACE_FLAGS)
    if type(text) is not str or type(i) is not int or i < 0:
        raise ValueError(f"the token {text!r} has the id {i!r}")


def require_apart(tokens: dict[str, dict]) -> None:
    """Raise ValueError if the texts of two tokens can overlap in a prompt, and only one of them is
    "normalized": transformers finds the others first, an Encoder whichever begins first. Also if
    files disagree on whether one is (None). tokens: {text: token}, as in `all_listed`.
    """
    begun: dict[str, set[str]] = {}  # {a text: the tokens that begin with it}
    for text in tokens:
        for end in range(1, len(text) + 1):
            begun.setdefault(text[:end], set()).add(text)
    for text, token in tokens.items():
        rivals: set[str] = set()
        for start in range(len(text)):
            rivals |= begun.get(text[start:], set())
            rivals |= {text[start:end] for end in range(start, len(text))} & tokens.keys()
        for rival in rivals - {text}:
            kinds = {token["normalized"], tokens[rival]["normalized"]}
            if len(kinds) == 2 or None in kinds:
                problem = "overlaps with others, only some of which are normalized"
                raise ValueError(f"the token {text!r} {problem}")


def named_tokens(settings: dict) -> list[dict]:
    """The tokens that settings, a JSON object, name: a dict {"content": text, and flags} of each,
    of a text with "special": True.

    A token is there as a text or as such a dict: as the value of a key that ends in "_token", or in
    "additional_special_tokens" or "extra_special_tokens", a list of them or {name: token}.

    >>> named_tokens({"pad_token": "<pad>", "extra_special_tokens": [{"content": "<a>"}]})
    [{'content': '<pad>', 'special': True}, {'content': '<a>'}]
    """
    values = [value for name, value in settings.items() if name.endswith("_token")]
    for name in ("additional_special_tokens", "extra_special_tokens"):
        more = settings.get(name) or []  # it may be null
        if isinstance(more, dict):
            more = more.values()
        values += more
    tokens: list[dict] = []
    for value in values:
        if isinstance(value, str):
            tokens.append({"content": value, "special": True})
        elif isinstance(value, dict):
            tokens.append(value)
        # else it is no token: that of "add_bos_token", which ends so, too, is True or False
    return tokens
