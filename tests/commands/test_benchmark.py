"""python main.py benchmark: the referee's rules on made-up runs, and whole runs on a tiny pair."""

import csv
import dataclasses
import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import TINY, tiny_model, write_pair

import main
from experiments.cli.validators import parse_K
from experiments.commands.benchmark import markdown
from experiments.decoding.timing import clocked
from experiments.measuring import referee, theory
from experiments.measuring import runner as measuring
from experiments.showing import plots
from sampling import Filter, speculative
from utils import InputError

CONFIG = dataclasses.replace(TINY, n_ctx=64)
ASKED = """draft target K temperature prompts tokens autoregressive_tokens_per_second tokens_per_second speedup_time
    speedup_target_passes acceptance_rate tokens_per_target_pass draft_cost verify_cost predicted_speedup""".split()
SHORT = [
    "--n_prompts=6",
    "--n_tokens_to_generate=10",
    "--repeats=1",
    "--K=1,3",
    "--draft_model_size=0.7M",
]
TIMED = "autoregressive_tokens_per_second tokens_per_second speedup_time draft_cost verify_cost predicted_speedup".split()
TIMED += "measured_over_predicted intervals milliseconds_per_round prefill_seconds autoregressive_prefill_seconds".split()
TIMED += ["withheld"]


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


# ---------------------------------------------------------------- the referee, on made-up runs


def run_of(K, seconds, tokens=10, accepted=1, **more):
    """One prompt's result: every round drafts K and has `accepted` of them accepted."""
    n_rounds = tokens // (accepted + 1) if K else tokens
    rounds = [[K, min(K, accepted + 1), accepted]] * n_rounds if K else []
    n, split = len(seconds), {"draft": 0.1, "verify": 0.2, "cache": 0.0, "sampling": 0.1}
    run = {
        "draft": "0.7M" if K else None,
        "K": K,
        "seconds": seconds,
        "prefill_seconds": [0.1] * n,
        "tokens": [tokens] * n,
    }
    run |= {
        "passes": [n_rounds] * n,
        "rounds": [rounds] * n,
        "repeated": [0, 3],
        "difference": None,
    }
    run |= {"pass_seconds": 1.2 if K else 1.0, "draft_seconds": 0.25 if K else None}
    return run | {"ledger": {"rounds": n_rounds, "split": split}} | more


def row(plain, fast):
    return referee.row_of("7M", 0.0, plain, fast, 0, {})


def test_a_row_from_known_runs():
    """Six prompts at 10 tokens: medians 8 s against 4 s, five rounds of 3 drafts with 1 accepted
    each.
    """
    found = row([run_of(0, [8.0, 7.0, 99.0])] * 6, [run_of(3, [4.0, 1.0, 5.0])] * 6)
    assert (
        found["speedup_time"] == 2
        and found["speedup_target_passes"] == 2 == found["tokens_per_target_pass"]
    )
    assert (found["tokens"], found["prompts"], found["tokens_per_second"]) == (60, 6, 2.5)
    assert found["autoregressive_tokens_per_second"] == 1.25
    assert found["acceptance_rate"] == 0.5 and found["acceptance_by_position"] == [1, 0, None]
    assert found["examined_by_position"] == [90, 90, 0] and found["accepted_histogram"] == [
        0,
        90,
        0,
        0,
    ]
    assert (found["drafted"], found["wasted_drafts"]) == (270, 180)
    assert (found["draft_cost"], found["verify_cost"]) == (0.25, 1.2)
    assert found["predicted_speedup"] == pytest.approx((1 + 0.5 + 0.25 + 0.125) / (3 * 0.25 + 1.2))
    assert found["measured_over_predicted"] == pytest.approx(2 / found["predicted_speedup"])
    assert found["intervals"]["speedup_time"] == [2, 2]
    assert found["milliseconds_per_round"] == pytest.approx(
        {"draft": 20, "verify": 40, "cache": 0, "sampling": 20}
    )
    assert found["withheld"] == {} and found["flags"] == []


