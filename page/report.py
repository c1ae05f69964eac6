"""The page: a run, round by round, in one file that needs neither a network nor another file.

page/web/ holds its markup, style and scripts; here they are put together, with the data of a run as
JSON. `python main.py play` serves the page, which then asks for its data, or saves it with a run.
"""

import base64
import hashlib
import json
import platform
import shlex
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from cli.machine import processor_name
from cli.messages import as_called
from encoder import Encoder

WEB = Path(__file__).with_name("web")
# flags that a run's command names even so: generate has other defaults
ALWAYS_NAMED = ("prompt", "n_tokens_to_generate")
SCRIPTS = ("base.js", "race.js", "microscope.js", "pays.js", "live.js")


def without_folders(settings: dict[str, Any]) -> dict[str, Any]:
    """A copy of the settings {flag: value}, where target_model_size and draft_model_size, if they
    are paths of folders, become the last name of the path, "/home/me/17M" the name "17M": people
    pass pages on, and paths are private.
    """
    shown = dict(settings)
    for flag in ("target_model_size", "draft_model_size"):
        folder = Path(settings[flag])
        if folder.is_dir():
            shown[flag] = folder.resolve().name
    return shown


def command(settings: dict[str, Any], defaults: dict[str, Any]) -> str:
    """The shell command of a run with these settings {flag: value}. It leaves out a flag, other
    than prompt and n_tokens_to_generate, whose value is that of `defaults` {flag: value}. An
    installed program is called `speculate`. If the prompt is the one character "-", which as a
    flag's value means standard input, `printf -` hands it to that.

    command({"prompt": "a b", "K": 2}, {"K": 4})  ->  "python main.py --prompt 'a b' --K 2"
    """
    words = as_called("python main.py").split()
    for name, value in settings.items():
        if value is True:  # a flag that takes no value
            words.append(f"--{name}")
        elif name in ALWAYS_NAMED or value != defaults[name]:
            words += [f"--{name}", str(value)]
    line = shlex.join(words)
    if settings.get("prompt") == "-":
        return f"printf - | {line}"
    return line


def decode_each(encoder: Encoder, ids: list[int], tokens: list[int]) -> list[str]:
    """The text of each of `tokens`, at least one, which follow the tokens `ids`; joined, they are
    the text of all. A character that several tokens make up is in the text of its last token.
    """
    decode = encoder.incremental_decoder()
    decode(ids)  # it keeps an unfinished character at their end for the next token
    texts = [decode([token]) for token in tokens]
    texts[-1] += decode([], final=True)
    return texts


