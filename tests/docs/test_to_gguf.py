"""What docs/engines/to_gguf.py writes, with a stand-in for the library that writes it."""

import dataclasses
import json
import runpy
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from command_line import ROOT
from toys import TINY, tiny_vocabulary, write_checkpoint

from checkpoints.tokenizer import load_encoder, read_tokenizer

END = "<|endoftext|>"
KINDS = SimpleNamespace(CONTROL="control", NORMAL="normal", USER_DEFINED="added")


@pytest.mark.parametrize("where", [0, -1, None])
def test_the_token_that_ends_a_text(tmp_path, where):
    """At any id, or none: llama.cpp must not stop at a word instead."""
    vocabulary, _ = tiny_vocabulary()
    tokens = [token for token in sorted(vocabulary, key=vocabulary.get) if token != END]
    if where is not None:
        tokens.insert(where % (len(tokens) + 1), END)
    ids = {token: i for i, token in enumerate(tokens)}
    folder = write_checkpoint(tmp_path / "model", dataclasses.replace(TINY, n_vocab=260))
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "added_tokens.json").write_text(json.dumps({"<user>": len(ids)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": "!"}))
    add_tokenizer = runpy.run_path(str(ROOT / "docs" / "engines" / "to_gguf.py"))["add_tokenizer"]
    writer = Mock()
    add_tokenizer(writer, *read_tokenizer(folder), load_encoder(folder).end_of_text, KINDS)
    file = {name: arguments[0] for name, arguments, _ in writer.method_calls}
    end = ids.get(END)
    assert (file.get("add_bos_token_id"), file.get("add_eos_token_id")) == (end, end)
    types = file["add_token_types"]
    assert [i for i, kind in enumerate(types) if kind == "control"] == (
        [] if end is None else [end]
    )
    assert file["add_token_list"] == [*tokens, "<user>"] and types[-1] == "added"
    assert types[ids["!"]] == "added"  # found whole, though the vocabulary has it
