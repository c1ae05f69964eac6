"""python main.py throughput: both decoders with several texts at once."""

import dataclasses
import json
from types import SimpleNamespace

import pytest
from toys import TINY, write_pair

import main
from experiments.measuring import runner


@pytest.fixture
def throughput(tmp_path, capsys):
    """A function (*arguments) -> code, out, err: the command in this process, on a tiny pair."""
    pair = write_pair(tmp_path, TINY)

    def call(*arguments):
        where = [
            f"--models_dir={pair}",
            "--kernels=plain",
            "--batch_size=1,3",
            "--n_tokens_to_generate=6",
            "--repeats=1",
        ]
        code = main.main(["throughput", *where, *arguments])
        return SimpleNamespace(code=code, **dict(zip(("out", "err"), capsys.readouterr())))

    return call


@pytest.mark.parametrize("draft", ["0.7M-17M", "ngram"])
def test_throughput_of_both_decoders(throughput, draft):
    result = json.loads(throughput("--json", f"--draft_model_size={draft}").out)
    assert [row["batch_size"] for row in result["rows"]] == [1, 3]
    assert all(row["autoregressive"] > 0 and row["speculative"] > 0 for row in result["rows"])
    table = throughput("--synthetic_acceptance=0.8").out
    assert "checkpoint weights, synthetic acceptance 0.8" in table and len(table.splitlines()) == 6


def test_speeds_are_compared_with_that_of_one_text(throughput):
    last = throughput("--batch_size=3,1").out.splitlines()[-1]
    assert last.split()[0] == "1" and last.split()[2] == "1.00"
    last = throughput("--batch_size=3").out.splitlines()[-1]
    assert last.split()[2] == "–"


def test_a_context_without_room_for_a_text_is_refused(throughput, tmp_path):
    write_pair(tmp_path, dataclasses.replace(TINY, n_ctx=12))
    done = throughput()
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1 and "-1" not in done.err


@pytest.mark.parametrize(
    "flag",
    [
        "--batch_size=0",
        "--batch_size=1,x",
        "--batch_size=10000000000000000000000",
        "--batch_size=1001",
        "--K=0",
        "--n_tokens_to_generate=999",
        "--weights=my",
    ],
)
def test_throughput_of_nothing(throughput, monkeypatch, flag):
    monkeypatch.setattr(runner, "batch_speed", lambda *a: pytest.fail("was measured"))
    done = throughput(flag)
    assert done.code == 2 and done.err.count("\n") == 1 and flag.partition("=")[0] in done.err


def test_texts_that_do_not_fit_into_memory_are_refused(throughput, monkeypatch):
    monkeypatch.setattr(runner, "batch_speed", lambda *a: pytest.fail("was measured"))
    monkeypatch.setattr("backends.memory.available", lambda: 100_000)
    done = throughput("--batch_size=1000")
    assert done.code == 2 and done.err.count("\n") == 1 and "memory" in done.err.lower()