def to_6_digits(value: Any) -> Any:
    """A copy of JSON data with its floats, at any depth, rounded to 6 significant digits. Tuples
    become lists.
    """
    if isinstance(value, dict):
        return {name: to_6_digits(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_6_digits(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value


def texts_of(encoder: Encoder, tokens: list[int], notes: list[dict[str, Any]]) -> dict[int, str]:
    """{token: its text} of `tokens`, and of all that were drafted, written or likely in a round.

    notes: of each round a dict with "draft" and "tokens", the drafted and the written tokens, and
        "likely", for each written one a list of (token, its p, its q)
    """
    named = set(tokens)
    for note in notes:
        named.update(note["draft"], note["tokens"])
        for rows in note["likely"]:
            named.update(token for token, _p, _q in rows)
    return {token: encoder.decode([token]) for token in sorted(named)}


def number_of_parameters(model: Any) -> int:
    """How many numbers a model has as its weights. Those that a head takes over from its target are
    not counted. model: a Model, or a head that drafts for one
    """
    return sum(prod(shape) for shape in model.config.shapes().values())


def run_data(
    pair: tuple,
    ids: list[int],
    settings: dict[str, Any],
    defaults: dict[str, Any],
    random_temperature: float,
    notes: list[dict[str, Any]],
    turn: dict[str, Any],
    turns: list[list[float]],
) -> dict[str, Any]:
    """All that the page shows of a run, for JSON: a text that both decoders wrote several times.
    Floats have 6 digits. Its keys:

    settings: as given, without the paths of folders; turns: as given; chance: random_temperature
    command: that of the run, in a shell; prompt: its text; room: tokens that the context leaves
    parameters: how many each model has; numbers: the dtype of weights
    processor: its name; made: versions and machine, in words
    alone: {"tokens", "shown": the text of each, "seconds": of each}, of the target alone
    rounds: the notes, each with "shown", the text of each token, and "seconds"
    words: {token: its text} of all tokens that are shown

    pair: (target, draft model or None, encoder); ids: of the prompt
    settings: {flag: value} of the run; defaults: those that its command leaves out
    random_temperature: that at which p and q of the notes were computed
    notes: of each round, by page.rounds.note_of
    turn: the one to show, as page.runs.take_turn returned it
    turns: of each turn [seconds of the target alone, of drafting, of the rest]
    """
    target, draft, encoder = pair
    public_settings = without_folders(settings)
    models = [model for model in (target, draft) if model is not None]
    alone = turn["tokens"]
    alone_texts = decode_each(encoder, ids, alone)
    data = {
        "settings": public_settings,
        "chance": random_temperature,
        "command": command(public_settings, defaults),
        "made": made(),
        "room": target.config.n_ctx - len(ids),  # tokens that the context leaves
        "parameters": [number_of_parameters(model) for model in models],
        "numbers": str(target.params["wpe"].dtype),
        "processor": processor_name(),
        # without an unfinished character at its end: it is in the text of the first new token
        "prompt": encoder.incremental_decoder()(ids),
        "alone": {"tokens": alone, "shown": alone_texts, "seconds": turn["seconds"]},
        "rounds": rounds_of(encoder, ids, notes, turn["rounds"]),
        "turns": turns,
        "words": texts_of(encoder, alone, notes),
    }
    return to_6_digits(data)


def rounds_of(
    encoder: Encoder, ids: list[int], notes: list[dict[str, Any]], seconds: list[list[float]]
) -> list[dict[str, Any]]:
    """Copies of the notes of all rounds, in their order, with two more keys: "shown", the text of
    each token that the round wrote, and "seconds" of the round.

    ids: of the prompt; seconds: of each round [of drafting, of the rest]
    notes: of each round a dict, whose "tokens" are those that it wrote
    """
    tokens = [token for note in notes for token in note["tokens"]]
    texts = iter(decode_each(encoder, ids, tokens))
    rounds = []
    for note, its_seconds in zip(notes, seconds, strict=True):
        its_texts = [next(texts) for _ in note["tokens"]]
        rounds.append(note | {"shown": its_texts, "seconds": its_seconds})
    return rounds


def made() -> str:
    """Two sentences for the page: the versions of Python and NumPy and the kind of machine that
    made it, and how its numbers and text could differ elsewhere.
    """
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}"
    return (
        f"{versions}. Other machines, and a pass over five words in place of one, can round the "
        "last digits differently; where two words are almost equally likely, a text can go on with "
        "the other one."
    )


# ---------------------------------------------------------------- the page


def hash_source(text: str) -> str:
    """The name of an inline script or style in a content security policy: 'sha256-...'."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def style() -> str:
    """The page's style sheet."""
    return (WEB / "page.css").read_text(encoding="utf-8")


def script() -> str:
    """The page's scripts, joined into one."""
    return "\n".join((WEB / name).read_text(encoding="utf-8") for name in SCRIPTS)


def policy() -> str:
    """The content security policy of the page. It allows the page's own style and script, an icon
    inside the page, and requests to the page's own server; nothing else.
    """
    return (
        f"default-src 'none'; style-src {hash_source(style())}; "
        f"script-src {hash_source(script())}; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'"
    )


def page_of(data: dict[str, Any]) -> str:
    """The HTML of the page, complete in one file, with its data. Returns its text.

    data: for a page that shows a run the dict that page.runs.race returned; for one that asks a
        server {"live": {"token": for the server's address, "form": the fields of its form}}
    """
    # without "<", no text in the data can end the script element around them
    json_text = json.dumps(data, separators=(",", ":")).replace("<", r"\u003c")
    page = (WEB / "page.html").read_text(encoding="utf-8")
    # the data come last: they may hold a text of the user's that looks like a placeholder
    parts = {"POLICY": policy(), "STYLE": style(), "SCRIPT": script(), "DATA": json_text}
    for name, text in parts.items():
        before, after = page.split("{{" + name + "}}")  # ValueError unless it is there once
        page = before + text + after
    return page
