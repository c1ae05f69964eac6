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

import numpy as np

from cli.reading import (
    check_fields,
    integer,
    is_object,
    is_text,
    list_of,
    number,
    parse_json,
    read_lines,
)
from cli.values import MOST
from sampling import Filter
from utils import InputError

FORMAT = {"format": "speculative decoding log", "version": 1}
EXPECTED = "expected a log as record wrote it: copy it or record it again"
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
    kept = {"p": [], "top_ids": [], "top_p": [], "rest": []}
    for row, token in zip(p, tokens):
        ids = np.argsort(-row, kind="stable")[:top]
        ids = ids[row[ids] > 0]
        kept["p"] += digits([row[token]])
        kept["top_ids"].append(ids.tolist())
        kept["top_p"].append(digits(row[ids]))
        kept["rest"] += digits([max(0.0, 1 - row[ids].sum()) if len(ids) == top else 0.0])
    return kept


# ---------------------------------------------------------------- reading


def read_log(path, encoder):
    """The Log in a file. encoder() is called for a foreign log, to cut its texts into tokens."""
    places = enumerate(read_lines(path, MOST_BYTES), 1)
    lines = [(f"{path}, line {i}", line) for i, line in places if line.strip()]
    where, line = lines[0] if lines else (path, "")
    header = parse_json(line, where)
    if is_object(header) and "format" in header:
        return own_log(path, header, lines[1:])
    tokenizer = encoder()
    texts = [foreign_text(parse_json(line, where), where, tokenizer) for where, line in lines]
    return Log(texts, tokenizer.fingerprint, tokenizer.n_vocab)


# what the fields of a header and of its settings may be
is_probability = number(0, 1)
is_positive = lambda p: is_probability(p) and p > 0
HEADER = {
    "format": lambda name: name == FORMAT["format"],
    "version": lambda version: version == FORMAT["version"],
    "tokenizer": is_text,
    "n_vocab": integer(1, MOST),
    "target": is_text,
    "settings": is_object,
}
SETTINGS = {"temperature": number(0, MOST), "top_k": integer(0, MOST), "top_p": is_positive}


def own_log(path, header, lines):
    """The Log of record, from its header and [(where, line)] of all that follows."""
    check_fields(header, HEADER, path, EXPECTED)
    check_fields(header["settings"], SETTINGS, path, EXPECTED)
    log = Log([], *(header[name] for name in ("tokenizer", "n_vocab", "target", "settings")))
    checks = checks_of_texts(log)
    records = [(where, parse_json(line, where)) for where, line in lines]
    *texts, (_, end) = records or [(path, None)]
    if not texts or end != {"end": len(texts)}:
        raise InputError(f"{path}: is truncated, or more than one log; {EXPECTED}")
    for where, text in texts:
        check_fields(text, checks, where, EXPECTED)
        log.texts.append(Text(*(text[name] for name in checks)))
        if not consistent(log.texts[-1]):
            raise InputError(f"{where}: its lists do not fit together; {EXPECTED}")
    return log


def checks_of_texts(log):
    """{field of a Text: what it may be}."""
    is_token = integer(0, log.n_vocab - 1)
    checks = {"prompt": list_of(is_token, least=1), "tokens": list_of(is_token, least=1)}
    if log.filter.greedy:
        return checks
    return checks | {
        "p": list_of(is_positive, least=1),
        "top_ids": list_of(list_of(is_token)),
        "top_p": list_of(list_of(is_probability)),
        "rest": list_of(is_probability),
    }


def consistent(text):
    """Whether the lists of a sampled Text have equal lengths, and its distributions sum to 1."""
    if not text.p:
        return True  # of a greedy log
    lengths = {len(text.tokens), len(text.p), len(text.top_p), len(text.rest)}
    aligned = len(lengths) == 1 and [*map(len, text.top_ids)] == [*map(len, text.top_p)]
    return aligned and all(abs(sum(p) + rest - 1) < 1e-3 for p, rest in zip(text.top_p, text.rest))


def foreign_text(record, where, encoder):
    """A text of another program, cut into tokens by the encoder."""
    fields = record if is_object(record) else {}
    outputs = [fields[name] for name in OUTPUTS if name in fields]
    texts = [fields.get("prompt"), *outputs[:1]]
    if not outputs or not all(map(is_text, texts)):
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
