"""The sibling rule: several drafted tokens for one place, verified one after the other.

Miao et al. 2023 (SpecInfer, arXiv 2305.09781) draw the candidates independently. Chen et al. 2024
(Sequoia, 2402.12374), Jeon et al. 2024 (RSD, 2402.14160) and Li et al. 2024 (EAGLE, 2401.15077)
draw them without replacement. A tree of drafts is this rule at every node, with the descent into
the accepted child.

p is the target's distribution at the place, q the draft's. Row j of `rows` is the distribution that
candidate j was drawn from, given the candidates before it.
"""

import numpy as np

import sampling
from sampling import one_hot, residual

# ---------------------------------------------------------------- candidates and their rows


def with_replacement(q, k, rng):  # [n_vocab] -> [k], [k, n_vocab]
    """k candidates drawn independently."""
    return [sampling.sample(q, rng) for _ in range(k)], np.tile(q, (k, 1))


def without(q, token):  # [n_vocab] -> [n_vocab], or None where nothing is left
    """q given that the token is not drawn."""
    rest = q.copy()
    rest[token] = 0
    total = rest.sum()
    return rest / total if total > 0 else None


def without_replacement(q, k, rng):  # [n_vocab] -> [up to k], [up to k, n_vocab]
    """k different candidates, or as many as q has."""
    candidates, rows, row = [], np.empty((0, len(q))), q
    while len(candidates) < k and row is not None:
        candidates.append(sampling.sample(row, rng))
        rows = np.vstack([rows, row])
        row = without(row, candidates[-1])
    return candidates, rows


def likeliest(q, k):  # [n_vocab] -> [k], [k, n_vocab]
    """The k likeliest tokens, best first: chosen, not drawn, so every row is one-hot."""
    candidates = np.argsort(-q, kind="stable")[:k].tolist()
    return candidates, one_hot(candidates, len(q))


# ---------------------------------------------------------------- the rule


def verify_siblings(candidates, rows, p, rng):  # [k], [k, n_vocab], [n_vocab] -> index, token
    """Accept the first candidate that passes, else sample from what is left: (its index or k, the
    token).

    The token has the law p. Candidate x_j is accepted with probability min(1, p(x_j) / q_j(x_j));
    its rejection leaves the problem of one candidate fewer, with norm(max(0, p - q_j)) for p.
    """
    for j, token in enumerate(candidates):
        if sampling.toss(p[token] / rows[j, token], rng):
            return j, token
        p = residual(p, rows[j])
    return len(candidates), sampling.sample(p, rng)


# ---------------------------------------------------------------- how often which is accepted


def accepted_with_replacement(p, q, k):  # [n_vocab], [n_vocab] -> [k]
    """The probability that the j-th of k independent candidates is the accepted one."""
    accepted, rejected = np.zeros(k), 1.0
    for j in range(k):
        accepted[j] = rejected * np.minimum(p, q).sum()
        rejected = max(0.0, rejected - accepted[j])
        p = residual(p, q)
    return accepted


def accepted_without_replacement(p, q, k, rng):  # [n_vocab], [n_vocab] -> [k]
    """An unbiased estimate of the probability that the j-th of k different candidates is the
    accepted one.

    What the j-th has to pass depends on which were rejected before it. One sequence of rejected
    candidates is sampled; along it every probability is exact. The first is exact in any case.
    """
    accepted, rejected = np.zeros(k), 1.0
    for j in range(k):
        accepted[j] = rejected * np.minimum(p, q).sum()
        rejected = max(0.0, rejected - accepted[j])
        # a candidate, given that it was rejected
        rejects = np.maximum(q - p, 0)
        total = rejects.sum()
        if total <= 0:
            break
        token = sampling.sample(rejects / total, rng)
        p, q = residual(p, q), without(q, token)
        if q is None:
            break
    return accepted


def accepted_likeliest(p, q, k):  # [n_vocab], [n_vocab] -> [k]
    """The probability that the j-th likeliest token of the draft is the target's."""
    candidates, _ = likeliest(q, k)
    return np.pad(p[candidates], (0, k - len(candidates)))
