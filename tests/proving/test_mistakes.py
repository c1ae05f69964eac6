"""The museum of mistakes: each is a small change of the right code, and a test catches it."""

from pathlib import Path

import pytest

import main
from experiments.decoding.settings import Settings
from experiments.proving.mistakes import MISTAKES, in_its_rule
from experiments.proving.patching import changed, made
from sampling import NeuralDrafter

ROOT = Path(main.__file__).resolve().parent
each = pytest.mark.parametrize("name", MISTAKES)


@each
def test_is_caught_by_the_test_it_names(name):
    """That test passes when the suite runs it on the right code; here it runs with the mistake
    made.
    """
    with made(MISTAKES[name]):
        # in this process, where the mistake is made
        how = ["-x", "-n0", "-p", "no:cacheprovider"]
        found = pytest.main([str(ROOT / MISTAKES[name].caught_by), *how])
    assert found == pytest.ExitCode.TESTS_FAILED


@each
def test_is_a_small_difference(name):
    for function, pieces in MISTAKES[name].changes.items():
        right, wrong, _ = changed(function, pieces)
        pairs = list(zip(right.splitlines(), wrong.splitlines(), strict=True))
        assert 1 <= sum(a != b for a, b in pairs) <= 2


@each
def test_what_is_wrong_in_the_drafting_of_a_model_cannot_be_made_by_look_up(name):
    if {*MISTAKES[name].changes} == {NeuralDrafter.propose}:
        assert "ngram" in MISTAKES[name].not_by


@pytest.mark.parametrize("asked", ["token", "block"])
def test_a_mistake_is_made_in_the_rule_that_it_changes(asked):
    for name, rule in (("resample-from-p", "token"), ("block-coin-is-p", "block")):
        settings = Settings(mistake=name, verification=asked)
        assert in_its_rule(settings).verification == rule
    settings = Settings(mistake="stale-cache", verification=asked)
    assert in_its_rule(settings) == settings
