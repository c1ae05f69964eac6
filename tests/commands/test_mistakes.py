"""python main.py mistakes, and texts that are written with a mistake."""

import dataclasses
import json

import pytest
from command_line import embedded
from toys import TINY, write_checkpoint

import main
from experiments.proving.distance import N_TOKENS
from experiments.proving.mistakes import MISTAKES

EXACT = 1e-12
KEYS = ["name", "seen_in", "total_variation", "errors", "first_difference", "caught_by"]


@pytest.fixture
def cli(capsys):
    """A function (*arguments) -> (exit code, stdout, stderr), with the embedded pair."""

    def call(*arguments):
        capsys.readouterr()
        return main.main(list(map(str, arguments))), *capsys.readouterr()

    return call


@embedded
def test_the_table_and_its_json(cli):
    code, out, err = cli("mistakes", "--json")
    rows = json.loads(out, parse_constant=pytest.fail)["mistakes"]
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert [row["name"] for row in rows] == list(MISTAKES)
    assert all(list(row) == KEYS for row in rows)
    for row in rows:
        mistake, first = MISTAKES[row["name"]], row["first_difference"]
        assert (row["seen_in"], row["caught_by"]) == (mistake.seen_in, mistake.caught_by)
        assert (first is None) if mistake.cost else 0 <= first <= N_TOKENS
        far = row["total_variation"]  # 0 only where a mistake costs something else
        if far is None:
            assert row["errors"] == 1
        else:
            assert far < EXACT if mistake.cost else 0.001 < far <= 1 + EXACT
    code, out, err = cli("mistakes", *list(MISTAKES)[:3])
    assert (code, err) == (0, "") and out.splitlines()[0].split()[:2] == ["mistake", "distance"]
    for row in rows[:3]:
        shown = next(line for line in out.splitlines() if line.startswith(row["name"]))
        figures = f"{row['total_variation']:.4f}", f"{row['errors']:.0%}"
        assert shown.split()[1:4] == [*figures, str(row["first_difference"])]
    assert "-            return i, sample(residual(p[i], q[i]), rng)" in out
    assert "+            return i, sample(p[i], rng)" in out


@embedded
@pytest.mark.parametrize("name", ["bonus-from-wrong-row", "stale-cache"])
def test_generation_with_a_mistake(cli, name):
    """The autoregressive text stays right, so the program itself shows where the mistake begins."""
    prompt = MISTAKES[name].setting.prompt
    pair = ["--target_model_size", "7M", "--draft_model_size", "0.7M"]  # as the command has it
    arguments = [*pair, "--kernels", "plain", "--prompt", prompt, "--json"]
    right, wrong = (json.loads(cli(*arguments, *more)[1]) for more in ((), ("--mistake", name)))
    row = json.loads(cli("mistakes", name, "--json")[1])["mistakes"][0]
    assert wrong["settings"]["mistake"] == name
    assert wrong["autoregressive"]["token_ids"] == right["autoregressive"]["token_ids"]
    assert right["identical"] and not wrong["identical"]
    assert wrong["difference"]["verdict"] == "bug"
    assert wrong["difference"]["position"] == row["first_difference"]


@embedded
def test_a_mistake_that_only_costs(cli):
    arguments = ["--kernels", "plain", "--json"]
    right, wrong = (
        json.loads(cli(*arguments, *more)[1]) for more in ((), ("--mistake", "draft-one-behind"))
    )
    assert wrong["identical"]
    assert wrong["speculative"]["acceptance_rate"] < right["speculative"]["acceptance_rate"]


@embedded
def test_a_mistake_that_makes_the_program_fail_is_one_line(cli):
    code, out, err = cli("--kernels", "plain", "--json", "--mistake", "divide-by-temperature-0")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "makes the program fail" in err and "try another" in err


@pytest.mark.parametrize("arguments", [["mistakes", "no such"], ["--mistake", "no such"]])
def test_an_unknown_mistake_is_refused_with_the_names(cli, arguments):
    code, out, err = cli(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'no such'" in err and all(name in err for name in MISTAKES)


def test_a_draft_without_a_model_is_refused(cli):
    code, out, err = cli("mistakes", "--draft_model_size", "ngram")
    assert (code, out, err.count("\n")) == (2, "", 1) and "'ngram'" in err and "expected" in err


def test_a_context_that_is_too_short_is_refused(cli, tmp_path):
    write_checkpoint(tmp_path / "short", dataclasses.replace(TINY, n_ctx=10))
    where = "--models_dir", tmp_path, "--target_model_size=short", "--draft_model_size=short"
    code, out, err = cli("mistakes", *where)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "a context of 10 tokens: expected more than" in err


def test_a_vocabulary_that_lacks_a_byte_is_refused(cli, tmp_path):
    folder = write_checkpoint(tmp_path / "bare", dataclasses.replace(TINY, n_vocab=2))
    (folder / "vocab.json").write_text(json.dumps({"a": 0, "<|endoftext|>": 1}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    where = "--models_dir", tmp_path, "--target_model_size=bare", "--draft_model_size=bare"
    code, out, err = cli("mistakes", *where)
    assert (code, out, err.count("\n")) == (2, "", 1) and "the prompts of the mistakes" in err
