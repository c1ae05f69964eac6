"""python main.py benchmark: whole runs on a tiny pair."""

import json
import re
import sys

import pytest
from command_line import assert_refused

from checkpoints.errors import InputError
from decoding import costs
from decoding.theory import speedup
from experiments.benchmark import batches
from experiments.benchmark.comparison import Comparison
from experiments.benchmark.tables import to_markdown
from sampling import RULES

SHORT = "--n_tokens_to_generate=10 --repeats=1 --K=1,3 --draft_model_size=0.7M-17M".split()
SIX = "--n_prompts=6"


@pytest.fixture
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "prompts.txt"
    words = ["long" * 20, *"hello over out in up down".split()]
    path.write_text("".join(f"{word} there\n" for word in words))
    return path


@pytest.fixture
def benchmark(cli, prompts, monkeypatch):
    """A function (*arguments) -> code, out, err: the command, on short prompts."""

    monkeypatch.setattr(costs, "BUDGET_SECONDS", 0)

    def call(*arguments):
        given = " ".join(map(str, arguments))
        source = [f"--prompts={prompts}", SIX]
        if "--batch_size" in given:
            source = []
        return cli(*source, *SHORT, *arguments, command=["benchmark"])

    return call


@pytest.fixture
def result_of(benchmark):
    """A function (*arguments) -> the JSON object."""

    def call(*arguments):
        done = benchmark("--json", *arguments)
        assert done.code == 0
        return json.loads(done.out, parse_constant=pytest.fail)

    return call


@pytest.fixture
def nothing_is_measured(monkeypatch):
    monkeypatch.setattr(Comparison, "measure", lambda *a: pytest.fail("was measured"))
    monkeypatch.setattr(batches, "measure_batch", lambda *a: pytest.fail("was measured"))


# ---------------------------------------------------------------- whole runs


def test_rows_and_files(result_of, pair, tmp_path):
    out = tmp_path / "r.json"
    result = result_of("--out", out, "--draft_model_size=0.7M-17M,ngram")
    assert result.keys() == {"machine", "settings", "rows", "best_K"}
    assert result == json.loads(out.read_text())
    assert str(pair) not in json.dumps(result) and "models_dir" not in result["settings"]
    keys = [(row["draft"], row["target"], row["K"], row["temperature"]) for row in result["rows"]]
    drafts = "0.7M-17M", "ngram"
    assert keys == [(draft, "17M", K, t) for t in (0, 1) for draft in drafts for K in (1, 3)]
    for one in result["rows"]:
        assert (one["prompts"], one["tokens"], one["skipped_prompts"]) == (6, 60, 1)
        n_passes = sum(one["accepted_histogram"])
        assert n_passes * one["tokens_per_target_pass"] == pytest.approx(60)
        assert one["speedup_time"] is not None or "speedup_time" in one["withheld"]
        assert all(part >= 0 for part in one["milliseconds_per_round"].values())
        assert one["milliseconds_per_round"].keys() == {"draft", "verify", "sampling"}
        assert one["verify_cost"] is not None or "verify_cost" in one["withheld"]
        assert not any("bug" in why for why in one["withheld"].values())
    assert any(0 < row["acceptance_rate"] < 1 for row in result["rows"])
    # twice the eight rows, and twice the best K of each draft and temperature
    text = to_markdown(result)
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(lines) == 2 * 10 + 2 * 6
    assert max(map(len, text.splitlines())) <= 100 and "– | – |" not in text
    assert [(one["draft"], one["temperature"]) for one in result["best_K"]] == [
        (draft, t) for t in (0, 1) for draft in drafts
    ]
    for one in result["best_K"]:
        assert one["fastest_K"] in (1, 3) and 1 <= one["predicted_K"] <= 8
        a, K, h = one["acceptance_rate"], one["predicted_K"], one["drafting_share"]
        expected = speedup(a, K, one["draft_cost"], one["verify_cost"], h)
        assert one["predicted_speedup"] == pytest.approx(expected)
    assert [*tmp_path.iterdir()] == [out]


