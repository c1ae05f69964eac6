"""What speculative decoding can give: Leviathan et al. 2023 (arXiv 2211.17192), theorem 3.8,
extended by the verify cost.

a is the probability that an examined draft is accepted, taken to be the same and independent
everywhere; c the cost of drafting one token, v that of a target pass over K + 1 rows, both in
target passes over one row. The paper has v = 1.
"""


def tokens_per_round(a, K):
    """Expected tokens of a round that drafts K: 1 + a + ... + a**K, equation 1 of the paper.

    >>> tokens_per_round(0.5, 2), tokens_per_round(1, 4)
    (1.75, 5)
    """
    return sum(a**i for i in range(K + 1))


def speedup(a, K, c, v=1, h=1):
    """Expected speedup in time: tokens of a round over what the round costs.

    h is the share of rounds in which anything is drafted, 1 for a model; n-grams draft where they
    find something, and a round without a draft is one token for one pass over one row.

    >>> speedup(1, 4, 0.25), speedup(0, 4, 0.25), speedup(1, 4, 0, 1, h=0.5)
    (2.5, 0.5, 3.0)
    """
    return (h * tokens_per_round(a, K) + 1 - h) / (h * (K * c + v) + 1 - h)


def best(a, costs, h=1):
    """(K, speedup) of the fastest K in costs = {K: cost of a whole round}; of equals the smallest.

    >>> best(0.8, {1: 1.4, 2: 1.8, 3: 2.2})[0], best(0.8, {1: 1.05, 2: 1.1, 3: 1.15})[0]
    (2, 3)
    """
    speedups = {K: speedup(a, K, 0, costs[K], h) for K in sorted(costs)}
    K = max(speedups, key=speedups.get)
    return K, speedups[K]


def needed(value, costs):
    """The least acceptance with which the fastest K has this speedup, for a draft that drafts in
    every round; None where not even 1 does. costs as for `best`.

    Where it has a speedup of 1 it breaks even, and does so whatever h.

    >>> round(needed(1.5, {1: 1}), 9), needed(2.5, {1: 1}), round(needed(1, {1: 1.5}), 9)
    (0.5, None, 0.5)
    """
    low, high = 0.0, 1.0
    if best(high, costs)[1] < value:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        if best(middle, costs)[1] >= value:
            high = middle
        else:
            low = middle
    return high
