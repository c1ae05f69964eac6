"""Prompt sets: reading the files people already have, and a set of story openings for the embedded
pair.

A file holds one of these forms, recognised by how it begins; .gz and .bz2 are read as they are:

    {"turns": ["..."]}                     JSON objects, one a line: turns (Spec-Bench; the first turn counts),
    {"instruction": "...", "input": ""}    instruction (Alpaca; its input follows on the next line),
    {"prompt": "..."}, {"text": "..."}     prompt (HumanEval), text
    ["...", {"prompt": "..."}]             a JSON array of strings or such objects
    context / 0 to 3 / four endings        HellaSwag's text form, six lines each; the context is the prompt
    anything else                          one prompt a line; lines without text are passed over
"""

import bz2
import gzip
import json
import re
import zlib
from pathlib import Path

from utils import InputError

FIELDS = ("turns", "instruction", "prompt", "text")

STORIES = [
    "Once upon a time there lived a miller who had three daughters, and the youngest",
    "In a hut at the edge of the great forest there dwelt an old woman and her grey cat. One evening",
    'The King called his sons before him and said, "Whichever of you brings me',
    "Long ago, when the animals could still speak, the fox came to the well and",
    "The Princess sat at the window of the tower, and day after day she looked out over the sea,",
    '"Do not open the little door," said the witch, "or you will',
    "There was once a poor fisherman who caught nothing for seven days. On the eighth day he threw out his net and",
    "The giant slept so soundly that the boy could creep up to the table, where",
    "A tailor was walking home through the snow when he met a dwarf with a golden lantern, who said to him,",
    "Far away in the north there is a mountain of glass, and at the top of it",
    "When the wolf had eaten, he lay down under the oak tree. But the little bird",
    "The Queen looked into her mirror every morning and asked,",
    "So the soldier took the ring, turned it three times upon his finger, and at once",
    "The youngest brother shared his bread with the beggar, and the beggar said,",
    "At midnight the bells began to ring under the water, and out of the lake there came",
    "The raven flew before them all night long, and when the sun rose they saw",
]


def read_bytes(path):
    """The content of a file, unpacked. Raises InputError."""
    unpack = {".gz": gzip.decompress, ".bz2": bz2.decompress}.get(path.suffix, bytes)
    try:
        return unpack(path.read_bytes())
    except OSError as error:
        what = error.strerror or f"is damaged or no {path.suffix} file"
        raise InputError(f"{path}: {what}; expected a file of prompts") from None
    except (EOFError, ValueError, zlib.error):
        raise InputError(f"{path}: is truncated or damaged; fetch it again") from None


def read_lines(path):
    """The lines of a text file, which may be packed. Raises InputError with the line that is not
    UTF-8.
    """
    data = read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path}, line {line}: is not UTF-8; convert the file first") from None
    # not splitlines: JSON strings may hold U+2028
    return [line.removesuffix("\r") for line in text.split("\n")]


def text_of(record, where):
    """The prompt in a JSON value. Raises InputError that begins with `where`."""
    if isinstance(record, dict):
        field = next((name for name in FIELDS if name in record), None)
        if field is None:
            raise InputError(
                f"{where}: its fields are {', '.join(record) or 'none'}; expected one of {', '.join(FIELDS)}"
            )
        text = record[field]
        if field == "turns" and isinstance(text, list):
            text = text[0] if text else ""
        if field == "instruction" and isinstance(record.get("input"), str) and record["input"]:
            text = f"{text}\n{record['input']}"
    else:
        field, text = "value", record
    if not isinstance(text, str):
        raise InputError(f"{where}: its {field} is {type(text).__name__}; expected text")
    return text


def parse_json(text, where):
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: expected JSON ({str(error).splitlines()[0]})") from None


def hellaswag(lines, path):
    """[(where, context)] of six-line blocks."""
    found, lines = [], lines[: len(lines) - (not lines[-1])]  # the last line break begins no line
    for i in range(0, len(lines), 6):
        block = lines[i : i + 6]
        if len(block) < 6:
            raise InputError(
                f"{path}, line {i + 1}: the last block has {len(block)} lines; expected 6, as HellaSwag has"
            )
        if not re.fullmatch("[0-3]", block[1].strip()):
            raise InputError(
                f"{path}, line {i + 2}: {block[1][:40]!r}; expected the number of the right ending, 0 to 3"
            )
        found.append((f"{path}, line {i + 1}", block[0]))
    return found


def read_prompts(path):
    """The prompts of a file, as texts. Raises InputError that names the line of the one that cannot
    be used.
    """
    path = Path(path)
    lines = read_lines(path)
    places = [(f"{path}, line {i}", line) for i, line in enumerate(lines, 1) if line.strip()]
    first = places[0][1].strip() if places else ""
    named = {".txt", ".json", ".jsonl"} & {*path.suffixes}
    if named != {".txt"} and first.startswith("["):
        records = parse_json("\n".join(lines), path)
        found = [
            (f"{path}, item {i}", text_of(record, f"{path}, item {i}"))
            for i, record in enumerate(records, 1)
        ]
    elif named & {".json", ".jsonl"} or not named and first.startswith("{"):
        found = [(where, text_of(parse_json(line, where), where)) for where, line in places]
    elif len(lines) > 1 and re.fullmatch("[0-3]", lines[1].strip()):
        found = hellaswag(lines, path)
    else:
        found = places
    for where, text in found:
        if not text.strip():
            raise InputError(f"{where}: the prompt is empty; expected text")
        if re.search("[\ud800-\udfff]", text):
            raise InputError(f"{where}: has a lone surrogate; expected valid Unicode")
    if not found:
        raise InputError(
            f"{path}: holds no prompts; expected JSON Lines, a JSON array, or one prompt a line"
        )
    return [text for _, text in found]


def choose_prompts(prompts, n_prompts, encoder, longest):
    """(ids of the first n_prompts prompts of up to `longest` tokens, how many longer ones were
    passed over).

    prompts is a file, or "" for the built-in stories; n_prompts 0 is all. Raises InputError where
    none is left.
    """
    found, n_skipped = [], 0
    for text in read_prompts(prompts) if prompts else STORIES:
        if n_prompts and len(found) == n_prompts:
            break
        ids = encoder.encode(text)
        if len(ids) <= longest:
            found.append(ids)
        else:
            n_skipped += 1
    if not found:
        room = (
            f"all {n_skipped} prompts are longer than the {longest} tokens that the context leaves"
        )
        raise InputError(
            f"{prompts or 'the built-in prompts'}: {room}; give shorter ones or a smaller --n_tokens_to_generate"
        )
    return found, n_skipped
