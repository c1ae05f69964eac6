"""What rounds add up to, what is said of two texts, and why two that should be equal differ."""

import numpy as np
import pytest
from table_models import TableModel
from toys import tiny_model

from decoding.clock import Seconds
from decoding.coupled import gumbel_noise
from decoding.load import Pair
from decoding.metrics import Tally, summary
from decoding.prompt import Prompt
from decoding.run import GenerationConfig
from decoding.text_difference import explain_difference
from sampling import Round, SamplingParams

SECONDS = Seconds(0.5, 0.25, 1.0)
TARGET = TableModel(1, zeros=True)


def tally_of(rounds, shared=False):
    tally = Tally(shared)
    for this_round in rounds:
        tally.add(this_round, SECONDS)
    return tally


def test_drafts_after_the_first_rejection_are_not_examined():
    rounds = [Round([1, 2, 3], draft=[1, 2, 8, 9], accepted=2), Round([4]), Round([5], [6] * 3, 0)]
    tally = tally_of(rounds)
    assert (tally.ids, tally.seconds) == ([1, 2, 3, 4, 5], 3 * 1.75)
    assert tally.speculative_figures() == {
        "rounds": 3,
        "drafted": 7,
        "draft_lengths": {0: 1, 3: 1, 4: 1},
        "examined": 4,
        "accepted": 2,
        "acceptance_rate": 0.5,
        "tokens_per_target_pass": 5 / 3,
    }
    assert tally_of([Round([1])]).speculative_figures()["acceptance_rate"] is None


def test_under_shared_noise_what_the_token_rule_would_accept_is_added_up():
    """Sum of min(p, q) at each examined draft, which is the first of this round alone."""
    p = np.array([[0.5, 0.5, 0], [0.2, 0.2, 0.6], [1, 0, 0]])
    q = np.array([[0.1, 0.3, 0.6], [0.3, 0.3, 0.4]])
    rejected, accepted = Round([1], [2, 0], 0, p, q), Round([2, 0, 0], [2, 0], 2, p, q)
    plain = Round([0], p=p[:1])
    usual = lambda *rounds: tally_of(rounds, shared=True).speculative_figures()[
        "usual_acceptance_rate"
    ]
    assert usual(rejected, plain) == pytest.approx(0.4)
    assert usual(rejected, accepted) == pytest.approx((0.4 + 0.4 + 0.8) / 3)
    assert usual(plain) is None
    assert "usual_acceptance_rate" not in tally_of([rejected]).speculative_figures()


# ---------------------------------------------------------------- two texts


def summary_of(first, second, to_probs=SamplingParams(), coupled=False):
    """The summary of two texts after token 0 by a table."""
    pair, prompt = Pair(TARGET, None, None), Prompt(1, None, [0], 3)
    results = {
        decoder: {"token_ids": ids, "tokens_per_second": speed}
        for decoder, ids, speed in (("autoregressive", first, 2.0), ("speculative", second, 3.0))
        if ids is not None
    }
    return summary(GenerationConfig(2, to_probs=to_probs, coupled=coupled), pair, prompt, results)


def test_a_summary_compares_two_texts_and_explains_those_that_should_be_equal():
    same = summary_of([1, 2], [1, 2])
    assert (same["identical"], same["speedup"]) == (True, 1.5) and "difference" not in same
    sampled = summary_of([1, 2], [1, 0], SamplingParams(1.0))
    assert sampled["identical"] is False and "difference" not in sampled
    for how in ((SamplingParams(), False), (SamplingParams(1.3, 2), True)):
        different = summary_of([1, 2], [1, 0], *how)
        assert different["identical"] is False and different["difference"]["position"] == 1
    alone = summary_of([1, 2], None)
    assert (alone["speculative"], alone["identical"], alone["speedup"]) == (None,) * 3


def test_a_difference_is_explained_by_what_the_text_was_chosen_by():
    """The gap is that of the logits, or of the scores under the noise of the position."""
    (logits,) = TARGET.read([0, 1], TARGET.new_cache())
    with np.errstate(divide="ignore"):
        noisy = np.log(SamplingParams(1.3)(logits[None])[0]) + gumbel_noise(3, 2, 3)
    for how, row in (((SamplingParams(), False), logits), ((SamplingParams(1.3), True), noisy)):
        second, best = np.sort(row)[-2:]
        difference = summary_of([1, 2], [1, 0], *how)["difference"]
        assert difference["gap"] == pytest.approx(best - second)


def test_a_text_that_ends_early_differs_there():
    assert explain_difference(tiny_model(0), [0], [1, 2, 3], [1, 2])["position"] == 2


def test_a_difference_after_a_long_prompt_is_explained_in_a_few_passes():
    """A row at a time through the prompt, too, would take seconds for each hundred tokens."""
    passes = []

    class Counted(TableModel):
        def read(self, ids, cache, n_last=1):
            passes.append(len(ids))
            return super().read(ids, cache, n_last)

    explain_difference(Counted(1), [0] * 12, [1, 2, 0], [1, 2, 1])
    assert passes == [14, 11, 12, 13, 14]
