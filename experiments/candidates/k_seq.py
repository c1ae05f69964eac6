"""K-SEQ: independent candidates, each accepted with the same reduced probability.

Sun et al. 2023 (SpecTr, arXiv 2310.15141), algorithm 2. Dividing p / q by rho keeps something of p
for the candidates to come; the smallest rho that the target's distribution allows accepts most.
"""

import numpy as np

import sampling


def some_accepted(b, k):
    """The probability that at least one of k passes, if each does with probability b."""
    return 1 - (1 - b) ** k


def overlap(p, q, rho):  # [n_vocab], [n_vocab] -> a probability
    """The probability b that one candidate passes: sum of min(q, p / rho)."""
    return np.minimum(q, p / rho).sum()


def best_rho(p, q, k):
    """The smallest rho from 1 to k with 1 - (1 - b)^k <= rho b, by bisection.

    Any such rho gives the law p: no token may be accepted more often than p has it.
    """

    def allowed(rho):
        b = overlap(p, q, rho)
        return some_accepted(b, k) <= rho * b

    if allowed(1.0):
        return 1.0
    low, high = 1.0, float(k)  # k is always allowed: 1 - (1 - b)^k <= k b
    for _ in range(60):
        middle = (low + high) / 2
        if allowed(middle):
            high = middle
        else:
            low = middle
    return high


def acceptance(p, q, k):  # [n_vocab], [n_vocab] -> a probability
    """The probability that one of k candidates is accepted."""
    return some_accepted(overlap(p, q, best_rho(p, q, k)), k)


def left_over(p, q, k, rho):  # [n_vocab], [n_vocab] -> [n_vocab]
    """What the token is sampled from if no candidate passes: what of p they did not cover."""
    passed = np.minimum(q, p / rho)
    b = passed.sum()
    if b == 0:
        return p
    rest = np.maximum(p - passed * (some_accepted(b, k) / b), 0)
    total = rest.sum()
    return rest / total if total > 0 else p


def verify(candidates, q, p, rng):  # [k], [n_vocab], [n_vocab] -> index, token
    """Accept one of k independent candidates, or none: (its index or k, the token), which has the
    law p.
    """
    k = len(candidates)
    rho = best_rho(p, q, k)
    for j, token in enumerate(candidates):
        if sampling.toss(p[token] / (rho * q[token]), rng):
            return j, token
    return k, sampling.sample(left_over(p, q, k, rho), rng)
