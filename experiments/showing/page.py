"""The page: a run, round by round, in one file that needs nothing else, neither a network nor
another file.

experiments/showing/web/ holds its markup, its style and its scripts; they are put together here,
with the run's data in them as JSON. `--report` writes the page of a finished run; `python main.py
play` serves the same page, which then asks for its data itself.
"""

import base64
import dataclasses
import hashlib
import json
import os
import platform
import shlex
from pathlib import Path

import numpy as np

from experiments.data.files import whole
from experiments.decoding.settings import Settings

WEB = Path(__file__).with_name("web")
SCRIPTS = ("base.js", "race.js", "microscope.js", "rules.js", "pays.js", "questions.js", "live.js")
# of a command line that gives the same run; the others only where they are not as always
ALWAYS_SAID = {
    "n_tokens_to_generate",
    "draft_model_size",
    "target_model_size",
    "K",
    "temperature",
    "seed",
}
AS_ALWAYS = dataclasses.asdict(Settings())


def without_places(settings):
    """The settings without where this machine keeps its files: a page is passed on."""
    shown = {name: settings[name] for name in settings if name not in ("models_dir", "report")}
    for name in ("target_model_size", "draft_model_size"):
        # a name such as 17M stays as it is, and so does a folder relative to where one is
        if os.path.isabs(shown[name]):
            shown[name] = Path(shown[name]).name
    return shown


def command(settings, ids=()):
    """The command line that gives the same run; a prompt without a text is given by its ids."""
    words = ["python", "main.py"]
    if settings["prompt"] in (None, "-"):  # "-" would read standard input
        words += ["--prompt_ids", ",".join(map(str, ids))]
    else:
        words += ["--prompt", settings["prompt"]]
    for name, value in settings.items():
        if name in ("prompt", "prompt_ids"):
            continue
        if name not in ALWAYS_SAID and value == AS_ALWAYS[name]:
            continue
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return shlex.join(words)


def short(value):
    """Numbers to 6 digits, at any depth."""
    if isinstance(value, (list, tuple)):
        return [short(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


# ---------------------------------------------------------------- the data of a run


def round_data(note, decode):
    """What the page knows of one round; `shown` is the text that each token completes."""
    one = note.round
    return {
        "draft": note.draft,
        "accepted": one.accepted,
        "examined": one.examined,
        "tokens": [int(token) for token in one.tokens],
        "sources": one.sources,
        "shown": [decode([token]) for token in one.tokens],
        "seconds": short([note.seconds[part] for part in ("draft", "target", "rule")]),
        "passes": short(note.passes),
        "p": short(note.p),
        "q": short(note.q),
        "overlap": short(note.overlap),
        "coins": short(note.coins),
        "numbers": note.numbers,
        "support": short(note.support),
        "likely": short(note.likely),
        "residual": short(note.residual),
    }


def plain_data(result, decode, seconds):
    """The autoregressive run, for the race: its tokens and the seconds of each pass.

    Passes that were not timed one by one take equal shares of the time.
    """
    tokens = result["token_ids"]
    shown = [decode([token]) for token in tokens]
    shown[-1] += decode([], final=True)
    each = seconds or [result["seconds"] / len(tokens)] * len(tokens)
    return {"tokens": tokens, "shown": shown, "seconds": short(each), "timed": bool(seconds)}


def decoder_after(encoder, ids):
    """(the text of the prompt, an incremental decoder for what follows it)"""
    decode = encoder.incremental_decoder()
    return decode(ids), decode


def tokens_in(rounds, plain):
    """Every token that the page may have to name."""
    found = set(plain["tokens"] if plain else ())
    for one in rounds:
        found.update(one["draft"] + one["tokens"])
        for rows in [*one["likely"], one["residual"] or []]:
            found.update(row[0] for row in rows)
    return sorted(found)


def report_data(settings, ids, notes, results, encoder, seconds=None):
    """Everything that the page shows of a run, as one JSON object.

    seconds: of each pass of the autoregressive run, where they were taken
    """
    begin, decode = decoder_after(encoder, ids)
    rounds = [round_data(note, decode) for note in notes]
    rounds[-1]["shown"][-1] += decode([], final=True)
    plain = None
    if results["autoregressive"]:
        _, decode = decoder_after(encoder, ids)
        plain = plain_data(results["autoregressive"], decode, seconds)
    python, machine = platform.python_version(), platform.machine()
    shown = without_places(settings)
    return {
        "settings": shown,
        "command": command(shown, ids),
        "coupled": settings["coupled"],
        "prompt": begin,
        "rounds": rounds,
        "plain": plain,
        "words": {token: encoder.decode([token]) for token in tokens_in(rounds, plain)},
        "figures": results["speculative"],
        "speedup": results["speedup"],
        "made": f"Python {python}, NumPy {np.__version__}, {machine}.",
    }


# ---------------------------------------------------------------- the page


def allowed(text):
    """What a content security policy calls this script or style."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def page_of(data):
    """(the page with these data, its content security policy)

    The policy allows this style and this script and nothing else; a served page may ask its own
    server.
    """
    style = (WEB / "page.css").read_text(encoding="utf-8")
    script = "\n".join((WEB / name).read_text(encoding="utf-8") for name in SCRIPTS)
    policy = (
        f"default-src 'none'; style-src {allowed(style)}; script-src {allowed(script)}; "
        "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'"
    )
    # no text can end the script element
    written = json.dumps(data, separators=(",", ":")).replace("<", r"\u003c")
    page = (WEB / "page.html").read_text(encoding="utf-8")
    pieces = {"POLICY": policy, "STYLE": style, "SCRIPT": script, "DATA": written}
    for name, text in pieces.items():
        before, after = page.split("{{" + name + "}}")
        page = before + text + after
    return page, policy


def write_report(path, *run):
    """Write the page of report_data(*run), whole or not at all."""
    page, _ = page_of(report_data(*run))
    with whole(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
