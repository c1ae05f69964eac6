"""Rules that give up exactness accept more and change the distribution; the exact ones keep it."""

import re
from functools import partial

import numpy as np
import pytest
from command_line import ROOT
from toys import tokens_of

from proving.distance import TOY_PROMPT, toy_pair
from proving.enumeration import chain_rule, enumerate_branches, total_variation
from proving.inexact_rules import COMPARED, ExtraRowDrafter, adapt_drafter, cascade
from sampling import NeuralDrafter, SamplingParams, never, speculative

N_TOKENS, K = 3, 2  # of the toy texts
# the draft is the target at this temperature: close to it, and less sure
WARM = SamplingParams(1.7)


def cost_of(rule, to_probs=SamplingParams(1.0)):
    """(distance of the texts' distribution from the target's, mean accepted drafts of a round)."""
    target, _ = toy_pair()

    def rounds(rng):
        drafter = adapt_drafter(NeuralDrafter(target, WARM, rng), rule)
        return speculative(target, drafter, TOY_PROMPT, N_TOKENS, K, to_probs, rng, never, rule)

    right = chain_rule(target, TOY_PROMPT, N_TOKENS, to_probs, never)
    distance = total_variation(enumerate_branches(lambda rng: tokens_of(rounds(rng))), right)
    first = enumerate_branches(lambda rng: [*rounds(rng)][1].accepted)
    return distance, sum(n * mass for n, mass in first.items())


COSTS = {name: cost_of(rule) for name, rule in COMPARED.items()}


def test_exact_rules_keep_the_distribution_and_others_accept_more():
    token, block, *others = COSTS.values()
    assert token[0] == pytest.approx(0, abs=1e-12) and block[0] == pytest.approx(0, abs=1e-12)
    assert token[1] < block[1] < min(accepted for _, accepted in others)
    assert min(distance for distance, _ in others) > 0.01


def test_the_page_states_these_figures():
    page = (ROOT / "docs" / "family.md").read_text("utf-8")
    rows = re.findall(r"\| ([\w ]+?) \| (\d\.\d\d) \| (\d\.\d{3}) \|", page)
    stated = {name.lower(): (float(away), float(accepted)) for name, accepted, away in rows}
    assert stated == {
        name: (pytest.approx(distance, abs=5e-4), pytest.approx(accepted, abs=5e-3))
        for name, (distance, accepted) in COSTS.items()
    }


class Mixture:
    """What a cascade decodes with: the draft where that is sure, else the target."""

    def __init__(self, target, alpha):
        self.target, self.config, self.new_cache = target, target.config, target.new_cache
        self.alpha = alpha

    def read(self, ids, cache):
        logits = self.target.read(ids, cache)
        p, q = SamplingParams(1.0)(logits), WARM(logits)
        return np.log(q if q.max() >= 1 - self.alpha else p)


@pytest.mark.parametrize("alpha", [0.35, 0.45, 1.0])
def test_a_cascade_has_the_distribution_of_the_mixture(alpha):
    """From a draft that is rarely sure to one that always is, to the last token of the text."""
    target, _ = toy_pair()
    rule, to_probs = partial(cascade, alpha=alpha), SamplingParams(1.0)

    def text(rng):
        drafter = ExtraRowDrafter(NeuralDrafter(target, WARM, rng))
        settings = N_TOKENS, K, to_probs, rng, never, rule
        return tokens_of(speculative(target, drafter, TOY_PROMPT, *settings))

    mixture = chain_rule(Mixture(target, alpha), TOY_PROMPT, N_TOKENS, to_probs)
    assert total_variation(enumerate_branches(text), mixture) < 1e-12
