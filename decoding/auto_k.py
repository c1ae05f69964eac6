"""Chooses K for each round: the K with the most expected tokens per second (--K auto).

With acceptance rate a, a round of K drafts is expected to yield (1 - a^(K+1)) / (1 - a) tokens
(Leviathan et al. 2023, equation 1). A look-up of n-grams finds a draft only in a share h of the
rounds; the other rounds yield one token. The cost of a round of K drafts is measured before the
text begins, a and h while the text is written. K = 0 is plain decoding, which says nothing about a
and h. So a trial round drafts now and then, more and more rarely. K is chosen for one text, without
batches: in a batch, texts with small K would wait for texts with large K.

K depends only on the rounds before, so the text has the target's distribution, whatever K is.
"""

from weakref import WeakKeyDictionary

from decoding.costs import measure_round_costs
from decoding.theory import speedup

DECAY = 0.99  # weight of the past after a new observation: about a hundred observations count
# the smallest expected speedup for which to draft: a search that finds no draft costs a little, too
MIN_SPEEDUP = 1.02
# the share of the time that trial rounds may cost, except the first trials
TRIAL_SHARE = 0.01
MAX_PATIENCE = 128  # the most plain rounds between two trials
PRIOR = (0.6, 2.0)  # an acceptance rate to begin with, and how many examined drafts it is worth


# {target: {(draft, to_probs, rule): [cost of a round]}}, for as long as the target is in use
COSTS = WeakKeyDictionary()


def new_auto_k(target, draft, to_probs, rule):
    """Make an AutoK for one text. The first call with these arguments measures the costs of rounds,
    in about a second; later calls reuse these costs.

    target: a Model; draft: a Draft; to_probs: SamplingParams; rule: a function like sampling.verify
    """
    costs = COSTS.setdefault(target, {})
    options = draft, to_probs, rule
    if options not in costs:
        costs[options] = measure_round_costs(target, draft, to_probs, rule)
    return AutoK(costs[options])


class AutoK:
    """A function K(last_round) for `sampling.speculative`: it learns from the last Round of a text,
    and returns the K of the next one.

    costs: [cost of a round of 0, 1, 2, ... drafts], as measure_round_costs returns them
    """

    def __init__(self, costs):
        self.costs = costs
        rate, weight = PRIOR
        self.accepted, self.examined = rate * weight, weight  # a is their ratio
        # rounds that drafted anything, of those that were asked to: h is their ratio
        self.rounds_drafted = self.rounds_asked = 1.0
        self.K = 0  # of the last round
        # plain rounds before the next trial, and plain rounds since the last one
        self.patience = self.waited = 0

    def __call__(self, last_round):
        """Learn from the last Round, and return the K of the next round: 0 to draft nothing."""
        self.learn(last_round)
        self.K = self.choose_K()
        return self.K

    def learn(self, last_round):
        """Add a Round to the sums whose ratios are a, the acceptance rate, and h, the share of
        rounds with a draft. Older observations lose weight. For a, each examined draft is an
        observation, so the weight falls by DECAY for each; for h, each round with K > 0 is one.
        """
        weight = DECAY**last_round.examined
        self.accepted = weight * self.accepted + last_round.accepted
        self.examined = weight * self.examined + last_round.examined
        if self.K:
            self.rounds_drafted = DECAY * self.rounds_drafted + bool(last_round.draft)
            self.rounds_asked = DECAY * self.rounds_asked + 1

    def speedups(self, a):
        """[expected speedup over plain decoding] for K = 0, 1, 2, ..., one for each of self.costs.
        a: the acceptance rate
        """
        h = self.rounds_drafted / self.rounds_asked  # the share of rounds with a draft
        # a cost is that of a whole round, with its drafts: it stands for v, and c is 0
        return [speedup(a=a, K=K, c=0, v=cost, h=h) for K, cost in enumerate(self.costs)]

    def choose_K(self):
        """Return the K of the next round: the fastest K above 0 if it pays or if a trial is due,
        else 0. Counts the rounds until the next trial.
        """
        if len(self.costs) == 1:  # nothing can be drafted
            return 0
        a = self.accepted / self.examined  # above 0 from the beginning: see PRIOR
        speedups = self.speedups(a)
        best = max(range(1, len(self.costs)), key=lambda K: speedups[K])
        # a plus its standard error: a little bad luck does not end drafting
        optimistic_a = a + (a * (1 - a) / self.examined) ** 0.5
        if self.speedups(optimistic_a)[best] >= MIN_SPEEDUP:
            self.patience = self.waited = 0
            return best
        self.waited += 1
        if self.waited <= self.patience:
            return 0
        self.waited = 0
        # a trial costs this much more than a plain round, in plain rounds: 1 / TRIAL_SHARE times as
        # many plain rounds keep its share of the time. Each trial that fails doubles the wait
        extra_cost = self.costs[best] - 1
        self.patience = min(2 * self.patience + extra_cost / TRIAL_SHARE, MAX_PATIENCE)
        return best
