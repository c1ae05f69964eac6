"""The commands of train.py, as far as they go without torch."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRAIN = ROOT / "experiments" / "training" / "train.py"
COMMANDS = ["tokenizer", "target", "grow", "samples", "draft", "eagle", "medusa"]
# stands in for a machine on which the packages that training needs are not installed
WITHOUT_TORCH = """
import runpy, sys
for name in ("torch", "tokenizers", "safetensors"):
    sys.modules[name] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(*words, code=0):
    command = [sys.executable, "-c", WITHOUT_TORCH, str(TRAIN), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_help_without_torch():
    text = run("--help")
    assert all(f"    {name}" in text for name in COMMANDS)


@pytest.mark.parametrize("command", ["tokenizer", "eagle"])
def test_help_of_a_command_without_torch(command):
    assert "--corpus" in run(command, "--help")


@pytest.mark.parametrize(
    "words, problem",
    [
        ((), "expected tokenizer"),
        (("teach",), "'teach'"),
        (("target", "--steps", "0"), "--steps 0"),
        (("target", "--target_model_size", "9M"), "'9M'"),
        (("target", "--dropout", "1"), "--dropout 1"),
        (("target", "--seed", "-1"), "--seed -1"),
        (("eagle", "--learning_rate", "0"), "--learning_rate 0"),
        (("target", "--weight_decay", "-0.1"), "--weight_decay -0.1"),
        (("grow", "--layers", "0,8"), "--layers '0,8'"),
        (("grow", "--layers", "all"), "--layers 'all'"),
        (("eagle", "--target_model_size", "none"), "'none'"),
        (("eagle", "--steps", "0"), "--steps 0"),
        (("medusa", "--n_heads", "0"), "--n_heads 0"),
        (("draft", "--start", "none"), "'none'"),
        (("target", "--target_model_size", "9M", "--start", "none"), "'none'"),
        (("draft",), "pip install --group train"),
    ],
)
def test_one_line_for_what_cannot_be_done(words, problem):
    error = run(*words, code=2)
    assert problem in error and error.count("\n") == 1
