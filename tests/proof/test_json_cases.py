"""Cases as JSON lines: what another program answers is judged as real runs are."""

import json

import numpy as np
import pytest
from command_line import python

from proof.json_cases import CASES, cases, judge_answers
from sampling import Rng, verify

RNG = Rng(1)


def right(draft, p, q):
    n, token = verify(draft, p, q, RNG)
    return [*draft[:n], token]


def accepts_always(draft, p, q):
    return [*draft, RNG.sample(p[-1])]


def answer(sampler, questions, answers):
    """The program in another language."""
    with open(answers, "w") as out:
        for line in open(questions):
            line = json.loads(line)
            tokens = sampler(line["draft"], np.array(line["p"]), np.array(line["q"]))
            out.write(json.dumps({"tokens": [int(token) for token in tokens]}) + "\n")


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    file = tmp_path_factory.mktemp("cases") / "cases.jsonl"
    cases(str(file), runs=60)
    return file


def test_a_right_sampler_is_not_told_apart(questions, tmp_path):
    answer(right, questions, tmp_path / "answers.jsonl")
    result = judge_answers(tmp_path / "answers.jsonl")
    assert result["verdict"] in ("not told apart", "undecidable")  # so few runs show little
    assert result["runs"] == 60 * len(CASES)
    assert all(case["first_wrong"] is None for case in result["cases"])


def test_a_wrong_sampler_is_wrong(questions, tmp_path):
    answer(accepts_always, questions, tmp_path / "answers.jsonl")
    result = judge_answers(tmp_path / "answers.jsonl")
    assert result["verdict"] == "wrong"


@pytest.mark.parametrize("tokens", [[9], [-1], [], [0] * 9])
def test_what_no_round_has_is_wrong(tokens, questions, tmp_path):
    answer(lambda *_: tokens, questions, tmp_path / "answers.jsonl")
    result = judge_answers(tmp_path / "answers.jsonl")
    assert result["verdict"] == "wrong"
    assert result["runs"] == 60 * len(CASES)
    assert all(case["first_wrong"] and not case["problem"] for case in result["cases"])


@pytest.mark.parametrize("line, problem", [
    ("0 1", "expected {"),
    ('{"token": [0]}', "expected {"),
    ('{"tokens": 0}', "expected {"),
    ('{"tokens": [1.0]}', "whole numbers"),
    ('{"tokens": ' + "[" * 100_000, "expected {"),
    ('{"tokens": [0], "note": "a\u2028b"}', "1 answers"),
    ('{"tokens": [0]}', f"1 answers: expected one for each line.*multiple of {len(CASES)}"),
])  # fmt: skip
def test_lines_that_are_no_answers(line, problem, tmp_path):
    (tmp_path / "answers.jsonl").write_text(line + "\n", "utf-8")
    with pytest.raises(ValueError, match=problem):
        judge_answers(tmp_path / "answers.jsonl")


def test_the_commands(tmp_path, program):
    file, answers = tmp_path / "cases.jsonl", tmp_path / "answers.jsonl"
    assert python("main.py", "cases", str(file), "--runs=20").returncode == 0
    for name, said in ((file, "is there already"), ("", "a folder")):
        refused = program("cases", name, "--runs=20")
        assert refused.code == 2 and refused.err.count("\n") == 1 and said in refused.err
    answer(accepts_always, file, answers)
    done = python("main.py", "prove", str(answers), "--json")
    result = json.loads(done.stdout)
    assert done.returncode == 1 and result["verdict"] == "wrong" and result["version"]
    for flag in ("--temperature=0.5", "--top_k=2", "--batch", "--seed=1", "--timeout=9"):
        refused = program("prove", answers, flag)
        assert refused.code == 2 and "it is for FILE.py only" in refused.err
    few = program("cases", tmp_path / "none.jsonl", "--runs=0")
    assert few.code == 2 and not (tmp_path / "none.jsonl").exists()
