"""The commands of train.py, as far as they go without torch."""

import sys

import pytest

from experiments.training import train


def test_help(capsys):
    assert train.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in train.COMMANDS)
    for name in train.COMMANDS:
        assert train.main([name, "--help"]) == 0
        assert "--corpus" in capsys.readouterr().out


@pytest.mark.parametrize("words, problem", [
    ([], "expected tokenizer"),
    (["teach"], "'teach'"),
    (["target", "--steps", "0"], "--steps 0"),
    (["target", "--target_model_size", "9M"], "'9M'"),
    (["target", "--dropout", "1"], "--dropout 1"),
    (["target", "--seed", "-1"], "--seed -1"),
    (["eagle", "--learning_rate", "nan"], "--learning_rate nan"),
    (["target", "--weight_decay", "-0.1"], "--weight_decay -0.1"),
    (["eagle", "--width", "6"], "--width 6"),
    (["medusa", "--n_heads", "0"], "--n_heads 0"),
    (["samples", "--n_batches", "0"], "--n_batches 0"),
    (["draft"], "pip install --group train"),
])  # fmt: skip
def test_one_line_for_what_cannot_be_done(monkeypatch, capsys, words, problem):
    for package in ("torch", "transformers", "tokenizers", "safetensors"):
        monkeypatch.setitem(sys.modules, package, None)
    assert train.main(words) == 2
    error = capsys.readouterr().err
    assert problem in error and error.count("\n") == 1
