"""Rules that give up exactness accept more and change the distribution; the exact ones keep it."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from experiments.proving.distance import TOY_PROMPT, toy_pair
from experiments.proving.enumeration import chain_rule, distribution_of, tokens_of, total_variation
from experiments.proving.inexact import WARM, OneFurther, cascade, table
from sampling import Filter, NeuralDrafter, never, speculative

TABLE = table()
FAMILY = Path(__file__).resolve().parents[2] / "docs" / "family.md"


@pytest.fixture
def costs():
    return dict(TABLE)


def test_exact_rules_keep_the_distribution(costs):
    for name in ("token rule", "block verification"):
        assert costs.pop(name)[0] == pytest.approx(0, abs=1e-12)
    for name, (distance, _) in costs.items():
        assert distance > 0.01, name


def test_what_they_gain_is_accepted_drafts(costs):
    exact = costs["block verification"][1]
    assert costs["token rule"][1] < exact
    for name in ("typical acceptance", "judge with a threshold", "speculative cascade"):
        assert costs[name][1] > exact, name


def test_the_page_states_these_figures(costs):
    rows = re.findall(r"\| ([\w ]+?) \| (\d\.\d\d) \| (\d\.\d{3}) \|", FAMILY.read_text("utf-8"))
    stated = {name.lower(): (float(accepted), float(away)) for name, accepted, away in rows}
    assert stated.keys() == costs.keys()
    for name, (distance, accepted) in costs.items():
        assert stated[name] == (
            pytest.approx(accepted, abs=5e-3),
            pytest.approx(distance, abs=5e-4),
        )


class Mixture:
    """What a cascade decodes with: the draft where that is sure, else the target."""

    def __init__(self, target, alpha):
        self.target, self.config, self.new_cache = target, target.config, target.new_cache
        self.alpha = alpha

    def read(self, ids, cache):
        logits = self.target.read(ids, cache)
        p, q = Filter(1.0)(logits), WARM(logits)
        return np.log(q if q.max() >= 1 - self.alpha else p)


@pytest.mark.parametrize("alpha", [0.35, 0.45, 1.0])
def test_a_cascade_has_the_distribution_of_the_mixture(alpha):
    """From a draft that is rarely sure to one that always is, to the last token of the text."""
    target, _ = toy_pair()
    rule, filter = partial(cascade, alpha=alpha), Filter(1.0)

    def text():
        drafter = OneFurther(NeuralDrafter(target, WARM, None))
        return tokens_of(speculative(target, drafter, TOY_PROMPT, 3, 2, filter, None, never, rule))

    mixture = chain_rule(Mixture(target, alpha), TOY_PROMPT, 3, filter)
    assert total_variation(distribution_of(text), mixture) < 1e-12
