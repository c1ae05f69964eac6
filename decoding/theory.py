"""The expected speedup of speculative decoding: Leviathan et al. 2023 (arXiv 2211.17192), theorem
3.8, extended by the cost of verification.

a: the probability that an examined token is accepted, taken to be the same and independent at
    every position
c: the cost of drafting one token, as a multiple of a target pass over one row
v: the cost of a target pass over K + 1 rows, as the same multiple; the paper has v = 1
"""


def tokens_per_round(a: float, K: int) -> float:
    """Expected tokens of a round with K drafted tokens, each accepted with probability a: equation
    1 of the paper.

    >>> tokens_per_round(0.5, 2), tokens_per_round(1, 4)
    (1.75, 5)
    """
    return sum(a**i for i in range(K + 1))


def speedup(a: float, K: int, c: float, v: float = 1) -> float:
    """Expected speedup over plain decoding: the tokens of a round over its cost. A drafted token is
    accepted with probability a and costs c, to verify K of them costs v, in passes of the target
    over one row.

    >>> speedup(1, 4, 0.25), speedup(0, 4, 0.25)
    (2.5, 0.5)
    """
    return tokens_per_round(a, K) / (K * c + v)
