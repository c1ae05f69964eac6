"""Logs: what record wrote is read, anything else is refused in one line."""

import gzip
import json

import pytest
from toys import refusal

from encoder import END_OF_TEXT, Encoder
from experiments.replay.recordings import RecordedText, read_log, with_checksum

HEADER = {
    "format": "speculative decoding log",
    "version": 1,
    "tokenizer": "0123456789abcdef",
    "n_vocab": 259,
    "target": "17M",
    "settings": {"temperature": 1.0, "top_k": 0, "top_p": 1.0},
}
TEXT = {
    "prompt": [1, 2],
    "tokens": [3, 4],
    "p": [0.5, 0.25],
}


def log_of(*texts, header=()):
    """The lines of a log."""
    return [json.dumps(line) for line in (HEADER | dict(header), *texts, {"end": len(texts)})]


WHOLE = log_of(TEXT, TEXT, TEXT)


def cutter():
    return Encoder({"a": 0, "b": 1, END_OF_TEXT: 2}, [])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.jsonl"


def test_a_log_is_read(path, tmp_path):
    """Also an older one, which has more fields."""
    older = TEXT | {"top_ids": [[3, 9], [5]], "top_p": [[0.5, 0.5], [0.75]], "rest": [0.0, 0.25]}
    path.write_text("\n".join(log_of(TEXT, older, TEXT)))
    log = read_log(path, None)
    assert log.texts == 3 * [RecordedText(**TEXT)]
    assert not log.foreign and log.to_probs.temperature == 1
    assert (log.tokenizer, log.n_vocab, log.target) == (HEADER["tokenizer"], 259, "17M")
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_log(packed, None) == log
    packed.write_bytes(packed.read_bytes()[:-20])
    assert "truncated" in refusal(read_log, packed, None)


def test_a_foreign_log_is_cut_into_tokens(path):
    """An empty prompt begins with <|endoftext|>, if there is one."""
    path.write_text('{"prompt": "", "completion": "ab"}\n{"prompt": "b", "output": "a"}')
    log = read_log(path, cutter)
    assert log.foreign and log.target is None and log.n_vocab == 3 and log.to_probs.greedy
    assert log.texts == [RecordedText([2], [0, 1]), RecordedText([1], [0])]
    endless = lambda: Encoder({"a": 0, "b": 1}, [])
    assert "line 1: expected some text" in refusal(read_log, path, endless)


BAD_LOGS = {
    "another version": (log_of(TEXT, header={"version": 2}), "version cannot be 2"),
    "no JSON": (["hello"], "line 1"),
    "empty": ([], "expected JSON"),
    "no end": (WHOLE[:-1], "truncated"),
    "no texts": (log_of(), "truncated"),
    "a header alone": (WHOLE[:1], "truncated"),
    "a text less": (WHOLE[:-2] + WHOLE[-1:], "truncated"),
    "cut in a line": (WHOLE[:2] + [WHOLE[2][:30]], "line 3"),
    "two logs": (2 * WHOLE, "more than one log"),
    "no object": (log_of(TEXT, [1, 2]), "line 3: is no JSON object"),
    "no output": (['{"prompt": "a", "output": "b"}', '{"prompt": "a"}'], "line 2"),
    "letters without a token": (['{"prompt": "a", "output": "c"}'], "line 1"),
    "a number": (['{"prompt": 3, "output": "b"}'], "line 1"),
}

BAD_FIELDS = [
    {"tokens": []},
    {"tokens": [3, 4, 5]},
    {"tokens": [3, 259]},
    {"tokens": [3, -1]},
    {"tokens": [3, 4.0]},
    {"tokens": [3, True]},
    {"tokens": "34"},
    {"tokens": None},
    {"prompt": []},
    {"prompt": [1, 259]},
    {"p": [5.0, 0.25]},
    {"p": [-0.5, 0.25]},
    {"p": [0.0, 0.25]},
    {"p": ["0.5", 0.25]},
    {"p": [0.5]},
    {"p": []},
    {"p": None},
    {"p": [float("nan"), 0.25]},
    {"p": [float("inf"), 0.25]},
    {"checksum": "00000000"},
]


@pytest.mark.parametrize("fields", BAD_FIELDS, ids=json.dumps)
def test_a_recording_that_cannot_be_is_refused_at_its_line(path, fields):
    path.write_text("\n".join(log_of(TEXT, TEXT | fields)))
    assert refusal(read_log, path, None).startswith(f"{path}, line 3: ")


@pytest.mark.parametrize(
    "header",
    [{"settings": settings} for settings in (None, [], {}, {"temperature": 1.0})]
    + [{"settings": HEADER["settings"] | {"temperature": hot}} for hot in (None, -1, "1", True)]
    + [{"settings": HEADER["settings"] | {"top_p": 0}}]
    + [{"settings": HEADER["settings"] | {"top_k": 2.5}}]
    + [{"n_vocab": 0}, {"n_vocab": None}, {"target": None}, {"tokenizer": 3}, {"format": "log"}],
    ids=json.dumps,
)
def test_the_header_of_a_recording_is_checked(path, header):
    path.write_text("\n".join(log_of(TEXT, header=header)))
    assert "expected a log as record wrote it" in refusal(read_log, path, None)


@pytest.mark.parametrize("n_line", range(4))
def test_a_changed_digit_is_noticed(path, n_line):
    """Each, in a log that record wrote. So is a line without the checksum that others have."""
    bare = log_of(TEXT | {"p": [0.5, 0.123456]}, TEXT)
    lines = [json.dumps(with_checksum(json.loads(line))) for line in bare]
    path.write_text("\n".join(lines))
    assert len(read_log(path, None).texts) == 2
    before, whole, after = lines[:n_line], lines[n_line], lines[n_line + 1 :]
    changed = [
        whole[:i] + str((int(digit) + 1) % 10) + whole[i + 1 :]
        for i, digit in enumerate(whole)
        if digit.isdigit()
    ]
    for line in [*changed, bare[n_line]] if n_line else changed:
        path.write_text("\n".join([*before, line, *after]))
        assert f"line {n_line + 1}" in refusal(read_log, path, None)


@pytest.mark.parametrize("name", BAD_LOGS)
def test_logs_that_cannot_be_used(path, name):
    lines, shown = BAD_LOGS[name]
    path.write_text("\n".join(lines))
    message = refusal(read_log, path, cutter)
    assert "log.jsonl" in message and shown in message
