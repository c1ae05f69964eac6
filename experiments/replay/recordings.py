"""Read and check the log of a target: what it wrote after each prompt, for drafts to be tried on.

JSON Lines, packed if the name ends in .gz:

    {"format": "speculative decoding log", "version": 1, "tokenizer": Encoder.fingerprint,
     "n_vocab": 2048, "target": "17M",
     "settings": {"temperature": 0.8, "top_k": 0, "top_p": 1.0, ...},
     "fingerprints": {"17M": SHA-256 of the target's files}}
    {"prompt": [token ids], "tokens": [token ids]}    one line for each text
    {"end": 12}                                       how many texts there are; a file without
                                                      this line is truncated

At a temperature above 0 a text has another field, "p": the probability of each token in the
target's distribution, after temperature, top-k and top-p, with six digits. Older logs also have
the likeliest tokens, which are not used.

Every line also has a "checksum", the CRC-32 of the line without it as json.dumps writes it. A log
of this format from another program may have none.

A foreign log is JSON Lines of texts: {"prompt": "...", "output": "..."} (or completion, or
response), from any program.
"""

from dataclasses import dataclass

from cli.input_files import (
    check_fields,
    is_object,
    is_text,
    list_of,
    parse_json,
    read_lines,
)
from cli.resumable_output import checksum, json_line

from checkpoints.errors import InputError
from checkpoints.limits import COUNT, POSITIVE, PROBABILITY, TEMPERATURE, Limits
from sampling import SamplingParams

FORMAT = {"format": "speculative decoding log", "version": 1}
EXPECTED = "expected a log as record wrote it: copy it or record it again"
OUTPUT_FIELDS = ("output", "completion", "response")
MAX_BYTES = 1 << 30  # of a log, unpacked


@dataclass(frozen=True)
class RecordedText:
    """A text of a log."""

    prompt: list  # token ids
    tokens: list  # token ids that the target wrote after the prompt
    p: list = ()  # the target's probability of each token, if it was sampled

    @property
    def ids(self):
        """The token ids of the prompt and the text after it, a list."""
        return self.prompt + self.tokens


@dataclass(frozen=True)
class Log:
    """The content of a log. A foreign log has neither target nor settings."""

    texts: list  # of RecordedText
    tokenizer: str  # Encoder.fingerprint
    n_vocab: int
    target: str | None = None  # its name
    settings: dict | None = None  # with "temperature", "top_k" and "top_p"

    @property
    def foreign(self):
        """Whether another program than record wrote the log."""
        return self.settings is None

    @property
    def to_probs(self):
        """The SamplingParams for a draft model: those of the target, or greedy if unknown."""
        if self.foreign:
            return SamplingParams()
        return SamplingParams(*(self.settings[name] for name in ("temperature", "top_k", "top_p")))


def round_to_6_digits(value):
    """Return a number rounded to six significant digits, a float.

    >>> round_to_6_digits(2 / 3)
    0.666667
    """
    return float(f"{value:.6g}")


def with_checksum(line):
    """Return a line of a log (a dict) with a field "checksum": its CRC-32, hexadecimal digits."""
    return line | {"checksum": checksum(json_line(line))}


# ---------------------------------------------------------------- reading


