"""python main.py benchmark: whole runs on a tiny pair."""

import io
import json
from functools import partial

import pytest

from bench import benchmark as command
from bench import turns
from sampling import RULES

SHORT = {"n_tokens_to_generate": 10, "repeats": 1, "K": "1,3", "draft_model_size": "0.7M-17M"}


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.txt"
    words = ["long" * 20, *"hello over out in up down".split()]
    path.write_text("".join(f"{word} there\n" for word in words))
    return path


@pytest.fixture
def benchmark(pair, prompts):
    """A function (**flags) that calls the command with prompts, the first of them too long."""
    where = {"models_dir": str(pair), "prompts": str(prompts)}
    return lambda **flags: command.benchmark(**(where | SHORT | flags))


@pytest.fixture
def rows_of(benchmark, capsys):
    """A function (**flags) -> the rows of a run."""

    def call(**flags):
        capsys.readouterr()
        with pytest.warns(UserWarning, match="1 prompts have more than 54 tokens"):
            benchmark(json=True, **flags)
        return list(map(json.loads, capsys.readouterr().out.splitlines()))

    return call


def case(row):
    return tuple(row[name] for name in ("draft", "temperature", "K", "verification", "batch_size"))


def test_rows_and_files(rows_of, pair, tmp_path):
    out, plot = tmp_path / "r.jsonl", tmp_path / "r.svg"
    rows = rows_of(draft_model_size="0.7M-17M,ngram", out=str(out), plot=str(plot))
    assert rows == list(map(json.loads, out.read_text().splitlines()))
    assert "0.7M-17M, T = 1" in plot.read_text()
    assert str(pair) not in out.read_text() and str(tmp_path) not in out.read_text()
    drafts = "0.7M-17M", "ngram"
    expected = [(draft, t, K, "token", 1) for t in (0, 1) for draft in drafts for K in (1, 3)]
    assert list(map(case, rows)) == expected
    for row in rows:
        assert (row["target"], row["prompts"], row["tokens"]) == ("17M", 6, 60)
        assert 1 <= row["tokens_per_target_pass"] <= row["K"] + 1
        for figure in ("speedup", "verify_cost", "predicted"):
            assert (row[figure] is None) == (figure in row["withheld"])
        assert "bug" not in str(row["withheld"])
        assert row["settings"]["n_tokens_to_generate"] == 10 and row["machine"]["threads"] >= 1
    assert any(0 < row["acceptance_rate"] < 1 for row in rows)


def test_rules_and_batches_are_rows_like_any_other(rows_of):
    rows = rows_of(verification="token,block", temperature="0", K="3", batch_size="1,2")
    cases = [("token", 1), ("block", 1), ("token", 2), ("block", 2)]
    assert [case(row)[3:] for row in rows] == cases
    for row in rows:
        assert "bug" not in str(row["withheld"])
        assert row["tokens"] == 60 and row["prompts"] == 6
        assert (row["draft_cost"] is None) == (row["batch_size"] == 2)


def test_random_weights_and_synthetic_acceptance_are_labelled(benchmark, capsys):
    flags = {"weights": "random", "synthetic_acceptance": 0.8, "temperature": "0", "K": "3"}
    benchmark(**flags, json=True)
    row = json.loads(capsys.readouterr().out)
    assert row["acceptance_rate"] > 0.5 and row["settings"]["weights"] == "random"
    benchmark(**flags)
    assert capsys.readouterr().out.startswith("**random weights, synthetic acceptance 0.8")


def test_a_wrong_greedy_text_is_called_a_bug(rows_of, monkeypatch):
    monkeypatch.setitem(RULES, "token", lambda draft, p, q, rng: (0, 9))
    for row in rows_of(temperature="0"):
        assert row["speedup"] is None and "a bug" in row["withheld"]["speedup"]


def test_all_take_turns_on_every_prompt(rows_of, monkeypatch):
    """Each repeat of a prompt runs every variant once, in an order that changes."""
    order, decode_texts = [], turns.decode_texts

    def noted(*given):
        *_, variant, _, seeds = given
        order.append((seeds, variant[1]))
        return decode_texts(*given)

    monkeypatch.setattr(command, "decode_texts", noted)
    rows_of(repeats=3, temperature="0")
    order = order[3:]  # without the warm-up
    of_turns = [order[i : i + 3] for i in range(0, len(order), 3)]
    assert len(of_turns) == 18 and all(len({seeds for seeds, _ in turn}) == 1 for turn in of_turns)
    orders = [tuple(K for _, K in turn) for turn in of_turns]
    assert {tuple(sorted(one)) for one in orders} == {(0, 1, 3)} and len({*orders}) > 2


