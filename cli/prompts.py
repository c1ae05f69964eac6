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
from cli.input_files import parse_json, read_lines
from cli.values import check_length

FIELDS = ("turns", "instruction", "prompt", "question", "text")
STORIES = Path(__file__).with_name("stories.txt")
BUILT_IN = "the built-in prompts"


def prompt_of_record(record, where):
    """The prompt (str) in a JSON value, which is a str, or a dict with one of FIELDS.

    {"instruction": "Add.", "input": "1 and 2"}  ->  "Add.\\n1 and 2"
    {"turns": ["How far?", "And back?"]}  ->  "How far?"

    Raises InputError if there is none; its message begins with `where`, the place in a file.
    """
    if isinstance(record, str):
        return record
    fields = record if isinstance(record, dict) else {}
    field = next((name for name in FIELDS if name in fields), None)
    texts = [fields.get(field)]
    if field == "turns" and isinstance(texts[0], list):
        texts = texts[0][:1]  # [] has no first turn
    elif field == "instruction":
        texts.append(fields.get("input") or "")
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{where}: expected text under one of {', '.join(FIELDS)}")
    return "\n".join(text for text in texts if text)  # an empty "input" adds no line


def is_json(text, expected_type):
    """Whether a text is JSON for a value of that type, list or dict."""
    try:
        return isinstance(parse_json(text, where=""), expected_type)
    except InputError:
        return False


def hellaswag_contexts(lines):
    """The contexts in the lines of a file in HellaSwag's form: [(line number from 1, context)].
    Returns [] for a file of another form, and for a single block of six lines, because that could
    as well be six prompts, the second of which is a number.

    lines: all lines of the file, a list of str
    """
    if not lines[-1]:
        lines = lines[:-1]  # the last line break begins no line
    n_blocks, n_extra_lines = divmod(len(lines), 6)
    labels = lines[1::6]  # the second line of a block is the number of its right ending
    are_labels = all(re.fullmatch(r"\s*[0-3]\s*", label) for label in labels)
    if n_extra_lines or n_blocks < 2 or not are_labels:
        return []
    return [(i + 1, lines[i]) for i in range(0, len(lines), 6)]


def parse_prompts(path):
    """Read a file of prompts: JSON Lines, a JSON array, HellaSwag's form, or one a line; its
    content decides which. Returns ([(place, prompt)], the form in words, such as "JSON Lines"), all
    str. A place is "line 3", or "item 3" of a JSON array.

    Raises InputError if the file or a prompt cannot be read.
    """
    lines = read_lines(path)
    filled_lines = [(f"line {i}", line) for i, line in enumerate(lines, 1) if line.strip()]
    first_line = filled_lines[0][1].strip() if filled_lines else ""
    # any suffix counts, because .gz or .bz2 may follow
    named_json = not {".json", ".jsonl"}.isdisjoint(Path(path).suffixes)
    text = "\n".join(lines)
    if first_line.startswith("[") and (named_json or is_json(text, list)):
        records = [(f"item {i}", record) for i, record in enumerate(parse_json(text, path), 1)]
        form = "a JSON array"
    elif named_json or is_json(first_line, dict):
        records = [(place, parse_json(line, f"{path}, {place}")) for place, line in filled_lines]
        form = "JSON Lines"
    else:
        contexts = [(f"line {i}", context) for i, context in hellaswag_contexts(lines)]
        return (contexts, "HellaSwag's form") if contexts else (filled_lines, "one a line")
    prompts = [(place, prompt_of_record(value, f"{path}, {place}")) for place, value in records]
    return prompts, form


def read_prompts(path):
    """Read a file of prompts: JSON Lines, a JSON array, HellaSwag's form, or one a line. Returns
    {place, such as "line 3": prompt (str)}, and prints their number and form on stderr. Raises
    InputError if the file cannot be read or has no prompts, or if a prompt is empty.
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


def select_fitting(name, prompts, encode, max_tokens, n_prompts=0):
    """Encode prompts, and select those of up to max_tokens tokens.

    name: the file, or BUILT_IN, for messages
    prompts: {place, such as "line 3": text}, numbered from 1
    encode: a function text -> list of token ids
    n_prompts: stop when this many fit; 0 is never
    Returns ([(number, token ids)] of the selected prompts, how many longer ones were skipped).
    Prints on stderr which were skipped, except for built-in prompts. Raises InputError, which
    begins with `name`, if a prompt cannot be encoded or none fits.
    """
    selected, skipped_places = [], []
    for number, (place, text) in enumerate(prompts.items(), 1):
        if n_prompts and len(selected) == n_prompts:
            break
        try:
            ids = encode(text)
        except ValueError as error:
            raise InputError(f"{name}, {place}: {error}") from None
        if len(ids) <= max_tokens:
            selected.append((number, ids))
        else:
            skipped_places.append(place)
    if not selected:
        raise InputError(
            f"{name}: all {len(skipped_places)} prompts have more than {max_tokens} tokens, all "
            "that the context leaves; shorten them, or --n_tokens_to_generate"
        )
    if skipped_places and name != BUILT_IN:
        skipped = f"{plural(len(skipped_places), 'prompt')} of more than {max_tokens} tokens"
        note(f"{name}: skipped {skipped}: {abbreviated(skipped_places)}")
    return selected, len(skipped_places)


def choose_prompts(path, n_prompts, encoder, max_tokens):
    """Read and encode prompts, and select the first n_prompts (0: all) of up to max_tokens tokens.

    path: a file of prompts, or "" for the built-in stories. encoder: the target's tokenizer
    Returns (a list of token ids for each prompt, how many longer prompts were skipped). Prints on
    stderr what was read and skipped. Raises InputError if the file or a prompt cannot be used, or
    none fits.
    """
    prompts = read_prompts(path) if path else dict(parse_prompts(STORIES)[0])
    selected, n_skipped = select_fitting(
        path or BUILT_IN, prompts, encoder.encode, max_tokens, n_prompts
    )
    return [ids for _, ids in selected], n_skipped


@dataclass(frozen=True)
class PromptFile(Group):
    heading = "Text"

    prompts: str = flag("", f"{FORMS}. By default built-in stories")
    n_prompts: int = flag(12, "how many prompts to use; 0 is all", limits=COUNT)
    n_tokens_to_generate: int = flag(
        60, "how many tokens to write after each prompt", limits=POSITIVE
    )

    def max_prompt_tokens(self, models):
        """The number of tokens that the target's context leaves for a prompt. models: LoadedModels.
        Raises SettingError if it leaves none.
        """
        n_ctx, n_tokens = models.target.config.n_ctx, self.n_tokens_to_generate
        check_length("n_tokens_to_generate", n_tokens, n_ctx - 1)  # a prompt has 1 or more
        return n_ctx - n_tokens

    def read_chosen(self, models):
        """Read and encode the prompts that these flags choose. models: LoadedModels

        Returns (a list of token ids for each prompt, how many too long ones were skipped). Prints
        on stderr what was read and skipped. Raises InputError if the file or a prompt cannot be
        used, or none fits.
        """
        return choose_prompts(
            self.prompts, self.n_prompts, models.encoder, self.max_prompt_tokens(models)
        )
