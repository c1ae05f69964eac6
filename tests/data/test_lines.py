"""Files of JSON lines: what is kept, what is refused, and that one file has one writer."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import CONFIG
from toys import random_tensors, write_checkpoint

from experiments.data.lines import Failed, Lines
from utils import InputError

ROOT = Path(__file__).resolve().parents[2]
HEADER = {"seed": 1, "Ks": (1, 2)}  # a tuple comes back from JSON as a list


@pytest.fixture
def path(tmp_path):
    return tmp_path / "found.jsonl"


def partial_of(path):
    return path.with_name(f"{path.name}.partial")


def written(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_become_the_file_at_the_end(path):
    with Lines(path, HEADER) as lines:
        lines.add([1])
        assert not path.exists() and written(partial_of(path)) == [{"seed": 1, "Ks": [1, 2]}, [1]]
        lines.add([2])
        lines.close()
    assert written(path)[1:] == [[1], [2]] and [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("cut", range(0, 40))
def test_a_run_goes_on_after_the_whole_lines(path, cut):
    """Cut at every byte: what is whole stays, the rest comes again."""
    whole = b'{"seed": 1, "Ks": [1, 2]}\n["a"]\n["b"]\n'
    partial_of(path).write_bytes(whole[:cut])
    with Lines(path, HEADER) as lines:
        assert lines.done == [["a"], ["b"]][: max(0, whole[:cut].count(b"\n") - 1)]
        for value in [["a"], ["b"]][len(lines.done) :]:
            lines.add(value)
        lines.close()
    assert path.read_bytes() == whole


def test_lines_without_a_header_are_known_by_their_settings(path):
    expected = [{"settings": {"prompt": text}} for text in "abc"]
    partial_of(path).write_text('{"settings": {"prompt": "a"}}\n{"settings": {"pro')
    with Lines(path, expected=expected) as lines:
        assert lines.done == expected[:1]
    with pytest.raises(InputError, match="other settings or prompts"):
        Lines(path, expected=expected[1:])
    assert partial_of(path).exists()


def test_a_compressed_file(tmp_path):
    path = tmp_path / "log.jsonl.gz"
    with Lines(path, HEADER) as lines:
        lines.add("é")
        lines.close()
    assert gzip.decompress(path.read_bytes()).splitlines()[1:] == [b'"\\u00e9"']
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize(
    "damage",
    [
        "{}\n",
        "x\n",
        "[1]\n",
        '{"settings": 3}\n',
        "x",
        '{"settings": NaN}\n',
        "[" * 200_000 + "\n",
        '{"a":' * 200_000 + "\n",
    ],
)
@pytest.mark.parametrize("how", [{"header": HEADER}, {"expected": [{"settings": {"prompt": "a"}}]}])
def test_what_is_not_ours_is_refused_and_left_as_it_is(path, damage, how):
    partial_of(path).write_text(damage)
    with pytest.raises(InputError, match="found.jsonl.partial"):
        Lines(path, **how)
    assert partial_of(path).read_text() == damage and not path.exists()


def test_a_run_that_wrote_nothing_leaves_nothing(path):
    with pytest.raises(ZeroDivisionError), Lines(path, HEADER):
        1 / 0
    assert [*path.parent.iterdir()] == []


def test_a_run_that_failed_leaves_its_lines(path):
    with pytest.raises(ZeroDivisionError), Lines(path, HEADER) as lines:
        lines.add(1)
        1 / 0
    assert written(partial_of(path))[1:] == [1] and not path.exists()


def test_one_file_has_one_writer(path):
    with Lines(path, HEADER) as first:
        first.add(1)
        with pytest.raises(InputError, match="being written by another run"):
            Lines(path, HEADER)
        first.add(2)
        first.close()
    assert written(path)[1:] == [1, 2]


def test_the_lock_ends_with_its_process(path):
    """The second process is refused while the first lives, and goes on when it was killed."""
    program = f"""
