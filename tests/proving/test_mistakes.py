"""The museum of mistakes: each is a small change of the right code, and a test catches it."""

from pathlib import Path

import pytest

import main
from experiments.proving.mistakes import MISTAKES, committing
from experiments.proving.patching import changed, made

ROOT = Path(main.__file__).resolve().parent
each = pytest.mark.parametrize("name", MISTAKES)


@each
def test_is_caught_by_the_test_it_names(name):
    """That test passes when the suite runs it on the right code; here it runs with the mistake
    made.
    """
    with made(MISTAKES[name]):
        found = pytest.main([str(ROOT / MISTAKES[name].caught_by), "-x", "-p", "no:cacheprovider"])
    assert found == pytest.ExitCode.TESTS_FAILED


@each
def test_is_a_small_difference(name):
    for function, pieces in MISTAKES[name].changes.items():
        right, wrong, _ = changed(function, pieces)
        pairs = list(zip(right.splitlines(), wrong.splitlines(), strict=True))
        assert 1 <= sum(a != b for a, b in pairs) <= 2


def test_a_mistake_of_the_block_rule_is_made_in_it():
    """Also where the run asks for the other rule, in which there is nothing to change."""
    asked = []

    def decode(decoder, **named):
        asked.append(named)
        return []

    for name in ("resample-from-p", "block-coin-is-p"):
        for other in ("token", "block"):
            list(committing(name, decode)("speculative", verification=other))
    assert [one["verification"] for one in asked] == ["token", "token", "block", "block"]
