"""The page: a run, round by round, in one file that needs nothing else, neither a network nor
another file.

page/web/ holds its markup, its style and its scripts; they are put together here, with the run's
data in them as JSON. `--report` writes the page of a finished run; `python main.py play` serves the
same page, which then asks for its data itself.
"""

import base64
import hashlib
import json
import platform
import shlex
from pathlib import Path

import numpy as np

from checkpoints.files import name_of

WEB = Path(__file__).with_name("web")
SCRIPTS = ("base.js", "race.js", "microscope.js", "rules.js", "pays.js", "live.js")


def without_places(settings):
    """The settings without where this machine keeps its files: a page is passed on."""
    shown = {name: settings[name] for name in settings if name not in ("models_dir", "report")}
    for name in ("target_model_size", "draft_model_size"):
        shown[name] = name_of(shown[name])
    return shown


def command(settings, ids, defaults):
    """The command line that gives the same run; a prompt without a text is given by its ids."""
    words = ["python", "main.py"]
    if settings["prompt"] in (None, "-"):  # "-" would read standard input
        words += ["--prompt_ids", ",".join(map(str, ids))]
    else:
        words += ["--prompt", settings["prompt"]]
    for name, default in defaults.items():
        value = settings.get(name, default)
        if value != default:
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return shlex.join(words)


def short(value):
    """Numbers to 6 digits, at any depth."""
    if isinstance(value, (list, tuple)):
        return [short(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


# ---------------------------------------------------------------- the data of a run


def pieces(encoder, ids, tokens):
    """The text of these ids, and the text that each token after them completes."""
    decode = encoder.incremental_decoder()
    begin = decode(ids)
    shown = [decode([token]) for token in tokens]
    if shown:
        shown[-1] += decode([], final=True)
    return begin, shown


NOTED = "draft p q overlap matching coins numbers support likely residual".split()


def round_data(note, shown):
    """What the page knows of one round. shown: an iterator over the pieces of the text."""
    one, took = note.round, note.seconds
    return {
        "accepted": one.accepted,
        "examined": one.examined,
        "tokens": one.tokens,
        "sources": one.sources,
        "shown": [next(shown) for _ in one.tokens],
        "seconds": short([took.draft, took.target, took.rule]),
        "passes": short(took.passes),
        **{name: short(getattr(note, name)) for name in NOTED},
    }


def plain_data(result, shown, notes):
    """The autoregressive run, for the race: its tokens and the seconds of each pass, which are
    equal shares of the time where the run was not watched (notes is None).
    """
    tokens = result["token_ids"]
    seconds = [result["seconds"] / len(tokens)] * len(tokens)
    if notes:
        seconds = [note.seconds.total for note in notes]
    return {"tokens": tokens, "shown": shown, "seconds": short(seconds), "timed": bool(notes)}


def report_data(settings, notes, results, encoder, plain_notes=None):
    """Everything that the page shows of a run, as one JSON object.

    settings: of the run; results: the JSON object of main.py
    notes, plain_notes: of the speculative run, and of the autoregressive one where it was watched
    """
    plain, fast = results["autoregressive"], results["speculative"]
    ids = results["prompt_token_ids"]
    begin, shown = pieces(encoder, ids, fast["token_ids"])
    shown = iter(shown)
    rounds = [round_data(note, shown) for note in notes]
    if plain:
        _, shown = pieces(encoder, ids, plain["token_ids"])
        plain = plain_data(plain, shown, plain_notes)
    named = {*plain["tokens"]} if plain else set()
    for one in rounds:
        named.update(one["draft"], one["tokens"])
        for rows in (*one["likely"], one["residual"] or []):
            named.update(row[0] for row in rows)
    python, machine = platform.python_version(), platform.machine()
    kept = without_places(results["settings"])
    return {
        "settings": kept,
        "command": command(kept, ids, defaults=type(settings)().as_dict()),
        "coupled": kept["coupled"],
        "prompt": begin,
        "rounds": rounds,
        "plain": plain,
        "words": {token: encoder.decode([token]) for token in sorted(named)},
        "figures": fast,
        "speedup": results["speedup"],
        "made": f"Python {python}, NumPy {np.__version__}, {machine}.",
    }


# ---------------------------------------------------------------- the page


def allowed(text):
    """What a content security policy calls this script or style."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def style():
    return (WEB / "page.css").read_text(encoding="utf-8")


def script():
    return "\n".join((WEB / name).read_text(encoding="utf-8") for name in SCRIPTS)


def policy():
    """The page's content security policy. It allows this style and this script and nothing else; a
    served page may ask its own server.
    """
    return (
        f"default-src 'none'; style-src {allowed(style())}; script-src {allowed(script())}; "
        "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'"
    )


def page_of(data):
    """The page with these data."""
    # no text can end the script element
    written = json.dumps(data, separators=(",", ":")).replace("<", r"\u003c")
    page = (WEB / "page.html").read_text(encoding="utf-8")
    parts = {"POLICY": policy(), "STYLE": style(), "SCRIPT": script(), "DATA": written}
    for name, text in parts.items():
        before, after = page.split("{{" + name + "}}")
        page = before + text + after
    return page
