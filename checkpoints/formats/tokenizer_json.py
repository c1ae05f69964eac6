"""tokenizer.json, a file of the library tokenizers: a pipeline of parts. A *normalizer* changes the
text, a *pre_tokenizer* cuts it into words, the *model* has vocabulary and merges, and a
*post_processor* may put tokens around the text.
"""

from pathlib import Path

from checkpoints.files import OTHER_TOKENS, errors_about, read_json, require_unset


def read_vocabulary(path: Path) -> tuple[dict[str, int], list[tuple[str, ...]]]:
    """(vocabulary, merges) of a tokenizer.json, as an Encoder takes them. Raises ValueError if it
    is damaged, or if its parts would make other tokens of a text than an Encoder does.
    """
    values = read_json(path)
    with errors_about(path, OTHER_TOKENS):
        require_plain(values)
        pairs = values["model"]["merges"]
        merges = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in pairs]
        vocabulary = values["model"]["vocab"]
        if not isinstance(vocabulary, dict):
            raise ValueError(f"its vocabulary is {str(vocabulary)[:50]}")
        return vocabulary, merges


def require_plain(values: dict) -> None:
    """Raise ValueError unless the pipeline is GPT-2's: byte-level BPE, words cut by its pattern,
    and nothing that changes a text or puts tokens around it.
    """
    model, before = values["model"], parts_of(values.get("pre_tokenizer"))
    plain = {
        "model": model.get("type", "BPE") == "BPE",
        "normalizer": not parts_of(values.get("normalizer")),
        "pre_tokenizer": [part.get("type") for part in before] == ["ByteLevel"]
        and before[0].get("use_regex", True),
        "post_processor": all(map(adds_nothing, parts_of(values.get("post_processor")))),
    }
    if wrong := [name for name, is_plain in plain.items() if not is_plain]:
        raise ValueError(f"its {wrong[0]} is not GPT-2's")
    require_unset(before[0], "add_prefix_space")
    require_unset(
        model, "dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"
    )


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
