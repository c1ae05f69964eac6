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


# ---------------------------------------------------------------- reading


def read_log(path, encoder):
    """The Log in a file. encoder() is called for a foreign log, to cut its texts into tokens.

    Raises InputError that names the line of a text that cannot be used.
    """
    places = enumerate(read_lines(path, MOST_BYTES), 1)
    lines = [(f"{path}, line {i}", line) for i, line in places if line.strip()]
    if not lines:
        raise InputError(
            f"{path}: is empty; "
            "expected a log that record wrote, or JSON Lines of prompt and output"
        )
    where, line = lines[0]
    header = parse_json(line, where)
    if isinstance(header, dict) and "format" in header:
        return own_log(header, lines[1:], path)
    cutter = encoder()
    texts = [foreign_text(parse_json(line, where), where, cutter) for where, line in lines]
    return Log(texts, cutter.fingerprint, cutter.n_vocab)


def own_log(header, lines, path):
    """The Log that begins with this header."""
    log, end = log_of(header, path), None
    for where, line in lines:
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
        elif is_text(value, log):
            log.texts.append(value)
        else:
            raise InputError(
                f"{where}: expected a text with prompt and tokens as ids below {log.n_vocab}; "
                "record the log again"
            )
    if end != len(log.texts) or not end:
        raise InputError(
            f"{path}: is truncated after {len(log.texts)} texts; copy it or record it again, "
            "expected an end line"
        )
    return log


def log_of(header, path):
    """The Log that a first line begins, without texts. Raises InputError."""
    if header["format"] != FORMAT or header.get("version") != VERSION:
        found = f"{header['format']!r}, version {header.get('version')!r}"
        raise InputError(
            f"{path}: is {found}; expected {FORMAT!r}, version {VERSION}: record the log again"
        )
    try:
        log = Log([], *(header[name] for name in ("tokenizer", "n_vocab", "target", "settings")))
        log.filter(np.zeros((1, 2)))  # raises for sampling parameters that are none
        kinds = [type(value) for value in (log.target, log.n_vocab, log.settings["top_k"])]
        if kinds != [str, int, int] or not 0 < log.n_vocab <= MOST_TOKENS:
            raise ValueError
    except (LookupError, TypeError, ValueError, OverflowError):
        raise InputError(
            f"{path}: its first line lacks the tokenizer, the target, or settings that make sense; "
            "record the log again"
        ) from None
    return log


def is_text(text, log):
    """Whether a line is a text of the log: ids, and probabilities where it was sampled."""
    try:
        ids, numbers = text["prompt"] + text["tokens"], []
        whole = bool(text["prompt"] and text["tokens"])
        if not log.filter.greedy:
            ids += chain(*text["top_ids"])
            numbers = [*text["p"], *text["rest"], *chain(*text["top_p"])]
            whole = whole and 0 not in text["p"]
            whole = whole and {len(text[name]) for name in PROBABILITIES} == {len(text["tokens"])}
            pairs = zip(text["top_ids"], text["top_p"])
            whole = whole and all(len(ids) == len(values) for ids, values in pairs)
        whole = whole and all(type(i) is int and 0 <= i < log.n_vocab for i in ids)
        return whole and all(0 <= number <= 1 for number in numbers)
    except (LookupError, TypeError):
        return False


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
    if not prompt and encoder.end_of_text is None:
        raise InputError(
            f"{where}: the prompt is empty; expected text, as the vocabulary has no "
            "<|endoftext|> to begin with"
        )
    return {"prompt": prompt or [encoder.end_of_text], "tokens": tokens}