def test_the_bar_counts_prompts_not_batches(rows_of, monkeypatch):
    counts = []

    class Terminal(io.StringIO):
        isatty = lambda self: True

    class Bar(turns.tqdm):
        def close(self):
            counts.append((self.n, self.total, self.unit))

    monkeypatch.setattr(turns, "tqdm", partial(Bar, file=Terminal()))
    rows_of(batch_size="2,3", temperature="0", K="1")
    assert set(counts) == {(6, 6, " prompts")}  # of both sizes, closed more than once


def test_an_interrupted_run_keeps_its_rows(benchmark, tmp_path, monkeypatch):
    measure = command.measure_in_turns

    def stops(decode, *given):
        if decode.args[3].temperature == 1:
            raise KeyboardInterrupt
        return measure(decode, *given)

    monkeypatch.setattr(command, "measure_in_turns", stops)
    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning):
        benchmark(out=str(tmp_path / "r.jsonl"))
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 2


def test_equal_prompts_count_once(benchmark, prompts, capsys):
    """At temperature 0 they have the same text: seven of them tell no more than one."""
    prompts.write_text("hello there\n" * 7)
    benchmark(json=True, temperature="0", K="1")
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["prompts"] == 1 and "too few prompts" in row["withheld"]["speedup"]


@pytest.mark.parametrize("repeat", [0, 1])
def test_a_bug_in_any_repeat_is_one(monkeypatch, repeat):
    monkeypatch.setattr(turns, "explain_difference", lambda *given: {"verdict": "bug"})
    plain, runs = ([[{"texts": [[1, 2]]}, {"texts": [[1, 2]]}]] for _ in range(2))
    runs[0][repeat] = {"texts": [[1, 3]]}
    measured = {turns.PLAIN: plain, "a draft": runs}
    assert turns.has_bug(None, [[[0]]], measured, "a draft")
    assert not turns.has_bug(None, [[[0]]], measured, turns.PLAIN)


@pytest.mark.parametrize("name", ["r.jsonl", "r.svg"])
def test_nothing_is_overwritten(benchmark, tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=f"{name}: is there already"):
        benchmark(out=str(tmp_path / "r.jsonl"), plot=str(tmp_path / "r.svg"))
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("flags, shown", [
    ({"temperature": "0,x"}, "--temperature '0,x'"),
    ({"K": "1...3"}, "--K '1...3'"),
    ({"K": "3..1"}, "--K '3..1'"),
    ({"seed": -1}, "--seed -1"),
    ({"verification": "token,blocks"}, "--verification 'blocks'"),
    ({"synthetic_acceptance": 1.5}, "--synthetic_acceptance 1.5"),
    ({"batch_size": "7"}, "--batch_size 7: expected at most 6"),
    ({"draft_model_size": "eagle", "weights": "random"}, "eagle"),
    ({"draft_model_size": "ngram,a/ngram"}, "different names"),  # rows tell them apart
    ({"n_tokens_to_generate": 60}, "--n_tokens_to_generate"),
    ({"out": "rows.json"}, ".jsonl"),
    ({"plot": "missing/p.svg"}, "missing"),
    ({"plot": "p.svg", "temperature": "0,1,2,3,4,5,6"}, "at most 6 for a plot"),  # strokes
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:1 prompts")
def test_what_makes_no_sense_is_refused_in_one_line(benchmark, monkeypatch, flags, shown):
    """Before anything is measured."""
    monkeypatch.setattr(command, "measure_in_turns", lambda *given: pytest.fail("was measured"))
    with pytest.raises(ValueError) as refused:
        benchmark(**flags)
    assert shown in str(refused.value) and "\n" not in str(refused.value)


def test_prompts_that_are_all_too_long_are_told_the_context(benchmark):
    with pytest.raises(ValueError, match="shortest prompt has 6 tokens: expected at most 64, "):
        benchmark(n_tokens_to_generate=63)
