"""Logs: what record wrote is read, anything else is refused in one line."""

import gzip
import json

import pytest
from toys import refusal

from encoder import END_OF_TEXT, Encoder
from experiments.data.recordings import read_log

LETTERS = {"a": 0, "b": 1}
SETTINGS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
HEADER = {
    "format": "speculative decoding log",
    "version": 1,
    "tokenizer": "0123456789abcdef",
    "n_vocab": 259,
    "target": "17M",
    "settings": SETTINGS,
}
TEXT = {
    "prompt": [1, 2],
    "tokens": [3, 4],
    "p": [0.5, 0.25],
    "top_ids": [[3, 9], [5]],
    "top_p": [[0.5, 0.5], [0.75]],
    "rest": [0.0, 0.25],
}
GREEDY = SETTINGS | {"temperature": 0.0}


def log_of(*texts, header=(), end=None):
    """The lines of a log."""
    end = {"end": len(texts)} if end is None else end
    return [json.dumps(line) for line in (HEADER | dict(header), *texts, end)]


WHOLE = log_of(TEXT, TEXT, TEXT)


def cutter():
    return Encoder(LETTERS | {END_OF_TEXT: 2}, [])


@pytest.fixture
def write(tmp_path):
    """A function (lines) -> the path of a file."""

    def write(lines):
        path = tmp_path / "log.jsonl"
        path.write_text("\n".join(lines))
        return path

    return write


def test_a_log_is_read(write, tmp_path):
    log = read_log(write(WHOLE), None)
    assert log.texts == 3 * [TEXT] and not log.foreign and log.filter.temperature == 1
    assert (log.tokenizer, log.n_vocab, log.target) == (HEADER["tokenizer"], 259, "17M")
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress("\n".join(WHOLE).encode()))
    assert read_log(packed, None) == log
    packed.write_bytes(packed.read_bytes()[:-20])
    assert "truncated" in refusal(read_log, packed, None)
    short = {name: TEXT[name] for name in ("prompt", "tokens")}
    assert read_log(write(log_of(short, header={"settings": GREEDY})), None).texts == [short]


def test_a_foreign_log_is_cut_into_tokens(write):
    """An empty prompt begins with <|endoftext|>, if there is one."""
    path = write(['{"prompt": "", "completion": "ab"}', '{"prompt": "b", "output": "a"}'])
    log = read_log(path, cutter)
    assert log.foreign and log.target is None and log.n_vocab == 3 and log.filter.greedy
    assert log.texts == [{"prompt": [2], "tokens": [0, 1]}, {"prompt": [1], "tokens": [0]}]
    assert "line 1: the prompt is empty" in refusal(read_log, path, lambda: Encoder(LETTERS, []))


def header(**values):
    return log_of(TEXT, header=values)


def text(**values):
    return log_of(TEXT, TEXT | values)


BAD_LOGS = {
    "another version": (header(version=2), "version 2"),
    "another format": (header(format="diary"), "'diary'"),
    "no settings": (header(settings={}), "first line"),
    "settings that are none": (header(settings="greedy"), "first line"),
    "a temperature of words": (header(settings=SETTINGS | {"temperature": "warm"}), "first line"),
    "a temperature beyond floats": (
        header(settings=SETTINGS | {"temperature": 10**400}),
        "first line",
    ),
    "half a top_k": (header(settings=SETTINGS | {"top_k": 2.5}), "first line"),
    "no vocabulary": (header(n_vocab=None), "first line"),
    "an absurd vocabulary": (header(n_vocab=10**30), "first line"),
    "half a vocabulary": (header(n_vocab=259.5), "first line"),
    "a target that is none": (header(target=["17M"]), "first line"),
    "NaN": ([WHOLE[0].replace("1.0", "NaN"), *WHOLE[1:]], "line 1"),
    "no JSON": (["hello"], "line 1"),
    "brackets": (["[" * 200_000], "line 1"),
    "empty": ([], "is empty"),
    "no end": (WHOLE[:-1], "truncated after 3 texts"),
    "a text less": (WHOLE[:-2] + WHOLE[-1:], "truncated after 2 texts"),
    "cut in a line": (WHOLE[:2] + [WHOLE[2][:30]], "truncated after 1 texts"),
    "brackets in a text": ([WHOLE[0], "[" * 200_000, *WHOLE[2:]], "truncated"),
    "only a first line": (WHOLE[:1], "truncated after 0"),
    "two logs": (2 * WHOLE, "line 6"),
    "half a line after the end": ([*WHOLE, WHOLE[1][:9]], "line 6"),
    "no object": (log_of(TEXT, [1, 2]), "line 3"),
    "no tokens": (text(tokens=[]), "line 3"),
    "too large an id": (text(tokens=[3, 259]), "line 3"),
    "half an id": (text(prompt=[1.5]), "line 3"),
    "a text as a prompt": (text(prompt="a"), "line 3"),
    "no probabilities": (log_of({"prompt": [1], "tokens": [2]}), "line 2"),
    "a probability of 0": (text(p=[0, 0.5]), "line 3"),
    "a probability of 2": (text(p=[2, 0.5]), "line 3"),
    "a rest below 0": (text(rest=[0.0, -1]), "line 3"),
    "a word as a probability": (text(top_p=[["x", 0.5], [0.75]]), "line 3"),
    "a probability too few": (text(p=[0.5]), "line 3"),
    "a likely token too few": (text(top_p=[[0.5], [0.75]]), "line 3"),
    "too large a likely id": (text(top_ids=[[3, 259], [5]]), "line 3"),
    "no output": (['{"prompt": "a", "output": "b"}', '{"prompt": "a"}'], "line 2"),
    "an empty output": (['{"prompt": "a", "output": ""}'], "line 1"),
    "letters without a token": (['{"prompt": "a", "output": "c"}'], "line 1"),
}


@pytest.mark.parametrize("name", BAD_LOGS)
def test_logs_that_cannot_be_used(write, name):
    lines, shown = BAD_LOGS[name]
    message = refusal(read_log, write(lines), cutter)
    assert "log.jsonl" in message and shown in message
