"""Reads the tokenizer of a checkpoint folder as an Encoder: tokenizer.json, else vocab.json and
merges.txt, or OpenAI's encoder.json and vocab.bpe. ValueError is raised for what is damaged or of
another model, and for settings that would make other ids of a prompt than an Encoder does.
"""

import math
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from checkpoints.files import read_json
from checkpoints.folder import tokenizer_files
from encoder import Encoder
from gpt2 import Config

MAX_PADDING = 1024  # rows of an embedding that are of no token; more are of another model

Merges = list[tuple[str, ...]]


def load_encoder(folder: Path) -> Encoder:
    """Read the tokenizer of a folder. A text ends at the eos_token_id of generation_config.json,
    else at that of config.json, else at <|endoftext|>.
    """
    try:
        vocabulary, merges, added = read_tokenizer(folder)
        return Encoder(vocabulary, merges, end_ids(folder, len(vocabulary) + len(added)), added)
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"its tokenizer is damaged ({error!r})"
    except ValueError as error:
        if str(error).startswith(str(folder)):
            raise
        reason = str(error)
    raise ValueError(f"{tokenizer_files(folder)[-1]}: {reason}; expected files of one tokenizer")


def read_tokenizer(folder: Path) -> tuple[dict[str, int], Merges, dict[str, int]]:
    """Read (vocabulary, merges, added tokens) of a folder, as an Encoder takes them. Added tokens
    without a row in the model are left out with a warning.
    """
    path, *others = tokenizer_files(folder)
    vocabulary, tokens = read_json(path), read_added_tokens(folder)
    if others:
        merges = read_merges(others[0])
    else:
        require_plain(path, vocabulary)
        tokens += vocabulary.get("added_tokens") or []
        pairs = vocabulary["model"]["merges"]
        merges = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in pairs]
        vocabulary = vocabulary["model"]["vocab"]
    if len(vocabulary) - len(merges) > 256 + MAX_PADDING:
        raise ValueError(f"{len(merges)} merges cannot make {len(vocabulary)} tokens")
    added = {}
    n_rows = read_json(folder / "config.json", optional=True).get("vocab_size") or math.inf
    for token in tokens:
        text = token["content"]
        if not text or text in vocabulary:
            continue
        require_unset(path, token, ("lstrip", "rstrip", "single_word"))
        if token["id"] < n_rows:
            added[text] = token["id"]
        else:
            warnings.warn(f"{folder}: its model has no row for the token {text!r}, left out")
    return vocabulary, merges, added


def read_added_tokens(folder: Path) -> list[dict]:
    """The tokens that a folder adds beside its vocabulary: [{"content", "id", flags}]. Raises
    ValueError for a setting that would change every prompt.
    """
    path = folder / "tokenizer_config.json"
    settings = read_json(path, optional=True)
    names = ("add_prefix_space", "add_bos_token", "add_eos_token", "do_lower_case")
    require_unset(path, settings, names)
    tokens = [t | {"id": int(i)} for i, t in settings.get("added_tokens_decoder", {}).items()]
    texts = read_json(folder / "added_tokens.json", optional=True)
    return tokens + [{"content": text, "id": i} for text, i in texts.items()]


def require_plain(path: Path, values: dict):
    """Raise ValueError unless a tokenizer.json is byte-level BPE, cuts words as GPT-2 does, and
    changes nothing else.
    """
    model, before = values["model"], values.get("pre_tokenizer") or {}
    after = values.get("post_processor") or {"type": "ByteLevel"}
    plain = {
        "model": model.get("type", "BPE") == "BPE",
        "normalizer": values.get("normalizer") in (None, {"type": "Sequence", "normalizers": []}),
        "pre_tokenizer": before.get("type") == "ByteLevel" and before.get("use_regex", True),
        "post_processor": after["type"] == "ByteLevel"
        or "SpecialToken" not in str(after.get("single", "SpecialToken")),
    }
    if wrong := [name for name, is_plain in plain.items() if not is_plain]:
        raise ValueError(f"{path}: its {wrong[0]} makes other tokens of a text than GPT-2's")
    require_unset(path, before, ("add_prefix_space",))
    names = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
    require_unset(path, model, names)


def require_unset(path: Path, values: dict, names: Iterable[str]):
    """Raise ValueError if one of these settings is on, with which a prompt has other tokens."""
    for name in names:
        if values.get(name):
            raise ValueError(
                f"{path}: {name} is {values[name]!r}, which makes other tokens of a prompt than "
                "GPT-2's; set it to false to do without"
            )


def end_ids(folder: Path, n_vocab: int) -> list[int] | None:
    """The ids that end a text, as the folder states them; None if it does not."""
    for name in ("generation_config.json", "config.json"):
        stated = read_json(folder / name, optional=True).get("eos_token_id")
        ids = stated if isinstance(stated, list) else [stated]
        if ids := [i for i in ids if type(i) is int and 0 <= i < n_vocab]:
            return ids
    return None


def read_merges(path: Path) -> Merges:
    """Read a merges file: a line for each merge, of two tokens with a space between."""
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    if wrong := [pair for pair in merges if len(pair) != 2 or "" in pair]:
        raise ValueError(f"{' '.join(wrong[0])!r} is no merge of two tokens")
    return merges


def fit_vocabulary(folder: Path, config: Config, encoder: Encoder) -> Config:
    """The Config with as many tokens as the encoder has: rows of the embedding behind them are
    padding. Raises ValueError if the two cannot be of one model.
    """
    if not 0 <= config.n_vocab - encoder.n_vocab < MAX_PADDING:
        counts = f"the model has {config.n_vocab} tokens, its vocabulary {encoder.n_vocab}"
        raise ValueError(f"{folder}: {counts}; use the files of one model")
    return replace(config, n_vocab=encoder.n_vocab)
