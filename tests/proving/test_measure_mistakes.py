"""python main.py mistakes, and texts that are written with a mistake."""

import dataclasses
import json
import re
import shlex

import pytest
from command_line import assert_refused, embedded
from toys import TINY, write_checkpoint

from proving.mistakes import MISTAKES

KEYS = ["name", "seen_in", "total_variation", "errors", "tokens_per_round", "first_difference"]
KEYS += ["caught_by"]


@embedded
def test_the_table_and_its_json(program):
    names = ["resample-from-p", "missing-bonus", "divide-by-temperature-0"]
    done = program("mistakes", *names, "--json")
    rows = json.loads(done.out, parse_constant=pytest.fail)["mistakes"]
    assert (done.code, done.out.count("\n")) == (0, 1)
    assert done.err.splitlines()[:: len(done.err.splitlines()) - 1] == [
        f"note: mistakes: {n} of 3 measured" for n in (0, 3)
    ]
    assert [row["name"] for row in rows] == names and all([*row] == KEYS for row in rows)
    wrong, costly, failing = rows
    assert wrong["total_variation"] > 0.001 and 0 <= wrong["first_difference"] < 60
    assert costly["total_variation"] < 1e-12 and costly["first_difference"] is None
    assert failing["total_variation"] is None and failing["errors"] == 1
    assert failing["tokens_per_round"] is None  # made in the filter
    pair_of = [row["tokens_per_round"] for row in (wrong, costly)]
    assert pair_of[0][0] == pytest.approx(pair_of[0][1]) and pair_of[1][0] < pair_of[1][1]
    shown = program("mistakes", *names).out
    assert "\nmistake                  distance" in shown
    assert all(len(line) <= 100 for line in shown.splitlines())
    figures = f"{wrong['total_variation']:.4f}", "0%", str(wrong["first_difference"])
    for row, expected in zip(rows, (figures, ("0.0000", "0%", "-"), ("-", "100%", "0"))):
        line = next(line for line in shown.splitlines() if line.startswith(row["name"]))
        assert tuple(line.split()[1:4]) == expected
        in_one_line = " ".join(shown.split())
        assert f"seen in {row['seen_in']} caught by {row['caught_by']}" in in_one_line
    assert shown.count("tokens a round on the toy; the right code gives") == 2
    assert "    - return i, rng.sample(residual(p[i], q[i]))" in shown
    assert "    + return i, rng.sample(p[i])" in shown


@embedded
def test_generation_with_a_mistake(program):
    """The autoregressive text stays right, so the program itself shows where the mistake begins."""
    name = "stale-cache"
    pair = "--target_model_size=7M", "--draft_model_size=0.7M"  # as the command has it
    flags = *pair, "--prompt", MISTAKES[name].case.prompt, "--kernels=plain", "--json"
    right, wrong = (json.loads(program(*flags, *more).out) for more in ((), ("--mistake", name)))
    (row,) = json.loads(program("mistakes", name, "--json").out)["mistakes"]
    assert wrong["settings"]["mistake"] == name
    assert wrong["autoregressive"]["token_ids"] == right["autoregressive"]["token_ids"]
    assert right["identical"] and not wrong["identical"]
    assert wrong["difference"]["verdict"] == "bug"
    assert wrong["difference"]["position"] == row["first_difference"]


@embedded
def test_what_cannot_be_made_or_shown_is_one_line(program, tmp_path):
    """Among them models that cannot read the museum's prompts, by their context or vocabulary."""
    done = program("--kernels=plain", "--json", "--mistake=divide-by-temperature-0")
    assert_refused(done, "divide-by-temperature-0", "makes the program fail")
    for words in (["mistakes", "no such"], ["--mistake", "no such"]):
        assert_refused(program(*words), "'no such'", *MISTAKES)
    write_checkpoint(tmp_path / "short", dataclasses.replace(TINY, n_ctx=10))
    bare = write_checkpoint(tmp_path / "bare", dataclasses.replace(TINY, n_vocab=2))
    (bare / "vocab.json").write_text(json.dumps({"a": 0, "<|endoftext|>": 1}))
    (bare / "merges.txt").write_text("#version: 0.2\n")
    for size, problem in (("short", "tokens: expected at most 9"), ("bare", "--prompt")):
        models = f"--target_model_size={size}", f"--draft_model_size={size}"
        assert_refused(program("mistakes", f"--models_dir={tmp_path}", *models), problem)


@embedded
def test_a_mistake_that_cannot_show_says_so_and_where_it_does(program):
    done = program("--mistake=resample-from-p", "--n_tokens_to_generate=5")
    command = re.search(r"try python main.py (.*)", done.err)[1]
    assert done.code == 0 and "cannot show" in done.err and "--temperature 1.0" in command
    again = program(*shlex.split(command), "--n_tokens_to_generate=5")
    assert again.code == 0 and "cannot show" not in again.err
