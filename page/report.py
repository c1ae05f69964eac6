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
import unicodedata
from pathlib import Path

import numpy as np

from checkpoints.files import name_of

WEB = Path(__file__).with_name("web")
SCRIPTS = ("base.js", "race.js", "microscope.js", "rules.js", "pays.js", "live.js")


def about(settings, ids, defaults, kernels):
    """{"settings", "command", "kernels"}: what the page shows of how a run was made. It holds no
    path of this machine, because a page is passed on.

    settings: of the run's JSON object
    ids: the tokens of its prompt
    defaults: {name: value} of the flags, for the command line that gives the same run
    kernels: {model: {weight: kernel}}, as cli.runs.kernels_in gives them
    """
    shown = {name: settings[name] for name in settings if name not in ("models_dir", "report")}
    for name in ("target_model_size", "draft_model_size"):
        shown[name] = name_of(shown[name])
    return {
        "settings": shown,
        "command": command(shown, ids, defaults),
        "kernels": [describe_kernels(name_of(model), kernels[model]) for model in kernels],
    }


def describe_kernels(model: str, kernel_of: dict[str, str]):  # {weight: kernel}
    """A model's kernels in one line, each with its weights unless there is only one kernel.

    describe_kernels("17M", {"head": "plain", "mlp": "plain"})  ->  "17M: plain"
    """
    weights = {kernel: [] for kernel in kernel_of.values()}
    for weight, kernel in kernel_of.items():
        weights[kernel].append(weight)
    if len(weights) == 1:
        return f"{model}: {kernel}"
    described = [f"{', '.join(names)}: {kernel}" for kernel, names in weights.items()]
    return f"{model}: {'. '.join(described)}"


def is_hidden(character):
    """Whether a shell or a reader would take the text for another: NUL, or one that reverses what
    follows.
    """
    return unicodedata.category(character) in ("Cc", "Cf") and character not in "\n\t"


def command(shown, ids, defaults):
    """The command line of a run. The ids stand for a prompt without a text, and for one with hidden
    characters.
    """
    words, prompt = ["python", "main.py"], shown["prompt"]
    if prompt in (None, "-") or any(map(is_hidden, prompt)):  # "-" would read standard input
        words += ["--prompt_ids", ",".join(map(str, ids))]
    else:
        words += ["--prompt", prompt]
    for name, default in defaults.items():
        value = shown.get(name, default)
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


NOTED = "draft p q overlap coins numbers support likely residual".split()


def round_data(note, shown):
    """What the page knows of one round. shown: an iterator over the pieces of the text."""
    one, took = note.round, note.seconds
    return {
        "accepted": one.accepted,
        "examined": one.examined,
        "tokens": one.tokens,
        "sources": one.sources,
        "shown": [next(shown) for _ in one.tokens],
        "seconds": short([took.draft, took.target, took.rest]),
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


def report_data(about, summary, notes, pair, plain_notes=None):
    """Everything that the page shows of a run, as one JSON object.

    about: what the function of that name returns
    summary: of decoding.metrics
    notes, plain_notes: of the speculative run, and of the autoregressive one where it was watched
    """
    plain, fast = summary["autoregressive"], summary["speculative"]
    ids, encoder = summary["prompt_token_ids"], pair.encoder
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
    return {
        **about,
        "coupled": about["settings"]["coupled"],
        "room": pair.target.config.n_ctx - len(ids),  # tokens that the context leaves
        "prompt": begin,
        "rounds": rounds,
        "plain": plain,
        "words": {token: encoder.decode([token]) for token in sorted(named)},
        "figures": fast,
        "speedup": summary["speedup"],
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
