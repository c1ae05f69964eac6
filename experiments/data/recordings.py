"""The log of a target: what it wrote after each prompt, for drafts to be tried on without it.

JSON Lines, packed where the name ends in .gz:

    {"format": "speculative decoding log", "version": 1, "tokenizer": Encoder.fingerprint, "n_vocab": 2048, "target": "7M",
     "settings": {"temperature": 0.8, "top_k": 0, "top_p": 1.0, ...}}
    {"prompt": [token ids], "tokens": [token ids]}                              one line for each text
    {"end": 12}                                                                 how many there were; without it, it is truncated

At a temperature above 0 a text has four fields more, with an entry for each token, of the target's
distribution p there, after temperature, top-k and top-p: "p", the token's own probability;
"top_ids" and "top_p", the likeliest tokens and their probabilities; "rest", the mass of all others.
Probabilities have six digits.

A foreign log is JSON Lines of texts: {"prompt": "...", "output": "..."} (or completion, or
response), from any program.
"""

import gzip
import json
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from experiments.data.files import whole
from experiments.data.reading import parse_json, read_lines
from sampling import Filter
from utils import InputError

FORMAT, VERSION = "speculative decoding log", 1
OUTPUTS = ("output", "completion", "response")
PROBABILITIES = ("p", "top_ids", "top_p", "rest")


@dataclass(frozen=True)
class Log:
    """texts: dictionaries with prompt and tokens, and where they were sampled the probabilities.

    tokenizer: its fingerprint. target and settings: from the first line; None for a foreign log.
    """

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
        """How a neural draft has to draft: as the target did, or greedily where the log does not
        tell.
        """
        return (
            Filter()
            if self.foreign
            else Filter(*(self.settings[name] for name in ("temperature", "top_k", "top_p")))
        )


def digits(values):
    return [float(f"{value:.6g}") for value in values]


def probabilities(p, tokens, top):  # [n, n_vocab], [n] -> {name: list of n}
    """What the log keeps of the target's distributions at the tokens it drew: `top` entries, none
    of probability 0.
    """
    found = {name: [] for name in PROBABILITIES}
    for row, token in zip(p, tokens):
        ids = np.argsort(-row, kind="stable")[:top]
        ids = ids[row[ids] > 0]
        found["p"] += digits([row[token]])
        found["top_ids"].append(ids.tolist())
        found["top_p"].append(digits(row[ids]))
        found["rest"] += digits([max(0.0, 1 - row[ids].sum()) if len(ids) == top else 0.0])
    return found


@contextmanager
def write_log(path, header):
    """A function that adds a text; the file appears when the block ends well."""
    n = 0
    with (
        whole(path) as part,
        (gzip.open if str(path).endswith(".gz") else open)(part, "wt", encoding="utf-8") as file,
    ):

        def add(text):
            nonlocal n
            n += 1
            print(json.dumps(text, separators=(",", ":")), file=file)

        print(json.dumps({"format": FORMAT, "version": VERSION, **header}), file=file)
        yield add
        print(json.dumps({"end": n}), file=file)


def ids_in(values, n_vocab):
    return isinstance(values, list) and all(type(i) is int and 0 <= i < n_vocab for i in values)


def check_text(text, where, n_vocab, sampled):
    """Raises InputError for a line that is not a text of the log."""
    good = isinstance(text, dict) and all(
        text.get(name) and ids_in(text[name], n_vocab) for name in ("prompt", "tokens")
    )
    if good and sampled:
        n = len(text["tokens"])
        lists = [text.get(name) for name in PROBABILITIES]
        good = all(isinstance(values, list) and len(values) == n for values in lists)
        good = good and all(
            ids_in(ids, n_vocab) and len(ids) == len(p) for ids, p in zip(lists[1], lists[2])
        )
        values = [*lists[0], *lists[3], *chain(*lists[2])] if good else []
        good = good and all(type(value) in (int, float) and 0 <= value <= 1 for value in values)
    if not good:
        raise InputError(
            f"{where}: expected a text with prompt and tokens as ids below {n_vocab}; record the log again"
        )


def foreign_texts(lines, encoder):
    """The texts of [(where, line)], cut into tokens by the encoder."""
    texts = []
    for where, line in lines:
        record = parse_json(line, where)
        output = (
            next((record[name] for name in OUTPUTS if name in record), None)
            if isinstance(record, dict)
            else None
        )
        if not isinstance(output, str) or not isinstance(record.get("prompt"), str):
            raise InputError(
                f"{where}: expected texts under prompt and {', '.join(OUTPUTS[:-1])} or {OUTPUTS[-1]}"
            )
        try:
            prompt, tokens = (
                encoder.encode(record["prompt"]) or [encoder.end_of_text],
                encoder.encode(output),
            )
        except ValueError as error:
            raise InputError(f"{where}: {error}") from None
        if not tokens:
            raise InputError(f"{where}: its output is empty; expected text")
        texts.append({"prompt": prompt, "tokens": tokens})
    return texts


def read_log(path, encoder):
    """The Log in a file. encoder() -> Encoder is asked for the tokenizer of a foreign one. Raises
    InputError.
    """
    path = Path(path)
    lines = [
        (f"{path}, line {i}", line) for i, line in enumerate(read_lines(path), 1) if line.strip()
    ]
    if not lines:
        raise InputError(
            f"{path}: is empty; expected a log that record wrote, or JSON Lines of prompt and output"
        )
    header = parse_json(lines[0][1], lines[0][0])
    if not isinstance(header, dict) or "format" not in header:
        cutter = encoder()
        return Log(foreign_texts(lines, cutter), cutter.fingerprint, cutter.n_vocab)
    if header["format"] != FORMAT or header.get("version") != VERSION:
        found = f"{header['format']!r}, version {header.get('version')!r}"
        raise InputError(
            f"{path}: is {found}; expected {FORMAT!r}, version {VERSION}: record the log again"
        )
    try:
        log = Log(
            [], header["tokenizer"], header["n_vocab"] + 0, header["target"], header["settings"]
        )
        greedy = log.filter.greedy
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{path}: its first line lacks the tokenizer or the settings; record the log again"
        ) from None
    end = None
    for where, line in lines[1:]:
        try:
            value = json.loads(line)
        except ValueError:
            break  # cut in the middle
        if isinstance(value, dict) and "end" in value:
            end = value["end"]
            break
        check_text(value, where, log.n_vocab, not greedy)
        log.texts.append(value)
    if end != len(log.texts) or not end:
        raise InputError(
            f"{path}: is truncated after {len(log.texts)} texts; copy it or record it again, expected an end line"
        )
    return log
