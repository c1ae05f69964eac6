"""The expected speedup of speculative decoding: Leviathan et al. 2023 (arXiv 2211.17192), theorem
3.8, extended by the cost of verification.

a: the probability that an examined draft is accepted, taken to be the same and independent at
    every position
c: the cost of drafting one token, as a multiple of a target pass over one row
v: the cost of a target pass over K + 1 rows, as the same multiple; the paper has v = 1
"""


def tokens_per_round(a, K):
    """Expected tokens of a round with K drafts, each accepted with probability a: equation 1 of the
    paper, 1 + a + ... + a**K.

    >>> tokens_per_round(0.5, 2), tokens_per_round(1, 4)
    (1.75, 5)
    """
    return sum(a**i for i in range(K + 1))


def speedup(a, K, c, v=1, h=1):
    """Expected speedup over plain decoding: the tokens of a round over its cost.

    a: the acceptance rate; c, v: the costs of drafting one token and of the target's pass, as
    multiples of a pass over one row; h: the share of rounds with a draft, 1 for a model, less for
    n-grams. A round without a draft yields one token for the cost of a pass over one row.

    >>> speedup(1, 4, 0.25), speedup(0, 4, 0.25), speedup(1, 4, 0, 1, h=0.5)
    (2.5, 0.5, 3.0)
    """
    return (h * tokens_per_round(a, K) + 1 - h) / (h * (K * c + v) + 1 - h)


def fastest_K(a, costs, h=1):
    """(K, its speedup) of the fastest K, and of equally fast K the smallest.

    a: the acceptance rate; h: the share of rounds with a draft. costs: {K: (c, v)} for each K to
    compare, the costs of drafting one token and of the target's pass over K + 1 rows

    >>> fastest_K(0.8, {1: (0.3, 1.1), 2: (0.3, 1.2), 3: (0.3, 1.3)})[0]
    2
    """
    speedups = {K: speedup(a, K, *costs[K], h=h) for K in sorted(costs)}
    K = max(speedups, key=speedups.get)
    return K, speedups[K]