def test_a_speedup_is_withheld():
    plain, fast = [run_of(0, [8.0])] * 6, [run_of(3, [4.0])] * 6
    reasons = {
        "token counts differ on 1 of 6": (plain, fast[:5] + [run_of(3, [4.0], tokens=8)]),
        "spans 1": (plain, [run_of(3, [s]) for s in (2.0, 20.0, 8.0, 7.0, 9.0, 8.5)]),
        "5 prompts give no": (plain[:5], fast[:5]),
        "a bug": (
            plain,
            fast[:5] + [run_of(3, [4.0], difference={"position": 3, "verdict": "bug"})],
        ),
    }
    for reason, runs in reasons.items():
        found = row(*runs)
        assert found["speedup_time"] is None and found["measured_over_predicted"] is None
        assert reason in found["withheld"]["speedup_time"]
        assert (found["speedup_target_passes"] is None) == ("counts" in reason)
        assert found["predicted_speedup"] is not None
    found = row(plain, [run | {"pass_seconds": None} for run in fast])
    assert found["predicted_speedup"] is None and found["speedup_time"] == 2
    assert found["withheld"].keys() == {"predicted_speedup", "measured_over_predicted"}


def test_loops_and_ties_are_flagged():
    plain, fast = [run_of(0, [8.0])] * 6, [run_of(3, [4.0])] * 5
    tie = run_of(3, [4.0], difference={"position": 3, "verdict": "tie"})
    found = row(plain, fast + [tie | {"repeated": [50, 50]}])
    assert found["speedup_time"] == 2 and [flag.partition(":")[0] for flag in found["flags"]] == [
        "repetition",
        "ties",
    ]
    assert found["repetition"] == pytest.approx(50 / 65)


def test_repeated_8_grams():
    assert measuring.repeated(list(range(20))) == (0, 13)
    assert measuring.repeated([1, 2] * 10) == (11, 13)
    assert measuring.repeated([1] * 7) == (0, 0)


@given(st.lists(st.tuples(st.floats(0.1, 9), st.floats(0.1, 9)), min_size=6, max_size=30))
def test_an_interval_holds_the_ratio_and_lies_inside_the_prompts(pairs):
    above, below = zip(*pairs)
    ratios = [a / b for a, b in pairs]
    low, high = referee.interval(above, below)
    assert min(ratios) - 1e-9 <= low <= high <= max(ratios) + 1e-9
    assert referee.interval(above[:5], below[:5]) is None


def test_intervals_cover_what_they_should():
    """Of 400 sets of 20 prompts, the interval misses the true ratio about 1 time in 20; more than 1
    in 9 has odds of 1e-6.
    """
    rng = np.random.default_rng(0)
    sets = rng.gamma(8, 1 / 8, (400, 2, 20))
    missed = sum(not low <= 1 <= high for low, high in (referee.interval(*pair) for pair in sets))
    assert 5 <= missed <= 44


# ---------------------------------------------------------------- theory


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(1, 12), st.floats(0.01, 2), st.floats(1, 4), st.floats(0.01, 1))
def test_theory(a, K, c, v, h):
    assert theory.tokens_per_round(a, K) == pytest.approx(
        (1 - a ** (K + 1)) / (1 - a) if a < 1 - 1e-6 else K + 1, rel=1e-4
    )
    even = theory.break_even(K, c, v)
    if even is None:
        assert theory.speedup(1, K, c, v, h) < 1
    else:
        assert theory.speedup(even, K, c, v, h) == pytest.approx(1, abs=1e-6) or even == 0
    assert theory.best(a, c, {1: v, K: v})[1] >= theory.speedup(a, K, c, v)


# ---------------------------------------------------------------- synthetic acceptance


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_coin_decides_and_all_passes_are_run(monkeypatch, temperature):
    """With the coins given, the accepted runs are the coins' own, and both models read as often as
    they would have.
    """
    coins = np.random.default_rng(1).random(400) < 0.7
    tosses = iter(coins.tolist())
    monkeypatch.setattr(measuring, "toss", lambda probability, rng: next(tosses))
    target, draft, reads = tiny_model(1), tiny_model(2), {"target": [], "draft": []}

    def watched(name, model):
        read = lambda ids, cache, n_last=1: (
            reads[name].append(n_last) or model.read(ids, cache, n_last)
        )  # noqa: E731
        return SimpleNamespace(config=model.config, new_cache=model.new_cache, read=read)

    run = (
        watched("target", target),
        watched("draft", draft),
        3,
        [5, 6],
        18,
        Filter(temperature),
        [0],
    )
    done = list(measuring.rounds_of(*run, acceptance=0.7))[1:]
    expected, left = [], coins.tolist()
    for one in done:
        verdicts, left = left[: one.drafted], left[one.drafted :]
        expected.append((verdicts + [False]).index(False))
    assert [one.accepted for one in done] == expected and sum(expected) > 3
    assert sum(len(one.tokens) for one in done) == 18
    assert reads["draft"] == [0] + [1] * sum(one.drafted for one in done)
    assert reads["target"] == [0] + [one.drafted + 1 for one in done]