def test_rules_take_turns(result_of):
    """The rows name their rule, and those of the block rule what it gains over the token rule."""
    result = result_of("--verification=token,block", "--temperature=1", "--K=3,auto")
    rows = {(row["K"], row["verification"]): row for row in result["rows"]}
    assert [*rows] == [(K, rule) for K in (3, "auto") for rule in ("token", "block")]
    for (_, rule), one in rows.items():
        told = one["speedup_over_token"] is not None or "speedup_over_token" in one["withheld"]
        assert told == (rule == "block")
        assert (one["intervals"]["speedup_over_token"] is not None) == told
    assert rows[3, "token"]["accepted_histogram"] != rows[3, "block"]["accepted_histogram"]


def test_random_weights_and_synthetic_acceptance_are_labelled(benchmark):
    flags = ["--weights=random", "--synthetic_acceptance=0.8", "--temperature=0", "--K=3"]
    done = benchmark(*flags)
    assert done.code == 0 and done.out.startswith("**random weights, synthetic acceptance 0.8**\n")
    (row,) = json.loads(benchmark(*flags, "--json").out)["rows"]
    assert row["weights"] == "random" and row["synthetic_acceptance"] == 0.8
    assert row["acceptance_rate"] > 0.5


def test_auto_k_is_a_row_like_any_other(result_of):
    rows = result_of("--K=1,auto", "--draft_model_size=0.7M-17M,ngram", "--temperature=0")["rows"]
    assert [row["K"] for row in rows] == [1, "auto", 1, "auto"]
    for row in rows[1::2]:
        why = row["withheld"]["predicted_speedup"]
        assert row["predicted_speedup"] is None and why == "K changes from round to round"
        assert row["tokens"] == rows[0]["tokens"] and len(row["accepted_histogram"]) == 9


def test_greedy_repeats_tell_nothing_new_about_acceptance(result_of):
    def intervals(repeats):
        rows = result_of("--temperature=0", f"--repeats={repeats}")["rows"]
        return [row["intervals"]["acceptance_rate"] for row in rows]

    for three, one in zip(intervals(3), intervals(1), strict=True):
        assert three == pytest.approx(one)


def test_a_wrong_greedy_text_is_called_a_bug(result_of, monkeypatch):
    monkeypatch.setitem(RULES, "token", lambda draft, p, q, rng: (0, 9))
    for one in result_of("--temperature=0")["rows"]:
        assert one["speedup_time"] is None and "a bug" in one["withheld"]["speedup_time"]


def test_sides_take_turns_on_every_prompt(result_of, monkeypatch):
    """Each repeat of a prompt runs every variant once, in an order that changes."""
    order, run_of = [], Comparison.run_of

    def noted(comparison, variant, *of_text, **changes):
        if not changes:  # no warm-up
            order.append((tuple(comparison.run.ids), variant.K))
        return run_of(comparison, variant, *of_text, **changes)

    monkeypatch.setattr(Comparison, "run_of", noted)
    result_of("--repeats=3", "--temperature=0")
    turns = [order[i : i + 3] for i in range(0, len(order), 3)]
    assert len(turns) == 18 and all(len({ids for ids, _ in turn}) == 1 for turn in turns)
    orders = [tuple(K for _, K in turn) for turn in turns]
    assert {tuple(sorted(one)) for one in orders} == {(0, 1, 3)} and len({*orders}) > 2


# ---------------------------------------------------------------- runs that are interrupted


def test_an_interrupted_run_goes_on(benchmark, prompts, interrupted, result_of, tmp_path):
    """With the prompts that were measured; one has changed in the file since."""
    out, partial = tmp_path / "r.json", tmp_path / "r.json.partial"
    done = interrupted(lambda: benchmark("--out", out, "--temperature=0"), 2)
    assert "kept 2 measured prompts" in done.err and not out.exists()
    prompts.write_text(prompts.read_text().replace("hello", "goodbye"))
    with partial.open("a") as file:
        file.write('[["17M", 0.0, 4, 3], [{"dra')  # the machine went down while a line was written
    kept = partial.read_text().splitlines()[:3]
    for flags, shown in (((), "--resume"), (("--resume", "--seed=5"), "other settings")):
        assert_refused(benchmark("--out", out, "--temperature=0", *flags), shown)
        assert partial.read_text().splitlines()[:3] == kept
    found = result_of("--out", out, "--temperature=0", "--resume")
    assert found["machine"]["prompts_measured_before_resuming"] == 1 and not partial.exists()
    counted = lambda rows: [(row["K"], row["accepted_histogram"]) for row in rows]
    assert counted(found["rows"]) == counted(result_of("--temperature=0")["rows"])


