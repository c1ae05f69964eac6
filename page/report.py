"""The page: a run, round by round, in one file that needs neither a network nor another file.

page/web/ holds its markup, its style and its scripts. Here they are put together, with the data of
the run as JSON. `--report` writes the page of a finished run; `python main.py play` serves the same
page, which then asks for its data itself.
"""

import base64
import hashlib
import json
import platform
import shlex
import unicodedata
from math import prod
from pathlib import Path

import numpy as np

from checkpoints.files import name_of

WEB = Path(__file__).with_name("web")
SCRIPTS = ("base.js", "race.js", "microscope.js", "rules.js", "pays.js", "live.js")


def describe_run(settings: dict, ids: list[int], defaults: dict, kernels: dict) -> dict:
    """Return what the page shows of how a run was made: {"settings": {flag: value}, "command": the
    shell command of the same run, "kernels": [a line for each model]}. It holds no path of this
    machine, because people pass pages on: models, and the file of a reader's own rule, are named
    without their folders.

    settings: {flag: value}, "settings" in the run's JSON object
    ids: the token ids of the prompt
    defaults: {flag: default}; the command leaves out a flag that has its default
    kernels: {model: {weight: kernel}}, how each weight is multiplied, in words
    """
    shown = {name: settings[name] for name in settings if name not in ("models_dir", "report")}
    for name in ("target_model_size", "draft_model_size", "rule"):
        shown[name] = name_of(shown[name])
    return {
        "settings": shown,
        "command": command(shown, ids, defaults),
        "kernels": [describe_kernels(name_of(model), kernels[model]) for model in kernels],
    }


def describe_kernels(model: str, kernel_of: dict[str, str]):  # {weight: kernel}
    """Name a model's kernels in one line (str), each after its weights. If all weights have the
    same kernel, the line does not name the weights.

    describe_kernels("17M", {"head": "plain", "mlp": "plain"})  ->  "17M: plain"
    """
    weights = {kernel: [] for kernel in kernel_of.values()}
    for weight, kernel in kernel_of.items():
        weights[kernel].append(weight)
    if len(weights) == 1:
        return f"{model}: {kernel}"
    described = [f"{', '.join(names)}: {kernel}" for kernel, names in weights.items()]
    return f"{model}: {'. '.join(described)}"


def is_hidden(character: str) -> bool:
    """Whether a character is invisible (NUL), or changes how the text after it is shown (U+202E
    reverses that text). Line breaks and tabs do not count as hidden.
    """
    return unicodedata.category(character) in ("Cc", "Cf") and character not in "\n\t"


def command(shown: dict, ids: list[int], defaults: dict) -> str:
    """The shell command that repeats a run. If the prompt has no text, is "-", or has hidden
    characters, the command gives its ids with --prompt_ids, otherwise its text with --prompt.

    shown: {flag: value} of the run, and {"prompt": the text, or None}
    ids: the prompt's token ids
    defaults: {flag: default} of the flags to write; a flag that has its default is left out

    command({"prompt": "a b", "K": 2}, [13], {"K": 4})  ->  "python main.py --prompt 'a b' --K 2"
    """
    words, prompt = ["python", "main.py"], shown["prompt"]
    if prompt in (None, "-") or any(map(is_hidden, prompt)):  # "-" would read standard input
        words += ["--prompt_ids", ",".join(map(str, ids))]
    else:
        words += ["--prompt", prompt]
    for name, default in defaults.items():
        value = shown.get(name, default)
        if value is True and not default:  # a flag that takes no value
            words.append(f"--{name}")
        elif value != default:
            words += [f"--{name}", str(value)]
    return shlex.join(words)


