"""Calling main.py with a tiny pair of models, in this process (fixtures) or one of its own."""

import dataclasses
import errno
import json
import os
import re
import string
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from toys import TINY, random_tensors, tiny_vocabulary, write_checkpoint, write_pair

import main
from checkpoints.tokenizer import load_encoder
from cli import command

ROOT = Path(main.__file__).resolve().parent
COMMAND = [sys.executable, str(ROOT / "main.py")]
ENVIRONMENT = {
    name: os.environ[name] for name in os.environ if not name.startswith(("PYTHON", "GPT2"))
}
END = 258  # <|endoftext|> of tiny_vocabulary
CONFIG = dataclasses.replace(TINY, n_ctx=64)
PROMPT = "hello there"  # 9 tokens
UNREADABLE = set()  # paths that no Python code of this process may open
TIMES = {"seconds", "prefill_seconds", "tokens_per_second", "speedup", "speedups"}


def likely(tensors, tokens):
    """The tensors, with the logits of these tokens raised by about 12."""
    tensors["wte.weight"][tokens, 0] += 2
    tensors["ln_f.bias"][0] = 6
    return tensors


def tensors_of(seed, letters=True):
    """Random weights of a trained model's order; `letters`: they write lower case and spaces."""
    tensors = {name: 3 * tensor for name, tensor in random_tensors(CONFIG, seed).items()}
    symbols, lower = tiny_vocabulary()[0], set(string.ascii_lowercase + "Ġ")
    ids = [i for symbol, i in symbols.items() if set(symbol) <= lower]
    return likely(tensors, ids) if letters else tensors


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """A models folder: 17M, a draft that often agrees with it, and what else the tests need."""
    folder = tmp_path_factory.mktemp("models")
    target = tensors_of(1)
    write_pair(folder, CONFIG, target)
    # its text is hardly ever UTF-8
    write_checkpoint(folder / "bytes", CONFIG, tensors_of(3, letters=False))
    write_checkpoint(folder / "ends", CONFIG, likely(tensors_of(4, letters=False), [END]))
    # all logits are 0: any token is as good as any other
    flat = {"wte.weight": np.zeros_like(target["wte.weight"])}
    write_checkpoint(folder / "flat", CONFIG, target | flat)
    write_checkpoint(folder / "no weights", CONFIG).joinpath("model.safetensors").unlink()
    # finite weights whose products are not
    huge = {"ln_f.bias": np.full_like(target["ln_f.bias"], 3e38)}
    write_checkpoint(folder / "huge", CONFIG, target | huge)
    some = [tiny_vocabulary()[0][symbol] for symbol in "Ċab"]
    write_checkpoint(folder / "lines", CONFIG, likely(tensors_of(5, letters=False), some))
    return folder


@pytest.fixture
def program(capsys, monkeypatch):
    """A function (*words) -> code, out, err of a command line, in this process."""
    monkeypatch.setattr(warnings, "showwarning", command.print_note)

    def call(*words):
        capsys.readouterr()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                code = command.run([*map(str, words)], main.COMMANDS)
        except SystemExit as stop:  # a command's own code
            code = stop.code
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return call


def refuse_unreadable(event, arguments):
    """The hook of every open() there is, in all Pythons: raises PermissionError for some paths."""
    if event == "open" and UNREADABLE and str(arguments[0]) in UNREADABLE:
        raise PermissionError(errno.EACCES, "Permission denied", str(arguments[0]))


sys.addaudithook(refuse_unreadable)  # there is no way to remove one


@pytest.fixture
def unreadable():
    """A function (path): from now on, and until the test ends, that file may not be opened."""
    yield lambda path: UNREADABLE.add(str(path))
    UNREADABLE.clear()


@pytest.fixture
def cli(pair, program):
    """A function (*arguments) -> code, out, err, with the tiny pair."""

    def call(*arguments, models_dir=pair, command=()):
        return program(*command, f"--models_dir={models_dir}", *arguments)

    return call


@pytest.fixture
def as_json(cli):
    """A function (*arguments) -> the JSON object that one run prints."""

    def call(*arguments, note="", **more):
        done = cli("--json", *arguments, **more)
        assert done.code == 0, done.err
        assert done.out.count("\n") == 1 and done.out.endswith("\n"), done.out
        assert bool(note) == bool(done.err) and note in done.err
        return json.loads(done.out, parse_constant=pytest.fail)  # NaN and Infinity are not JSON

    return call


@pytest.fixture
def full_disk():
    """A context in which no file grows beyond some bytes."""
    resource = pytest.importorskip("resource", reason="no limits of files on this system")

    @contextmanager
    def full_disk(n_bytes):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    return full_disk


@contextmanager
def running(command, **options):
    """A process while the block runs; if it has not ended by then, it is killed."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition, process, seconds=60):
    """Wait for condition() to be true, while a process runs."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)


def python(*words, environment=ENVIRONMENT):
    """A process of Python in the repository: the finished process, its output as text."""
    options = {"capture_output": True, "text": True, "timeout": 120, "env": environment}
    return subprocess.run([sys.executable, *words], cwd=ROOT, **options)


def shell(line, pair, *arguments):
    """A line of bash in which "$0" "$@" is main.py with these arguments: the finished process."""
    command = ["bash", "-c", line, *COMMAND, *arguments, f"--models_dir={pair}"]
    return subprocess.run(command, input=b"", capture_output=True, timeout=120, env=ENVIRONMENT)


def text_of(pair, ids):
    return load_encoder(pair / "17M").decode(ids)


def timeless(found):
    """A JSON object without what a clock says, at any depth; other fractions to six digits."""
    if isinstance(found, dict):
        return {name: timeless(x) for name, x in found.items() if name not in TIMES}
    return float(f"{found:.6g}") if isinstance(found, float) else found


def lines_in(text):
    """The JSON objects that a text has a line for, timeless."""
    return [timeless(json.loads(line)) for line in text.splitlines()]


def assert_refused(done, *fragments):
    """Exit code 2, nothing on stdout, and after notes one line that says this and what to do."""
    assert (done.code, done.out) == (2, "")
    error = re.sub("(?m)^note: .*\n", "", done.err)
    assert error.count("\n") == 1 and error.endswith("\n")
    assert "Traceback" not in error
    for fragment in fragments:
        assert fragment in error
    assert re.search(r"\b(expected|fetch|give|use|try|needs|cannot pair|shorten|convert)\b", error)
