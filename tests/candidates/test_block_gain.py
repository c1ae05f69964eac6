"""The token rule and the block rule on the same drafts."""

import numpy as np
import pytest
from experiments.decoding.job import RULES
from test_exact import expected_accepted
from toys import TINY, tiny_model

from experiments.candidates.block_gain import expected_tokens, mean_and_error, yields
from sampling import Filter

FILTER = Filter(1.5)


@pytest.fixture(scope="module")
def found():
    target, draft = tiny_model(1, scale=0.5), tiny_model(2, scale=0.5)
    prompts = [[i, 7, 9] for i in range(40)]
    rng = np.random.default_rng(0)
    return yields(target, draft, prompts, TINY.n_ctx - 3 - 5, 4, FILTER, rng)


def test_the_gain_is_predicted_by_the_ratios(found):
    """Before a coin is tossed: what was counted differs by its own error only."""
    n_places = 40 * (TINY.n_ctx - 8)
    for name in RULES:
        assert found.counted[name].shape == found.predicted[name].shape == (n_places, 4)
        difference, error = mean_and_error(found.counted[name] - found.predicted[name])
        assert (abs(difference) < 4 * error).all()
    gain = found.predicted["block"] - found.predicted["token"]
    assert gain.min() > -1e-12 and gain[:, 0].max() < 1e-12 and gain[:, 3].mean() > 0.02


def test_expected_tokens_are_those_of_the_rules():
    """The mean over all drafts of a prediction is the exact mean of the rule, by enumeration."""
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(3), 2)
    for name, rule in RULES.items():
        mean = 0.0
        for first in range(3):
            for second in range(3):
                ratios = np.array([p[0, first] / q[0, first], p[1, second] / q[1, second]])
                mean += q[0, first] * q[1, second] * expected_tokens(ratios)[name][-1]
        assert mean == pytest.approx(1 + expected_accepted(rule, q, p), abs=1e-12)
