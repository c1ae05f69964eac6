"""Vocabulary and merges: what is missing is noticed, and what may be missing is not refused.
test_kinds.py has the tokenizers of public folders.
"""

import json

import pytest
from command_line import ROOT
from toys import refusal, renumbered, tiny_vocabulary, write_checkpoint

from checkpoints.tokenizer import load_encoder
from encoder import END_OF_TEXT


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "model")


def store(folder, vocabulary, merges, **side_files):
    """Replace the vocabulary and merges of a folder; side_files become JSON files."""
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("".join(f"{a} {b}\n" for a, b in merges))
    for name, value in side_files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


WRONG = {  # a merges file: what is said of it
    b"#version: 0.2\nt h\nq u\n": "model: the vocabulary lacks 'qu'",
    b"zz a\n": "model: the vocabulary lacks 'zz'",
    b"#version: 0.2\nt h\n\nt h e\n": "merges.txt: 't h e' is no merge of two tokens",
    b"the\n": "merges.txt: 'the' is no merge",
    b"t \n": "merges.txt: 't ' is no merge",
    b"t h\r\n  h\r\n": "merges.txt: '  h' is no merge",
    b"\xff\n": "merges.txt: is damaged (UnicodeDecodeError",
}
RIGHT = [b"#version: 0.2\r\nt h\r\nth e\r\n", b"t h\nth e", b"#version: 0.2\n\nt h\n\nth e\n"]


@pytest.mark.parametrize("raw", WRONG)
def test_merges_that_do_not_fit(folder, raw):
    (folder / "merges.txt").write_bytes(raw)
    assert WRONG[raw] in refusal(load_encoder, folder)


@pytest.mark.parametrize("n_lines", [0, 900, 1700, 1791])
def test_a_file_of_merges_that_was_cut(tmp_path, n_lines):
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((ROOT / "models" / "17M" / name).read_bytes())
    load_encoder(tmp_path)
    lines = (tmp_path / "merges.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    assert n_lines < len(lines)
    (tmp_path / "merges.txt").write_text("".join(lines[:n_lines]), encoding="utf-8")
    assert "merges" in refusal(load_encoder, tmp_path)


@pytest.mark.parametrize("raw", RIGHT)
def test_merges_however_their_lines_end(folder, raw):
    expected = load_encoder(folder)
    (folder / "merges.txt").write_bytes(raw)
    assert load_encoder(folder) == expected


WORDS = {  # changes of a vocabulary
    "a list": list,
    "empty": lambda ids: {},
    "an id twice": lambda ids: ids | {"a": ids["b"]},
    "an id missing": lambda ids: ids | {"a": len(ids)},
    "a byte missing that a merge needs": lambda ids: {word: i for word, i in ids.items() if i < 83},
    "ids that are no numbers": lambda ids: ids | {"a": [1]},
}


@pytest.mark.parametrize("change", WORDS)
def test_vocabularies_that_are_none(folder, change):
    vocabulary, merges = tiny_vocabulary()
    store(folder, WORDS[change](vocabulary), merges)
    assert str(folder) in refusal(load_encoder, folder)


def test_added_tokens_and_a_number_of_rows_that_is_none(folder):
    vocabulary, merges = tiny_vocabulary()
    store(folder, vocabulary, merges, config={"vocab_size": "260"}, added_tokens={"<u>": 259})
    assert "config.json: vocab_size is '260'; expected a whole" in refusal(load_encoder, folder)


PROTEINS = renumbered(["[PAD]", "[EOS]", *"ACDEFGHIKLMNPQRSTVWY", "start"])


def test_single_letters_and_no_merges(folder):
    encoder = load_encoder(store(folder, PROTEINS, []))
    assert encoder.decode(encoder.encode("MKV")) == "MKV" and encoder.end_of_text is None
    assert encoder.decode([len(PROTEINS) - 1]) == "start"


ENDS = {  # (generation_config.json, config.json): the ends of a text
    (None, 22): {22},
    (None, 23): set(),  # of no token
    (None, True): set(),
    ((1, 2, 99), 4): {1, 2},
    ((), 4): {4},
}


@pytest.mark.parametrize("stated", ENDS)
def test_texts_end_at_the_ids_that_the_folder_states(folder, stated):
    generation, config = ({"eos_token_id": one} for one in stated)
    store(folder, PROTEINS, [], generation_config=generation, config=config)
    encoder = load_encoder(folder)
    assert encoder.ends == ENDS[stated]
    assert encoder.end_of_text == min(encoder.ends, default=None)
    vocabulary, merges = tiny_vocabulary()  # which says itself what stands between texts
    encoder = load_encoder(store(folder, vocabulary, merges))
    assert encoder.end_of_text == vocabulary[END_OF_TEXT]
    (folder / "generation_config.json").write_text("")
    with pytest.raises(ValueError, match=r"^\S*generation_config.json: is damaged \(.*it again$"):
        load_encoder(folder)
