"""What rounds add up to, and why two greedy texts differ."""

from toys import tiny_model

from experiments.decoding.metrics import explain_difference, speculation
from sampling import Round


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


def test_a_text_that_ends_early_differs_there():
    assert explain_difference(tiny_model(0), [0], [1, 2, 3], [1, 2])["position"] == 2
