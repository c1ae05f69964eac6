"""python main.py advise: with costs made up, its advice is the theory's; with costs measured, it
holds together.
"""

import dataclasses
import json
import sys
from types import SimpleNamespace

import pytest
from toys import TINY, write_pair

import main
from experiments.commands import advise
from experiments.commands import profile as profiling
from experiments.measuring import theory
from experiments.training import peers
from gpt2 import Config

CONFIG = dataclasses.replace(TINY, n_ctx=96)
C, V = 0.1, {1: 1.05, 2: 1.1, 3: 1.2, 4: 1.6}  # of the made-up machine


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("models"), CONFIG)


@pytest.fixture
def cli(pair, capsys):
    """A function (*arguments) -> code, out, err: the command in this process, on a tiny pair."""

    def call(*arguments):
        where = [
            f"--models_dir={pair}",
            "--kernels=plain",
            "--K=1..4",
            "--repeats=1",
            "--n_prompts=6",
        ]
        code = main.main(["advise", *where, "--n_tokens_to_generate=12", *map(str, arguments)])
        return SimpleNamespace(code=code, **dict(zip(("out", "err"), capsys.readouterr())))

    return call


@pytest.fixture
def made_up(monkeypatch):
    """A machine on which a target pass takes 1 s, and the draft's takes C for each of its layers'
    weights.
    """

    def time_rows(model, rows, repeats):
        draft = len(rows) == 1 and model.target is False
        return {n: C * model.weight if draft else 1.0 if n == 1 else V[n - 1] for n in rows}

    def model(config, target):
        return SimpleNamespace(
            config=config, target=target, weight=config.n_layer * config.n_embd / 32
        )

    for module in (advise, profiling):
        monkeypatch.setattr(module, "time_rows", time_rows)
    monkeypatch.setattr(advise, "random_model", lambda config, arrays: model(config, False))
    return model


def test_the_advice_is_the_theorys(made_up):
    target, draft = made_up(CONFIG, True), made_up(CONFIG, False)
    c, v = advise.measure_costs(target, {"0.7M": draft}, [*V], 1)
    assert c == {"0.7M": {"value": C, "low": C, "high": C}} and advise.middle(v) == V
    found = advise.advice_of(advise.acceptance_of(0.8, (0.75, 0.85), 1, "given"), c["0.7M"], v)
    speedups = {K: theory.speedup(0.8, K, C, V[K]) for K in V}
    assert found["best_K"] == max(speedups, key=speedups.get) == 3
    for row in found["by_K"]:
        assert row["speedup"] == speedups[row["K"]]
        assert (
            row["low"]
            == theory.speedup(0.75, row["K"], C, V[row["K"]])
            < row["speedup"]
            < row["high"]
        )
        assert theory.speedup(
            row["break_even_acceptance"], row["K"], C, V[row["K"]]
        ) == pytest.approx(1)
    assert found["pays"] == "yes" and {
        gain["change"].split()[1] for gain in found["would_help"]
    } == {"draft", "verify"}
    gains = {gain["change"]: gain["speedup"] for gain in found["would_help"]}
    assert gains["a draft at half its cost"] == theory.best(0.8, C / 2, V)[1]
    assert gains["a draft with half the rejections"] == theory.best(0.9, C, V)[1]
    assert (
        list(gains.values()) == sorted(gains.values(), reverse=True)
        and min(gains.values()) > speedups[3]
    )


@pytest.mark.parametrize(
    "a, verdict", [(0.2, "no"), (0.8, "yes"), ((0.1, 0.3, 0.5), "too close to tell")]
)
def test_whether_it_pays(a, verdict):
    low, value, high = a if isinstance(a, tuple) else (a, a, a)
    c, v = ({"value": cost, "low": cost, "high": cost} for cost in (0.3, 1.1))
    assert (
        advise.advice_of(advise.acceptance_of(value, (low, high), 1, ""), c, {2: v})["pays"]
        == verdict
    )


def test_depth_against_width(made_up):
    """On the made-up machine cost is layers times width, so the wider half is dearer than the plain
    one.
    """
    target, draft = made_up(CONFIG, True), made_up(CONFIG, False)
    costs = {K: {"value": cost} for K, cost in V.items()}
    expected = theory.best(0.8, C, V)[1]
    shapes = {
        shape["draft"]: shape
        for shape in advise.weigh_shapes(target, draft, None, expected, costs, 1)
    }
    assert shapes["as it is"]["needs_acceptance"] == pytest.approx(0.8)
    expected_shapes = ["2 x 16", "1 x 16", "2 x 8", "1 x 22"]
    assert [shape["shape"] for shape in shapes.values()] == expected_shapes
    for shape in shapes.values():
        assert theory.best(shape["needs_acceptance"], shape["draft_cost"], V)[1] == pytest.approx(
            expected
        )
    assert (
        shapes["half the layers"]["needs_acceptance"]
        < shapes["half the layers, wider"]["needs_acceptance"]
        < 0.8
    )


