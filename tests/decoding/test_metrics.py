"""What rounds add up to, and why two greedy texts differ."""

from toys import tiny_model

from experiments.decoding.metrics import explain_difference, speculation
from sampling import Round

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


def test_a_gap_that_rounding_cannot_close_is_a_bug():
    best = int(TARGET.read([0], TARGET.new_cache())[0].argmax())
    found = explain_difference(TARGET, [0], [best], [best + 1])
    assert (found["position"], found["verdict"]) == (0, "bug")
    assert found["gap"] > 2 * found["float_error"] > 0
    assert explain_difference(TARGET, [0], [1, 2, 3], [1, 2])["position"] == 2
