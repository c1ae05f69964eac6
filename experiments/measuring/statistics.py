"""Sums, ratios and intervals over prompts: what many runs say together."""

import statistics

import numpy as np

# the range of n values covers their median with probability 1 - 2 ** (1 - n): 95 % needs 6
LEAST_PROMPTS = 6
N_GRAM = 8  # repeated runs of this many tokens are a loop, not a coincidence


def ratio(numerators, denominators):
    """Sum over sum, None where the second is 0."""
    total = sum(denominators)
    return sum(numerators) / total if total else None


def interval(numerators, denominators, n_resamples=2000):
    """The 95 % bootstrap interval over prompts of sum(numerators) / sum(denominators); None for too
    few prompts.

    Percentile method: the prompts are sampled anew, with replacement, n_resamples times, always the
    same ones.
    """
    n = len(numerators)
    if n < LEAST_PROMPTS or not sum(denominators):
        return None
    weights = np.random.default_rng(0).multinomial(n, [1 / n] * n, n_resamples)
    above = weights @ np.asarray(numerators, float)
    below = weights @ np.asarray(denominators, float)
    ratios = above[below > 0] / below[below > 0]
    return [float(value) for value in np.percentile(ratios, [2.5, 97.5])]


def spread(values):
    """A measured value and its range: {"value", "low", "high"}."""
    return {"value": statistics.median(values), "low": min(values), "high": max(values)}


def counts_by_position(rounds, K):
    """For rounds [(drafted, examined, accepted)], by position in the draft: how many drafts were
    examined, and the share of them that was accepted (None of none); and the histogram of accepted
    lengths.
    """
    positions = range(1, K + 1)
    examined = [sum(e >= i for _, e, _ in rounds) for i in positions]
    accepted = [sum(a >= i for _, _, a in rounds) for i in positions]
    shares = [a / e if e else None for a, e in zip(accepted, examined)]
    histogram = [sum(a == i for _, _, a in rounds) for i in range(K + 1)]
    return examined, shares, histogram


def drafting_share(is_model, K, drafted, n_rounds):
    """h of the theory: 1 for a model, which drafts in every round; of n-grams the share of all
    positions that they filled.
    """
    return 1 if is_model else drafted / (K * n_rounds)


def repeated(ids):
    """(8-grams that occurred before, all 8-grams) of a text: a loop shows as a share near 1."""
    grams = [tuple(ids[i : i + N_GRAM]) for i in range(len(ids) - N_GRAM + 1)]
    return len(grams) - len({*grams}), len(grams)
