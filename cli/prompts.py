"""Prompt sets: the files people already have, and a set of story openings for the embedded models.

A file holds one of these forms; .gz and .bz2 are unpacked:

    {"turns": ["..."]}                   JSON objects, one a line: turns (Spec-Bench; the first
                                         turn counts),
    {"instruction": "...", "input": ""}  instruction (Alpaca; its input follows on the next line),
    {"question": "..."}                  question (GSM8K),
    {"prompt": "..."}, {"text": "..."}   prompt (HumanEval), text
    ["...", {"prompt": "..."}]           a JSON array of strings or such objects
    context / 0 to 3 / four endings      HellaSwag's text form, six lines each; the context is the
                                         prompt
    anything else                        one prompt a line; lines without text are passed over

The content decides, whatever the name: JSON Lines if the first line is a JSON object, an array if
the whole file is one, HellaSwag's form if all of two or more blocks have it. A name with .json or
.jsonl must hold JSON. What was read is said on stderr.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from checkpoints.errors import InputError, abbreviated, note, plural
from checkpoints.limits import COUNT, POSITIVE
from cli.flags import FORMS, Group, flag
from cli.reading import parse_json, read_lines
from cli.values import check_length

FIELDS = ("turns", "instruction", "prompt", "question", "text")
STORIES = Path(__file__).with_name("stories.txt")
BUILT_IN = "the built-in prompts"


def prompt_of_record(record, where):
    """The prompt in a JSON value, str or object. Raises InputError that begins with `where`."""
    if isinstance(record, str):
        return record
    fields = record if isinstance(record, dict) else {}
    field = next((name for name in FIELDS if name in fields), None)
    texts = [fields.get(field)]
    if field == "turns" and isinstance(texts[0], list):
        texts = texts[0][:1]
    if field == "instruction":
        texts.append(record.get("input") or "")
    if not all(isinstance(text, str) for text in texts):
        raise InputError(f"{where}: expected text under one of {', '.join(FIELDS)}")
    return "\n".join(filter(None, texts))


def is_json(kind, text):
    """Whether a text is JSON of that type, list or dict."""
    try:
        return isinstance(parse_json(text, ""), kind)
    except InputError:
        return False


def hellaswag_contexts(lines):
    """[(line number, context)] of HellaSwag's blocks; [] if they are not two or more blocks."""
    if not lines[-1]:
        lines = lines[:-1]  # the last line break begins no line
    # one block alone could as well be six prompts, the second of them a number
    n_blocks, n_more = divmod(len(lines), 6)
    numbered = all(re.fullmatch(r"\s*[0-3]\s*", line) for line in lines[1::6])
    if n_more or n_blocks < 2 or not numbered:
        return []
    return [(i, lines[i - 1]) for i in range(1, len(lines), 6)]


def parse_prompts(path):
    """([(its place, such as "line 3", prompt)] of a file, the name of the file's form)."""
    lines = read_lines(path)
    places = [(f"line {i}", line) for i, line in enumerate(lines, 1) if line.strip()]
    first = places[0][1].strip() if places else ""
    named_json = not {".json", ".jsonl"}.isdisjoint(Path(path).suffixes)
    text = "\n".join(lines)
    if first.startswith("[") and (named_json or is_json(list, text)):
        items = enumerate(parse_json(text, path), 1)
        records = [(f"item {i}", record) for i, record in items]
        form = "a JSON array"
    elif named_json or is_json(dict, first):
        records = [(place, parse_json(line, f"{path}, {place}")) for place, line in places]
        form = "JSON Lines"
    elif blocks := hellaswag_contexts(lines):
        return [(f"line {i}", context) for i, context in blocks], "HellaSwag's form"
    else:
        return places, "one a line"
    return [
        (place, prompt_of_record(record, f"{path}, {place}")) for place, record in records
    ], form


def read_prompts(path):
    """Return {place, such as "line 3": text} of a file's prompts. How many there are, and in which
    form, is said on stderr. Raises InputError that names the line of a prompt that cannot be used.
    """
    prompts, form = parse_prompts(path)
    for place, text in prompts:
        if not text.strip():
            raise InputError(f"{path}, {place}: the prompt is empty; expected text")
    if not prompts:
        raise InputError(
            f"{path}: holds no prompts; expected JSON Lines, a JSON array, or one prompt a line"
        )
    note(f"{path}: read {plural(len(prompts), 'prompt')}, {form}")
    return dict(prompts)


def select_fitting(name, prompts, encode, longest, enough=0):
    """([(number, ids)] of the prompts of up to `longest` tokens, how many longer ones were
    skipped). Prints on stderr where the skipped prompts are, except for the built-in prompts.

    prompts: {place: text}, numbered from 1. enough: stop when this many fit; 0 is never. Raises
    InputError that begins with `name` for a text that the vocabulary has no tokens for, or where
    none fits.
    """
    fits, skipped = [], []
    for number, (place, text) in enumerate(prompts.items(), 1):
        if enough and len(fits) == enough:
            break
        try:
            ids = encode(text)
        except ValueError as error:
            raise InputError(f"{name}, {place}: {error}") from None
        if len(ids) <= longest:
            fits.append((number, ids))
        else:
            skipped.append(place)
    if not fits:
        raise InputError(
            f"{name}: all {len(skipped)} prompts have more than {longest} tokens, all that "
            "the context leaves; shorten them, or --n_tokens_to_generate"
        )
    if skipped and name != BUILT_IN:
        which = f"{plural(len(skipped), 'prompt')} of more than {longest} tokens"
        note(f"{name}: skipped {which}: {abbreviated(skipped)}")
    return fits, len(skipped)


def choose_prompts(prompts, n_prompts, encoder, longest):
    """(ids of the first n_prompts prompts of up to `longest` tokens, how many longer ones were
    skipped). Raises InputError.

    prompts is a file, or "" for the built-in stories; n_prompts 0 is all.
    """
    texts = read_prompts(prompts) if prompts else dict(parse_prompts(STORIES)[0])
    chosen, n_skipped = select_fitting(
        prompts or BUILT_IN, texts, encoder.encode, longest, n_prompts
    )
    return [ids for _, ids in chosen], n_skipped


@dataclass(frozen=True)
class PromptFile(Group):
    heading = "Text"

    prompts: str = flag("", f"{FORMS}. By default built-in stories")
    n_prompts: int = flag(12, "how many prompts to use; 0 is all", limits=COUNT)
    n_tokens_to_generate: int = flag(
        60, "how many tokens to write after each prompt", limits=POSITIVE
    )

    def max_prompt_tokens(self, models):
        """The number of tokens that the context leaves for a prompt. Raises SettingError."""
        n_ctx, n_tokens = models.target.config.n_ctx, self.n_tokens_to_generate
        check_length("n_tokens_to_generate", n_tokens, n_ctx - 1)
        return n_ctx - n_tokens

    def read_chosen(self, models):
        """Return (a list of token ids for each prompt, how many too long prompts were skipped)."""
        return choose_prompts(
            self.prompts, self.n_prompts, models.encoder, self.max_prompt_tokens(models)
        )
