"""What rounds add up to, and why two greedy texts differ."""

from types import SimpleNamespace

import numpy as np
import pytest
from toys import tiny_model

from experiments.decoding.metrics import compare, explain_difference, speculation
from sampling import Filter, Round

TARGET = tiny_model(0)


def test_drafts_after_the_first_rejection_are_not_examined():
    rounds = [Round([1, 2, 3], drafted=4, accepted=2), Round([4], drafted=0), Round([5], 3, 0)]
    assert speculation(rounds) == {
        "rounds": 3,
        "drafted": 7,
        "examined": 4,
        "accepted": 2,
        "acceptance_rate": 0.5,
        "tokens_per_target_pass": 5 / 3,
    }
    assert speculation([Round([1])])["acceptance_rate"] is None


def test_two_results_are_compared():
    one, same, other = (
        {"token_ids": ids, "tokens_per_second": speed}
        for ids, speed in (([1, 2], 4.0), ([1, 2], 6.0), ([1, 3], 6.0))
    )
    found = compare(one, same, TARGET, [0], Filter())
    assert found == {"speedup": 1.5, "identical": True}
    found = compare(one, other, TARGET, [0], Filter(1.0))
    assert found == {"speedup": 1.5, "identical": False}


@pytest.mark.parametrize("pair", [(None, {}), ({"token_ids": []}, None), (None, None)])
def test_one_result_is_compared_with_nothing(pair):
    assert compare(*pair, TARGET, [0], Filter()) == {"speedup": None, "identical": None}


def test_a_gap_that_rounding_cannot_close_is_a_bug():
    best = int(TARGET.read([0], TARGET.new_cache())[0].argmax())
    found = explain_difference(TARGET, [0], [best], [best + 1])
    assert (found["position"], found["verdict"]) == (0, "bug")
    assert found["gap"] > 2 * found["float_error"] > 0
    assert explain_difference(TARGET, [0], [1, 2, 3], [1, 2])["position"] == 2


def test_equal_logits_are_a_tie():
    read = lambda ids, cache, n_last=1: np.zeros((1, 5), np.float32)
    flat = SimpleNamespace(new_cache=lambda: None, read=read)
    assert explain_difference(flat, [0], [1], [2])["verdict"] == "tie"
