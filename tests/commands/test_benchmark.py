"""python main.py benchmark: whole runs on a tiny pair."""

import csv
import dataclasses
import json
import re
import sys
from types import SimpleNamespace

import pytest
from toys import TINY, write_pair

import main
from experiments.cli.validators import parse_K
from experiments.data.lines import Lines
from experiments.decoding import decoders
from experiments.decoding.timing import clocked
from experiments.measuring import runner
from experiments.showing import plots
from experiments.showing.tables import markdown
from utils import InputError

CONFIG = dataclasses.replace(TINY, n_ctx=64)
ASKED = """
    draft target K temperature prompts tokens autoregressive_tokens_per_second tokens_per_second
    speedup_time speedup_target_passes acceptance_rate tokens_per_target_pass draft_cost verify_cost
    predicted_speedup
""".split()
SHORT = [
    "--n_prompts=6",
    "--n_tokens_to_generate=10",
    "--repeats=1",
    "--K=1,3",
    "--draft_model_size=0.7M-17M",
]
TIMED = """
    autoregressive_tokens_per_second tokens_per_second speedup_time draft_cost verify_cost
    predicted_speedup measured_over_predicted intervals milliseconds_per_round prefill_seconds
    autoregressive_prefill_seconds withheld machines
""".split()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = write_pair(tmp_path_factory.mktemp("models"), CONFIG)
    (folder / "prompts.txt").write_text(
        "".join(f"{word} there\n" for word in "hello over out in up down".split())
    )
    return folder


@pytest.fixture
def cli(pair, capsys):
    """A function (*arguments) -> code, out, err: the command in this process, on a tiny pair and
    short prompts.
    """

    def call(*arguments, command="benchmark"):
        where = [
            f"--models_dir={pair}",
            "--kernels=plain",
            f"--prompts={pair / 'prompts.txt'}",
            *SHORT,
        ]
        code = main.main([command, *where, *map(str, arguments)])
        return SimpleNamespace(code=code, **dict(zip(("out", "err"), capsys.readouterr())))

    return call


def timeless(rows):
    return [{name: value for name, value in row.items() if name not in TIMED} for row in rows]


# ---------------------------------------------------------------- whole runs


