"""python main.py export: what it refuses, and that nothing is left behind."""

import sys
from types import SimpleNamespace

import pytest
from command_line import assert_refused
from toys import write_checkpoint

import main


@pytest.fixture
def export(capsys, tmp_path):
    """A function (*words) -> code, out, err of python main.py export 17M, a tiny model."""
    write_checkpoint(tmp_path / "17M")

    def call(*words):
        code = main.main(["export", f"--models_dir={tmp_path}", *map(str, words)])
        return SimpleNamespace(code=code, **capsys.readouterr()._asdict())

    return call


def test_words_that_cannot_be_used(export, tmp_path):
    out = tmp_path / "a.gguf"
    assert_refused(export("--out", out), "expected one size or folder, not 0")
    assert_refused(export("17M", "7M", "--out", out), "expected one size or folder, not 2")
    assert_refused(export("17M"), "--out: expected")
    assert_refused(export("17M", "--format", "onnx", "--out", out), "--format 'onnx'", "gguf")
    assert_refused(export("9M", "--out", out), "no model '9M'", "17M")
    (tmp_path / "17M" / "merges.txt").unlink()
    assert_refused(export("17M", "--out", out), "has no merges.txt")
    assert not out.exists()


@pytest.mark.parametrize("format, library", [("gguf", "gguf"), ("openvino", "transformers")])
def test_a_library_that_is_not_installed_is_named(export, tmp_path, monkeypatch, format, library):
    for module in ("gguf_file", "openvino_folder"):
        monkeypatch.delitem(sys.modules, f"experiments.engines.{module}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    done = export("17M", "--format", format, "--out", tmp_path / "a.gguf")
    message = f"error: {library} is not installed: pip install -r requirements-engines.txt\n"
    assert (done.code, done.out, done.err) == (2, "", message)
    assert [path.name for path in tmp_path.iterdir()] == ["17M"]
