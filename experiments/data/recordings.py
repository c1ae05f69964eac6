"""The log of a target: what it wrote after each prompt, for drafts to be tried on without it.

JSON Lines, packed where the name ends in .gz:

    {"format": "speculative decoding log", "version": 1, "tokenizer": Encoder.fingerprint,
     "n_vocab": 2048, "target": "17M",
     "settings": {"temperature": 0.8, "top_k": 0, "top_p": 1.0, ...},
     "fingerprints": {"17M": SHA-256 of the target's files}}
    {"prompt": [token ids], "tokens": [token ids]}    one line for each text
    {"end": 12}                                       how many there are; a file without it is
                                                      truncated

At a temperature above 0 a text has four fields more, with an entry for each token, of the target's
distribution p there, after temperature, top-k and top-p: "p", the token's own probability;
"top_ids" and "top_p", the likeliest tokens and their probabilities; "rest", the mass of all others.
Probabilities have six digits.

A foreign log is JSON Lines of texts: {"prompt": "...", "output": "..."} (or completion, or
response), from any program.
"""

import json
from dataclasses import dataclass

import numpy as np

from experiments.data.reading import parse_json, read_lines
from sampling import Filter
from utils import InputError

FORMAT = {"format": "speculative decoding log", "version": 1}
OUTPUTS = ("output", "completion", "response")
MOST_BYTES = 1 << 30  # of a log, unpacked


@dataclass(frozen=True)
class Text:
    """A line of a log; the probabilities only where it was sampled."""

    prompt: list
    tokens: list
    p: list = ()
    top_ids: list = ()
    top_p: list = ()
    rest: list = ()

    @property
    def ids(self):
        return self.prompt + self.tokens


@dataclass(frozen=True)
class Log:
    """The Texts of a log. target, settings: from the first line; None for a foreign log."""

    texts: list
    tokenizer: str
    n_vocab: int
    target: str | None = None
    settings: dict | None = None

    @property
    def foreign(self):
        return self.settings is None

    @property
    def filter(self):
        """How a neural draft has to draft: as the target did, or greedily where that is unknown."""
        if self.foreign:
            return Filter()
        return Filter(*(self.settings[name] for name in ("temperature", "top_k", "top_p")))


def digits(values):
    return [float(f"{value:.6g}") for value in values]


def probabilities(p, tokens, top):  # [n, n_vocab], [n] -> {name: list of n}
    """What the log keeps of the target's distributions at the tokens it drew."""
    found = {"p": [], "top_ids": [], "top_p": [], "rest": []}
    for row, token in zip(p, tokens):
        ids = np.argsort(-row, kind="stable")[:top]
        ids = ids[row[ids] > 0]
        found["p"] += digits([row[token]])
        found["top_ids"].append(ids.tolist())
        found["top_p"].append(digits(row[ids]))
        found["rest"] += digits([max(0.0, 1 - row[ids].sum()) if len(ids) == top else 0.0])
    return found


# ---------------------------------------------------------------- reading


def read_log(path, encoder):
    """The Log in a file. encoder() is called for a foreign log, to cut its texts into tokens."""
    places = enumerate(read_lines(path, MOST_BYTES), 1)
    lines = [(f"{path}, line {i}", line) for i, line in places if line.strip()]
    where, line = lines[0] if lines else (path, "")
    header = parse_json(line, where)
    if isinstance(header, dict) and "format" in header:
        return own_log(header, [line for _, line in lines[1:]], path)
    cutter = encoder()
    texts = [foreign_text(parse_json(line, where), where, cutter) for where, line in lines]
    return Log(texts, cutter.fingerprint, cutter.n_vocab)


def own_log(header, lines, path):
    """The Log that begins with this header."""
    try:
        *texts, end = map(json.loads, lines)
        if end != {"end": len(texts)} or not header.items() >= FORMAT.items():
            raise ValueError("truncated, or of another version")
        texts = [Text(**text) for text in texts]
        about = [header[name] for name in ("tokenizer", "n_vocab", "target", "settings")]
    except (ValueError, TypeError, KeyError):
        raise InputError(
            f"{path}: is damaged, truncated, more than one log, or of another version; "
            "expected a log as record wrote it: copy it or record it again"
        ) from None
    return Log(texts, *about)


def foreign_text(record, where, encoder):
    """A text of another program, cut into tokens by the encoder."""
    fields = record if isinstance(record, dict) else {}
    outputs = [fields[name] for name in OUTPUTS if name in fields]
    texts = [fields.get("prompt"), *outputs[:1]]
    if not outputs or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{where}: expected texts under prompt and one of {', '.join(OUTPUTS)}")
    try:
        prompt, tokens = map(encoder.encode, texts)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    prompt = prompt or [encoder.end_of_text]
    if not tokens or prompt == [None]:
        raise InputError(
            f"{where}: expected some text, and in the prompt too where the vocabulary has no "
            "<|endoftext|> to begin with"
        )
    return Text(prompt, tokens)
