"""Prompts in files: one a line, or a JSON object a line."""

import json
import re
from pathlib import Path

from cli.output import named

STORIES = Path(__file__).with_name("stories.txt")  # openings for the included models
FIELDS = ("prompt", "text", "question")  # of a JSON object


def read_prompts(path: str | Path) -> list[str]:
    """The prompts in a text file: its lines, without those that are blank. If the first of them
    begins with {, each is a JSON object with a prompt (prompt_of). Raises ValueError for an object
    without a prompt, and for a file that is a folder, a device, no UTF-8 or blank.
    """
    lines = read_lines(path)  # at least one, and none is blank
    if not lines[0].startswith("{"):
        return lines
    return [prompt_of(line, f"{path}, prompt {n}") for n, line in enumerate(lines, 1)]


def read_lines(path: str | Path) -> list[str]:
    """The lines of a text file that hold anything, without their ends. Raises ValueError if there
    are none, for a folder, a device and text that is not UTF-8; OSError for a missing file.
    """
    given = str(path)
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{given!r}: is a folder; expected a file")  # in quotes: it may be ""
    if path.is_char_device():  # such as /dev/zero, which has no end
        raise ValueError(f"{path}: is a device; expected a file")
    lines = [line for line in read_utf8(path).split("\n") if line.strip()]
    if not lines:
        raise ValueError(f"{path}: expected prompts or texts, one a line")
    return lines


def read_utf8(path: Path) -> str:
    """The text of a file, with \\n where that has \\r\\n or \\r, without a byte order mark. Raises
    ValueError if it is not UTF-8.
    """
    try:
        with named(path):
            return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected UTF-8 text ({error})") from None


def prompt_of(line: str, where: str) -> str:
    """The prompt in a line, which is a JSON object: its text under the first of "prompt", "text"
    and "question" that it has. Of an object with "settings", as `generate --json` and `batch` write
    it, those are asked instead. Raises ValueError, which begins with `where`, for any other line.

    >>> prompt_of('{"question": "1 and 1?", "answer": 2}', "line 1")
    '1 and 1?'
    >>> prompt_of('{"settings": {"prompt": "Once"}, "autoregressive": {"text": "more"}}', "line 1")
    'Once'
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):  # no JSON, or too deep
        record = None
    if isinstance(record, dict) and "settings" in record:
        record = record["settings"]
    prompt = None
    if isinstance(record, dict):
        found = [record[name] for name in FIELDS if name in record]
        prompt = next(iter(found), None)
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError(f"{where}: expected a JSON object with a text as {' or '.join(FIELDS)}")
    if re.search(r"[\ud800-\udfff]", prompt):
        raise ValueError(f"{where}: has a lone surrogate; expected Unicode")
    return prompt