def test_the_coin_has_the_given_probability():
    """2,000 drafts at 0.7: 4.9 standard deviations are 0.05, odds of a miss 1e-6."""
    drafts = SimpleNamespace(n_vocab=259, prefill=lambda ids: None)
    drafts.propose = lambda ids, k: ([7] * k, np.eye(259)[[7] * k])
    coin = measuring.Coin(
        drafts, lambda logits: np.full((len(logits), 259), 1 / 259), 0.7, np.random.default_rng(0)
    )
    config = dataclasses.replace(TINY, n_ctx=1200)
    read = lambda ids, cache, n_last=1: np.zeros((n_last, 1))  # noqa: E731
    target = SimpleNamespace(config=config, new_cache=lambda *n_positions: None, read=read)
    done = list(speculative(target, coin, [1], 1100, 4, coin, np.random.default_rng(0)))
    rate = sum(one.accepted for one in done) / sum(one.examined for one in done)
    assert abs(rate - 0.7) < 0.05


# ---------------------------------------------------------------- whole runs


def test_rows_and_files(cli, tmp_path):
    out = tmp_path / "r.json"
    done = cli("--out", out, "--temperature=0,1", "--draft_model_size=0.7M,ngram", "--json")
    result = json.loads(done.out, parse_constant=pytest.fail)
    assert (done.code, done.err) == (0, "") and result.keys() == {"machine", "settings", "rows"}
    assert result == json.loads(out.read_text())
    keys = [(row["draft"], row["target"], row["K"], row["temperature"]) for row in result["rows"]]
    assert keys == [
        (draft, "7M", K, t) for t in (0, 1) for draft in ("0.7M", "ngram") for K in (1, 3)
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
        and markdown(result).count("\n| ") == 9
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.csv", "r.json", "r.md"]


def test_the_table_for_people(cli):
    done = cli()
    assert (
        done.code == 0
        and done.err == ""
        and done.out.startswith("| draft")
        and "6 prompts (0 skipped" in done.out
    )


def test_random_weights_and_synthetic_acceptance_are_labelled(cli, tmp_path):
    flags = ["--weights=random", "--synthetic_acceptance=0.8", "--temperature=0"]
    done = cli(*flags)
    assert done.code == 0 and done.out.startswith("**random weights, synthetic acceptance 0.8**\n")
    rows = json.loads(cli(*flags, "--json").out)["rows"]
    assert all(row["weights"] == "random" and row["synthetic_acceptance"] == 0.8 for row in rows)
    assert all(row["acceptance_rate"] > 0.5 for row in rows)


def test_an_interrupted_run_goes_on(cli, tmp_path, monkeypatch):
    out, calls, measure = tmp_path / "r.json", [], measuring.measure

    def stops(*arguments, **named):
        if len(calls) == 4:
            raise KeyboardInterrupt
        calls.append(arguments)
        return measure(*arguments, **named)

    monkeypatch.setattr(measuring, "measure", stops)
    done = cli("--out", out)
    partial = tmp_path / "r.json.partial"
    assert done.code == 130 and "kept 4 measured prompts" in done.err and not out.exists()
    with partial.open("a") as file:
        file.write('["7M", 0.0, 4, [{"dra')  # the machine went down while a line was written
    kept = partial.read_bytes()
    for flags, shown in (((), "--resume"), (("--resume", "--seed=5"), "other settings")):
        done = cli("--out", out, *flags)
        assert done.code == 2 and shown in done.err and partial.read_bytes() == kept
    partial.write_text("7\nx\n")
    done = cli("--out", out, "--resume")
    assert done.code == 2 and "damaged" in done.err and done.err.count("\n") == 1
    partial.write_bytes(kept)
    calls.clear()
    monkeypatch.setattr(measuring, "measure", lambda *a, **b: calls.append(a) or measure(*a, **b))
    done = cli("--out", out, "--resume", "--json")
    assert done.code == 0 and len(calls) == 8 and not partial.exists()
    assert json.loads(done.out)["machine"]["prompts_measured_before_resuming"] == 4
    whole = json.loads(cli("--json").out)
    assert timeless(json.loads(done.out)["rows"]) == timeless(whole["rows"])


def test_token_counts_that_differ_are_noticed(cli, monkeypatch):
    decode = measuring.decode

    def short(decoder, target, draft, ids, n_tokens, *rest, **named):
        return decode(
            decoder, target, draft, ids, n_tokens - (decoder == "speculative"), *rest, **named
        )

    monkeypatch.setattr(measuring, "decode", short)
    for one in json.loads(cli("--json").out)["rows"]:
        assert (
            one["speedup_time"] is None
            and "token counts differ on 6" in one["withheld"]["speedup_time"]
        )


def test_a_wrong_greedy_text_is_called_a_bug(cli, monkeypatch):
    monkeypatch.setattr("sampling.verify", lambda draft, q, p, rng: (0, 9))
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
    """Each repeat of a prompt runs every contender once, in an order that is not always the same."""
    order, observed = [], measuring.observed
    monkeypatch.setattr(
        measuring, "observed", lambda *a: order.append((tuple(a[3]), a[2], len(a))) or observed(*a)
    )
    assert cli("--repeats=3", "--temperature=0").code == 0
    # the ledger's runs have a clock as ninth argument
    timed = [(ids, K) for ids, K, n in order if n == 8]
    turns = [timed[i : i + 3] for i in range(0, len(timed), 3)]
    assert len(turns) == 18 and all(len({ids for ids, _ in turn}) == 1 for turn in turns)
    orders = [tuple(K for _, K in turn) for turn in turns]
    assert {tuple(sorted(one)) for one in orders} == {(0, 1, 3)} and len({*orders}) > 2


# ---------------------------------------------------------------- what makes no sense


@pytest.mark.parametrize(
    "text, found", [("1..4", [1, 2, 3, 4]), ("4,1", [1, 4]), ("1..2, 5", [1, 2, 5]), ("7..7", [7])]
)
def test_K_lists(text, found):
    assert parse_K(text, 10) == found


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1,,2", "3..1", "1..", "..3", "1.5", "a", "1,1", "1..3,2", "11", "0..3"]
)
def test_K_lists_that_make_no_sense(text):
    with pytest.raises(InputError, match="--K .*expected"):
        parse_K(text, 10)


