"""The most that any rule can accept of k independent candidates (arXiv 2502.18779).

The token has the law p and counts as accepted if it is one of the candidates. Take any set H of
tokens. If all candidates are in H, an accepted token is in H too. So a rule accepts at most as
often as "not all candidates are in H", 1 - q(H)^k, or "the token is in H", p(H). The smallest of
these bounds can be reached (it is a maximum flow, equal to its minimum cut).
"""

import numpy as np

from experiments.candidates.best_of import ranking


def acceptance(p, q, k):  # [n_vocab], [n_vocab] -> a probability
    """1 + min over sets H of p(H) - q(H)^k.

    The worst set holds the tokens with p / q below some threshold, so only as many sets are tried
    as there are tokens.
    """
    order = ranking(p, q)
    gaps = np.cumsum(p[order]) - np.cumsum(q[order]) ** k
    return 1 + min(0.0, gaps.min())
