"""K that nobody has to tune: each round, the K with the most tokens per second to be expected.

With acceptance rate a, a round of K drafts is expected to yield (1 - a^(K+1)) / (1 - a) tokens
(Leviathan et al. 2023, equation 1). A look-up of n-grams finds something to draft in a share h of
the rounds only, the others yield one token. What a round of K drafts costs is measured before the
text begins, a and h while it is written. K = 0 is plain decoding: nothing is learned from that, so
now and then, ever more rarely, a round is drafted all the same.

K depends on the rounds before, never on what will be drawn next, so the distribution of the text is
the target's whatever is chosen.
"""

import time
from functools import partial
from itertools import accumulate
from queue import SimpleQueue
from threading import Lock, get_ident
from weakref import WeakKeyDictionary

import numpy as np
from tqdm import tqdm

from decoding.batching import decode_together
from decoding.clock import RoundTimer, measure_costs
from sampling import verify

MAX_K = 8
TRIED = (1, 2, 4, 8)  # rounds that are timed; a straight line through them takes out the noise
N_ROUNDS = 2  # of each of them in a turn
BUDGET = 1.0  # seconds after which no turn of them begins any more; of a batch, three times that
DECAY = 0.99  # weight of the past at each examined draft: some hundred count
# the least speed for which to draft: asking for a draft costs a little, too, where none is found
LEAST_SPEED = 1.02
# the share of the time that drafts may cost that do not pay, the first ones apart
TRIAL_SHARE = 0.01
PRIOR = (0.6, 2.0)  # an acceptance rate to begin with, and how many examined drafts it is worth


# {target: {(draft, filter, rule, n_texts): costs}}, for as long as the target is in use
COSTS = WeakKeyDictionary()
ASKING = Lock()  # held while a text asks: each of a batch does so in its own thread


def new_K(target, draft, filter, rule, n_texts=1):
    """What chooses K for n_texts texts that are decoded together."""
    known = COSTS.setdefault(target, {})
    options = draft, filter, rule, n_texts
    if options not in known:
        known[options] = round_costs(target, *options)
    return AdaptiveK(known[options])


def round_costs(*options):
    """[cost of a round of 0, 1, ... drafts], in rounds of none, measured now."""
    return [1.0, *(K * c + v for K, (c, v) in enumerate(costs_of_parts(*options), 1))]


def costs_of_parts(target, draft, filter, rule=verify, n_texts=1):
    """[(c, v)] of rounds of 1, 2, ... drafts, as `measure_costs` has them."""
    most_K = min(MAX_K, draft.longest(target))
    if most_K == 0:
        return []
    tried = [*(K for K in TRIED if K < most_K), most_K]
    turns = turns_within(BUDGET if n_texts == 1 else 3 * BUDGET)
    turns = tqdm(turns, desc="costs of K", delay=1, leave=False, disable=None)
    _, costs = measure_together(n_texts, target, draft, filter, tried, turns, rule)
    parts = np.array([np.median([(K * c, v) for c, v in costs[K]], axis=0) for K in tried])
    lines = np.polyfit(tried, parts, min(1, most_K - 1), w=1 / parts.sum(axis=1))
    Ks = np.arange(1, most_K + 1)
    drafting, rest = (np.polyval(line, Ks) for line in lines.T)
    return [*zip((drafting / Ks).tolist(), rest.tolist())]


def turns_within(seconds):
    """Turns until this many seconds have passed, at least one."""
    end = time.perf_counter() + seconds
    yield
    while time.perf_counter() < end:
        yield


def measure_together(n_texts, target, draft, filter, Ks, turns, rule):
    """`measure_costs` for a text among n_texts that are decoded together.

    The first text measures; before each of its rounds it tells the others to do the same.
    """
    if n_texts == 1:
        return measure_costs(target, draft, filter, Ks, N_ROUNDS, turns, rule)
    others = [SimpleQueue() for _ in range(n_texts - 1)]

    def tell(K):
        for orders in others:
            orders.put(K)

    def measure(target, draft):
        try:
            return measure_costs(target, draft, filter, Ks, N_ROUNDS, turns, rule, tell)
        finally:
            tell(None)

    def follow(orders, target, draft):
        timer = None
        for K in iter(orders.get, None):
            if timer:
                timer.run(K)
            else:
                timer = RoundTimer(target, draft, filter, max(Ks), rule)  # which runs the prefill

    tasks = [measure, *(partial(follow, orders) for orders in others)]
    costs, *_ = decode_together(tasks, target, draft, n_texts)
    return costs


class AdaptiveK:
    """A K for `sampling.speculative`, from the costs of rounds of 0, 1, 2, ... drafts.

    Texts that are decoded together share it: a text that drafted alone would keep all others
    waiting. Each asks once in a round, until it ends, and from a thread of its own. The first in a
    round chooses, from what all have seen.
    """

    def __init__(self, costs):
        self.costs = costs
        self.threads = set()  # of the texts that have asked in this round
        rate, weight = PRIOR
        self.accepted, self.examined = rate * weight, weight
        self.drafted = self.asked = 1.0  # rounds with a draft, and rounds for which one was asked
        self.K = self.K_before = 0  # of this round, and of the one before
        # plain rounds to come before the next trial, and how many there were
        self.patience = self.waited = 0

    def speeds(self, a):
        """Expected tokens in the time of a round without drafts, for K = 0, 1, 2, ...

        theory.speedup for all of them in one go, as a sum that grows with K: every round asks
        twice.
        """
        h = self.drafted / self.asked
        tokens = accumulate(a**K for K in range(len(self.costs)))
        return [(h * n + 1 - h) / (h * cost + 1 - h) for n, cost in zip(tokens, self.costs)]

    def __call__(self, last):
        """K of the next round, from the Round before it."""
        with ASKING:
            text = get_ident()
            first = not self.threads or text in self.threads  # again: a round has begun
            self.threads = {text} if first else self.threads | {text}
            if first:
                self.K_before = self.K
            self.learn(last)
            if first:
                self.K = self.choose()
            return self.K

    def learn(self, last):
        decay = DECAY**last.examined
        self.accepted = decay * self.accepted + last.accepted
        self.examined = decay * self.examined + last.examined
        if self.K_before:
            self.drafted = DECAY * self.drafted + bool(last.draft)
            self.asked = DECAY * self.asked + 1

    def choose(self):
        a = self.accepted / self.examined
        best = max(range(1, len(self.costs)), key=self.speeds(a).__getitem__, default=0)
        # a standard error: a little bad luck does not end it
        hopeful = a + (a * (1 - a) / self.examined) ** 0.5
        if self.speeds(hopeful)[best] >= LEAST_SPEED:
            self.patience = self.waited = 0
            return best
        self.waited += 1
        if self.waited <= self.patience:
            return 0
        self.waited = 0
        self.patience = min(2 * self.patience + (self.costs[best] - 1) / TRIAL_SHARE, 128)
        return best