from experiments.data.lines import Failed, Lines
lines = Lines({str(path)!r}, {{"seed": 1}})
lines.add(1)
print("ready", flush=True)
input()
"""
    command = [sys.executable, "-c", program]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT}
    with subprocess.Popen(command, **pipes) as first:
        assert first.stdout.readline().strip() == b"ready"
        with pytest.raises(InputError, match="being written by another run"):
            Lines(path, {"seed": 1})
        first.kill()
        first.wait()
    with Lines(path, {"seed": 1}) as lines:
        assert lines.done == [1]


def test_where_there_is_no_flock_a_byte_beyond_the_end_is_locked(path, monkeypatch):
    """As on Windows, where a locked byte cannot be read, and an open file not be renamed."""
    from experiments.data import lines as module

    owners = {}

    def locking(fd, mode, n):
        assert (mode, n, os.lseek(fd, 0, os.SEEK_CUR)) == (2, 1, module.LOCKED_BYTE)
        if owners.setdefault(os.fstat(fd).st_ino, fd) != fd:
            raise PermissionError

    monkeypatch.setattr(module, "fcntl", None)
    windows = SimpleNamespace(locking=locking, LK_NBLCK=2)
    monkeypatch.setattr(module, "msvcrt", windows, raising=False)
    with Lines(path, HEADER) as first:
        first.add(1)
        with pytest.raises(InputError, match="being written by another run"):
            Lines(path, HEADER)
        first.add(2)
        first.close()
        assert first.file.closed
    assert written(path)[1:] == [1, 2] and [*path.parent.iterdir()] == [path]


def test_a_file_that_was_finished_meanwhile_is_not_written_again(path, monkeypatch):
    """The second run opens the partial file just before the first one renames it."""
    from experiments.data import lines as module

    with Lines(path, HEADER) as first:
        first.add(1)
        lock = module.lock

        def late(file):
            first.close()
            return lock(file)

        monkeypatch.setattr(module, "lock", late)
        with pytest.raises(InputError, match="being written by another run"):
            Lines(path, HEADER)
    assert written(path)[1:] == [1] and [*path.parent.iterdir()] == [path]


def test_what_appeared_meanwhile_is_not_overwritten(path):
    with Lines(path, HEADER) as lines:
        lines.add(1)
        path.write_text("mine")
        with pytest.raises(InputError, match="appeared"):
            lines.close()
    assert path.read_text() == "mine" and written(partial_of(path))[1:] == [1]


@pytest.mark.parametrize(
    "how", [{"header": HEADER}, {"expected": [{"settings": {"n": i}} for i in range(4)]}]
)
@pytest.mark.parametrize("in_time", [True, False])
def test_what_failed_is_tried_again_in_its_place(path, how, in_time):
    value = lambda i, **more: {"settings": {"n": i}} | more
    with Lines(path, **how) as lines:
        for i in range(3):
            lines.put(i, Failed("why") if i == 1 else value(i), settings={"n": i})
    with Lines(path, **how) as lines:
        assert lines.done == [value(0), value(1, failed="why"), value(2)]
        assert lines.todo(4) == [1, 3]
        lines.put(1, value(1))
        if in_time:
            lines.put(3, value(3))
            lines.close()
    if not in_time:  # interrupted: what was put there is kept
        with Lines(path, **how) as lines:
            assert lines.todo(4) == [3]
            lines.put(3, value(3))
            lines.close()
    assert written(path)[-4:] == [value(i) for i in range(4)]
    assert written(path)[:-4] == ([json.loads(json.dumps(HEADER))] if "header" in how else [])


@pytest.mark.parametrize("moment", ["write_bytes", "replace"])
def test_a_kill_while_lines_are_written_again_loses_none(path, moment):
    with Lines(path, HEADER) as lines:
        for i in range(3):
            lines.put(i, Failed("why") if i == 0 else {"n": i}, n=i)
    before = partial_of(path).read_bytes()
    code = f"""
import os
from pathlib import Path
from experiments.data.lines import Lines

Path.{moment} = lambda *args: os._exit(9)  # as kill -9 does
with Lines({str(path)!r}, {HEADER!r}) as lines:
    lines.put(0, {{"n": 0}})
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 9
    assert partial_of(path).read_bytes() == before


@pytest.mark.parametrize("command", ["generate", "record", "benchmark"])
def test_a_run_goes_on_only_with_the_same_weights(cli, pair, tmp_path, monkeypatch, command):
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

    add = Lines.add

    def stops(self, value):
        add(self, value)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Lines, "add", stops)
        assert run().code == 130
    kept, resume = partial_of(out).read_bytes(), ["--resume"] * (command == "benchmark")
    for model in models:
        weights = tmp_path / "models" / model / "model.safetensors"
        before = weights.read_bytes()
        write_checkpoint(weights.parent, CONFIG, random_tensors(CONFIG, 9))
        done = run(*resume)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert partial_of(out).read_bytes() == kept
        weights.write_bytes(before)
    assert run(*resume).code == 0 and not partial_of(out).exists()
