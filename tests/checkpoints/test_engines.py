"""What is written for llama.cpp, with a stand-in for the library that writes it."""

import json
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from toys import tiny_vocabulary, write_checkpoint

from checkpoints.engines import add_tokenizer

END = "<|endoftext|>"
KINDS = SimpleNamespace(CONTROL="control", NORMAL="normal")


@pytest.mark.parametrize("where", [0, -1, None])
def test_the_token_that_ends_a_text(tmp_path, where):
    """At any id, or none: llama.cpp must not stop at a word instead."""
    vocabulary, _ = tiny_vocabulary()
    tokens = [token for token in sorted(vocabulary, key=vocabulary.get) if token != END]
    if where is not None:
        tokens.insert(where % (len(tokens) + 1), END)
    ids = {token: i for i, token in enumerate(tokens)}
    (write_checkpoint(tmp_path) / "vocab.json").write_text(json.dumps(ids))
    writer = Mock()
    add_tokenizer(writer, tmp_path, KINDS)
    file = {name: arguments[0] for name, arguments, _ in writer.method_calls}
    end = ids.get(END)
    assert (file.get("add_bos_token_id"), file.get("add_eos_token_id")) == (end, end)
    controls = [i for i, kind in enumerate(file["add_token_types"]) if kind == "control"]
    assert controls == ([] if end is None else [end]) and file["add_token_list"] == tokens
