"""tokenizer.json, a file of the library tokenizers: a pipeline of parts. A *normalizer* changes the
text, a *pre_tokenizer* cuts it into words, the *model* has vocabulary and merges, a
*post_processor* may put tokens around the text, and a *decoder* makes a text of tokens.
"""

from pathlib import Path

from checkpoints.files import OTHER_TOKENS, errors_about, read_json, require_unset

# of a BPE, which change its tokens
SETTINGS = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")


def read_vocabulary(path: Path) -> tuple[dict[str, int], list[tuple[str, ...]]]:
    """(vocabulary {symbol: id}, merges [(symbol, symbol)]) of a tokenizer.json, as an Encoder takes
    them. Raises ValueError if it is damaged, or if its parts would make other tokens of a text than
    an Encoder does, or another text of tokens.
    """
    values = read_json(path)
    with errors_about(path, OTHER_TOKENS):
        require_plain(values)
        vocabulary, pairs = values["model"]["vocab"], values["model"]["merges"]
        if not isinstance(vocabulary, dict):
            raise ValueError(f"its vocabulary is {str(vocabulary)[:50]}")
        merges = []
        for pair in pairs:  # "a b" or ["a", "b"]
            symbols = pair.split(" ") if isinstance(pair, str) else pair
            if len(symbols) != 2:
                raise ValueError(f"{pair!r} is no merge of two tokens")
            merges.append(tuple(symbols))
    with errors_about(path, "texts would be spelled otherwise than GPT-2's"):
        if [part.get("type") for part in parts_of(values.get("decoder"))] != ["ByteLevel"]:
            raise ValueError("its decoder is not GPT-2's")
    return vocabulary, merges


def require_plain(values: dict) -> None:
    """Raise ValueError, which names the part, unless the pipeline in `values`, the JSON of a
    tokenizer.json, is GPT-2's: no normalizer, words cut by GPT-2's pattern, a byte-level BPE
    without settings such as dropout (SETTINGS), no tokens put around a text.
    """
    if values["model"].get("type", "BPE") != "BPE":
        raise ValueError("its model is not GPT-2's")
    require_unset(values["model"], *SETTINGS)
    if parts_of(values.get("normalizer")):
        raise ValueError("its normalizer is not GPT-2's")
    require_words(parts_of(values.get("pre_tokenizer")))
    for part in parts_of(values.get("post_processor")):
        if not adds_nothing(part):
            raise ValueError("its post_processor is not GPT-2's")


def require_words(pre_tokenizer: list[dict]) -> None:
    """Raise ValueError unless a pre_tokenizer cuts a text into words as GPT-2 does. pre_tokenizer:
    the JSON objects of its parts. There has to be just one, {"type": "ByteLevel"}; this may not
    have "use_regex": False, as then it would not use GPT-2's pattern, nor "add_prefix_space": True,
    as then it would put a space before a text.
    """
    types = [part.get("type") for part in pre_tokenizer]
    if types != ["ByteLevel"] or not pre_tokenizer[0].get("use_regex", True):
        raise ValueError("its pre_tokenizer is not GPT-2's")
    require_unset(pre_tokenizer[0], "add_prefix_space")


def parts_of(part: dict | None) -> list[dict]:
    """The parts, JSON objects, that one entry of a tokenizer.json stands for. A part of the type
    Sequence stands for those in its list, which may be Sequences, too; None and {} stand for no
    part, any other part for itself.

    >>> parts_of(None), parts_of({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}]})
    ([], [{'type': 'ByteLevel'}])
    """
    if not part:
        return []
    if part.get("type") != "Sequence":
        return [part]
    found = []
    for name, inner_parts in part.items():
        if name != "type":  # pretokenizers, normalizers, processors or decoders
            for inner in inner_parts:
                found += parts_of(inner)
    return found


def adds_nothing(post_processor: dict) -> bool:
    """Whether a post_processor, a JSON object, puts no token around a text: {"type": "ByteLevel"},
    or another, such as TemplateProcessing, with a template for one text, "single", in which
    SpecialToken stands nowhere. Raises KeyError for an object without "type".
    """
    if post_processor["type"] == "ByteLevel":
        return True
    if "single" not in post_processor:
        return False
    template = str(post_processor["single"])  # as text: a SpecialToken is sought at any depth
    return "SpecialToken" not in template
