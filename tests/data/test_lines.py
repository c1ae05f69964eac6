"""Files of JSON lines: what is kept, what is refused, and that one file has one writer."""

import gzip
import json
import os
import shutil
from types import SimpleNamespace

import pytest
from command_line import assert_refused
from toys import refusal

from experiments.data import lines as module
from experiments.data.lines import Lines

HEADER = {"seed": 1, "Ks": (1, 2)}
BUSY = "being written by another run"


@pytest.fixture(params=["found.jsonl", "found.jsonl.gz"])
def path(tmp_path, request):
    return tmp_path / request.param


@pytest.fixture
def partial(path):
    return path.with_name(f"{path.name}.partial")


def written(path):
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in data.splitlines()]


def test_lines_become_the_file_at_the_end_in_the_order_of_their_places(path, partial):
    with Lines(path, HEADER) as lines:
        lines.put(0, ["a"])
        lines.put(2, "é\u2028")
        assert lines.todo(4) == [1, 3] and not path.exists()
        assert written(partial)[1:] == [[0, ["a"]], [2, "é\u2028"]]
    with Lines(path, HEADER) as lines:
        assert lines.todo(4) == [1, 3]
        lines.put(1, {})
        lines.close(["first"], ["last"])
    assert written(path) == ["first", ["a"], {}, "é\u2028", "last"]
    assert [*path.parent.iterdir()] == [path]


def test_a_disk_that_is_full_is_named_by_its_file(path, partial, full_disk):
    """What was whole before is kept."""
    with Lines(path, HEADER) as lines:
        lines.put(0, ["a"])
    before = partial.read_bytes()
    with pytest.raises(OSError, match="File too large") as refused, full_disk(len(before) + 9):
        with Lines(path, HEADER) as lines:
            lines.put(1, "b" * 99)
    assert refused.value.filename == str(partial) and not path.exists()
    with Lines(path, HEADER) as lines:
        assert lines.found == {0: ["a"]}


def test_a_run_goes_on_after_the_whole_lines(path, partial):
    """Cut at every byte: what is whole stays, the rest comes again."""
    with Lines(path, HEADER) as lines:
        for place in (2, 0, 1):
            lines.put(place, {"n": place})
    whole = partial.read_bytes()
    for cut in range(len(whole) + 1):
        partial.write_bytes(whole[:cut])
        with Lines(path, HEADER) as lines:
            n_whole = max(0, whole[:cut].count(b"\n") - 1)
            assert [*lines.found] == [2, 0, 1][:n_whole]
            for place in lines.todo(3):
                lines.put(place, {"n": place})
            lines.close()
        assert written(path) == [{"n": 0}, {"n": 1}, {"n": 2}]
        path.unlink()


OWN = json.dumps(HEADER) + "\n"


@pytest.mark.parametrize(
    "content",
    ["x", '{"seed": 2, "Ks": [1, 2]}\n', OWN + "[1]\n", OWN + "\udcff\n"],
)
def test_what_is_not_of_this_run_is_refused_and_left_as_it_is(path, partial, content):
    content = content.encode(errors="surrogateescape")
    partial.write_bytes(content)
    assert partial.name in refusal(Lines, path, HEADER)
    assert partial.read_bytes() == content and not path.exists()


def test_a_run_that_failed_leaves_its_lines_if_it_has_any(path, partial):
    with pytest.raises(ZeroDivisionError), Lines(path, HEADER):
        1 / 0
    assert [*path.parent.iterdir()] == []
    with pytest.raises(ZeroDivisionError), Lines(path, HEADER) as lines:
        lines.add(1)
        1 / 0
    assert written(partial)[1:] == [[0, 1]] and not path.exists()


def test_a_line_that_could_not_be_written_is_not_done(path):
    with pytest.raises(TypeError), Lines(path, HEADER) as lines:
        lines.add(1)
        lines.add({2})  # no JSON
    assert lines.done == [1]


@pytest.mark.parametrize("windows", [False, True])
def test_one_file_has_one_writer(path, monkeypatch, windows):
    """On Windows a byte beyond the end is locked, as a locked byte cannot be read."""
    owners = {}

    def locking(fd, mode, n):
        assert (mode, n, os.lseek(fd, 0, os.SEEK_CUR)) == (2, 1, module.LOCKED_BYTE)
        if owners.setdefault(os.fstat(fd).st_ino, fd) != fd:
            raise PermissionError

    if windows:
        monkeypatch.setattr(module, "fcntl", None)
        msvcrt = SimpleNamespace(locking=locking, LK_NBLCK=2)
        monkeypatch.setattr(module, "msvcrt", msvcrt, raising=False)
    with Lines(path, HEADER) as first:
        first.add(1)
        assert BUSY in refusal(Lines, path, HEADER)
        first.add(2)
        first.close()
        assert first.file.closed
    assert written(path) == [1, 2] and [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("command", ["generate", "record", "benchmark"])
def test_a_run_goes_on_only_with_the_same_weights(cli, pair, tmp_path, interrupted, command):
    """Interrupted after its first line; then one model after the other is replaced."""
    models = ["17M"] if command == "record" else ["17M", "0.7M-17M"]
    for model in models:
        shutil.copytree(pair / model, tmp_path / "models" / model)
    (tmp_path / "prompts.txt").write_text("hello\nthe end\n")
    out = tmp_path / ("found.json" if command == "benchmark" else "found.jsonl")
    flags = [f"--prompts={tmp_path / 'prompts.txt'}", "--n_tokens_to_generate=3", f"--out={out}"]
    if command == "benchmark":
        flags += ["--draft_model_size=0.7M-17M", "--K=1", "--temperature=0", "--repeats=1"]
    run = lambda *more: cli(*flags, *more, models_dir=tmp_path / "models", command=[command])
    interrupted(run)
    partial, resume = out.with_name(f"{out.name}.partial"), ["--resume"] * (command == "benchmark")
    kept = partial.read_bytes()
    for model in models:
        weights = tmp_path / "models" / model / "model.safetensors"
        before = weights.read_bytes()
        weights.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        assert_refused(run(*resume), ".partial")
        assert partial.read_bytes() == kept
        weights.write_bytes(before)
    assert run(*resume).code == 0 and not partial.exists()
