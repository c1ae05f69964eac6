"""python main.py export: what it refuses, and that nothing is left behind."""

import sys

import pytest
from command_line import ENVIRONMENT, ROOT, assert_refused, python
from toys import write_checkpoint


@pytest.fixture
def export(program, tmp_path):
    """A function (*words) -> code, out, err of python main.py export, with a tiny 17M."""
    write_checkpoint(tmp_path / "17M")
    return lambda *words: program("export", f"--models_dir={tmp_path}", *words)


def test_words_that_cannot_be_used(export, tmp_path):
    out = tmp_path / "a.gguf"
    assert_refused(export("--out", out), "export: expected python main.py export SIZE_OR_FOLDER")
    assert_refused(export("17M"), "--out", "expected")
    assert_refused(export("17M", "--out", tmp_path / "a.bin"), "ends in .gguf")
    assert_refused(export("17M", "--format", "onnx", "--out", out), "--format 'onnx'", "gguf")
    assert_refused(export("9M", "--out", out), "no model '9M'", "17M")
    (tmp_path / "17M" / "merges.txt").unlink()
    assert_refused(export("17M", "--out", out), "has no merges.txt")
    assert not out.exists()


GROUP = "pip install --group engines, with pip 25.1 or newer"


@pytest.mark.parametrize(
    "engine, library, install",
    [("gguf", "gguf", "pip install gguf"), ("openvino", "transformers", GROUP)],
)
def test_a_library_that_is_not_installed_is_named(
    export, tmp_path, monkeypatch, engine, library, install
):
    monkeypatch.setitem(sys.modules, library, None)
    done = export("17M", "--format", engine, "--out", tmp_path / "a.gguf")
    message = f"error: {library} is not installed: {install}\n"
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


@pytest.mark.parametrize("engine, written", [("gguf", "a.gguf"), ("openvino", "a/model.xml")])
def test_what_is_written_overwrites_nothing(export, writers, tmp_path, engine, written):
    out = tmp_path / written.partition("/")[0]
    words = ("17M", "--format", engine, "--out", out)
    done = export(*words)
    assert (done.code, done.out, done.err) == (0, f"17M: {out}\n", "")
    assert (tmp_path / written).read_text() == "a model"
    assert_refused(export(*words), "is there already")
    assert_refused(export(*words[:-1], tmp_path / "nowhere" / out.name), "cannot be written")


PROGRAMS = sorted((ROOT / "docs" / "engines").glob("*.py"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_programs_for_engines_say_what_they_lack_in_one_line(path, tmp_path):
    for name in ("torch", "openvino_genai", "xllamacpp"):
        (tmp_path / f"{name}.py").write_text("raise ModuleNotFoundError(name=__name__)")
    environment = ENVIRONMENT | {"PYTHONPATH": str(tmp_path)}
    few = python(str(path), "17M", environment=environment)
    bare = python(str(path), "17M", "0.7M", "8080", environment=environment)
    assert few.returncode and few.stderr.startswith(f"expected: python docs/engines/{path.name} ")
    assert bare.returncode and "is not installed: pip install" in bare.stderr
    assert few.stderr.count("\n") == bare.stderr.count("\n") == 1