def read_log(path, load_encoder):
    """Read a file that record or another program wrote, and return its Log. Raises InputError if
    the file cannot be read, is no log, or has changed since it was written.

    path: a str. load_encoder: a function without arguments that returns an Encoder. It is called
        only for a log of another program, to encode its texts.
    """
    lines = []
    for number, line in enumerate(read_lines(path, MAX_BYTES), 1):
        if line.strip():
            lines.append((f"{path}, line {number}", line))
    if not lines:
        lines = [(path, "")]  # which is refused as no JSON
    place, line = lines[0]
    header = parse_json(line, place)
    if is_object(header) and "format" in header:
        return parse_own_log(path, header, lines[1:])
    encoder = load_encoder()
    texts = []
    for place, line in lines:
        texts.append(parse_foreign_text(parse_json(line, place), place, encoder))
    return Log(texts, encoder.fingerprint, encoder.n_vocab)


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
    """Parse the lines of a log that record wrote. Returns the Log. Raises InputError if the log is
    truncated, has changed, or holds what no target can write.

    path: of the file, for messages; header: its first line, a dict
    lines: [("FILE, line N" for messages, JSON text)] of the lines after the header
    """
    has_checksums = "checksum" in header  # then each line must have one
    header = verify_line(header, f"{path}, line 1", has_checksums)
    check_fields(header, HEADER, path, EXPECTED)
    check_fields(header["settings"], SETTINGS, path, EXPECTED)
    fields = {name: header[name] for name in ("tokenizer", "n_vocab", "target", "settings")}
    log = Log([], **fields)
    records = []
    for place, line in lines:
        records.append((place, verify_line(parse_json(line, place), place, has_checksums)))
    n_texts = len(records) - 1  # the last line is the end, which states their number
    if n_texts < 1 or records[-1][1] != {"end": n_texts}:
        raise InputError(f"{path}: is truncated, or more than one log; {EXPECTED}")
    checks = text_checks(log)
    for place, record in records[:n_texts]:
        check_fields(record, checks, place, EXPECTED)
        text = RecordedText(**{name: record[name] for name in checks})
        if text.p and len(text.p) != len(text.tokens):
            raise InputError(f"{place}: its lists do not fit together; {EXPECTED}")
        log.texts.append(text)
    return log


def verify_line(line, place, must_have):
    """Compare a line of a log with its checksum, and return the line without it. Raises InputError
    if the line does not fit its checksum, or has none but must have one.

    line: a JSON value. One that is no object is returned as it is: the caller refuses it
    place: "FILE, line N", for messages; must_have: whether the line must have a checksum
    """
    if not is_object(line):
        return line
    if "checksum" not in line and not must_have:
        return line
    content = {name: value for name, value in line.items() if name != "checksum"}
    if line != with_checksum(content):
        raise InputError(f"{place}: has changed since it was written; {EXPECTED}")
    return content


def text_checks(log):
    """Return the checks for the texts of a Log: {field of a RecordedText: function (JSON value) ->
    whether it is valid}. There is no "p" if the target was greedy.
    """
    is_token = Limits(0, log.n_vocab - 1, whole=True).allow
    checks = {"prompt": list_of(is_token, min_length=1), "tokens": list_of(is_token, min_length=1)}
    return checks if log.to_probs.greedy else checks | {"p": list_of(is_positive, min_length=1)}


def parse_foreign_text(record, place, encoder):
    """Encode the prompt and the output in a line of another program, and return them as a
    RecordedText. An empty prompt becomes <|endoftext|>. Raises InputError if one of the two is
    missing or cannot be encoded, if the output is empty, or if the prompt is empty and the
    vocabulary has no <|endoftext|>.

    record: the line, a JSON value, with the prompt under "prompt" and the output under one of
        OUTPUT_FIELDS; place: "FILE, line N", for messages; encoder: an Encoder
    """
    fields = record if is_object(record) else {}
    outputs = [fields[name] for name in OUTPUT_FIELDS if name in fields]
    if not (outputs and is_text(outputs[0]) and is_text(fields.get("prompt"))):
        raise InputError(
            f"{place}: expected texts under prompt and one of {', '.join(OUTPUT_FIELDS)}"
        )
    try:
        prompt, tokens = encoder.encode(fields["prompt"]), encoder.encode(outputs[0])
    except ValueError as error:
        raise InputError(f"{place}: {error}") from None
    if not prompt and encoder.end_of_text is not None:
        prompt = [encoder.end_of_text]
    if not tokens or not prompt:
        raise InputError(
            f"{place}: expected some text, and in the prompt too where the vocabulary has no "
            "<|endoftext|> to begin with"
        )
    return RecordedText(prompt, tokens)
