"""python main.py advise: whole runs on a tiny pair, and what is refused."""

import dataclasses
import json

import pytest
from command_line import assert_refused, embedded
from toys import TINY, write_pair

from experiments.decoding import clock
from experiments.measuring import advice
from utils import MODELS_DIR

SMALL = ("--K=1..4", "--repeats=1", "--n_prompts=6", "--n_tokens_to_generate=12")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A context with room for six of the built-in prompts."""
    return write_pair(tmp_path_factory.mktemp("models"), dataclasses.replace(TINY, n_ctx=96))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """What is measured need not be right here."""
    monkeypatch.setattr(clock, "SETTLING", 0.0)


@pytest.fixture
def advised(cli):
    """A function (*flags) -> what advise did."""
    return lambda *flags, **more: cli(*SMALL, *flags, command=["advise"], **more)


@pytest.fixture
def advice_in(as_json):
    """A function (*flags) -> {draft: advice}."""
    return lambda *flags: as_json(*SMALL, *flags, command=["advise"])["advice"]


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_whole_run(advice_in, advised, temperature):
    result = advice_in("--temperature", temperature)
    assert result.keys() == {"0.7M-17M", "ngram"}
    for name, found in result.items():
        is_model, a = name == "0.7M-17M", found["acceptance"]
        assert [row["K"] for row in found["by_K"]] == [1, 2, 3, 4]
        assert found["best_K"] == found["speedup"]["K"]
        assert a["source"] == "live run, 6 prompts, K = 4"
        assert 0 <= a["low"] <= a["value"] <= a["high"] <= 1
        assert (a["drafting_share"] == 1) == is_model == bool(found["shapes"])
        assert all(row["low"] <= row["speedup"] <= row["high"] for row in found["by_K"])
    done = advised("--temperature", temperature)
    assert done.code == 0 and "Does it pay here?" in done.out and "Depth against width" in done.out


def test_where_the_acceptance_comes_from(advice_in, tmp_path):
    row = {"draft": "0.7M-17M", "target": "17M", "K": 2, "temperature": 0.0, "drafted": 20}
    row |= {"acceptance_rate": 0.6, "accepted_histogram": [4, 3, 3]}
    row |= {"intervals": {"acceptance_rate": [0.5, 0.7]}}
    ngram = row | {"draft": "ngram", "intervals": {"acceptance_rate": None}, "drafted": 10}
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"rows": [row, ngram]}))
    fields = "low", "value", "high", "drafting_share", "source"
    found = [one["acceptance"] for one in advice_in("--acceptance", path).values()]
    found = [[one[field] for field in fields] for one in found]
    source = f"{path}, 1 values of K"
    assert found == [[0.5, 0.6, 0.7, 1, source], [0.6, 0.6, 0.6, 0.5, source]]
    random = "--weights=random", "--draft_model_size=ngram"
    assert advice_in("--acceptance=0.3", *random)["ngram"]["acceptance"]["value"] == 0.3


@pytest.mark.parametrize(
    "flag, shown",
    [
        ("--acceptance=1.5", "'1.5'"),
        ("--acceptance=" + "x" * 300, "or a results file that is there"),
        ("--weights=random", "--acceptance"),
        ("--n_tokens_to_generate=97", "--n_tokens_to_generate 97: expected at most 95"),
        ("--draft_model_size=other words", "cannot pair"),
        # no room for a draft
        ("--n_tokens_to_generate=1", "drafted nothing in a live run of 6 prompts"),
    ],
)
def test_bad_input(advised, monkeypatch, flag, shown):
    monkeypatch.setattr(advice, "spreads_of_costs", lambda *a: pytest.fail("was measured"))
    assert_refused(advised(flag), shown)


@pytest.mark.parametrize("draft, needs", [("0.7M-17M", 1), ("ngram", 2)])
@pytest.mark.parametrize("n_ctx", [2, 3, 65])
def test_a_small_context_takes_the_K_it_has_room_for(advised, tmp_path, n_ctx, draft, needs):
    models_dir = write_pair(tmp_path, dataclasses.replace(TINY, n_ctx=n_ctx))
    flags, most = (f"--draft_model_size={draft}", "--acceptance=0.5"), n_ctx - needs
    refused = advised(*flags, f"--K={most + 1}", models_dir=models_dir)
    assert_refused(refused, f"at most {most},")
    if most > 0:
        done = advised(*flags, "--K=1..10", "--json", models_dir=models_dir)
        rows = json.loads(done.out)["advice"][draft]["by_K"]
        assert [row["K"] for row in rows] == [*range(1, min(10, most) + 1)]


@embedded
def test_a_head_has_no_shapes_and_fills_so_many_places(cli):
    flags = "--target_model_size=7M", "--draft_model_size=eagle,medusa", "--acceptance=0.7"
    flags += ("--K=1,9", "--repeats=1", "--json")
    done = cli(*flags, models_dir=MODELS_DIR, command=["advise"])
    assert (done.code, done.err) == (0, "")
    eagle, medusa = json.loads(done.out)["advice"].values()
    assert eagle["shapes"] == medusa["shapes"] == []
    assert [len(one["by_K"]) for one in (eagle, medusa)] == [2, 1]
