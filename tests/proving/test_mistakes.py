"""The museum of mistakes: each is a small change of the right code, and a test catches it."""

import pytest
from command_line import ROOT

import sampling
from experiments.decoding.settings import Settings
from experiments.proving.distance import compare, distance, text_of
from experiments.proving.mistakes import MISTAKES, Mistake, in_its_rule
from experiments.proving.patching import changed, made
from sampling import NeuralDrafter

EXACT = 1e-12
each = pytest.mark.parametrize("name", MISTAKES)


@each
def test_is_caught_by_the_test_it_names(name):
    """On the right code the suite runs that test; here it runs with the mistake made."""
    with made(MISTAKES[name]):
        # in this process, where the mistake is made
        how = ["-x", "-n0", "-p", "no:cacheprovider"]
        found = pytest.main([str(ROOT / MISTAKES[name].caught_by), *how])
    assert found == pytest.ExitCode.TESTS_FAILED


@each
def test_is_a_small_difference_of_code_that_is_given_back(name):
    changes = MISTAKES[name].changes
    for function, pieces in changes.items():
        right, wrong, _ = changed(function, pieces)
        pairs = list(zip(right.splitlines(), wrong.splitlines(), strict=True))
        assert 1 <= sum(a != b for a, b in pairs) <= 2
    if {*changes} == {NeuralDrafter.propose}:  # which look-up does not call
        assert "ngram" in MISTAKES[name].not_by
    before = {function: function.__code__ for function in changes}
    with pytest.raises(KeyboardInterrupt), made(MISTAKES[name]):
        assert all(function.__code__ is not code for function, code in before.items())
        raise KeyboardInterrupt
    assert all(function.__code__ is code for function, code in before.items())


@pytest.mark.parametrize("asked", ["token", "block"])
def test_a_mistake_is_made_in_the_rule_that_it_changes(asked):
    rules = {"resample-from-p": "token", "block-coin-is-p": "block", "stale-cache": asked}
    for name, rule in rules.items():
        settings = Settings(mistake=name, verification=asked)
        assert in_its_rule(settings) == settings.replace(verification=rule)


def test_code_that_moved_is_noticed():
    for piece in ("no such code", "draft"):  # neither none nor several
        mistake = Mistake("", "", {sampling.verify: {piece: ""}})
        with pytest.raises(LookupError, match="expected once"), made(mistake):
            pass


# ---------------------------------------------------------------- how wrong it is


@pytest.mark.parametrize(
    "setting", dict.fromkeys(mistake.setting for mistake in MISTAKES.values()), ids=str
)
def test_the_right_code_has_distance_0(setting):
    assert distance(setting) < EXACT


def test_a_crash_is_an_outcome_and_is_counted_beside_the_distance():
    def rounds():
        yield sampling.Round([1, 2])
        raise IndexError

    assert text_of(rounds()) == (1, 2, "IndexError")
    right = {(0,): 0.5, (1,): 0.5}
    distribution = {(0,): 0.2, (0, "IndexError"): 0.5, ("IndexError",): 0.3}
    assert compare(distribution, right) == (pytest.approx(0.5), pytest.approx(0.8))
    assert compare({("IndexError",): 1.0}, right) == (None, 1.0)
