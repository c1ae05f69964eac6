"""Vocabulary and merges: what is missing is noticed, and what may be missing is not refused."""

import json

import pytest
from toys import refusal, renumbered, tiny_vocabulary, write_checkpoint

from checkpoints.vocabulary import load_encoder
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
    b"#version: 0.2\nt h\nq u\n": ": the vocabulary lacks 'qu'",
    b"zz a\n": ": the vocabulary lacks 'zz'",
    b"#version: 0.2\nt h\n\nt h e\n": ", line 4: 't h e': expected two tokens",
    b"the\n": ", line 1: 'the': expected two tokens",
    b"t \n": ", line 1: 't ': expected two tokens",
    b"t h\r\n  h\r\n": ", line 2: '  h': expected two tokens",
    b"\xff\n": ": is not UTF-8",
}
RIGHT = [b"#version: 0.2\r\nt h\r\nth e\r\n", b"t h\nth e", b"#version: 0.2\n\nt h\n\nth e\n"]


@pytest.mark.parametrize("raw", WRONG)
def test_merges_that_do_not_fit(folder, raw):
    (folder / "merges.txt").write_bytes(raw)
    assert f"{folder / 'merges.txt'}{WRONG[raw]}" in refusal(load_encoder, folder)


@pytest.mark.parametrize("raw", RIGHT)
def test_merges_however_their_lines_end(folder, raw):
    expected = load_encoder(folder)
    (folder / "merges.txt").write_bytes(raw)
    assert load_encoder(folder) == expected


# ---------------------------------------------------------------- merges that are missing


def test_every_truncation_of_the_merges_is_refused(folder):
    """Except the one that only takes the last line's end."""
    raw = (folder / "merges.txt").read_bytes()
    for length in range(len(raw) - 1):
        (folder / "merges.txt").write_bytes(raw[:length])
        refusal(load_encoder, folder)
    (folder / "merges.txt").write_bytes(raw[:-1])
    load_encoder(folder)


@pytest.mark.parametrize("token", ["<|pad|>", "<s>", "[MASK]"])
def test_special_tokens_need_no_merge(folder, token):
    vocabulary, merges = tiny_vocabulary()
    store(folder, renumbered([*vocabulary, token]), merges)
    assert load_encoder(folder).decode([259]) == token


@pytest.mark.parametrize("token", ["PAD", "a<s>", "<s", "[x] y", "<|pad|>s"])
def test_other_tokens_need_one(folder, token):
    vocabulary, merges = tiny_vocabulary()
    store(folder, renumbered([*vocabulary, token.replace(" ", "Ġ")]), merges)
    refusal(load_encoder, folder)


# ---------------------------------------------------------------- what may be missing

PROTEINS = renumbered(["[PAD]", "[EOS]", *"ACDEFGHIKLMNPQRSTVWY"])


def test_single_letters_and_no_merges(folder):
    """Nor has a word one, which nothing tells from a special token where bytes are missing."""
    vocabulary = renumbered([*PROTEINS, "start"])
    encoder = load_encoder(store(folder, vocabulary, []))
    assert encoder.decode(encoder.encode("MKV")) == "MKV" and encoder.end_of_text is None
    assert encoder.decode([len(PROTEINS)]) == "start"


@pytest.mark.parametrize("missing", ["a", "Ġ", "Ā", END_OF_TEXT])
def test_a_vocabulary_that_lacks_a_byte_or_the_end(folder, missing):
    vocabulary, merges = tiny_vocabulary()
    store(folder, renumbered(symbol for symbol in vocabulary if symbol != missing), merges)
    assert load_encoder(folder).n_vocab == 258


@pytest.mark.parametrize("eos, expected", [
    (0, 0), (21, 21), (22, None), (-1, None), (None, None), (True, None), ([1], None),
])  # fmt: skip
def test_texts_end_at_the_eos_token_of_the_config(folder, eos, expected):
    config = json.loads((folder / "config.json").read_text())
    store(folder, PROTEINS, [], config=config | {"eos_token_id": eos})
    assert load_encoder(folder).end_of_text == expected
    vocabulary, merges = tiny_vocabulary()  # which says itself what ends a text
    assert load_encoder(store(folder, vocabulary, merges)).end_of_text == vocabulary[END_OF_TEXT]
