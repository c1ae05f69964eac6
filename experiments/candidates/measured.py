"""What each rule would accept, measured on a pair's own distributions.

The places are those of texts that the target writes itself, so the draft continues the target's
text there: the first place of a round. At each place every rule's probability is computed, not
sampled (for different candidates one sequence of rejections is sampled).
"""

from dataclasses import dataclass

import numpy as np

from experiments.candidates import best_of, k_seq, optimum, siblings
from sampling import autoregressive, stop_condition

WITH, WITHOUT, LIKELIEST = "with replacement", "without replacement", "likeliest"
K_SEQ, BEST_OF, OPTIMUM = "K-SEQ", "best of k", "optimum"
RULES = (WITH, K_SEQ, BEST_OF, OPTIMUM, WITHOUT, LIKELIEST)


@dataclass(frozen=True)
class Place:
    """The two distributions at a place, and the draft's logits, which rank its tokens also where q
    is one-hot.
    """

    p: np.ndarray
    q: np.ndarray
    logits: np.ndarray


def places(target, draft, encoder, ids, n_tokens, filter, rng):
    """The places of a text that the target writes after these ids."""
    ended = stop_condition(encoder)
    rounds = autoregressive(target, ids, n_tokens, filter, rng, ended)
    text = [int(token) for one in rounds for token in one.tokens]
    read = [*ids, *text[:-1]]  # the last token is followed by nothing
    p = filter(target.read(read, target.new_cache(), n_last=len(text)))
    logits = draft.read(read, draft.new_cache(), n_last=len(text))
    return [Place(*rows) for rows in zip(p, filter(logits), logits)]


def accepted_at(place, k, rng):
    """{rule: [k] the probability that one of the first 1, 2, ... k candidates is accepted}."""
    p, q = place.p, place.q
    numbers = range(1, k + 1)
    return {
        WITH: siblings.accepted_with_replacement(p, q, k).cumsum(),
        K_SEQ: np.array([k_seq.acceptance(p, q, n) for n in numbers]),
        BEST_OF: np.array([best_of.acceptance(p, q, n) for n in numbers]),
        OPTIMUM: np.array([optimum.acceptance(p, q, n) for n in numbers]),
        WITHOUT: siblings.accepted_without_replacement(p, q, k, rng).cumsum(),
        LIKELIEST: siblings.accepted_likeliest(p, place.logits, k).cumsum(),
    }


@dataclass(frozen=True)
class Acceptance:
    """What the rules accept, as means over the places of several texts.

    mean: {rule: [k]}
    error: {rule: [k] the standard error of the mean, from the spread between texts, or None}
    """

    n_places: int
    mean: dict
    error: dict


def acceptance(texts, k, rng):
    """The Acceptance of up to k candidates; texts yields a list of Places for each text."""
    counts, sums = [], {rule: [] for rule in RULES}
    for text in texts:
        found = [accepted_at(place, k, rng) for place in text]
        counts.append(len(text))
        for rule in RULES:
            sums[rule].append(np.sum([at[rule] for at in found], axis=0))
    n_places = sum(counts)
    mean = {rule: np.sum(sums[rule], axis=0) / n_places for rule in RULES}
    error = {rule: standard_error(np.array(sums[rule]), np.array(counts)) for rule in RULES}
    return Acceptance(n_places, mean, error)


def standard_error(sums, counts):  # [n_texts, k], [n_texts] -> [k]
    """Of the mean over all places, where texts are independent and the places of one are not; None
    for a single text, which says nothing about the spread.
    """
    n_texts = len(counts)
    if n_texts == 1:
        return None
    ratio = sums.sum(axis=0) / counts.sum()
    deviations = sums - ratio * counts[:, None]
    variance = n_texts / (n_texts - 1) * (deviations**2).sum(axis=0)
    return np.sqrt(variance) / counts.sum()
