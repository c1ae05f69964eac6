"""Read and check the log of a target: what it wrote after each prompt, for drafts to be tried on.

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

Every line also has a "checksum", the CRC-32 of the line without it as json.dumps writes it. A log
of this format from another program may have none.

A foreign log is JSON Lines of texts: {"prompt": "...", "output": "..."} (or completion, or
response), from any program.
"""

import math
from dataclasses import dataclass

import numpy as np

from checkpoints.errors import InputError
from checkpoints.limits import COUNT, POSITIVE, PROBABILITY, TEMPERATURE, Limits
from cli.reading import (
    check_fields,
    is_object,
    is_text,
    list_of,
    parse_json,
    read_lines,
)
from cli.resumable_output import checksum, encoded
from sampling import SamplingParams

FORMAT = {"format": "speculative decoding log", "version": 1}
EXPECTED = "expected a log as record wrote it: copy it or record it again"
OUTPUT_FIELDS = ("output", "completion", "response")
MAX_BYTES = 1 << 30  # of a log, unpacked
TOLERANCE = 1e-3  # of probabilities that another program may have rounded


@dataclass(frozen=True)
class RecordedText:
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
    """The RecordedTexts of a log. target, settings: from the first line; None for a foreign log."""

    texts: list
    tokenizer: str
    n_vocab: int
    target: str | None = None
    settings: dict | None = None

    @property
    def foreign(self):
        return self.settings is None

    @property
    def to_probs(self):
        """How a neural draft has to draft: as the target did, or greedily where that is unknown."""
        if self.foreign:
            return SamplingParams()
        return SamplingParams(*(self.settings[name] for name in ("temperature", "top_k", "top_p")))


def round_to_6_digits(values):
    """Return the values as a list of floats with six significant digits."""
    return [float(f"{value:.6g}") for value in values]


def recorded_probabilities(p, tokens, top):  # [n, n_vocab], [n] -> {name: list of n}
    """Return what a log keeps of the target's distributions p at the tokens drawn from them.

    top: how many of the likeliest tokens are kept, with their probabilities
    """
    kept = {"p": [], "top_ids": [], "top_p": [], "rest": []}
    for row, token in zip(p, tokens):
        ids = np.argsort(-row, kind="stable")[:top]
        ids = ids[row[ids] > 0]
        kept["p"] += round_to_6_digits([row[token]])
        kept["top_ids"].append(ids.tolist())
        kept["top_p"].append(round_to_6_digits(row[ids]))
        kept["rest"] += round_to_6_digits(
            [max(0.0, 1 - row[ids].sum()) if len(ids) == top else 0.0]
        )
    return kept


def with_checksum(line):
    """Return the line of a log, a dict, with its checksum."""
    return line | {"checksum": checksum(encoded(line))}


# ---------------------------------------------------------------- reading


def read_log(path, encoder):
    """Read the Log in a file. Raises InputError if it is no log, or has changed since.

    encoder: a function without arguments that returns an Encoder; it is called for a foreign log
    only, to cut its texts into tokens
    """
    places = enumerate(read_lines(path, MAX_BYTES), 1)
    lines = [(f"{path}, line {i}", line) for i, line in places if line.strip()]
    where, line = lines[0] if lines else (path, "")
    header = parse_json(line, where)
    if is_object(header) and "format" in header:
        return parse_own_log(path, header, lines[1:])
    tokenizer = encoder()
    texts = [parse_foreign_text(parse_json(line, where), where, tokenizer) for where, line in lines]
    return Log(texts, tokenizer.fingerprint, tokenizer.n_vocab)


# what the fields of a header and of its settings may be
is_probability = PROBABILITY.allow
is_positive = lambda p: is_probability(p) and p > 0
HEADER = {
    "format": lambda name: name == FORMAT["format"],
    "version": lambda version: version == FORMAT["version"],
    "tokenizer": is_text,
    "n_vocab": POSITIVE.allow,
    "target": is_text,
    "settings": is_object,
}
SETTINGS = {
    "temperature": TEMPERATURE.allow,
    "top_k": COUNT.allow,
    "top_p": is_positive,
}


