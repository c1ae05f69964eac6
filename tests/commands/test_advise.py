"""python main.py advise: whole runs on a tiny pair, and what is refused."""

import dataclasses
import json
from types import SimpleNamespace

import pytest
from command_line import embedded
from heads import MEDUSA, toy_head
from toys import TINY, tiny_model, write_pair

import main
from experiments.commands import advise
from experiments.decoding.decoders import NGRAM
from experiments.measuring import advice
from sampling import Filter
from utils import InputError

CONFIG = dataclasses.replace(TINY, n_ctx=96)


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


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_whole_run(cli, temperature):
    done = cli("--json", "--temperature", temperature)
    result = json.loads(done.out, parse_constant=pytest.fail)
    assert (done.code, done.err) == (0, "") and result["advice"].keys() == {"0.7M-17M", "ngram"}
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
        assert (found["acceptance"]["drafting_share"] == 1) == (name == "0.7M-17M")
        assert all(row["low"] <= row["speedup"] <= row["high"] for row in found["by_K"])
        assert bool(found["shapes"]) == (name == "0.7M-17M")
    done = cli("--temperature", temperature)
    assert done.code == 0 and "Does it pay here?" in done.out and "Depth against width" in done.out


def test_where_the_acceptance_comes_from(cli, tmp_path):
    row = {
        "draft": "0.7M-17M",
        "target": "17M",
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
    assert found == {"0.7M-17M": [0.5, 0.6, 0.7, 1], "ngram": [0.6, 0.6, 0.6, 0.5]}
    advice = json.loads(
        cli("--json", "--acceptance=0.3", "--weights=random", "--draft_model_size=0.7M-17M").out
    )["advice"]
    assert advice["0.7M-17M"]["acceptance"]["value"] == 0.3


@pytest.mark.parametrize(
    "arguments, shown",
    [
        (["--acceptance=1.5"], "'1.5'"),
        (["--acceptance=missing.json"], "'missing.json'"),
        (["--acceptance=" + "x" * 300], "or a results file that is there"),
        (["--weights=random"], "--acceptance"),
        (["--K=96"], "--K 96"),
        (["--n_tokens_to_generate=97"], "--n_tokens_to_generate 97: expected at most 95"),
        (["--repeats=0"], "--repeats 0"),
        (["--temperature=-1"], "temperature -1"),
        (["--draft_model_size=other words"], "cannot pair"),
    ],
)
def test_bad_input(cli, monkeypatch, arguments, shown):
    monkeypatch.setattr(advice, "measure_costs", lambda *a: pytest.fail("was measured"))
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1 and shown in done.err


def test_a_head_has_so_many_places():
    target = tiny_model()
    head = toy_head(MEDUSA, target)  # of two places
    assert advise.possible_Ks("medusa", target, head, [1, 2, 3, 4]) == [1, 2]
    assert advise.possible_Ks("ngram", target, NGRAM, [1, 9]) == [1, 9]
    assert advise.possible_Ks("0.7M-17M", target, tiny_model(), [1, 9]) == [1, 9]
    with pytest.raises(InputError, match="--K 3: expected at most 2, what medusa drafts"):
        advise.possible_Ks("medusa", target, head, [3, 4])


@pytest.mark.parametrize("draft, needs", [("0.7M-17M", 1), ("ngram", 2)])
@pytest.mark.parametrize("n_ctx", [1, 2, 3, 64, 65])
def test_a_small_context_takes_the_K_it_has_room_for(tmp_path, capsys, n_ctx, draft, needs):
    folder, most = write_pair(tmp_path, dataclasses.replace(TINY, n_ctx=n_ctx)), n_ctx - needs
    flags = [f"--models_dir={folder}", f"--draft_model_size={draft}", "--acceptance=0.5"]
    flags += ["--kernels=plain", "--repeats=1", "--json"]
    assert main.main(["advise", *flags, f"--K={max(1, most + 1)}"]) == 2
    shown = f"at most {most}," if most > 0 else "context"
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and shown in err
    if most > 0:
        assert main.main(["advise", *flags]) == 0
        rows = json.loads(capsys.readouterr().out)["advice"][draft]["by_K"]
        assert [row["K"] for row in rows] == [*range(1, min(10, most) + 1)]


def test_a_live_run_that_examined_no_draft(cli, monkeypatch):
    """Texts of one token leave no room for a draft; of n-grams none may be found in longer ones."""
    monkeypatch.setattr(advice, "measure_costs", lambda *a: pytest.fail("was measured"))
    done = cli("--draft_model_size=ngram", "--n_tokens_to_generate=1")
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1
    assert "draft ngram drafted nothing in a live run of 6 prompts" in done.err
    assert "--acceptance" in done.err
    assert cli("--draft_model_size=0.7M-17M", "--n_tokens_to_generate=1").code == 2


@embedded
def test_advice_for_a_head(capsys):
    words = ["--target_model_size=7M", "--draft_model_size=eagle", "--acceptance=0.7", "--K=1"]
    code = main.main(["advise", *words, "--repeats=1", "--kernels=plain", "--json"])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "") and json.loads(out)["advice"]["eagle"]["shapes"] == []


def test_only_an_acceptance_of_the_same_thing_is_taken(tmp_path):
    """Of the token rule, of real models, and of texts sampled in the same way."""
    row = {"draft": "0.7M", "target": "7M", "K": 2, "temperature": 1, "drafted": 8}
    row |= {"acceptance_rate": 0.5, "accepted_histogram": [1, 2, 1]}
    block = row | {"acceptance_rate": 0.9, "verification": "block"}
    path = tmp_path / "both.json"
    path.write_text(json.dumps({"rows": [row | {"verification": "token"}, block]}))
    found = advice.stored_acceptance(path, "0.7M", "7M", Filter(1))
    assert found["value"] == 0.5 and found["source"].endswith("1 values of K")
    replayed = {"settings": {"verification": "block"}, "log": {"settings": {"top_p": 1.0}}}
    narrow = {"settings": {"temperatures": "1", "top_k": 0, "top_p": 0.5}}
    for result in (
        {"rows": [block]},
        replayed | {"rows": [row]},
        narrow | {"rows": [row]},
        {"rows": [row | {"synthetic_acceptance": 0.5}]},
        {"rows": [row | {"weights": "random"}]},
    ):
        path.write_text(json.dumps(result))
        with pytest.raises(InputError, match="token rule; expected such a row"):
            advice.stored_acceptance(path, "0.7M", "7M", Filter(1))
    path.write_text(json.dumps(narrow | {"rows": [row]}))
    assert advice.stored_acceptance(path, "0.7M", "7M", Filter(1, 0, 0.5))["value"] == 0.5


def test_a_file_without_this_draft(cli, tmp_path):
    for name, content in (("a", {"rows": []}), ("b", {"rows": [{"K": 1}]}), ("c", {})):
        (tmp_path / name).write_text(json.dumps(content))
        done = cli("--acceptance", tmp_path / name)
        assert (
            (done.code, done.out) == (2, "")
            and done.err.count("\n") == 1
            and "expected" in done.err
        )