def test_rows_and_files(cli, tmp_path):
    out = tmp_path / "r.json"
    done = cli("--out", out, "--temperature=0,1", "--draft_model_size=0.7M-17M,ngram", "--json")
    result = json.loads(done.out, parse_constant=pytest.fail)
    assert done.code == 0 and done.err.endswith(": read 6 prompts, one a line\n")
    assert result.keys() == {"machine", "settings", "rows"}
    assert result == json.loads(out.read_text())
    keys = [(row["draft"], row["target"], row["K"], row["temperature"]) for row in result["rows"]]
    assert keys == [
        (draft, "17M", K, t) for t in (0, 1) for draft in ("0.7M-17M", "ngram") for K in (1, 3)
    ]
    for one in result["rows"]:
        assert {*ASKED} <= one.keys()
        assert (one["prompts"], one["tokens"], one["skipped_prompts"]) == (6, 60, 0)
        assert sum(one["accepted_histogram"]) * one["tokens_per_target_pass"] == pytest.approx(60)
        assert one["wasted_drafts"] == one["drafted"] - sum(
            i * n for i, n in enumerate(one["accepted_histogram"])
        )
        assert one["speedup_time"] is not None or "speedup_time" in one["withheld"]
        assert all(part >= 0 for part in one["milliseconds_per_round"].values())
        assert one["milliseconds_per_round"].keys() == {"draft", "verify", "sampling", "cache"}
        assert one["verify_cost"] > 0 and not any("bug" in why for why in one["withheld"].values())
    assert any(0 < row["acceptance_rate"] < 1 for row in result["rows"])
    with out.with_suffix(".csv").open(newline="") as file:
        table = [*csv.DictReader(file)]
    assert [row["K"] for row in table] == ["1", "3"] * 4 and [*table[0]] == [*result["rows"][0]]
    assert (
        out.with_suffix(".md").read_text() == markdown(result)
        # below the eight rows, the best K of each draft and temperature
        and markdown(result).count("\n| ") == 9 + 6
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.csv", "r.json", "r.md"]


def test_the_table_for_people(cli):
    done = cli()
    assert (
        done.code == 0
        and done.err.count("\n") == 1
        and done.out.startswith("| draft")
        and "6 prompts (0 skipped" in done.out
    )


def test_rules_take_turns(cli):
    """The rows name their rule, and those of the block rule what it gains over the token rule."""
    done = cli("--verification=token,block", "--temperature=1", "--K=1,3,auto", "--json")
    rows = {(row["K"], row["verification"]): row for row in json.loads(done.out)["rows"]}
    assert [*rows] == [(K, rule) for K in (1, 3, "auto") for rule in ("token", "block")]
    for (_, rule), one in rows.items():
        told = one["speedup_over_token"] is not None or "speedup_over_token" in one["withheld"]
        assert told == (rule == "block")
        assert (one["intervals"]["speedup_over_token"] is not None) == told
    assert rows[3, "token"]["accepted_histogram"] != rows[3, "block"]["accepted_histogram"]


def test_random_weights_and_synthetic_acceptance_are_labelled(cli, tmp_path):
    flags = ["--weights=random", "--synthetic_acceptance=0.8", "--temperature=0"]
    done = cli(*flags)
    assert done.code == 0 and done.out.startswith("**random weights, synthetic acceptance 0.8**\n")
    rows = json.loads(cli(*flags, "--json").out)["rows"]
    assert all(row["weights"] == "random" and row["synthetic_acceptance"] == 0.8 for row in rows)
    assert all(row["acceptance_rate"] > 0.5 for row in rows)


def test_an_interrupted_run_goes_on(cli, tmp_path, monkeypatch):
    out, calls, measure = tmp_path / "r.json", [], runner.measure

    def stops(*arguments, **named):
        if len(calls) == 4:
            raise KeyboardInterrupt
        calls.append(arguments)
        return measure(*arguments, **named)

    monkeypatch.setattr(runner, "measure", stops)
    done = cli("--out", out)
    partial = tmp_path / "r.json.partial"
    assert done.code == 130 and "kept 4 measured prompts" in done.err and not out.exists()
    with partial.open("a") as file:
        file.write('["17M", 0.0, 4, [{"dra')  # the machine went down while a line was written
    kept = partial.read_bytes()
    for flags, shown in (((), "--resume"), (("--resume", "--seed=5"), "other settings")):
        done = cli("--out", out, *flags)
        assert done.code == 2 and shown in done.err and partial.read_bytes() == kept
    partial.write_text("7\nx\n")
    done = cli("--out", out, "--resume")
    assert done.code == 2 and "damaged" in done.err and done.err.count("\n") == 1
    partial.write_bytes(kept)
    calls.clear()
    monkeypatch.setattr(runner, "measure", lambda *a, **b: calls.append(a) or measure(*a, **b))
    done = cli("--out", out, "--resume", "--json")
    assert done.code == 0 and len(calls) == 8 and not partial.exists()
    assert json.loads(done.out)["machine"]["prompts_measured_before_resuming"] == 4
    whole = json.loads(cli("--json").out)
    assert timeless(json.loads(done.out)["rows"]) == timeless(whole["rows"])


DAMAGES = {
    "brackets": lambda line: "[" * 200_000,
    "NaN": lambda line: line.replace('"seconds": [', '"seconds": [NaN, '),
    "no list": lambda line: "7",
    "no runs": lambda line: json.dumps([*json.loads(line)[:4], 5]),
    "a run less": lambda line: json.dumps([*json.loads(line)[:4], json.loads(line)[4][:-1]]),
    "no seconds": lambda line: line.replace('"seconds"', '"minutes"'),
    "a text in place of a number": lambda line: line.replace('"K": 3', '"K": "3"'),
    "no ledger": lambda line: line.replace('"ledger": {"rounds"', '"ledger": {"round"'),
    "rounds of two": lambda line: line.replace("[3, ", "["),
    "another seconds": lambda line: line.replace('"seconds": [', '"seconds": [0, '),
}


@pytest.fixture
def interrupted(cli, tmp_path, monkeypatch):
    """The partial file of a benchmark that was interrupted after two prompts."""
    measure, calls = runner.measure, []

    def stops(*arguments, **named):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(arguments)
        return measure(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "measure", stops)
        assert cli("--out", tmp_path / "r.json", "--temperature=0").code == 130
    return tmp_path / "r.json.partial"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_partial_file_is_refused(cli, interrupted, damage):
    header, first, second = interrupted.read_text().splitlines()
    spoiled = DAMAGES[damage](second)
    assert spoiled != second
    interrupted.write_text("\n".join([header, first, spoiled, ""]))
    before = interrupted.read_bytes()
    done = cli("--out", interrupted.with_suffix(""), "--temperature=0", "--resume")
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1
    assert "damaged" in done.err and interrupted.read_bytes() == before


def test_a_run_goes_on_only_with_the_same_prompts(cli, pair, interrupted, monkeypatch):
    """The file of prompts has the same name, and others in it."""
    path = pair / "prompts.txt"
    text = path.read_text()
    before = interrupted.read_bytes()
    try:
        path.write_text(text.replace("hello", "goodbye"))
        done = cli("--out", interrupted.with_suffix(""), "--temperature=0", "--resume")
    finally:
        path.write_text(text)
    assert done.code == 2 and "other prompts" in done.err and interrupted.read_bytes() == before


@pytest.mark.parametrize("name", ["r.json", "r.csv", "r.md", "r.png"])
def test_nothing_is_overwritten(cli, tmp_path, monkeypatch, name):
    monkeypatch.setattr(runner, "measure", lambda *a, **b: pytest.fail("was measured"))
    (tmp_path / name).write_text("mine")
    done = cli("--out", tmp_path / "r.json", "--plot", tmp_path / "r.png")
    assert (done.code, done.out) == (2, "") and f"{name}' is there already" in done.err
    assert (tmp_path / name).read_text() == "mine" and len([*tmp_path.iterdir()]) == 1


def test_one_results_file_has_one_writer(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "measure", lambda *a, **b: pytest.fail("was measured"))
    with Lines(tmp_path / "r.json", {"format": "of another run"}):
        done = cli("--out", tmp_path / "r.json")
    assert (done.code, done.out) == (2, "") and "being written by another run" in done.err


def test_token_counts_that_differ_are_noticed(cli, monkeypatch):
    decode = runner.decode

    def short(decoder, target, draft, ids, n_tokens, *rest, **named):
        return decode(
            decoder, target, draft, ids, n_tokens - (decoder == "speculative"), *rest, **named
        )

    monkeypatch.setattr(runner, "decode", short)
    for one in json.loads(cli("--json").out)["rows"]:
        assert (
            one["speedup_time"] is None
            and "token counts differ on 6" in one["withheld"]["speedup_time"]
        )


def test_a_wrong_greedy_text_is_called_a_bug(cli, monkeypatch):
    monkeypatch.setitem(decoders.RULES, "token", lambda draft, q, p, rng: (0, 9))
    for one in json.loads(cli("--json", "--temperature=0").out)["rows"]:
        assert one["speedup_time"] is None and "a bug" in one["withheld"]["speedup_time"]


def test_the_clock_starts_after_the_prefill():
    now = [0.0]

    def rounds():
        for seconds in (5, 1, 2):
            now[0] += seconds
            yield seconds

    assert clocked(rounds(), clock=lambda: now[0]) == ([1, 2], 5, 3)


def test_sides_take_turns_on_every_prompt(cli, monkeypatch):
    """Each repeat of a prompt runs every contender once, in an order that changes."""
    order, observed = [], runner.Observed

    def noted(target, draft, K, task, seed, clock=None):
        if clock is None:  # the ledger's runs have one
            order.append((tuple(task.ids), K))
        return observed(target, draft, K, task, seed, clock)

    monkeypatch.setattr(runner, "Observed", noted)
    assert cli("--repeats=3", "--temperature=0").code == 0
    timed = order
    turns = [timed[i : i + 3] for i in range(0, len(timed), 3)]
    assert len(turns) == 18 and all(len({ids for ids, _ in turn}) == 1 for turn in turns)
    orders = [tuple(K for _, K in turn) for turn in turns]
    assert {tuple(sorted(one)) for one in orders} == {(0, 1, 3)} and len({*orders}) > 2


# ---------------------------------------------------------------- what makes no sense


@pytest.mark.parametrize(
    "text, found", [("1..4", [1, 2, 3, 4]), ("4,1", [4, 1]), ("1..2, 5", [1, 2, 5]), ("7..7", [7])]
)
def test_K_lists(text, found):
    assert parse_K(text, 10) == found


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1,,2", "3..1", "1..", "..3", "1.5", "a", "1,1", "1..3,2", "11", "0..3"]
)
def test_K_lists_that_make_no_sense(text):
    with pytest.raises(InputError, match="--K .*expected"):
        parse_K(text, 10)


