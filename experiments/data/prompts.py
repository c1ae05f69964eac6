"""Prompt sets: the files people already have, and a set of story openings for the embedded models.

A file holds one of these forms, recognised by how it begins; .gz and .bz2 are unpacked:

    {"turns": ["..."]}                   JSON objects, one a line: turns (Spec-Bench; the first
                                         turn counts),
    {"instruction": "...", "input": ""}  instruction (Alpaca; its input follows on the next line),
    {"question": "..."}                  question (GSM8K),
    {"prompt": "..."}, {"text": "..."}   prompt (HumanEval), text
    ["...", {"prompt": "..."}]           a JSON array of strings or such objects
    context / 0 to 3 / four endings      HellaSwag's text form, six lines each; the context is the
                                         prompt
    anything else                        one prompt a line; lines without text are passed over
"""

import re
import sys
from pathlib import Path

from experiments.data.reading import parse_json, read_lines
from utils import InputError

FIELDS = ("turns", "instruction", "prompt", "question", "text")
STORIES = Path(__file__).with_name("stories.txt")
MOST_NAMED = 10  # prompts or fields in a message


def some(items):
    """The first of these items, separated by commas; how many more there are."""
    named = ", ".join(map(str, items[:MOST_NAMED]))
    return named + (f" and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else "")


def text_of(record, where):
    """The prompt in a JSON value. Raises InputError that begins with `where`."""
    if not isinstance(record, dict):
        return require_text(record, "value", where)
    field = next((name for name in FIELDS if name in record), None)
    if field is None:
        # quoted, as names in a file may hold control characters
        found = some([repr(name) for name in record]) or "none"
        raise InputError(f"{where}: its fields are {found}; expected one of {', '.join(FIELDS)}")
    text = record[field]
    if field == "turns" and isinstance(text, list):
        text = text[0] if text else ""
    text = require_text(text, field, where)
    if field == "instruction" and record.get("input") is not None:
        more = require_text(record["input"], "input", where)
        text += f"\n{more}" if more else ""
    return text


def require_text(value, field, where):
    if not isinstance(value, str):
        raise InputError(f"{where}: its {field} is {type(value).__name__}; expected text")
    return value


def hellaswag(lines, path):
    """[(where, context)] of six-line blocks."""
    if not lines[-1]:
        lines = lines[:-1]  # the last line break begins no line
    found = []
    for i in range(0, len(lines), 6):
        block = lines[i : i + 6]
        if len(block) < 6:
            raise InputError(
                f"{path}, line {i + 1}: the last block has {len(block)} lines; "
                "expected 6, as HellaSwag has"
            )
        if not re.fullmatch("[0-3]", block[1].strip()):
            raise InputError(
                f"{path}, line {i + 2}: {block[1][:40]!r}; "
                "expected the number of the right ending, 0 to 3"
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
        items = enumerate(parse_json("\n".join(lines), path), 1)
        records = [(f"{path}, item {i}", record) for i, record in items]
        found = [(where, text_of(record, where)) for where, record in records]
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


def fitting(name, texts, encode, longest, enough=0):
    """([(number, ids)] of the texts of up to `longest` tokens, [number] of the longer ones).

    Texts are numbered from 1. enough: stop when so many fit; 0 is never. Raises InputError that
    begins with `name` for a text that the vocabulary has no tokens for.
    """
    found, skipped = [], []
    for number, text in enumerate(texts, 1):
        if enough and len(found) == enough:
            break
        try:
            ids = encode(text)
        except ValueError as error:
            raise InputError(f"{name}, prompt {number}: {error}") from None
        if len(ids) <= longest:
            found.append((number, ids))
        else:
            skipped.append(number)
    return found, skipped


def note_skipped(name, skipped, longest):
    """Say on stderr which prompts were left out."""
    if skipped:
        which = f"{len(skipped)} prompts of more than {longest} tokens: number {some(skipped)}"
        print(f"note: {name}: skipped {which}", file=sys.stderr)


def choose_prompts(prompts, n_prompts, encoder, longest):
    """(ids of the first n_prompts prompts of up to `longest` tokens, how many longer ones were
    skipped).

    prompts is a file, of which skipped prompts are named on stderr, or "" for the built-in stories;
    n_prompts 0 is all. Raises InputError where none is left.
    """
    name = prompts or "the built-in prompts"
    texts = read_prompts(prompts or STORIES)
    found, skipped = fitting(name, texts, encoder.encode, longest, enough=n_prompts)
    if not found:
        raise InputError(
            f"{name}: all {len(skipped)} prompts are longer than the {longest} tokens that the "
            "context leaves; give shorter ones or a smaller --n_tokens_to_generate"
        )
    if prompts:
        note_skipped(prompts, skipped, longest)
    return [ids for _, ids in found], len(skipped)
