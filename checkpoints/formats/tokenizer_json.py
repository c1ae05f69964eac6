"""tokenizer.json, a file of the library tokenizers: a pipeline of parts. A *normalizer* changes the
text, a *pre_tokenizer* cuts it into words, the *model* has vocabulary and merges, and a
*post_processor* may put tokens around the text.
"""

from pathlib import Path

from checkpoints.files import OTHER_TOKENS, errors_about, read_json, require_unset

# of a BPE, which change its tokens
SETTINGS = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")


def read_vocabulary(path: Path) -> tuple[dict[str, int], list[tuple[str, ...]]]:
    """(vocabulary {symbol: id}, merges [(symbol, symbol)]) of a tokenizer.json, as an Encoder takes
    them. Raises ValueError if it is damaged, or if its parts would make other tokens of a text than
    an Encoder does.
    """
    values = read_json(path)
    with errors_about(path, OTHER_TOKENS):
        require_plain(values)
        vocabulary, pairs = values["model"]["vocab"], values["model"]["merges"]
        if not isinstance(vocabulary, dict):
            raise ValueError(f"its vocabulary is {str(vocabulary)[:50]}")
        # a merge is written "a b" or ["a", "b"]
        merges = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in pairs]
        return vocabulary, merges


def require_plain(values: dict) -> None:
    """Raise ValueError, which names the part, unless the pipeline in the values of a tokenizer.json
    is GPT-2's: byte-level BPE, no normalizer, words cut by its pattern, no tokens around a text.
    """
    if values["model"].get("type", "BPE") != "BPE":
        raise ValueError("its model is not GPT-2's")
    require_unset(values["model"], *SETTINGS)
    if parts_of(values.get("normalizer")):
        raise ValueError("its normalizer is not GPT-2's")
    require_words(parts_of(values.get("pre_tokenizer")))
    if not all(map(adds_nothing, parts_of(values.get("post_processor")))):
        raise ValueError("its post_processor is not GPT-2's")


def require_words(pre_tokenizer: list[dict]) -> None:
    """Raise ValueError unless the parts of a pre_tokenizer cut words as GPT-2 does: one ByteLevel,
    with its pattern, which puts no space before a text.
    """
    types = [part.get("type") for part in pre_tokenizer]
    if types != ["ByteLevel"] or not pre_tokenizer[0].get("use_regex", True):
        raise ValueError("its pre_tokenizer is not GPT-2's")
    require_unset(pre_tokenizer[0], "add_prefix_space")


def parts_of(part: dict | None) -> list[dict]:
    """The parts of which one part of the pipeline consists; a Sequence may hold Sequences.

    >>> parts_of(None), parts_of({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}]})
    ([], [{'type': 'ByteLevel'}])
    """
    if not part:
        return []
    if part.get("type") != "Sequence":
        return [part]
    # the only other entry: pretokenizers, normalizers or processors
    (parts,) = (parts for name, parts in part.items() if name != "type")
    return [inner for one in parts for inner in parts_of(one)]


def adds_nothing(post_processor: dict) -> bool:
    """Whether a post_processor puts no token around a text: a ByteLevel, or a TemplateProcessing of
    which "single", the template for one text, names none.
    """
    if post_processor["type"] == "ByteLevel":
        return True
    return "single" in post_processor and "SpecialToken" not in str(post_processor["single"])
