"""The exercises: their checks accept the solutions and refuse wrong answers."""

import inspect
import re

import pytest
from command_line import ROOT, python
from wrong_answers import RIGHT, WRONG

from exercises import bugs, checks, mine
from exercises import solutions as right
from exercises.checks import CHECKS
from proving import limits, verdict
from proving.enumeration import WrongAnswer
from proving.verdict import enumerate_round, expected_kept


def test_each_has_a_number_a_stub_a_check_a_hint_and_a_solution():
    assert sorted(int(name.rsplit("_", 1)[1]) for name in CHECKS) == list(range(1, 15))
    for name in CHECKS:
        signatures = [inspect.signature(getattr(one, name)) for one in (mine, right)]
        assert signatures[0] == signatures[1]


def test_they_stand_in_one_order():
    stubs = [name for name in vars(mine) if name in CHECKS]
    page = (ROOT / "docs" / "exercises.md").read_text(encoding="utf-8")
    assert [*CHECKS] == stubs == re.findall(r"<summary><code>(\w+)</code>", page)
    assert [*CHECKS] == [name for name in vars(right) if name in CHECKS]


def slips(table):
    """Of a {exercise: {name: answer}}, one parameter set for each answer."""
    return [
        pytest.param(exercise, answer, id=f"{exercise}: {name}")
        for exercise, answers in table.items()
        for name, answer in answers.items()
    ]


SOLUTIONS = {name: {"solution": getattr(right, name)} for name in CHECKS}


@pytest.mark.parametrize("name, answer", slips(SOLUTIONS) + slips(RIGHT))
def test_a_right_answer_is_accepted(name, answer):
    CHECKS[name](answer)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, wrong", slips(WRONG))
def test_a_wrong_answer_is_refused_by_a_verdict_that_shows_the_slip(monkeypatch, name, wrong):
    """Also one that does not end."""
    monkeypatch.setattr(limits, "MAX_SECONDS", 1)
    said, answer = wrong
    with pytest.raises(WrongAnswer) as refused:
        CHECKS[name](answer)
    verdict = str(refused.value)
    assert said in verdict and re.search("expected|right|end", verdict)
    assert "\n" not in verdict


@pytest.mark.parametrize("name, answer", [*slips(SOLUTIONS), *slips(RIGHT)])
def test_no_check_is_silent_for_long(monkeypatch, name, answer):
    """10,000 branches take a second."""
    n_branches, enumerate_branches = 0, checks.enumerate_branches

    def counted(run):
        def count(branches):
            nonlocal n_branches
            n_branches += 1
            return run(branches)

        return enumerate_branches(count)

    for module in (checks, verdict):
        monkeypatch.setattr(module, "enumerate_branches", counted)
    CHECKS[name](answer)
    assert n_branches < 30_000


def test_what_can_be_kept_is_what_the_solutions_keep():
    """The formula, against an enumeration."""
    for target, draft_model, K in checks.rounds_to_check():
        for answer, block in ((right.verify_7, False), (right.block_11, True)):
            rule = lambda draft, p, q, rng: answer(draft, p, q, rng.sample, rng.accept)
            _, kept = enumerate_round(rule, target, draft_model, K)
            assert kept == pytest.approx(expected_kept(target, draft_model, K, block), abs=1e-12)


def test_what_a_reader_sees():
    """One line for each exercise still to be written; a reader's own answers stay out of this."""
    sources = {name: inspect.getsource(getattr(mine, name)) for name in CHECKS}
    open_ones = [name for name in CHECKS if "raise NotImplementedError" in sources[name]]
    done = python("-m", "pytest", "exercises", "-p", "no:xdist")  # pytest alone is enough
    said = re.findall(r"(?m)^(\w+): still to be written, in exercises/mine.py$", done.stdout)
    assert said == open_ones


# ---------------------------------------------------------------- find the bug


@pytest.mark.parametrize("number, name", list(enumerate(bugs.BUGS, 1)))
def test_a_bug_shows_in_its_texts_and_has_one_line(capsys, number, name):
    bugs.print_bug(number)
    *code, _, symptom, _ = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"distance 0\.\d+; .*yours .*, right .*", symptom)
    assert not symptom.startswith("distance 0.0000")
    answers = [bugs.judge_line(name, line) for line in range(len(code) + 2)]
    (yes,) = [answer for answer in answers if answer.startswith("Yes")]
    assert yes.count("\n") == 2


def test_all_bugs_are_listed():
    done = python("-m", "exercises.bugs")
    assert re.findall(r"(?m)^\d", done.stdout) == [str(n + 1) for n in range(len(bugs.BUGS))]


@pytest.mark.parametrize("line", ["0", "999"])
def test_a_line_that_does_not_exist_is_refused(line):
    done = python("-m", "exercises.bugs", "2", line)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"line {line}: expected 1 to" in done.stderr


def test_the_lines_that_the_pages_ask_for_exist():
    for page in (bugs.__doc__, (ROOT / "docs" / "exercises.md").read_text(encoding="utf-8")):
        number, line = map(int, re.search(r"exercises.bugs (\d+) (\d+)", page).groups())
        assert line <= len(bugs.source_lines(bugs.BUGS[number - 1])[1])


# ---------------------------------------------------------------- commands


@pytest.mark.parametrize("module", ["exercises.bugs", "proving.mistakes_page"])
def test_a_script_reads_its_arguments(module):
    shown = python("-m", module, "--help")
    assert (shown.returncode, shown.stderr) == (0, "") and "usage" in shown.stdout
    refused = python("-m", module, "--nope")
    assert (refused.returncode, refused.stdout) == (2, "") and "--nope" in refused.stderr
