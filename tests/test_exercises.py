"""The exercises: their checks accept the solutions and refuse wrong answers."""

import inspect
import random
import re

import numpy as np
import pytest
from command_line import ROOT, python
from wrong_answers import RIGHT, WRONG

from exercises import mine
from exercises import solutions as right
from exercises.checks import CHECKS, check

LOOPS = "speculative_5", "cached_6"


def test_each_has_a_stub_a_check_a_hint_and_a_solution_in_one_order():
    for name in CHECKS:
        signatures = [inspect.signature(getattr(one, name)) for one in (mine, right)]
        assert signatures[0] == signatures[1]
    page = (ROOT / "docs" / "exercises.md").read_text(encoding="utf-8")
    assert [*CHECKS] == [*dict.fromkeys(re.findall(r"`(\w+_\d+)`", page))]
    for module in (mine, right):
        assert [*CHECKS] == [name for name in vars(module) if name in CHECKS]


LONG = "no room at last", "no bonus", "K-SEQ", "a larger p at last", "a likely draft is safe"


def answers(table):
    """Of a {exercise: {name: answer}}, one parameter set for each answer; all are slow but the
    first of each exercise, and that, too, if it is a long one, such as one that does not end.
    """
    sets = []
    for exercise, own in table.items():
        for n, (name, answer) in enumerate(own.items()):
            marks = [pytest.mark.slow] if n > 0 or name in LONG else []
            sets.append(pytest.param(exercise, answer, id=f"{exercise}: {name}", marks=marks))
    return sets


SOLUTIONS = {name: {"solution": getattr(right, name)} for name in CHECKS}


@pytest.mark.parametrize("name, answer", answers(SOLUTIONS) + answers(RIGHT))
def test_a_right_answer_is_accepted(name, answer):
    is_right, verdict = check(name, answer)
    assert is_right and verdict.startswith(f"{name}: right"), verdict


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, wrong", answers(WRONG))
def test_a_wrong_answer_is_refused_by_a_verdict_that_shows_the_slip(name, wrong):
    """Also one that does not end."""
    random.seed(0)  # by chance, a coin of one's own may fall alike whenever it is thrown
    said, answer = wrong
    is_right, verdict = check(name, answer)
    assert not is_right and verdict.startswith(f"{name}: WRONG: ") and "\n" not in verdict
    assert said in verdict


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_gives_the_rule_a_row_for_each_draft_also_if_there_is_none(name, monkeypatch):
    def model(new_ids, cache=None):
        if cache:
            cache.ids += new_ids
        return np.full((len(new_ids), 3), 1 / 3)

    def accept_none(draft, p, q, sample, accept):
        shapes.append(q.shape)
        return 0, 1

    shapes = []
    monkeypatch.setattr(right, "verify_4", accept_none)
    getattr(right, name)(model, model, [0], 2, 1, lambda p: 0, lambda ratio: False, None)
    assert shapes == [(1, 3), (0, 3)]


def test_an_answer_that_is_not_there():
    verdict = "speedup_7: WRONG: expected a function of this name"
    assert check("speedup_7", None) == (False, verdict)


def test_what_a_reader_sees():
    """One line for each exercise still to be written; a reader's own answers stay out of this."""
    sources = {name: inspect.getsource(getattr(mine, name)) for name in CHECKS}
    open_ones = [name for name in CHECKS if "raise NotImplementedError" in sources[name]]
    done = python("-m", "pytest", "exercises", "-p", "no:xdist")  # pytest alone is enough
    assert re.findall(r"(?m)^(\w+): STILL TO BE WRITTEN$", done.stdout) == open_ones
