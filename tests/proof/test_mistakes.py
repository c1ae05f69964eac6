"""The museum of mistakes: each is a small change of the right code, and a test catches it."""

from dataclasses import replace

import numpy as np
import pytest
from command_line import ROOT

import sampling
from proof.enumerate import distribution
from proof.follow import followed
from proof.mistakes import (
    HELPERS,
    MISTAKES,
    Mistake,
    changes,
    edited,
    making,
    measure,
    mistakes,
    sample_again,
    sample_and_keep,
)
from sampling import Rng

EXACT = 1e-12
each = pytest.mark.parametrize("name", MISTAKES)


@each
def test_is_caught_by_the_test_it_names(name):
    """On the right code the suite runs that test; here it runs with the mistake made."""
    with making(MISTAKES[name]):
        # in this process, where the mistake is made; no plugin that collects garbage for long
        flags = ["-x", "-n0", "-p", "no:cacheprovider", "-p", "no:unraisableexception"]
        code = pytest.main([str(ROOT / MISTAKES[name].caught_by), *flags])
    assert code == pytest.ExitCode.TESTS_FAILED


@each
def test_is_a_small_difference_of_code_that_is_given_back(name):
    functions = changes(MISTAKES[name].diff)
    for function, pieces in functions.items():
        right, wrong = edited(function, *pieces)
        both = zip(right.splitlines(), wrong.splitlines(), strict=True)
        changed = [(a, b) for a, b in both if a != b]
        # whole lines, so that a reader sees what is changed
        assert pieces == [tuple(line.split("  #")[0].strip() for line in pair) for pair in changed]
        assert 1 <= len(changed) <= 2
    n_lines = sum(map(len, functions.values()))
    assert MISTAKES[name].diff.count("\n") + 1 == len(functions) + 2 * n_lines  # and no others
    before = {function: function.__code__ for function in functions}
    with pytest.raises(KeyboardInterrupt), making(MISTAKES[name]):
        assert all(function.__code__ is not code for function, code in before.items())
        raise KeyboardInterrupt
    assert all(function.__code__ is code for function, code in before.items())
    assert not vars(sampling).keys() & HELPERS.keys()


def test_code_that_moved_is_noticed():
    for piece in ("no such code", "draft"):  # neither none nor several
        mistake = replace(MISTAKES["reseed"], diff=f"@@ sampling.verify @@\n- {piece}\n+ pass")
        with pytest.raises(LookupError, match="once"), making(mistake):
            pass


# ---------------------------------------------------------------- how wrong it is


def unchanged(mistake: Mistake) -> Mistake:
    words = ("what", "seen_in", "diff", "caught_by", "cost", "example", "prompt")
    return replace(mistake, n_prompts=1, seed=0, **dict.fromkeys(words, ""))


@pytest.mark.parametrize(
    "case", {str(unchanged(m)): unchanged(m) for m in MISTAKES.values()}.values()
)
def test_the_right_code_has_distance_0(case):
    found = measure(case)
    assert found["distance"] < EXACT and not found["first_wrong"]


def test_a_grammar_may_begin_inside_a_draft():
    found = measure(unchanged(MISTAKES["grammar-begins-next-round"]))
    assert found["distance"] < EXACT and found["kept"] > 0


# ---------------------------------------------------------------- one number, used twice

P, Q = np.array([0.2, 0.4, 0.4]), np.array([0.6, 0.2, 0.2])


def first_and_second(rng):
    """A token of Q, and one of P that the same number chooses."""
    return sample_and_keep(rng, Q), sample_again(rng, 1, P)


def round_of_one(rng):
    token = sample_and_keep(rng, Q)
    n_accepted, following = sampling.verify([token], np.stack([P, P]), Q[None], rng)
    return token if n_accepted else following


def test_a_number_chooses_by_its_place_between_0_and_1():
    """By hand: the intervals end at 0.6, 0.8 and 1 in Q, and at 0.2, 0.6 and 1 in P."""
    with followed():
        found = distribution(first_and_second)
    assert found == pytest.approx({(0, 0): 0.2, (0, 1): 0.4, (1, 2): 0.2, (2, 2): 0.2})
    rng = Rng(0)
    for number, tokens in ((0.1, (0, 0)), (0.5, (0, 1)), (0.7, (1, 2)), (0.9, (2, 2))):
        rng.random = lambda number=number: number
        assert first_and_second(rng) == tokens


def test_the_bias_by_hand():
    """Token 0 is drafted below 0.6 and rejected with 2/3. Its residual is half token 1, half 2."""
    with making(MISTAKES["draft-noise-again"]), followed():
        found = distribution(round_of_one)
    # of the numbers below 0.6, five sixths are below 0.5
    right = [0.2, 0.2 + 0.4 * 5 / 6, 0.2 + 0.4 / 6]
    assert [found[token] for token in range(3)] == pytest.approx(right)


# ---------------------------------------------------------------- the command


def test_the_list_names_each_once(program):
    done = program("mistakes")
    assert done.code == 0 and all(len(line) <= 100 for line in done.out.splitlines())
    assert [line.split()[0] for line in done.out.splitlines() if line[0] != " "] == [*MISTAKES]


@pytest.mark.slow
def test_a_mistake_is_shown_at_work(program):
    shown = program("mistakes", "resample-from-p").out
    assert "- return i, rng.sample(residual(p[i], q[i]))\n+ return i, rng.sample(p[i])\n" in shown
    assert "distance of 0.2281" in shown and 'Texts that begin "2": yours' in shown
    # the way there passes through the mistake
    assert "coin of 0.1778: no (0.82), sampled 2 from" in " ".join(shown.split())
    right, wrong = shown.split("pass of the target:\n")[1:]
    assert right.splitlines()[0] != wrong.splitlines()[0] and "They differ from token" in wrong
    failing = program("mistakes", "divide-by-temperature-0")
    assert failing.code == 0 and "Wrong: it fails, ValueError" in failing.out


@pytest.mark.slow
@each
def test_it_shows(name, capsys):
    """In the toy by another distribution or fewer tokens gained, and in a text or an example."""
    mistake = MISTAKES[name]
    found, right = measure(mistake), measure(replace(mistake, diff=""))
    differs = bool(found["problem"]) or found["distance"] > 1e-3
    assert differs or found["kept"] < right["kept"] - 0.05 or mistake.example
    mistakes(name)
    shown = capsys.readouterr().out
    right_text, wrong_text = shown.partition("\nRight")[2].split("\nWrong", 1)
    assert "The two are the same" not in shown and right_text != wrong_text


def test_an_unknown_name_is_one_line(program):
    done = program("mistakes", "stale")
    assert (done.code, done.out) == (2, "") and "expected stale-cache" in done.err
    assert "one that python main.py mistakes lists" in program("mistakes", "x").err