@pytest.mark.parametrize(
    "arguments, shown",
    [
        (["--temperature=0,x"], "'0,x'"),
        (["--temperature=-1"], "temperature -1"),
        (["--temperature=0,0"], "'0,0'"),
        (["--top_p=0"], "top_p 0"),
        (["--draft_model_size=0.7M,"], "'0.7M,'"),
        (["--draft_model_size=other words"], "cannot pair"),
        (["--target_model_size=17M"], "'17M'"),
        (["--weights=made up"], "'made up'"),
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
    monkeypatch.setattr(measuring, "measure", lambda *a, **b: pytest.fail("was measured"))
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1 and shown in done.err


def test_a_run_that_never_began_leaves_nothing(cli, tmp_path):
    for _ in range(2):
        assert cli("--out", tmp_path / "r.json", "--target_model_size=17M").code == 2
    assert [*tmp_path.iterdir()] == []


def test_long_prompts_are_counted(cli, tmp_path):
    (tmp_path / "p.txt").write_text("short\n" + "long" * 20 + "\nbrief\n")
    rows = json.loads(cli("--prompts", tmp_path / "p.txt", "--json").out)["rows"]
    assert all((row["prompts"], row["skipped_prompts"]) == (2, 1) for row in rows)


# ---------------------------------------------------------------- pictures


def test_a_plot_needs_matplotlib(cli, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(measuring, "measure", lambda *a, **b: pytest.fail("was measured"))
    done = cli("--plot", tmp_path / "p.png")
    assert done.code == 2 and "requirements-plots.txt" in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("drafts", ["0.7M", "0.7M,ngram"])
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
        cli("--K=1,auto", "--draft_model_size=0.7M,ngram", "--temperature=0", "--json").out
    )["rows"]
    assert [row["K"] for row in rows] == [1, "auto", 1, "auto"]
    for row in rows[1::2]:
        assert (
            row["predicted_speedup"] is None
            and row["withheld"]["predicted_speedup"] == "K changes from round to round"
        )
        assert row["tokens"] == rows[0]["tokens"] and len(row["accepted_histogram"]) == 9
    assert cli("--K=auto", "--plot=x.png").code == 2
