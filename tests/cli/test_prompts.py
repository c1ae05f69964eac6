"""Prompt files of every form, and what is wrong with them."""

import errno
import json
from pathlib import Path

import pytest
from toys import refusal

from cli.prompts import read_prompts


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


FORMS = {  # name: (content, prompts)
    "gsm8k.jsonl": (lines({"question": "one?", "answer": "1"}), ["one?"]),
    "humaneval.jsonl": (lines({"id": 0, "prompt": "one\n  two\n"}), ["one\n  two\n"]),
    "text.jsonl": (lines({"text": "one"}, {"text": " two"}) + "\n", ["one", " two"]),
    "breaks.jsonl": ('{"text": "1\u2028\u0085"}\r\n{"text": "2"}', ["1\u2028\u0085", "2"]),
    "ours.jsonl": (lines({"settings": {"prompt": "one", "K": 4}, "text": "no"}), ["one"]),
    "objects.txt": (lines({"text": "one"}, {"text": "two"}), ["one", "two"]),
    "empty_lines.txt": ("one\n\n  \n two \r\n", ["one", " two "]),
    "brackets.txt": ("[one]\n{two}\n", ["[one]", "{two}"]),
    "numbers.txt": ("one\n1\ntwo\n", ["one", "1", "two"]),
    "mark.txt": ("\ufeffone\n", ["one"]),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(tmp_path, name):
    content, prompts = FORMS[name]
    path = tmp_path / name
    path.write_bytes(content.encode())
    assert read_prompts(path) == prompts


@pytest.mark.parametrize("name, content, shown", [
    ("a.jsonl", lines({"text": "one"}) + '{"text": "tw\n', "prompt 2"),
    ("a.jsonl", lines({"text": "one"}) + "\n" + lines({"text": ""}), "prompt 2"),
    ("a.jsonl", lines({"words": "one"}), "prompt or text or question"),
    ("a.jsonl", lines({"text": None}), "prompt 1"),
    ("a.jsonl", lines({"text": ["one"]}), "prompt 1"),
    ("a.jsonl", lines({"settings": 3}), "prompt 1"),
    ("a.jsonl", '{"text": ' + "[" * 100000, "prompt 1"),
    ("a.jsonl", lines({"text": "one"}, {"text": "b\ud800"}), "prompt 2: has a lone surrogate"),
    ("a.txt", "\n \n", "expected prompts"),
    ("a.txt", b"one\ntw\xff\n", "UTF-8"),
])  # fmt: skip
def test_what_cannot_be_used_is_named(tmp_path, name, content, shown):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    message = refusal(read_prompts, path)
    assert shown in message and name in message


def test_a_file_that_cannot_be_read_is_named(monkeypatch, tmp_path):
    def fail(*given, **named):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_text", fail)
    with pytest.raises(OSError) as failed:
        read_prompts(tmp_path / "a.txt")
    assert failed.value.filename == str(tmp_path / "a.txt")


@pytest.mark.parametrize("name", ["", "."])
def test_a_folder_is_no_file_of_prompts(name):
    assert refusal(read_prompts, name) == f"'{name}': is a folder; expected a file"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device")
def test_a_device_is_no_file_of_prompts():
    with pytest.raises(ValueError, match="/dev/zero: is a device; expected a file"):
        read_prompts("/dev/zero")
