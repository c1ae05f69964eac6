"""python main.py export: what it refuses, and that nothing is left behind."""

import sys

import pytest
from command_line import assert_refused
from toys import write_checkpoint


@pytest.fixture
def export(program, tmp_path):
    """A function (*words) -> code, out, err of python main.py export, with a tiny 17M."""
    write_checkpoint(tmp_path / "17M")
    return lambda *words: program("export", f"--models_dir={tmp_path}", *words)


def test_words_that_cannot_be_used(export, tmp_path):
    out = tmp_path / "a.gguf"
    assert_refused(export("--out", out), "expected one size or folder, not 0")
    assert_refused(export("17M"), "--out", "expected")
    assert_refused(export("17M", "--out", tmp_path / "a.bin"), "ends in .gguf")
    assert_refused(export("17M", "--format", "onnx", "--out", out), "--format 'onnx'", "gguf")
    assert_refused(export("9M", "--out", out), "no model '9M'", "17M")
    (tmp_path / "17M" / "merges.txt").unlink()
    assert_refused(export("17M", "--out", out), "has no merges.txt")
    assert not out.exists()


@pytest.mark.parametrize("format, library", [("gguf", "gguf"), ("openvino", "transformers")])
def test_a_library_that_is_not_installed_is_named(export, tmp_path, monkeypatch, format, library):
    monkeypatch.setitem(sys.modules, library, None)
    done = export("17M", "--format", format, "--out", tmp_path / "a.gguf")
    message = (
        f"error: {library} is not installed: pip install --group engines, with pip 25.1 or newer\n"
    )
    assert (done.code, done.out, done.err) == (2, "", message)
    assert [path.name for path in tmp_path.iterdir()] == ["17M"]


@pytest.fixture
def writers(monkeypatch):
    """Stand-ins for what needs a library."""

    def write_gguf(folder, path):
        path.write_text("a model")

    def write_openvino(folder, path):
        write_gguf(folder, path / "model.xml")

    for write in (write_gguf, write_openvino):
        monkeypatch.setattr(f"cli.export.{write.__name__}", write)


@pytest.mark.parametrize("format, written", [("gguf", "a.gguf"), ("openvino", "a/model.xml")])
def test_what_is_written_overwrites_nothing(export, writers, tmp_path, format, written):
    out = tmp_path / written.partition("/")[0]
    words = ("17M", "--format", format, "--out", out)
    done = export(*words)
    assert (done.code, done.out, done.err) == (0, f"17M: {out}\n", "")
    assert (tmp_path / written).read_text() == "a model"
    assert_refused(export(*words), "is there already")
    assert_refused(export(*words[:-1], tmp_path / "nowhere" / out.name), "cannot be written")
