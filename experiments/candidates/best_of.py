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
    ratio = p[candidates] / q[candidates]
    return max(range(len(candidates)), key=lambda i: (ratio[i], candidates[i]))


def mass_below(p, q):  # [n_vocab], [n_vocab] -> [n_vocab]
    """For each token, the mass of q that ranks below it."""
    order = ranking(p, q)
    below = np.empty(len(q))
    below[order] = np.concatenate([[0.0], np.cumsum(q[order])[:-1]])
    return below


def law_of_best(q, below, k):  # [n_vocab], [n_vocab] -> [n_vocab]
    """The distribution of the best of k candidates: (F + q)^k - F^k, where F is the mass of q that
    ranks below.

    Written as q times the sum of (F + q)^i F^(k - 1 - i): a difference of two nearly equal powers
    would lose the rare tokens.
    """
    return q * sum((below + q) ** i * below ** (k - 1 - i) for i in range(k))


def acceptance(p, q, k):  # [n_vocab], [n_vocab] -> a probability
    """The probability that the best of k candidates is accepted."""
    return np.minimum(p, law_of_best(q, mass_below(p, q), k)).sum()


def verify(candidates, q, p, rng):  # [k], [n_vocab], [n_vocab] -> index, token
    """Accept the best of k independent candidates, or none: (its index or k, the token), which has
    the law p.
    """
    law = law_of_best(q, mass_below(p, q), len(candidates))
    i = best(candidates, p, q)
    token = candidates[i]
    if sampling.toss(p[token] / law[token], rng):
        return i, token
    return len(candidates), sampling.sample(residual(p, law), rng)
