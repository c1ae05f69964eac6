"""What speculative decoding can give: Leviathan et al. 2023 (arXiv 2211.17192), theorem 3.8, extended by the verify cost.

a is the probability that an examined draft is accepted, taken to be the same and independent everywhere; c the cost of
drafting one token, v that of a target pass over K + 1 rows, both in target passes over one row. The paper has v = 1.
"""


def tokens_per_round(a, K):
    """Expected tokens of a round that drafts K: 1 + a + ... + a**K, equation 1 of the paper.

    >>> tokens_per_round(0.5, 2), tokens_per_round(1, 4)
    (1.75, 5)
    """
    return sum(a**i for i in range(K + 1))


def speedup(a, K, c, v=1):
    """Expected speedup in time: tokens of a round over what the round costs.

    >>> speedup(1, 4, 0.25), speedup(0, 4, 0.25)
    (2.5, 0.5)
    """
    return tokens_per_round(a, K) / (K * c + v)


def break_even(K, c, v=1):
    """The acceptance at which the speedup is 1; None where not even an acceptance of 1 reaches it.

    >>> round(break_even(1, 0.5), 9), break_even(1, 1.5)
    (0.5, None)
    """
    if speedup(1, K, c, v) < 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):  # speedup grows with a
        middle = (low + high) / 2
        low, high = (low, middle) if speedup(middle, K, c, v) >= 1 else (middle, high)
    return high


def best(a, c, v):
    """(K, speedup) of the fastest K in v = {K: cost of a target pass over K + 1 rows}; of equals the smallest.

    >>> best(0.8, 0.4, {1: 1, 2: 1, 3: 1})[0], best(0.8, 0.05, {1: 1, 2: 1, 3: 1})[0]
    (2, 3)
    """
    return max(((K, speedup(a, K, c, v[K])) for K in sorted(v)), key=lambda found: found[1])
