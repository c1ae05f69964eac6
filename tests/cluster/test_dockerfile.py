"""The container of a worker: what the Dockerfile names is there, and .dockerignore spares it."""

import importlib.util
import json
import re
from fnmatch import fnmatch

import pytest
from command_line import ROOT

pytest.importorskip("distributed", reason="distributed is not installed")

from experiments.cluster.worker import SOURCES  # noqa: E402

DOCKERFILE = (ROOT / "experiments" / "cluster" / "Dockerfile").read_text(encoding="utf-8")
IGNORED = [
    line
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


def is_ignored(path):
    """Whether .dockerignore names a path, or a folder that it is in."""
    parts = path.split("/")
    return any(fnmatch(parts[0], line) for line in IGNORED)


def test_what_is_copied_is_there():
    copied = [line.split()[1:-1] for line in re.findall(r"(?m)^COPY .*", DOCKERFILE)]
    assert copied == [["requirements.txt"], ["."]]
    for name in copied[0]:
        assert (ROOT / name).is_file() and not is_ignored(name)


def test_what_is_started_is_there():
    command = json.loads(re.search(r"(?m)^ENTRYPOINT (.*)", DOCKERFILE)[1])
    assert command[:2] == ["python", "-m"] and importlib.util.find_spec(command[2])


def test_a_worker_has_what_it_compares_and_loads():
    """Its fingerprint is that of the sources; one that lacks some would be refused."""
    needed = [path.relative_to(ROOT).as_posix() for glob in SOURCES for path in ROOT.glob(glob)]
    needed += ["models/17M/model.safetensors", "experiments/data/stories.txt"]
    assert [path for path in needed if is_ignored(path)] == []
    assert all(is_ignored(path) for path in (".git/HEAD", ".venv/bin/python", "tests/conftest.py"))
