"""K that nobody has to tune: each round, the K with the most tokens per second to be expected.

With acceptance rate a, a round of K drafts is expected to yield (1 - a^(K+1)) / (1 - a) tokens
(Leviathan et al. 2023, equation 1). A look-up of n-grams finds something to draft in a share h of
the rounds only, the others yield one token. What a round of K drafts costs is measured before the
text begins, a and h while it is written. K = 0 is plain decoding: nothing is learned from that, so
now and then, ever more rarely, a round is drafted all the same.

K depends on the rounds before, never on what will be drawn next, so the law of the text is the
target's whatever is chosen.
"""

import time
from itertools import accumulate
from weakref import WeakKeyDictionary

import numpy as np
from tqdm import tqdm

from experiments.decoding.decoders import NGRAM, RULES, longest_draft, with_drafter

MAX_K = 8
# rounds that are timed; a straight line through those with drafts takes out the noise
TRIED = (0, 1, 2, 4, 8)
PAST = 64  # tokens in the cache before the rounds that are timed
SETTLING = 0.015  # seconds of rounds of a kind before those of it that are timed
BUDGET = 1.0  # seconds for all of that, unless two rounds of each take longer
MEMORY = 0.99  # weight of the past at each examined draft: some hundred count
# the least speed for which to draft: asking for a draft costs a little, too, where none is found
WORTH = 1.02
TRIALS = 0.01  # the share of the time that drafts may cost that do not pay, the first ones apart
PRIOR = (0.6, 2.0)  # an acceptance rate to begin with, and how many examined drafts it is worth


# {target: {(draft, filter, verification): costs}}, for as long as the target is in use
COSTS = WeakKeyDictionary()


def round_costs(target, draft, filter, verification="token"):
    """[cost of a round of 0, 1, ... drafts], in rounds of none, measured once: up to MAX_K, or as
    many as a round can draft. draft is a Model, a head of the target or NGRAM.
    """
    known = COSTS.setdefault(target, {})
    how = draft, filter, verification
    if how not in known:
        known[how] = measured_costs(target, *how)
    return known[how]


class RoundTimer:
    """Runs rounds after a text that does not grow, and says what they take.

    Whole rounds are timed: between passes of the target, a draft finds its weights in no cache, as
    it will in a text. most_K: the largest K that will be asked for, at most longest_draft.
    """

    def __init__(self, target, draft, filter, most_K, verification="token"):
        self.filter = filter
        self.rule = RULES[verification]
        self.rng = np.random.default_rng(0)
        self.target, self.drafter = with_drafter(target, draft, filter, self.rng)
        self.cache = self.target.new_cache()
        models = [target] if draft == NGRAM else [target, draft]
        room = min(model.config.n_ctx for model in models) - most_K
        # a text that repeats itself, for the look-up
        self.ids = [0] * max(1, min(PAST, room))
        # n-grams seldom find anything: the round before mostly had no draft
        self.looks_up = draft == NGRAM
        self.run(0)  # the prefill

    def run(self, K):
        """(seconds of drafting, seconds of the whole round)"""
        begin = time.perf_counter()
        tokens, q = self.drafter.propose(self.ids, K)
        drafted = time.perf_counter()
        logits = self.target.read(self.ids + tokens, self.cache, n_last=len(tokens) + 1)
        self.rule(tokens, q, self.filter(logits), self.rng)
        return drafted - begin, time.perf_counter() - begin

    def after_plain(self, K):
        """The same, after a round without drafts."""
        self.run(0)
        return self.run(K)

    def timed(self, K, n_rounds):
        """[(seconds of drafting, seconds of the whole round)] of n_rounds with this K.

        Rounds that are not timed come before them, until the caches hold what they hold in a text.
        """
        if self.looks_up:
            return [self.after_plain(K) for _ in range(n_rounds)]
        settling = 0.0
        while settling < SETTLING:
            settling += self.run(K)[1]
        return [self.run(K) for _ in range(n_rounds)]


def measured_costs(target, draft, filter, verification="token"):
    """What round_costs returns, measured now."""
    most_K = min(MAX_K, longest_draft(target, draft))
    if most_K == 0:
        return [1.0]
    timer = RoundTimer(target, draft, filter, most_K, verification)
    tried = [*(K for K in TRIED if K < most_K), most_K]
    seconds = {K: [] for K in tried}
    begin = time.perf_counter()
    while not seconds[0] or time.perf_counter() < begin + BUDGET:
        for K in tqdm(tried, desc="costs of K", delay=1, leave=False, disable=None):
            seconds[K] += [whole for _, whole in timer.timed(K, 2)]
    # a disturbed round is slow, none is too fast
    plain, *typical = (np.quantile(seconds[K], 0.25) for K in tried)
    costs = np.array(typical) / plain
    line = np.polyfit(tried[1:], costs, min(1, most_K - 1), w=1 / costs)
    return [1.0, *np.polyval(line, range(1, most_K + 1)).tolist()]


class AdaptiveK:
    """A K for `sampling.speculative`, from the costs of rounds of 0, 1, 2, ... drafts."""

    def __init__(self, costs):
        self.costs = costs
        self.accepted, self.examined = PRIOR[0] * PRIOR[1], PRIOR[1]
        self.drafted = self.asked = 1.0  # rounds with a draft, and rounds for which one was asked
        self.K = 0  # of the round before
        # plain rounds to come before the next trial, and how many there were
        self.patience = self.waited = 0

    def speeds(self, a):
        """Expected tokens in the time of a round without drafts, for K = 0, 1, 2, ...

        theory.speedup for all of them in one go, as a sum that grows with K: every round asks
        twice.
        """
        h, tokens = self.drafted / self.asked, accumulate(a**K for K in range(len(self.costs)))
        return [(h * n + 1 - h) / (h * cost + 1 - h) for n, cost in zip(tokens, self.costs)]

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
        best = max(range(1, len(self.costs)), key=self.speeds(a).__getitem__, default=0)
        # a standard error: a little bad luck does not end it
        hopeful = a + (a * (1 - a) / self.examined) ** 0.5
        if self.speeds(hopeful)[best] >= WORTH:
            self.patience = self.waited = 0
            return best
        self.waited += 1
        if self.waited <= self.patience:
            return 0
        self.waited, self.patience = (
            0,
            min(2 * self.patience + (self.costs[best] - 1) / TRIALS, 128),
        )
        return best
