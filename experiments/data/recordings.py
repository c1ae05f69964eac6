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

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from experiments.data.lines import Lines
from experiments.data.reading import load_json, parse_json, read_lines
from sampling import Filter
from utils import InputError

FORMAT, VERSION = "speculative decoding log", 1
OUTPUTS = ("output", "completion", "response")
MOST_BYTES = 1 << 30  # of a log, unpacked
MOST_TOKENS = 1 << 20  # of a vocabulary
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
        if self.foreign:
            return Filter()
        return Filter(*(self.settings[name] for name in ("temperature", "top_k", "top_p")))


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


def open_log(path, header):
    """The Lines of a log that is written; an interrupted one goes on."""
    return Lines(path, {"format": FORMAT, "version": VERSION, **header})


def ids_in(values, n_vocab):
    return isinstance(values, list) and all(type(i) is int and 0 <= i < n_vocab for i in values)


def has_probabilities(text, n_vocab):
    """Whether a text has what a sampled one needs, an entry for each of its tokens."""
    lists = [text.get(name) for name in PROBABILITIES]
    n = len(text["tokens"])
    if not all(isinstance(values, list) and len(values) == n for values in lists):
        return False
    p, top_ids, top_p, rest = lists
    for ids, values in zip(top_ids, top_p):
        if not (ids_in(ids, n_vocab) and isinstance(values, list) and len(ids) == len(values)):
            return False
    values = [*p, *rest, *chain(*top_p)]
    return all(type(value) in (int, float) and 0 <= value <= 1 for value in values) and 0 not in p


def check_text(text, where, n_vocab, sampled):
    """Raises InputError for a line that is not a text of the log."""
    good = isinstance(text, dict) and all(
        text.get(name) and ids_in(text[name], n_vocab) for name in ("prompt", "tokens")
    )
    if not good or sampled and not has_probabilities(text, n_vocab):
        raise InputError(
            f"{where}: expected a text with prompt and tokens as ids below {n_vocab}; "
            "record the log again"
        )


def foreign_text(record, where, encoder):
    """A text of another program, cut into tokens by the encoder."""
    found = [record[name] for name in OUTPUTS if name in record] if type(record) is dict else []
    if not found or not isinstance(found[0], str) or not isinstance(record.get("prompt"), str):
        expected = f"{', '.join(OUTPUTS[:-1])} or {OUTPUTS[-1]}"
        raise InputError(f"{where}: expected texts under prompt and {expected}")
    try:
        prompt, tokens = encoder.encode(record["prompt"]), encoder.encode(found[0])
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    if not tokens:
        raise InputError(f"{where}: the output is empty; expected text")
    if not prompt:
        if encoder.end_of_text is None:
            raise InputError(
                f"{where}: the prompt is empty; expected text, as the vocabulary has no "
                "<|endoftext|> to begin with"
            )
        prompt = [encoder.end_of_text]
    return {"prompt": prompt, "tokens": tokens}


def log_of(header, path):
    """The Log that a first line begins, without texts. Raises InputError."""
    if header["format"] != FORMAT or header.get("version") != VERSION:
        found = f"{header['format']!r}, version {header.get('version')!r}"
        raise InputError(
            f"{path}: is {found}; expected {FORMAT!r}, version {VERSION}: record the log again"
        )
    try:
        log = Log([], *(header[name] for name in ("tokenizer", "n_vocab", "target", "settings")))
        good = isinstance(log.settings, dict) and float(log.filter.temperature) >= 0
        good = good and isinstance(log.filter.top_k, int | None)
    except (KeyError, TypeError, ValueError, OverflowError):
        good = False
    good = good and isinstance(log.tokenizer, str) and isinstance(log.target, str)
    if not good or type(log.n_vocab) is not int or not 1 <= log.n_vocab <= MOST_TOKENS:
        raise InputError(
            f"{path}: its first line lacks the tokenizer, the target, or settings that make sense; "
            "record the log again"
        )
    return log


def read_log(path, encoder):
    """The Log in a file. encoder() is called for a foreign log, to cut its texts into tokens.

    Raises InputError that names the line of a text that cannot be used.
    """
    path = Path(path)
    places = enumerate(read_lines(path, MOST_BYTES), 1)
    lines = [(f"{path}, line {i}", line) for i, line in places if line.strip()]
    if not lines:
        raise InputError(
            f"{path}: is empty; "
            "expected a log that record wrote, or JSON Lines of prompt and output"
        )
    where, line = lines[0]
    header = parse_json(line, where)
    if not isinstance(header, dict) or "format" not in header:
        cutter = encoder()
        texts = [foreign_text(parse_json(line, where), where, cutter) for where, line in lines]
        return Log(texts, cutter.fingerprint, cutter.n_vocab)
    log = log_of(header, path)
    end = None
    for where, line in lines[1:]:
        if end is not None:
            raise InputError(
                f"{where}: follows the end of the log; expected one recording in a file, split it"
            )
        try:
            value = load_json(line)
        except ValueError:
            break  # cut in the middle
        if isinstance(value, dict) and "end" in value:
            end = value["end"]
            continue
        check_text(value, where, log.n_vocab, sampled=not log.filter.greedy)
        log.texts.append(value)
    if end != len(log.texts) or not end:
        raise InputError(
            f"{path}: is truncated after {len(log.texts)} texts; copy it or record it again, "
            "expected an end line"
        )
    return log