def to_6_digits(value):
    """Round a float, or all floats in nested lists, to 6 significant digits. Returns a copy."""
    if isinstance(value, (list, tuple)):
        return [to_6_digits(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


# ---------------------------------------------------------------- the data of a run


def decode_each(encoder, ids: list[int], tokens: list[int]) -> list[str]:
    """Decode the tokens that follow `ids`. Returns one text for each token; joined, they are the
    text of all tokens. A character that several tokens make up is in the text of its last token.
    encoder: an Encoder
    """
    decode = encoder.incremental_decoder()
    decode(ids)
    texts = [decode([token]) for token in tokens]
    if texts:
        texts[-1] += decode([], final=True)
    return texts


NOTE_FIELDS = "draft p q overlap coins numbers support likely residual".split()


def round_data(note, texts: list[str]) -> dict:
    """What the page shows of one round, a dict for JSON: counts, tokens and sources of its Round,
    the NOTE_FIELDS, the texts of its tokens ("shown"), and "seconds": [draft, target, rest].

    note: the page.rounds.Note of the round
    texts: the text of each token that the round wrote
    """
    this_round, seconds = note.round, note.seconds
    return {
        "accepted": this_round.accepted,
        "examined": this_round.examined,
        "tokens": this_round.tokens,
        "sources": this_round.sources,
        "shown": texts,
        "seconds": to_6_digits([seconds.draft, seconds.target, seconds.rest]),
        **{name: to_6_digits(getattr(note, name)) for name in NOTE_FIELDS},
    }


def plain_data(result, texts, notes):
    """The autoregressive run, for the race: {"tokens": ids, "shown": the text of each token,
    "seconds": a list, for each pass, "timed": whether each pass was timed}. A pass writes one
    token.

    result: the dict that Run.finish returned
    texts: the text of each token, a list
    notes: a list with a page.rounds.Note of each pass, or None if the run was not watched. Without
        notes, each pass gets an equal share of the time.
    """
    tokens = result["token_ids"]
    if notes:
        seconds = [note.seconds.total for note in notes]
    else:
        seconds = [result["seconds"] / len(tokens)] * len(tokens)
    timed = {"seconds": to_6_digits(seconds), "timed": bool(notes)}
    return {"tokens": tokens, "shown": texts} | timed


def report_data(description, summary, notes, pair, plain_notes=None):
    """Everything that the page shows of a run, as a dict for JSON.

    description: the dict of describe_run: how the run was made
    summary: the dict of decoding.metrics.summary: the result of the speculative decoder, that of
        the autoregressive one or None, and the speedup
    notes: [page.rounds.Note] of the speculative run
    pair: the decoding.load.Pair that wrote the texts
    plain_notes: [page.rounds.Note] of the autoregressive run, or None if it was not watched
    """
    plain, fast = summary["autoregressive"], summary["speculative"]
    ids, encoder = summary["prompt_token_ids"], pair.encoder
    texts = decode_each(encoder, ids, fast["token_ids"])
    rounds, begin = [], 0
    for note in notes:
        end = begin + len(note.round.tokens)
        rounds.append(round_data(note, texts[begin:end]))
        begin = end
    if plain:
        plain = plain_data(plain, decode_each(encoder, ids, plain["token_ids"]), plain_notes)
    # the page names tokens by their text: all that were written, drafted or likely
    tokens = {*plain["tokens"]} if plain else set()
    for this_round in rounds:
        tokens.update(this_round["draft"], this_round["tokens"])
        # a candidate is (token, p, q), or (token, probability) in a residual
        for candidates in (*this_round["likely"], this_round["residual"] or []):
            tokens.update(candidate[0] for candidate in candidates)
    python, machine = platform.python_version(), platform.machine()
    return {
        **description,
        "coupled": description["settings"]["coupled"],
        "room": pair.target.config.n_ctx - len(ids),  # tokens that the context leaves
        "parameters": [sum(map(prod, model.config.shapes().values())) for model in pair.models],
        # without a character that the first new token completes: it is in the text of that token
        "prompt": encoder.incremental_decoder()(ids),
        "rounds": rounds,
        "plain": plain,
        "words": {token: encoder.decode([token]) for token in sorted(tokens)},
        "figures": fast,
        "speedup": summary["speedup"],
        "made": f"Python {python}, NumPy {np.__version__}, {machine}.",
    }


# ---------------------------------------------------------------- the page


def hash_source(text: str) -> str:
    """Hash an inline script or style to its name in a content security policy: 'sha256-...'."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def style():
    """The text of the page's style sheet."""
    return (WEB / "page.css").read_text(encoding="utf-8")


def script():
    """The text of the page's scripts, joined into one."""
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


def page_of(data: dict) -> str:
    """The HTML of the page, complete in one file. data: what the page shows, from report_data; or
    {"live": {"token", "form"}} for the page of page.server, which asks for its data itself
    """
    # without "<", no text in the data can end the script element around them
    json_text = json.dumps(data, separators=(",", ":")).replace("<", r"\u003c")
    page = (WEB / "page.html").read_text(encoding="utf-8")
    parts = {"POLICY": policy(), "STYLE": style(), "SCRIPT": script(), "DATA": json_text}
    for name, text in parts.items():
        before, after = page.split("{{" + name + "}}")  # page.html has each placeholder once
        page = before + text + after
    return page
