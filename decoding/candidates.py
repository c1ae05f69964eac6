"""Several candidates for a place, and trees of them: a rule to read and to prove. No loop of this
project drafts trees; docs/trees.md says when they pay.

python main.py prove decoding/candidates.py:verify_tree
"""

import numpy as np

from sampling import residual


def verify_tree(tokens, parents, p, q, rng):  # [n], [n], [n + 1, n_vocab], [n, n_vocab]
    """Walk down a tree of drafted tokens as far as they are accepted, then sample one (SpecInfer,
    arXiv 2305.09781). Returns (the accepted nodes from the first place on, the token that follows).

    tokens[i], at node i, is a candidate for the place after node parents[i], or after the text if
    that is -1. A node comes after its parent, and siblings in the order in which they were drafted.
    p[0] is the target's distribution after the text, p[i + 1] after node i. q[i] is what tokens[i]
    was sampled from: for siblings the same row; or a row without its elder siblings' tokens
    (Sequoia, arXiv 2402.12374); or a one-hot row, if the likeliest tokens were chosen.

    Claim: at each place the token has the distribution p. The target still owes `rest`, at first p.
    If no candidate is left, the token is sampled from it. Otherwise let the claim be true for fewer
    candidates, and x be the next one. As in `sampling.verify`,

        P(x is drafted and accepted)  =  min(rest(x), q(x))
        P(x comes out later)          =  P(rejected) residual(x)  =  max(0, rest(x) - q(x))

    because the residual becomes the `rest` of the younger siblings, for which the claim is true,
    whatever their q, also one that depends on the token that was rejected. The two add up to
    rest(x). The children of an accepted node are candidates for the place after it.
    """
    path = []
    last, rest = -1, p[0]  # the last accepted node, -1 for the text; what p still owes after it
    for node, token in enumerate(tokens):
        if parents[node] != last:
            continue  # a younger sibling of an accepted node, or below a rejected one
        if rng.accept(rest[token] / q[node, token]):
            path.append(node)
            last, rest = node, p[node + 1]
        else:
            rest = residual(rest, q[node])
    return path, rng.sample(rest)


def acceptance(p, q, k):  # [n_vocab], [n_vocab] -> float
    """The probability that `verify_tree` accepts one of k candidates for a place, sampled from q
    independently.

    >>> p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    >>> round(acceptance(p, q, 1), 4), round(acceptance(p, q, 2), 4)
    (0.6, 0.76)
    """
    rest, rejected = p, 1.0  # what the target still owes; the probability that all were rejected
    for _ in range(k):
        rejected *= np.maximum(q - rest, 0).sum()
        rest = residual(rest, q)
    return float(1 - rejected)


def acceptance_without_replacement(p, q, k):  # [n_vocab], [n_vocab] -> float
    """The probability that `verify_tree` accepts one of k candidates for a place, each sampled from
    q without the tokens of those before it.

    >>> p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    >>> [round(acceptance_without_replacement(p, q, k), 4) for k in (1, 2)]
    [0.6, 0.9]
    """
    accepted = np.minimum(p, q).sum()  # as the first candidate
    if k == 1:
        return float(accepted)
    rejected = np.maximum(q - p, 0)  # [n_vocab], how often the first is each token, and rejected
    rest = residual(p, q)
    for token in np.flatnonzero(rejected):
        others = q.copy()
        others[token] = 0
        if others.any():
            others /= others.sum()
            accepted += rejected[token] * acceptance_without_replacement(rest, others, k - 1)
    return float(accepted)


def best_acceptance(p, q, k):  # [n_vocab], [n_vocab] -> float
    """The most that any exact rule accepts of k candidates sampled from q independently: 1 plus the
    least p(H) - q(H)^k of all sets H of tokens (arXiv 2502.18779).

    Let H be the best set, and L the slope of s^k at s = q(H). The convex s^k lies above its
    tangents, so H also has the least p(H) - L q(H): its tokens are those with p / q below L. So it
    is enough to try the beginnings of one order, that by p / q.

    >>> p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    >>> round(best_acceptance(p, q, 1), 4), round(best_acceptance(p, q, 2), 4)
    (0.6, 0.84)
    """
    possible = np.flatnonzero(q)
    order = possible[np.argsort(p[possible] / q[possible])]
    # of the first token, the first two, the first three, ...
    differences = p[order].cumsum() - q[order].cumsum() ** k
    return float(1 + min(0, differences.min()))  # 0: of the empty set
