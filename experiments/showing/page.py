"""--report FILE.html: a watched run as one page that needs nothing else, neither a network nor
another file.

The page is experiments/showing/page.html with the run's data in it as JSON; its script draws the
rest.
"""

import json
import platform
import shlex
from pathlib import Path

import numpy as np

from experiments.data.files import whole
from utils import MODELS_DIR

PAGE = Path(__file__).with_name("page.html")
# left unsaid, beside switches and texts that are not set
UNSAID = {"models_dir": MODELS_DIR, "top_k": 0, "top_p": 1.0, "draft_confidence": 0.0}


def command(settings):
    """The command line that gives the same run; settings that are as always are left unsaid."""
    words = ["python", "main.py"]
    for name, value in settings.items():
        unset = value is False or value == "" or name in UNSAID and value == UNSAID[name]
        if name == "prompt" or not unset:
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return shlex.join(words)


def short(value):
    """Numbers to 6 digits, at any depth."""
    if isinstance(value, (list, tuple)):
        return [short(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


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
        "seconds": short([note.seconds.get(part, 0.0) for part in ("draft", "target", "rule")]),
        **{
            name: short(getattr(note, name))
            for name in ("p", "q", "overlap", "coins", "likely", "residual")
        },
    }


def report_data(settings, ids, notes, results, encoder):
    """Everything that the page shows, as one JSON object."""
    decode = encoder.incremental_decoder()
    begin = decode(ids)
    rounds = [round_data(note, decode) for note in notes]
    rounds[-1]["shown"][-1] += decode([], final=True)
    mentioned = {token for one in rounds for token in one["draft"] + one["tokens"]}
    mentioned |= {
        row[0] for one in rounds for rows in (*one["likely"], one["residual"] or ()) for row in rows
    }
    return {
        "settings": settings,
        "command": command(settings),
        "coupled": settings["coupled"],
        "prompt": begin,
        "rounds": rounds,
        "words": {token: encoder.decode([token]) for token in sorted(mentioned)},
        "figures": results["speculative"],
        "speedup": results["speedup"],
        "made": f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}.",
    }


def write_report(path, *run):
    """Write the page of report_data(*run), whole or not at all."""
    # no text can end the script element
    data = json.dumps(report_data(*run), separators=(",", ":")).replace("<", r"\u003c")
    with whole(path) as temporary:
        temporary.write_text(
            PAGE.read_text(encoding="utf-8").replace("DATA", data, 1), encoding="utf-8"
        )
