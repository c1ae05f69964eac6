"""Reads the tokenizer of a checkpoint folder as an Encoder: tokenizer.json, else vocab.json and
merges.txt, or OpenAI's encoder.json and vocab.bpe. ValueError is raised for what is damaged or of
another model, and for settings that would make other ids of a prompt than an Encoder does.
"""

import math
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from checkpoints.files import blame, read_json
from checkpoints.folder import tokenizer_files
from encoder import Encoder
from gpt2 import Config

MAX_PADDING = 1024  # rows of an embedding that are of no token; more are of another model
OTHER = "prompts would have other tokens than GPT-2's"
# the classes of transformers that do what these files say
CLASSES = ("GPT2Tokenizer", "GPT2TokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend")
ADDED = {  # {file: function (its JSON) -> the tokens it adds, each {"content", "id", flags}}
    "tokenizer_config.json": lambda values: [
        token | {"id": int(i)} for i, token in values.get("added_tokens_decoder", {}).items()
    ],
    "added_tokens.json": lambda values: [{"content": t, "id": i} for t, i in values.items()],
    "tokenizer.json": lambda values: values.get("added_tokens") or [],
}

Merges = list[tuple[str, ...]]


def load_encoder(folder: Path) -> Encoder:
    """Read the tokenizer of a folder. A text ends at the eos_token_id of generation_config.json,
    else at that of config.json, else at <|endoftext|>. Raises ValueError if merges are missing.
    """
    vocabulary, merges, added = read_tokenizer(folder)
    ends = end_ids(folder, len(vocabulary) + len(added))
    with blame(folder, "expected files of one tokenizer"):
        if len(vocabulary) - len(merges) > 256 + MAX_PADDING:
            raise ValueError(f"{len(merges)} merges cannot make {len(vocabulary)} tokens")
        made = {"Ġ", *("".join(pair) for pair in merges)}
        if lost := [x for x in vocabulary if x.startswith("Ġ") and x not in made]:  # of a cut file
            raise ValueError(f"no merge makes {lost[0]!r}: merges are missing")
        return Encoder(vocabulary, merges, ends, added)


def read_tokenizer(folder: Path) -> tuple[dict[str, int], Merges, dict[str, int]]:
    """Read (vocabulary, merges, added tokens) of a folder, as an Encoder takes them."""
    for name in ("config.json", "tokenizer_config.json"):
        settings = read_json(folder / name, optional=True)
        with blame(folder / name, OTHER):
            require_unset(settings, ("add_prefix_space", "add_bos_token", "add_eos_token"))
            if settings.get("tokenizer_class") not in (None, *CLASSES):
                raise ValueError(f"tokenizer_class is {settings['tokenizer_class']!r}")
    path, *others = tokenizer_files(folder)
    vocabulary = read_json(path)
    if others:
        merges = read_merges(others[0])
    else:
        with blame(path, OTHER):
            require_plain(vocabulary)
            pairs = vocabulary["model"]["merges"]
            merges = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in pairs]
            vocabulary = vocabulary["model"]["vocab"]
            if not isinstance(vocabulary, dict):
                raise ValueError(f"its vocabulary is {str(vocabulary)[:50]}")
    return vocabulary, merges, read_added_tokens(folder, vocabulary)


def require_plain(values: dict):
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
        raise ValueError(f"its {wrong[0]} is not GPT-2's")
    require_unset(before, ("add_prefix_space",))
    names = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
    require_unset(model, names)


def require_unset(values: dict, names: Iterable[str]):
    """Raise ValueError if one of these settings is on."""
    for name in names:
        if values.get(name):
            raise ValueError(f"{name} is {values[name]!r}, not false")


def read_added_tokens(folder: Path, vocabulary: dict[str, int]) -> dict[str, int]:
    """The tokens {text: id} that a folder adds to its vocabulary. Those without a row in the model
    are left out with a warning.
    """
    n_rows = read_json(folder / "config.json", optional=True).get("vocab_size") or math.inf
    added = {}
    for name, tokens_of in ADDED.items():
        values = read_json(folder / name, optional=True)
        with blame(folder / name, OTHER):
            for token in tokens_of(values):
                text, i = token["content"], token["id"]
                if not text or text in vocabulary:
                    continue
                require_unset(token, ("lstrip", "rstrip", "single_word"))
                if type(text) is not str or type(i) is not int or i < 0:
                    raise ValueError(f"the token {text!r} has the id {i!r}")
                if i < n_rows:
                    added[text] = i
                else:
                    warnings.warn(
                        f"{folder}: its model has no row for the token {text!r}, left out"
                    )
    return added


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
    with blame(path):
        lines = path.read_text(encoding="utf-8-sig").split("\n")
        merges = [tuple(x.split(" ")) for x in lines if x and not x.startswith("#version")]
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