def parse_own_log(path, header, lines):
    """Return the Log that record wrote, from its header (a dict) and [(where, line)] after it.

    where: "FILE, line N", for errors. Raises InputError if the log is truncated or has changed.
    """
    must_have = "checksum" in header
    header = without_checksum(header, f"{path}, line 1", must_have)
    check_fields(header, HEADER, path, EXPECTED)
    check_fields(header["settings"], SETTINGS, path, EXPECTED)
    log = Log([], *(header[name] for name in ("tokenizer", "n_vocab", "target", "settings")))
    checks = text_checks(log)
    records = []
    for where, line in lines:
        records.append((where, without_checksum(parse_json(line, where), where, must_have)))
    *texts, (_, end) = records or [(path, None)]
    if not texts or end != {"end": len(texts)}:
        raise InputError(f"{path}: is truncated, or more than one log; {EXPECTED}")
    for where, text in texts:
        check_fields(text, checks, where, EXPECTED)
        log.texts.append(RecordedText(*(text[name] for name in checks)))
        if not is_consistent(log.texts[-1]):
            raise InputError(f"{where}: its lists do not fit together; {EXPECTED}")
    return log


def without_checksum(line, where, must_have):
    """Return the line of a log without its checksum. Raises InputError if the line has changed, or
    lacks a checksum that it must have.
    """
    if not is_object(line) or not (must_have or "checksum" in line):
        return line
    content = {name: value for name, value in line.items() if name != "checksum"}
    if line != with_checksum(content):
        raise InputError(f"{where}: has changed since it was written; {EXPECTED}")
    return content


def text_checks(log):
    """Return {field of a RecordedText: function(value) that says whether it is valid}."""
    is_token = Limits(0, log.n_vocab - 1, whole=True).allow
    checks = {"prompt": list_of(is_token, least=1), "tokens": list_of(is_token, least=1)}
    if log.to_probs.greedy:
        return checks
    return checks | {
        "p": list_of(is_positive, least=1),
        "top_ids": list_of(list_of(is_token)),
        "top_p": list_of(list_of(is_probability)),
        "rest": list_of(is_probability),
    }


def is_consistent(text):
    """Return whether the lists of a text have equal lengths and its probabilities can be right."""
    if not text.p:
        return True  # of a greedy log
    lengths = {len(text.tokens), len(text.p), len(text.top_p), len(text.rest)}
    aligned = len(lengths) == 1 and [*map(len, text.top_ids)] == [*map(len, text.top_p)]
    entries = zip(text.tokens, text.p, text.top_ids, text.top_p, text.rest)
    return aligned and all(is_possible(*entry) for entry in entries)


def is_possible(token, p, top_ids, top_p, rest):
    """Return whether one distribution can have these likeliest tokens and give p to this token."""
    likeliest = dict(zip(top_ids, top_p))
    if len(likeliest) < len(top_ids) or abs(sum(top_p) + rest - 1) >= TOLERANCE:
        return False
    if token in likeliest:
        return math.isclose(p, likeliest[token], rel_tol=TOLERANCE)
    return p <= min(rest, *top_p) + TOLERANCE


def parse_foreign_text(record, where, encoder):
    """Return the RecordedText of another program's record (a dict), cut into tokens.

    Raises InputError, which begins with `where`, if a text is missing or cannot be encoded.
    """
    fields = record if is_object(record) else {}
    outputs = [fields[name] for name in OUTPUT_FIELDS if name in fields]
    texts = [fields.get("prompt"), *outputs[:1]]
    if not outputs or not all(map(is_text, texts)):
        raise InputError(
            f"{where}: expected texts under prompt and one of {', '.join(OUTPUT_FIELDS)}"
        )
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
    return RecordedText(prompt, tokens)
