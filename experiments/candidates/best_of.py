"""Best of k: of k independent candidates keep the one that the target likes most beside the draft,
and verify it as an ordinary draft from the law it then has.

More candidates may spoil it. The more there are, the more of that law lies on the few tokens with
the largest p / q, beyond what the target gives them: of a draft with q = p = (1/2, 1/2), one
candidate is always accepted, the best of two with probability 3/4. So only as many of the k are
looked at as are accepted most often. That number depends on p and q alone, and the law stays p.
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


def laws_of_best(q, below, k):  # [n_vocab], [n_vocab] -> [k, n_vocab]
    """The distributions of the best of 1, 2, ... k candidates: that of the best of n is
    (F + q)^n - F^n, where F is the mass of q that ranks below.

    Written as q times the sum of (F + q)^i F^(n - 1 - i): a difference of two nearly equal powers
    would lose the rare tokens. For n + 1 that sum is (F + q) times the one for n, plus F^n.
    """
    laws, total, power = [], np.ones(len(q)), np.ones(len(q))
    for _ in range(k):
        laws.append(q * total)
        power = power * below
        total = (below + q) * total + power
    return np.array(laws)


def acceptances(p, q, k):  # [n_vocab], [n_vocab] -> [k]
    """The probability that the best of 1, 2, ... k candidates is accepted."""
    return np.minimum(p, laws_of_best(q, mass_below(p, q), k)).sum(axis=1)


def how_many(p, q, k):  # [n_vocab], [n_vocab] -> number
    """Of how many of k candidates the best is accepted most often."""
    return int(acceptances(p, q, k).argmax()) + 1


def acceptance(p, q, k):  # [n_vocab], [n_vocab] -> a probability
    """The probability that the best of up to k candidates is accepted."""
    return acceptances(p, q, k).max()


def verify(candidates, q, p, rng):  # [k], [n_vocab], [n_vocab] -> index, token
    """Accept the best of the candidates looked at, or none: (its index or k, the token), which has
    the law p.
    """
    n = how_many(p, q, len(candidates))
    law = laws_of_best(q, mass_below(p, q), n)[-1]
    i = best(candidates[:n], p, q)
    token = candidates[i]
    if sampling.toss(p[token] / law[token], rng):
        return i, token
    return len(candidates), sampling.sample(residual(p, law), rng)
