"""python main.py candidates."""

import json

import pytest
from toys import TINY, write_pair

import main
from experiments.candidates.measured import RULES


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("models"), TINY)


@pytest.fixture
def candidates(capsys, models, tmp_path):
    """A function (*arguments) -> (exit code, stdout, stderr) of the command on a tiny pair."""
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the cat\nthe hat\n")
    fast = ["--repeats=1", "--kernels=plain", "--rows=4", "--n_tokens_to_generate=6"]

    def call(*arguments):
        words = ["candidates", f"--models_dir={models}", f"--prompts={prompts}", *fast, *arguments]
        return main.main(words), *capsys.readouterr()

    return call


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_json_object(candidates, temperature):
    code, out, _ = candidates("--json", f"--temperature={temperature}", "--candidates=3")
    found = json.loads(out, parse_constant=pytest.fail)
    assert (code, out.count("\n")) == (0, 1)
    assert found["settings"]["candidates"] == 3 and found["n_texts"] == 2
    assert 2 <= found["n_places"] <= 12
    assert [row["rule"] for row in found["rules"]] == list(RULES)
    for row in found["rules"]:
        assert len(row["accepted"]) == len(row["standard_error"]) == 3
        assert all(0 <= value <= 1 + 1e-9 for value in row["accepted"])
    assert list(found["verify_costs"]) == ["1", "2", "3", "4"] and found["verify_costs"]["1"] == 1
    for row in found["trees"]:
        chain, tree = row["best_chain"], row["best_tree"]
        assert tree["predicted_speedup"] >= chain["predicted_speedup"] and tree["rows"] <= 4
        assert set(chain["drafts_by_depth"]) <= {"1", "-"}
    assert found["gain"] >= 0


def test_one_text_says_nothing_of_the_error(candidates):
    code, out, _ = candidates("--n_prompts=1")
    assert code == 0 and "Standard errors: unknown" in out
    found = json.loads(candidates("--n_prompts=1", "--json")[1], parse_constant=pytest.fail)
    assert all(row["standard_error"] is None for row in found["rules"])


def test_the_table(candidates):
    code, out, _ = candidates("--candidates=2")
    assert code == 0
    for rule in RULES:
        line = next(line for line in out.splitlines() if line.startswith(rule))
        assert len(line.removeprefix(rule).split()) == 2
    assert "Measured costs" in out and out.rstrip().endswith(".")


@pytest.mark.parametrize(
    "flag, expected",
    [
        ("--candidates=0", "expected 1 to 16"),
        ("--candidates=17", "expected 1 to 16"),
        ("--rows=1", "expected 2 to 64"),
        ("--rows=30", "expected at most 24"),  # the context
        ("--draft_model_size=ngram", "expected a model"),
        ("--temperature=-1", "expected a number of 0 or more"),
        ("--top_p=0", "top_p 0.0"),
        ("--seed=-1", "expected 0 or more"),
        ("--repeats=0", "expected 1 or more"),
        ("--n_tokens_to_generate=99", "context"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(candidates, flag, expected):
    code, out, err = candidates(flag)
    assert (code, out) == (2, "") and expected in err and err.count("\n") == 1
