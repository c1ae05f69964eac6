"""What pip installs, in a fresh environment where modules of other people have our names."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import ENVIRONMENT, ROOT

pytestmark = pytest.mark.slow

OTHERS = "utils", "main", "sampling", "models/__init__", "proof/__init__"  # .py
USER = """
import utils, main, sampling, models, proof
import speculate
from speculate import assert_exact, sampling as ours, utils as our_utils

assert_exact(ours.verify)
(target, draft), encoder = our_utils.load_models(["17M", "0.7M-17M"])
greedy, rng = ours.SamplingParams(), ours.Rng(0)
drafter = ours.NeuralDrafter(draft, greedy, rng)
rounds = ours.speculative(target, drafter, encoder.encode("Once"), 3, 2, greedy, rng)
print(sum(len(one.tokens) for one in rounds))

from speculate import main as ours, proof as our_proof

assert utils.OTHERS and main.OTHERS and sampling.OTHERS and models.OTHERS and proof.OTHERS
"""
TYPED = """
from speculate import sampling, utils

def tokens(prompt: str, n_tokens: int) -> list[int]:
    (target, draft), encoder = utils.load_models(["17M", "0.7M-17M"])
    greedy, rng = sampling.SamplingParams(0.0), sampling.Rng(0)
    drafter = sampling.NeuralDrafter(draft, greedy, rng)
    found: list[int] = []
    ids = encoder.encode(prompt)
    for one in sampling.speculative(target, drafter, ids, n_tokens, 4, greedy, rng):
        found += one.tokens
    return found
"""
RULE = """
import numpy as np
import models, sampling, utils

assert models.OTHERS and sampling.OTHERS and utils.OTHERS

def verify(draft, p, q):
    for i, token in enumerate(draft):
        if np.random.random() >= p[i, token] / q[i, token]:
            rest = np.maximum(p[i] - q[i], 0)
            return i, np.random.choice(len(rest), p=rest / rest.sum())
    return len(draft), np.random.choice(p.shape[1], p=p[-1])
"""


def call(*command, cwd):
    options = {"capture_output": True, "text": True, "timeout": 300, "env": ENVIRONMENT}
    done = subprocess.run([*map(str, command)], cwd=cwd, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install(folder, *what):
    """A fresh environment with other people's modules, the packages of this one, and `what`."""
    call(sys.executable, "-m", "venv", "--without-pip", folder, cwd=ROOT)
    scripts = next(one for one in (folder / "bin", folder / "Scripts") if one.exists())
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = folder / call(scripts / "python", "-c", purelib, cwd=folder).strip()
    here = call(sys.executable, "-c", purelib, cwd=folder)
    (packages / "here.pth").write_text(here)
    for name in OTHERS:
        path = packages / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("OTHERS = True\n")
    before = {path.name for path in packages.iterdir()}
    pip = "pip", "--python", scripts / "python", "install", "--no-deps"
    call(sys.executable, "-m", *pip, *what, cwd=folder)
    new = {path.name for path in packages.iterdir()} - before
    return SimpleNamespace(scripts=scripts, new=new)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return install(tmp_path_factory.mktemp("wheel"), ROOT)


@pytest.fixture(scope="module")
def editable(tmp_path_factory):
    return install(tmp_path_factory.mktemp("editable"), "-e", ROOT)


def test_one_name_is_installed_and_needs_what_a_checkout_needs(wheel):
    names = {name for name in wheel.new if not name.endswith(".dist-info")}
    assert names == {"speculate"}
    requires = "import importlib.metadata as m; print(*m.requires('numpy-speculative-decoding'))"
    needed = call(wheel.scripts / "python", "-c", requires, cwd=ROOT.parent).split()
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    assert sorted(needed) == sorted(line.partition(" ")[0] for line in lines)


@pytest.fixture(params=["wheel", "editable"])
def place(request):
    return request.getfixturevalue(request.param)


def test_the_command_works_in_another_folder(place, tmp_path):
    call(place.scripts / "speculate", "--json", "--n_tokens_to_generate=3", cwd=tmp_path)
    (tmp_path / "rule.py").write_text(RULE)
    assert "EXACT" in call(place.scripts / "speculate", "prove", "rule.py", cwd=tmp_path)


def test_help_offers_what_is_there(wheel, tmp_path):
    shown = call(wheel.scripts / "speculate", "prove", "--help", cwd=tmp_path)
    assert "speculate prove answers.jsonl" in shown and "known program" not in shown


def test_the_page_is_there(wheel, tmp_path):
    short = "--n_tokens_to_generate=3"
    call(wheel.scripts / "speculate", "play", short, "--save", "page.html", cwd=tmp_path)
    assert "</html>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_workers_of_a_cluster_find_it(wheel, tmp_path):
    (tmp_path / "prompts.txt").write_text("Once upon a time\n")
    cluster = "--cluster=local:1", "--n_tokens_to_generate=3"
    assert call(wheel.scripts / "speculate", "batch", "prompts.txt", *cluster, cwd=tmp_path)


def test_models_of_a_user_are_kept_outside(wheel, tmp_path):
    where = "from speculate.checkpoints.registry import MODELS_DIR as m; print(m)"
    folder = call(wheel.scripts / "python", "-c", where, cwd=tmp_path).strip()
    assert Path(folder).parts[-2:] == ("speculate", "models")
    assert wheel.scripts.parent not in Path(folder).parents
    assert "17M" in call(wheel.scripts / "speculate", "check", "17M", cwd=tmp_path)  # is included


def test_it_and_modules_of_the_same_names_never_meet(place, tmp_path):
    (tmp_path / "user.py").write_text(USER)
    assert call(place.scripts / "python", "user.py", cwd=tmp_path) == "3\n"


def test_it_has_types(place, tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(TYPED)
    mypy = sys.executable, "-m", "mypy", "--strict", "--python-executable", place.scripts / "python"
    call(*mypy, "user.py", cwd=tmp_path)