@pytest.mark.parametrize("name", ["r.json", "r.png"])
def test_nothing_is_overwritten(benchmark, tmp_path, nothing_is_measured, name):
    (tmp_path / name).write_text("mine")
    done = benchmark("--out", tmp_path / "r.json", "--plot", tmp_path / "r.png")
    assert (done.code, done.out) == (2, "") and f"{name}' is there already" in done.err
    assert (tmp_path / name).read_text() == "mine" and len([*tmp_path.iterdir()]) == 1


@pytest.mark.parametrize("flag, name", [("--out", "write_atomically"), ("--plot", "draw")])
def test_what_was_measured_is_printed_before_it_is_written(
    benchmark, tmp_path, monkeypatch, flag, name
):
    """A file that cannot be written costs that file and nothing else."""

    def fail(*arguments):
        raise InputError("no room: use another disk")

    module = "plots" if name == "draw" else "benchmark"
    monkeypatch.setattr(f"experiments.benchmark.{module}.{name}", fail)
    path = tmp_path / ("r.json" if flag == "--out" else "r.svg")
    done = benchmark("--json", "--temperature=0", flag, path)
    assert done.code == 2 and len(json.loads(done.out)["rows"]) == 2
    assert ("kept 6 measured prompts" in done.err) == (flag == "--out") and not path.exists()


def test_progress_is_noted_where_stderr_is_no_terminal(benchmark, monkeypatch):
    """Before the models are loaded, before the first prompt, and then now and then."""
    monkeypatch.setattr("experiments.progress.PERIOD", 0)
    loading, *lines = benchmark("--temperature=0").err.splitlines()
    assert loading == "note: 17M: loading it and its drafts"
    _, _, *lines = lines  # of the file of prompts
    measured = [f"note: 17M: {n} of 6 prompts" for n in range(7)]
    assert lines == [*measured, *(f"note: 17M: {n} of 1 costs of rounds" for n in range(2))]
    lines = benchmark(*BATCHES).err.splitlines()
    assert lines[1:] == [f"note: 17M at temperature 0: {n} of 2 turns" for n in range(3)]


# ---------------------------------------------------------------- batches

BATCHES = ["--batch_size=1,3", "--K=2", "--temperature=0", "--n_tokens_to_generate=6"]


def test_both_decoders_with_several_texts_at_once(result_of, benchmark):
    rows = result_of(*BATCHES, "--draft_model_size=0.7M-17M,ngram", "--K=2,3")["rows"]
    keys = [(row["draft"], row["K"], row["batch_size"]) for row in rows]
    drafts = "0.7M-17M", "ngram"
    assert keys == [(draft, K, n) for draft in drafts for K in (2, 3) for n in (1, 3)]
    assert all(row["autoregressive"] > 0 and row["speculative"] > 0 for row in rows)
    assert all(row["of_one"] == 1 for row in rows if row["batch_size"] == 1)
    synthetic = result_of(*BATCHES, "--synthetic_acceptance=0.8")["rows"]
    # a batch is as slow as its slowest text, so every text has the same coins
    assert len({row["tokens_per_target_pass"] for row in synthetic}) == 1
    table = benchmark(*BATCHES, "--synthetic_acceptance=0.8").out
    assert table.startswith("**synthetic acceptance 0.8**\n") and table.count("\n|") == 4


