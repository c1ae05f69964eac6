"""What docs/engines/to_gguf.py writes, with a stand-in for the library that writes it."""

import json
import runpy
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from command_line import ENVIRONMENT, ROOT, python
from toys import tiny_vocabulary, write_checkpoint

from checkpoints.tokenizer import load_encoder, read_tokenizer

END = "<|endoftext|>"
KINDS = SimpleNamespace(CONTROL="control", NORMAL="normal", USER_DEFINED="added")
PROGRAMS = sorted((ROOT / "docs" / "engines").glob("*.py"))


@pytest.mark.parametrize("where", [0, -1, None])
def test_the_token_that_ends_a_text(tmp_path, where):
    """At any id, or none: llama.cpp must not stop at a word instead."""
    vocabulary, _ = tiny_vocabulary()
    tokens = [token for token in sorted(vocabulary, key=vocabulary.get) if token != END]
    if where is not None:
        tokens.insert(where % (len(tokens) + 1), END)
    ids = {token: i for i, token in enumerate(tokens)}
    folder = write_checkpoint(tmp_path / "model")
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "added_tokens.json").write_text(json.dumps({"<user>": len(ids)}))
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


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_programs_for_engines_say_what_they_lack_in_one_line(path, tmp_path):
    for name in ("torch", "openvino_genai", "xllamacpp", "gguf"):
        (tmp_path / f"{name}.py").write_text("raise ModuleNotFoundError(name=__name__)")
    environment = ENVIRONMENT | {"PYTHONPATH": str(tmp_path)}
    few = python(str(path), "17M", environment=environment)
    enough = [str(tmp_path / "a.gguf")] if path.stem == "to_gguf" else ["0.7M", "8080"]
    bare = python(str(path), "17M", *enough, environment=environment)
    assert few.returncode and few.stderr.startswith(f"expected: python docs/engines/{path.name} ")
    assert bare.returncode and "is not installed: pip install" in bare.stderr
    assert few.stderr.count("\n") == bare.stderr.count("\n") == 1
