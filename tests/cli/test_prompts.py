"""Prompt files of every form, and what is wrong with them."""

import bz2
import gzip
import json

import pytest
from toys import TINY, refusal, write_checkpoint

from checkpoints.vocabulary import load_encoder
from cli.input_files import read_bytes
from cli.prompts import choose_prompts, read_prompts, select_fitting

HELLASWAG = (
    "A man sits on a roof. he\n3\n"
    "is using wrap.\nis ripping tiles off.\nholds a cube.\nstarts pulling.\n"
)


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


OBJECTS, ARRAY, SIX, PLAIN = "JSON Lines", "a JSON array", "HellaSwag's form", "one a line"
TURNS = lines({"question_id": 81, "turns": ["one", "again"]}, {"turns": ["two"]})
ALPACA = lines({"instruction": "one", "input": ""}, {"instruction": "two", "input": "x"})
ITEMS = json.dumps(["one", {"prompt": "two"}, {"turns": ["three"]}], indent=1)
# (name, content, prompts, form)
FORMS = [
    ("spec_bench.jsonl", TURNS, ["one", "two"], OBJECTS),
    ("alpaca.jsonl", ALPACA, ["one", "two\nx"], OBJECTS),
    ("no_input.jsonl", lines({"instruction": "one", "input": None}), ["one"], OBJECTS),
    ("gsm8k.jsonl", lines({"question": "one?", "answer": "1"}), ["one?"], OBJECTS),
    ("humaneval.jsonl", lines({"id": 0, "prompt": "one\n  two\n"}), ["one\n  two\n"], OBJECTS),
    ("text.jsonl", lines({"text": "one"}, {"text": " two"}) + "\n", ["one", " two"], OBJECTS),
    ("breaks.jsonl", '{"text": "1\u2028\u0085"}\r\n"two"', ["1\u2028\u0085", "two"], OBJECTS),
    ("no_ending", lines({"text": "one"}), ["one"], OBJECTS),
    ("objects.txt", lines({"text": "one"}, {"text": "two"}), ["one", "two"], OBJECTS),
    ("array.json", ITEMS, ["one", "two", "three"], ARRAY),
    ("array.txt", '["one",\n{"text": "two"}]', ["one", "two"], ARRAY),
    ("empty_lines.txt", "one\n\n  \n two \r\n", ["one", " two "], PLAIN),
    ("brackets.txt", "[one]\n{two}\n", ["[one]", "{two}"], PLAIN),
    ("numbers.txt", "one\n1\ntwo\n2\na\n3\n", ["one", "1", "two", "2", "a", "3"], PLAIN),
    ("more.txt", 2 * HELLASWAG + "one\n", [*(2 * HELLASWAG).splitlines(), "one"], PLAIN),
    ("mark.txt", "\ufeffone\n", ["one"], PLAIN),
    ("hellaswag.txt", 2 * HELLASWAG, 2 * ["A man sits on a roof. he"], SIX),
]


PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize("name, content, prompts, form", FORMS, ids=[one[0] for one in FORMS])
def test_forms(tmp_path, capsys, name, content, prompts, form, ending):
    path = tmp_path / (name + ending)
    path.write_bytes(PACK[ending](content.encode()))
    assert [*read_prompts(path).values()] == prompts
    plural = "s" if len(prompts) > 1 else ""
    assert capsys.readouterr().err == f"note: {path}: read {len(prompts)} prompt{plural}, {form}\n"


def test_no_note_brings_the_characters_of_a_name_to_a_terminal(tmp_path, capsys):
    path = tmp_path / "a\x1b[2J\r\x9b31m.txt"
    path.write_text("one\n")
    select_fitting(str(path), read_prompts(path) | {"line 2": "longer"}, list, 5)
    read, skipped = capsys.readouterr().err.splitlines()
    for line in (read, skipped):
        assert line.startswith("note: ") and line.isprintable() and r"a\x1b[2J\r\x9b31m" in line
    assert "skipped 1 prompt of more than 5 tokens: line 2" in skipped


@pytest.mark.parametrize("ending", PACK)
def test_a_file_may_be_as_long_as_the_limit(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    path.write_bytes(PACK[ending](bytes(1000)))
    assert read_bytes(path, 1000) == bytes(1000)
    assert "is longer than" in refusal(read_bytes, path, 999)


@pytest.mark.parametrize(
    "name, content, shown",
    [
        ("a.jsonl", lines({"text": "one"}) + '{"text": "tw\n', "line 2"),
        ("a.jsonl", lines({"text": "one"}) + "\n" + lines({"text": ""}), "line 3"),
        ("a.jsonl", lines({"words": "one"}), "text under one of turns"),
        ("a.jsonl", lines({"instruction": None, "input": "x"}), "line 1"),
        ("a.jsonl", lines({"turns": [None]}), "line 1"),
        ("a.jsonl", lines({"turns": []}), "line 1"),
        ("a.json", '["one", {"text": " "}]', "item 2"),
        ("a.json", '["one",\n"two"', "line 2"),
        ("a.json", "[]", "no prompts"),
        ("a.json", "[" * 100000, "JSON"),
        ("a.json", '["one", NaN]', "NaN is no number"),
        ("a.jsonl", '{"text": "one", "score": -Infinity}', "line 1"),
        ("a.jsonl", '{"text": "one", "score": 1e999}', "1e999 is no number"),
        ("a.txt", "\n \n", "no prompts"),
        ("a.txt", b"one\ntw\xff\n", "line 2"),
        ("a.txt.gz", b"not packed", "damaged"),
        ("a.txt.bz2", bz2.compress(b"one\ntwo\n")[:-9], "damaged"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, name, content, shown):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    message = refusal(read_prompts, path)
    assert shown in message and name in message


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_file_that_is_not_there(tmp_path, name):
    assert "expected a file" in refusal(read_prompts, tmp_path / name)


def test_long_prompts_are_skipped_counted_and_named(tmp_path, capsys):
    encoder = load_encoder(write_checkpoint(tmp_path / "17M", TINY))
    path = tmp_path / "prompts.txt"
    path.write_text("four\n\nlonger\nten letter\nfive5\nsix6six\n")
    ids = lambda *texts: [*map(encoder.encode, texts)]
    assert choose_prompts(path, 2, encoder, 5) == (ids("four", "five5"), 2)
    assert choose_prompts(path, 0, encoder, 6) == (ids("four", "longer", "five5"), 2)
    _, *shorter, _, longer = capsys.readouterr().err.splitlines()
    assert shorter == [f"note: {path}: skipped 2 prompts of more than 5 tokens: line 3, line 4"]
    assert longer == f"note: {path}: skipped 2 prompts of more than 6 tokens: line 4, line 6"
    assert "all 5 prompts have more than 3" in refusal(choose_prompts, path, 2, encoder, 3)
    capsys.readouterr()
    assert len(choose_prompts("", 0, encoder, 999)[0]) == 16 and capsys.readouterr().err == ""
