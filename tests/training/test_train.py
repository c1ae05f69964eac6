"""The command line of train.py."""

import pytest
from command_line import python

for package in ("torch", "transformers", "safetensors", "tokenizers"):
    pytest.importorskip(package)

from experiments.training import train  # noqa: E402


def test_help(capsys):
    assert train.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in train.COMMANDS)
    for name in train.COMMANDS:
        assert train.main([name, "--help"]) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"Usage: python experiments/training/train.py {name} [--FLAG")


@pytest.mark.parametrize("words, problem", [
    ([], "expected tokenizer"),
    (["teach"], "'teach'"),
    (["target", "--steps", "0"], "--steps 0"),
    (["target", "--target_model_size", "9M"], "'9M'"),
    (["target", "--layers", "0,1,2"], "--layers 0,1,2: expected --start"),
    (["target", "--seed", "-1"], "--seed -1"),
    (["eagle", "--learning_rate", "nan"], "--learning_rate nan"),
    (["samples", "--n_batches", "0"], "--n_batches 0"),
])  # fmt: skip
def test_one_line_for_what_cannot_be_done(capsys, words, problem):
    assert train.main(words) == 2
    error = capsys.readouterr().err
    assert problem in error and error.count("\n") == 1


def test_one_line_where_a_package_is_missing():
    done = python(
        "-c", "import sys; sys.modules['torch'] = None; import experiments.training.train"
    )
    assert done.returncode == 2
    assert (
        done.stderr
        == "error: training needs torch: pip install --group train, with pip 25.1 or newer\n"
    )