def test_the_seed_decides_the_prompts_of_a_batch(benchmark, monkeypatch):
    asked = set()
    noted = lambda comparison, variant, prompts, seed: asked.add((seed, *prompts[0])) or (1.0, 1.0)
    monkeypatch.setattr(batches, "measure_batch", noted)
    for seed in (1, 2, 2):
        assert benchmark(*BATCHES, f"--seed={seed}").code == 0
    assert len(asked) == 2 and len({tuple(ids) for _, *ids in asked}) == 2


def test_texts_for_which_there_is_no_memory(benchmark, monkeypatch, nothing_is_measured):
    monkeypatch.setattr("backends.memory.available_bytes", lambda: 1_000_000)
    assert_refused(benchmark(*BATCHES, "--batch_size=1000"), "memory", "--batch_size")


def test_programs_that_are_not_installed_are_listed(benchmark, result_of, monkeypatch):
    for name in ("torch", "xllamacpp"):
        monkeypatch.setitem(sys.modules, name, None)
    asked = ["--temperature=0", "--K=2", "--programs=transformers,llama_server"]
    done = benchmark(*asked)
    assert done.code == 0 and "this project" in done.out
    assert done.out.count(": not run, ") == 2 and "llama_server: not run, " in done.out
    for row, decoder in zip(result_of(*asked)["rows"], ("plain", "speculative"), strict=True):
        assert (row["program"], row["decoder"], row["same_texts"]) == ("this project", decoder, 6)
        assert row["tokens_per_second"]["value"] > 0


BAD = """
    --temperature=0,x --temperature=-1 --temperature=0,0 --top_p=0 --target_model_size=9B --K=11
    --draft_model_size=0.7M-17M, --weights=madeup --verification=token,blocks --repeats=0
    --synthetic_acceptance=1.5 --n_prompts=-1 --prompts=missing.txt --out=results.txt --resume
    --out=missing/results.json --plot=picture.gif --batch_size=0 --batch_size=1,x --batch_size=1001
    --programs=transformers,gpt --programs=transformers
""".split()
TOGETHER = [
    (["--draft_model_size=other words"], "cannot pair"),
    (["--n_tokens_to_generate=60"], "all 7 prompts"),
    (["--K=auto", "--plot=x.png"], "--plot with --K auto"),
    ([*BATCHES, "--n_tokens_to_generate=52"], "--n_tokens_to_generate 52: expected at most 51"),
    ([*BATCHES, "--plot=r.png"], "--plot"),
    ([*BATCHES, "--programs=openvino"], "--programs with --batch_size"),
    ([*BATCHES, "--K=2,auto"], "--K auto with --batch_size"),
    ([*BATCHES, "--prompts=missing.txt"], "--prompts with --batch_size"),
    ([*BATCHES, "--n_prompts=3"], "--n_prompts with --batch_size"),
    ([*BATCHES, "--out=r.json", "--resume"], "--resume with --batch_size"),
    (["--programs=openvino", "--K=2", "--temperature=0", "--out=r.json", "--resume"], "--resume"),
    (["--programs=openvino", "--K=2", "--temperature=1"], "--temperature"),
    (
        ["--programs=openvino", "--K=2", "--temperature=0", "--weights=random"],
        "--programs with --weights",
    ),
]


@pytest.mark.parametrize(
    "flags, shown", [*(([flag], re.split("[=,]", flag)[-1]) for flag in BAD), *TOGETHER]
)
def test_what_makes_no_sense_is_refused(benchmark, nothing_is_measured, flags, shown):
    """Before anything is measured, by the flag or its value."""
    assert_refused(benchmark(*flags), shown)


def test_the_picture_says_what_it_shows(benchmark, tmp_path, monkeypatch):
    path = tmp_path / "p.svg"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib.pyplot", None)
        patch.delitem(sys.modules, "experiments.benchmark.plots", raising=False)
        assert_refused(benchmark("--plot", path), "matplotlib")
    flags = ["--plot", path, "--draft_model_size=0.7M-17M,ngram", "--synthetic_acceptance=0.8"]
    assert benchmark(*flags).code == 0
    text = path.read_text()
    assert "synthetic acceptance 0.8" in text and "ngram" in text
    assert [*tmp_path.iterdir()] == [path]
