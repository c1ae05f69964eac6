"""The token rule and the block rule on the same drafts: tokens per pass of the target.

Both expectations follow from the ratios p/q of the drafted tokens, before any coin is tossed: the
token rule accepts i drafts with the product of their min(1, p/q), the block rule with P[i] of
`verify_block`. The same drafts are verified as well, so that each prediction meets a count.

The places are those of texts that the target writes itself. A draft of K tokens is the beginning of
a longer one, so each place is drafted once, for all K.
"""

from dataclasses import dataclass

import numpy as np

from experiments.decoding.job import RULES
from sampling import NeuralDrafter, autoregressive


@dataclass(frozen=True)
class Yields:
    """Tokens per pass of each rule, {rule: [n_places, max_K]}: column K - 1 is for drafts of K."""

    predicted: dict
    counted: dict


def expected_tokens(ratios):  # [k] -> {rule: [k]}
    """The tokens that a round of the first 1, 2, ... k drafts yields on average."""
    P, support = 1.0, []
    for ratio in ratios:
        P = min(1.0, P * ratio)
        support.append(P)
    singly = np.minimum(ratios, 1).cumprod()
    return {"token": 1 + singly.cumsum(), "block": 1 + np.cumsum(support)}


def yields_at(target, drafter, cache, ids, max_K, filter, rng):
    """({rule: [max_K] predicted}, {rule: [max_K] counted}) at the place after these ids."""
    draft, q = drafter.propose(ids, max_K)
    p = filter(target.read(ids + draft, cache, n_last=max_K + 1))
    places = np.arange(max_K)
    predicted = expected_tokens(p[places, draft] / q[places, draft])
    counted = {
        name: [1 + rule(draft[:K], q[:K], p[: K + 1], rng)[0] for K in range(1, max_K + 1)]
        for name, rule in RULES.items()
    }
    return predicted, counted


def yields(target, draft, prompts, n_tokens, max_K, filter, rng):
    """The Yields over the places of a text of n_tokens after each prompt. Prompts, the text and a
    draft after it must fit the context of both models.
    """
    predicted, counted = {name: [] for name in RULES}, {name: [] for name in RULES}
    for prompt in prompts:
        rounds = autoregressive(target, prompt, n_tokens, filter, rng)
        text = prompt + [token for one in rounds for token in one.tokens]
        drafter, cache = NeuralDrafter(draft, filter, rng), target.new_cache()
        for end in range(len(prompt), len(text)):
            found = yields_at(target, drafter, cache, text[:end], max_K, filter, rng)
            for rows, row in zip((predicted, counted), found):
                for name in RULES:
                    rows[name].append(row[name])
    as_arrays = [{name: np.array(rows[name]) for name in RULES} for rows in (predicted, counted)]
    return Yields(*as_arrays)


def mean_and_error(values):  # [n_places, max_K] -> [max_K], [max_K]
    """The mean over places, and its standard error if places were independent."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / len(values) ** 0.5
