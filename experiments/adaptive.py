"""K that nobody has to tune: each round, the K with the most tokens per second to be expected.

With acceptance rate a, draft cost c and the cost v(n) of a target pass over n rows, both in one-row target passes, a round
of K drafts is expected to yield (1 - a^(K+1)) / (1 - a) tokens in K c + v(K + 1) passes (Leviathan et al. 2023, theorem
3.8, where v is 1). A look-up of n-grams finds something to draft in a share h of the rounds only, the others yield one token
in v(1). c and v are measured before the text begins, a and h while it is written. K = 0 is plain decoding: nothing is
learned from that, so now and then, ever more rarely, a round is drafted all the same.

K depends on the rounds before, never on what will be drawn next, so the law of the text is the target's whatever is chosen.
"""

from weakref import WeakKeyDictionary

import numpy as np

from experiments.profiling import drafting_seconds, time_rows
from experiments.theory import tokens_per_round

MAX_K = 8
ROWS = (1, 2, 3, 5, 9)  # passes that are timed; those between are interpolated
MEMORY = 0.99  # weight of the past at each examined draft: some hundred count
PRIOR = (0.5, 2.0)  # an acceptance rate to begin with, and how many examined drafts it is worth


COSTS = WeakKeyDictionary()  # {target: {draft: costs}}, for as long as the target is in use


def pass_costs(target, draft, repeats=5):
    """(c, [v(1), ..., v(MAX_K + 1)]), measured once; where draft is None, n-grams are looked up."""
    known = COSTS.setdefault(target, {})
    if draft not in known:
        known[draft] = measured_costs(target, draft, repeats)
    return known[draft]


def measured_costs(target, draft, repeats):
    rows = [n for n in ROWS if n <= target.config.n_ctx]
    seconds = time_rows(target, rows, repeats)
    c = drafting_seconds(target, draft, 4 * repeats) / seconds[1]
    v = np.interp(range(1, MAX_K + 2), rows, [seconds[n] / seconds[1] for n in rows])
    return c, v.tolist()


class AdaptiveK:
    """A K for `sampling.speculative`. c: the cost of a draft, v: [v(1), v(2), ...], both in one-row target passes."""

    def __init__(self, c, v):
        self.c, self.v = c, v
        self.accepted, self.examined = PRIOR[0] * PRIOR[1], PRIOR[1]
        self.drafted = self.asked = 1.0  # rounds with a draft, and rounds for which one was asked
        self.K = 0  # of the round before
        self.patience = self.waited = 0  # plain rounds to come before the next trial, and how many there were

    def speed(self, K, a):
        """Expected tokens in the time of a one-row target pass."""
        h = self.drafted / self.asked
        return (h * tokens_per_round(a, K) + 1 - h) / (K * self.c + h * self.v[K] + 1 - h)

    def __call__(self, last):
        """K of the next round, from the Round before it."""
        memory = MEMORY**last.examined
        self.accepted = memory * self.accepted + last.accepted
        self.examined = memory * self.examined + last.examined
        if self.K:
            self.drafted = MEMORY * self.drafted + bool(last.drafted)
            self.asked = MEMORY * self.asked + 1
        self.K = self.choose()
        return self.K

    def choose(self):
        a = self.accepted / self.examined
        hopeful = a + 2 * (a * (1 - a) / self.examined) ** 0.5  # drafting goes on unless it is very likely not to pay
        best = max(range(1, len(self.v)), key=lambda K: self.speed(K, a))
        if self.speed(best, hopeful) >= 1:
            self.patience = self.waited = 0
            return best
        self.waited += 1
        if self.waited <= self.patience:
            return 0
        self.waited, self.patience = 0, min(2 * self.patience + 4, 128)
        return best
