"""Chooses K for each round, the one with the most expected tokens per second (--K auto).

With acceptance rate a, a round of K drafted tokens is expected to yield 1 + a + ... + a**K tokens
(Leviathan et al. 2023, equation 1). Its time is that of the last rounds with so many drafted tokens
or, before there are any, lies on a straight line through the times of others. Where drafting does
not pay, a K is tried now and then. K depends only on the rounds before, so the text has the
target's distribution, whatever K is; but times decide, so the same seed may give another text.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable
from statistics import linear_regression, median_low

from decoding.theory import tokens_per_round
from sampling import Round

MAX_K = 8
FIRST_KS = (4, 0, 2, 4, 0)  # to begin with, so that there is a line to fit
MAX_PATIENCE = 64  # rounds without drafts between two that try again


class AutoK:
    """A function K(last_round) for sampling.speculative; clock() returns the time in seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        self.clock = clock
        # their ratio is the acceptance rate; it begins with a guess, which counts as 2 tokens
        self.accepted, self.examined = 1.2, 2.0
        self.drafted, self.asked = 1.0, 1.0  # their ratio: how often there is a draft at all
        # {drafted tokens: seconds of the last rounds with so many}
        self.seconds: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=9))
        self.to_try = list(FIRST_KS)
        self.patience = self.waited = 1
        self.K, self.begun = 0, 0.0

    def __call__(self, last_round: Round) -> int:
        """Learn from the last Round, and return the K of the next one: 0 to draft nothing."""
        if last_round.tokens:  # not the prefill
            self.learn(last_round, self.clock() - self.begun)
        self.K = self.to_try.pop(0) if self.to_try else self.choose()
        self.begun = self.clock()
        return self.K

    def learn(self, last_round: Round, seconds: float) -> None:
        """Add a Round, which took so many seconds, to the sums, in which older ones lose weight."""
        weight = 0.99**last_round.examined  # about a hundred drafted tokens count
        self.accepted = weight * self.accepted + last_round.accepted
        self.examined = weight * self.examined + last_round.examined
        if self.K:
            self.drafted = 0.99 * self.drafted + bool(last_round.draft)
            self.asked = 0.99 * self.asked + 1
        self.seconds[len(last_round.draft)].append(seconds)
        one_by_one = len(last_round.tokens) * median_low(self.seconds.get(0, [0]))
        if self.K and one_by_one > seconds:  # it was worth its time: try again soon
            self.patience = self.waited = 1

    def choose(self) -> int:
        """The K with the most tokens per second. If that is 0, the best other K now and then: after
        more and more rounds, up to MAX_PATIENCE.
        """
        a = self.accepted / self.examined  # the probability that an examined token is accepted
        h = self.drafted / self.asked  # that the drafter, when it is asked, drafts anything
        # of two times the lower: what disturbs a round makes it longer
        seen = {K: median_low(times) for K, times in self.seconds.items()}
        alone = seen[0]  # FIRST_KS has rounds without drafts
        points = seen
        if len(seen) == 1:  # nothing was drafted yet: a guess
            points = {0: alone, MAX_K: 2 * alone}
        slope, start = linear_regression([*points], [*points.values()])

        def tokens_per_second(K: int) -> float:
            cost = seen.get(K, start + slope * K)  # a straight line, until it was tried
            return (h * tokens_per_round(a, K) + 1 - h) / (h * cost + (1 - h) * alone)

        best = max(range(1, MAX_K + 1), key=tokens_per_second)
        if tokens_per_second(best) > 1 / alone:
            return best
        self.waited += 1
        if self.waited <= self.patience:
            return 0
        self.waited = 0
        self.patience = min(2 * self.patience, MAX_PATIENCE)  # the next try is twice as far
        return best
