"""Files of JSON lines: what is kept, what is refused, and that one file has one writer."""

import gzip
import json
import os
import shutil
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from command_line import assert_refused, partial_lines
from toys import refusal

from checkpoints import locks
from cli.resumable_output import ResumableLines

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
    with ResumableLines(path, HEADER) as lines:
        lines.write(0, ["a"])
        lines.write(2, "é\u2028")
        assert lines.missing_places(4) == [1, 3] and not path.exists()
        assert partial_lines(partial)[1:] == [[0, ["a"]], [2, "é\u2028"]]
    with ResumableLines(path, HEADER) as lines:
        assert lines.missing_places(4) == [1, 3]
        lines.write(1, {})
        lines.finish(["first"], ["last"])
    assert written(path) == ["first", ["a"], {}, "é\u2028", "last"]
    assert [*path.parent.iterdir()] == [path]


def test_a_run_goes_on_after_the_whole_lines(path, partial):
    """Cut at every byte: what is whole stays, the rest comes again."""
    with ResumableLines(path, HEADER) as lines:
        for place in (2, 0, 1):
            lines.write(place, {"n": place})
    whole = partial.read_bytes()
    for cut in range(len(whole) + 1):
        partial.write_bytes(whole[:cut])
        with ResumableLines(path, HEADER) as lines:
            n_whole = max(0, whole[:cut].count(b"\n") - 1)
            assert [*lines.stored] == [2, 0, 1][:n_whole]
            for place in lines.missing_places(3):
                lines.write(place, {"n": place})
            lines.finish()
        assert written(path) == [{"n": 0}, {"n": 1}, {"n": 2}]
        path.unlink()


@pytest.fixture
def stored(path, partial):
    """The bytes of a partial file with two lines."""
    with ResumableLines(path, HEADER) as lines:
        lines.write(1, {"tokens": [1, 2]})
        lines.write(0, ["a"])
    return partial.read_bytes()


def refused_as_it_is(path, partial, content):
    """The message of ResumableLines for a partial file with this content, which it leaves alone."""
    partial.write_bytes(content)
    message = refusal(ResumableLines, path, HEADER)
    assert partial.name in message
    assert partial.read_bytes() == content and not path.exists()
    return message


def test_what_is_not_of_this_run_is_refused_and_left_as_it_is(path, partial, stored):
    for content in (b"x", stored.replace(b'"seed": 1', b'"seed": 2')):
        assert "of a run with other settings" in refused_as_it_is(path, partial, content)


@pytest.mark.parametrize(
    "line",
    [b"[9999, 1]", b"[-1, 1]", b'{"ab": 1}', b'[0, {"ab": 1}]', b'{"a": 1, "b": 2}']
    + [b"[0, 1]", b"[1]", b"", b"\xff", b"[0, NaN]"],
)
@pytest.mark.parametrize("checksum", [b"", b"00000000 "])
def test_a_line_that_this_program_did_not_write_is_damage(path, partial, stored, line, checksum):
    """Right JSON, too: it would come into the file."""
    content = stored + checksum + line + b"\n"
    assert "is damaged; delete it" in refused_as_it_is(path, partial, content)


def test_any_changed_byte_is_damage(path, partial, stored):
    """But in what the last line break ends: there the file may be cut."""
    for i in range(len(stored) - 1):
        content = stored[:i] + bytes([stored[i] ^ 1]) + stored[i + 1 :]
        refused_as_it_is(path, partial, content)


def test_a_run_that_failed_leaves_its_lines_if_it_has_any(path, partial):
    with pytest.raises(ZeroDivisionError), ResumableLines(path, HEADER):
        1 / 0
    assert [*path.parent.iterdir()] == []
    with pytest.raises(ZeroDivisionError), ResumableLines(path, HEADER) as lines:
        lines.append(1)
        1 / 0
    assert partial_lines(partial)[1:] == [[0, 1]] and not path.exists()


def test_a_line_that_could_not_be_written_is_not_done(path):
    with pytest.raises(TypeError), ResumableLines(path, HEADER) as lines:
        lines.append(1)
        lines.append({2})  # no JSON
    assert lines.lines_in_order == [1]


@contextmanager
def limit(n_bytes):
    """In this block no file grows longer, as on a full disk."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_told_of_with_the_files_name(path, partial):
    """What fitted is gone on with."""
    with (
        pytest.raises(OSError, match="partial") as full,
        limit(100),
        ResumableLines(path, HEADER) as lines,
    ):
        lines.append(1)
        lines.append("x" * 1000)
    assert full.value.filename == str(partial) and lines.lines_in_order == [1]
    with ResumableLines(path, HEADER) as lines:
        assert lines.lines_in_order == [1]
        lines.append("x" * 1000)
        with pytest.raises(OSError, match=path.name) as full, limit(20):
            lines.finish()
        assert full.value.filename == str(path) and lines.lines_in_order == [1, "x" * 1000]
    assert [*path.parent.iterdir()] == [partial]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_partial_file_that_is_a_pipe_is_refused(path, partial):
    os.mkfifo(partial)
    message = refusal(ResumableLines, path, HEADER)
    assert "None" not in message and "delete it" in message and partial.is_fifo()


def test_a_partial_file_that_is_a_device_is_refused(path, partial):
    """It would keep nothing, as os.devnull, or have no end, as /dev/zero."""
    partial.symlink_to(os.devnull)
    assert "it is no plain file" in refusal(ResumableLines, path, HEADER)


def test_a_file_that_appears_meanwhile_is_kept_and_nothing_else_is_left(path, partial):
    with ResumableLines(path, HEADER) as lines:
        lines.write(0, "a")
        path.write_text("mine")
        message = refusal(lines.finish)
    (kept,) = {*path.parent.iterdir()} - {path}
    assert str(kept) in message and path.read_text() == "mine" and written(kept) == ["a"]


def test_a_partial_file_that_cannot_be_written_is_refused(path, partial):
    partial.mkdir()
    assert "cannot be written" in refusal(ResumableLines, path, HEADER)


@pytest.mark.parametrize("windows", [False, True])
def test_one_file_has_one_writer(path, monkeypatch, windows):
    """On Windows a byte beyond the end is locked, as a locked byte cannot be read."""
    owners = {}

    def locking(fd, mode, n):
        assert (mode, n, os.lseek(fd, 0, os.SEEK_CUR)) == (2, 1, locks.LOCKED_BYTE)
        if owners.setdefault(os.fstat(fd).st_ino, fd) != fd:
            raise PermissionError

    if windows:
        monkeypatch.setattr(locks, "fcntl", None)
        msvcrt = SimpleNamespace(locking=locking, LK_NBLCK=2)
        monkeypatch.setattr(locks, "msvcrt", msvcrt, raising=False)
    with ResumableLines(path, HEADER) as first:
        first.append(1)
        assert BUSY in refusal(ResumableLines, path, HEADER)
        first.append(2)
        first.finish()
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