def test_shapes_that_cannot_be_are_left_out():
    assert [*advise.draft_shapes(Config(9, 9, 12, 12, 1))] == []
    assert all(
        shape.n_embd % shape.n_head == 0
        for shape in advise.draft_shapes(Config(9, 9, 84, 12, 6)).values()
    )


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_whole_run(cli, temperature):
    done = cli("--json", "--temperature", temperature)
    result = json.loads(done.out, parse_constant=pytest.fail)
    assert (done.code, done.err) == (0, "") and result["advice"].keys() == {"0.7M", "ngram"}
    for name, found in result["advice"].items():
        assert [row["K"] for row in found["by_K"]] == [1, 2, 3, 4] and found["best_K"] == found[
            "speedup"
        ]["K"]
        assert found["acceptance"]["source"] == "live run, 6 prompts, K = 4"
        assert (
            0
            <= found["acceptance"]["low"]
            <= found["acceptance"]["value"]
            <= found["acceptance"]["high"]
            <= 1
        )
        assert (found["acceptance"]["drafting_share"] == 1) == (name == "0.7M")
        assert all(row["low"] <= row["speedup"] <= row["high"] for row in found["by_K"])
        assert bool(found["shapes"]) == (name == "0.7M")
    done = cli("--temperature", temperature)
    assert done.code == 0 and "Does it pay here?" in done.out and "Depth against width" in done.out


def test_where_the_acceptance_comes_from(cli, tmp_path):
    row = {
        "draft": "0.7M",
        "target": "7M",
        "K": 2,
        "temperature": 0.0,
        "acceptance_rate": 0.6,
        "drafted": 20,
    }
    row |= {"intervals": {"acceptance_rate": [0.5, 0.7]}, "accepted_histogram": [4, 3, 3]}
    ngram = row | {"draft": "ngram", "intervals": {"acceptance_rate": None}, "drafted": 10}
    (tmp_path / "r.json").write_text(
        json.dumps({"rows": [row, ngram, row | {"temperature": 1.0, "acceptance_rate": 0.1}]})
    )
    advice = json.loads(cli("--json", "--acceptance", tmp_path / "r.json").out)["advice"]
    fields = ("low", "value", "high", "drafting_share")
    found = {name: [one["acceptance"][field] for field in fields] for name, one in advice.items()}
    assert found == {"0.7M": [0.5, 0.6, 0.7, 1], "ngram": [0.6, 0.6, 0.6, 0.5]}
    advice = json.loads(
        cli("--json", "--acceptance=0.3", "--weights=random", "--draft_model_size=0.7M").out
    )["advice"]
    assert advice["0.7M"]["acceptance"]["value"] == 0.3


@pytest.mark.parametrize(
    "arguments, shown",
    [
        (["--acceptance=1.5"], "'1.5'"),
        (["--acceptance=missing.json"], "'missing.json'"),
        (["--weights=random"], "--acceptance"),
        (["--K=1..40"], "'1..40'"),
        (["--repeats=0"], "--repeats 0"),
        (["--temperature=-1"], "temperature -1"),
        (["--draft_model_size=other words"], "cannot pair"),
    ],
)
def test_bad_input(cli, monkeypatch, arguments, shown):
    monkeypatch.setattr(advise, "measure_costs", lambda *a: pytest.fail("was measured"))
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1 and shown in done.err


def test_a_file_without_this_draft(cli, tmp_path):
    for name, content in (("a", {"rows": []}), ("b", {"rows": [{"K": 1}]}), ("c", {})):
        (tmp_path / name).write_text(json.dumps(content))
        done = cli("--acceptance", tmp_path / name)
        assert (
            (done.code, done.out) == (2, "")
            and done.err.count("\n") == 1
            and "expected" in done.err
        )


def test_peers_that_are_not_installed_are_listed(pair, monkeypatch, capsys):
    monkeypatch.setattr("utils.MODELS_DIR", str(pair))
    monkeypatch.setattr("utils.find_folder", lambda size: pair / size)
    for name in ("torch", "ctranslate2"):
        monkeypatch.setitem(sys.modules, name, None)
    peers.compare(n_prompts=2, n_tokens=5, repeats=1, K=2)
    out = capsys.readouterr().out
    assert (
        "transformers + torch: not run, torch is not installed" in out
        and "CTranslate2: not run" in out
    )
    assert "this project, plain" in out and "this project, speculative, K = 2" in out