def test_a_limit_of_K_is_a_texts_length_only_where_that_is_so(cli):
    with pytest.raises(InputError) as error:
        parse_K("1001", 1000)  # as replay limits it
    assert "1000" in str(error.value) and "token" not in str(error.value)
    assert "tokens" in cli("--K=11").err


@pytest.mark.parametrize(
    "arguments, shown",
    [
        (["--temperature=0,x"], "'0,x'"),
        (["--temperature=-1"], "temperature -1"),
        (["--temperature=0,0"], "'0,0'"),
        (["--top_p=0"], "top_p 0"),
        (["--draft_model_size=0.7M-17M,"], "'0.7M-17M,'"),
        (["--draft_model_size=other words"], "cannot pair"),
        (["--target_model_size=9B"], "'9B'"),
        (["--weights=made up"], "'made up'"),
        (["--verification=token,blocks"], "'blocks'"),
        (["--synthetic_acceptance=1.5"], "'1.5'"),
        (["--repeats=0"], "--repeats 0"),
        (["--n_prompts=-1"], "--n_prompts -1"),
        (["--prompts=missing.txt"], "missing.txt"),
        (["--out=results.txt"], "'results.txt'"),
        (["--out=missing/results.json"], "cannot be written"),
        (["--plot=picture.gif"], "'picture.gif'"),
        (["--resume"], "--out"),
        (["--n_tokens_to_generate=60"], "all 6 prompts are longer"),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(cli, monkeypatch, arguments, shown):
    monkeypatch.setattr(runner, "measure", lambda *a, **b: pytest.fail("was measured"))
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1 and shown in done.err


def test_a_run_that_never_began_leaves_nothing(cli, tmp_path):
    for _ in range(2):
        assert cli("--out", tmp_path / "r.json", "--target_model_size=9B").code == 2
    assert [*tmp_path.iterdir()] == []


def test_long_prompts_are_counted(cli, tmp_path):
    (tmp_path / "p.txt").write_text("short\n" + "long" * 20 + "\nbrief\n")
    rows = json.loads(cli("--prompts", tmp_path / "p.txt", "--json").out)["rows"]
    assert all((row["prompts"], row["skipped_prompts"]) == (2, 1) for row in rows)


# ---------------------------------------------------------------- pictures


def test_a_plot_needs_matplotlib(cli, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(runner, "measure", lambda *a, **b: pytest.fail("was measured"))
    done = cli("--plot", tmp_path / "p.png")
    assert done.code == 2 and "requirements-plots.txt" in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("drafts", ["0.7M-17M", "0.7M-17M,ngram"])
def test_the_picture_says_what_it_shows(cli, tmp_path, drafts):
    pytest.importorskip(
        "matplotlib",
        reason="matplotlib is not installed (experiments/showing/requirements-plots.txt)",
    )
    flags = [
        "--plot",
        tmp_path / "p.svg",
        "--draft_model_size",
        drafts,
        "--synthetic_acceptance=0.8",
    ]
    assert cli(*flags).code == 0
    text = (tmp_path / "p.svg").read_text()
    for shown in ["synthetic acceptance 0.8", "speedup in time", "theory", "acceptance, K = 3"]:
        assert shown in text
    assert ("draft × target" in text) == ("ngram" in drafts)
    # no background
    assert not re.search(r"<rect|style=\"fill: #ffffff", text.partition("axes_1")[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.svg"] and plots.FEW


def test_adaptive_k_is_a_row_like_any_other(cli):
    rows = json.loads(
        cli("--K=1,auto", "--draft_model_size=0.7M-17M,ngram", "--temperature=0", "--json").out
    )["rows"]
    assert [row["K"] for row in rows] == [1, "auto", 1, "auto"]
    for row in rows[1::2]:
        assert (
            row["predicted_speedup"] is None
            and row["withheld"]["predicted_speedup"] == "K changes from round to round"
        )
        assert row["tokens"] == rows[0]["tokens"] and len(row["accepted_histogram"]) == 9
    assert cli("--K=auto", "--plot=x.png").code == 2
