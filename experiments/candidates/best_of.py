"""Best of k: of k independent candidates keep the one that the target likes most beside the draft,
and verify it as an ordinary draft from the law it then has.
"""

import numpy as np

import sampling
from sampling import residual


def ranking(p, q):  # [n_vocab], [n_vocab] -> [n_vocab]
    """All tokens from the smallest p / q to the largest; of equal ones the lower id first."""
    # a token the draft never proposes comes last
    ratio = np.divide(p, q, out=np.full(len(p), np.inf), where=q > 0)
    return np.argsort(ratio, kind="stable")


def best(candidates, p, q):  # [k], [n_vocab], [n_vocab] -> index
    """Which candidate comes last in the ranking."""
    rank = np.argsort(ranking(p, q))
    return int(rank[candidates].argmax())


def law_of_best(p, q, k):  # [n_vocab], [n_vocab] -> [n_vocab]
    """The distribution of the best of k candidates: (F + q)^k - F^k, where F is the mass of q that
    ranks below.

    Written as q times the sum of (F + q)^i F^(k - 1 - i): a difference of two nearly equal powers
    would lose the rare tokens.
    """
    order = ranking(p, q)
    up_to = np.cumsum(q[order])
    below = np.concatenate([[0.0], up_to[:-1]])
    terms = [up_to**i * below ** (k - 1 - i) for i in range(k)]
    law = np.empty(len(q))
    law[order] = q[order] * np.sum(terms, axis=0)
    return law


def acceptance(p, q, k):  # [n_vocab], [n_vocab] -> a probability
    """The probability that the best of k candidates is accepted."""
    return np.minimum(p, law_of_best(p, q, k)).sum()


def verify(candidates, q, p, rng):  # [k], [n_vocab], [n_vocab] -> index, token
    """Accept the best of k independent candidates, or none: (its index or k, the token), which has
    the law p.
    """
    law, i = law_of_best(p, q, len(candidates)), best(candidates, p, q)
    token = candidates[i]
    if sampling.toss(p[token] / law[token], rng):
        return i, token
    return len(candidates), sampling.sample(residual(p, law), rng)
