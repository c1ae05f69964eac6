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
    """A function K(last_round) -> the K of the next round, for sampling.speculative. It keeps sums
    over the rounds of a text, in which older ones lose weight, and their times.

    clock: clock() returns the time in seconds
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        """Begin a text, with the guess that 1.2 of 2 drafted tokens are accepted."""
        self.clock = clock
        # sums in which older tokens and rounds lose weight, so they are no whole numbers
        self.accepted, self.examined = 1.2, 2.0  # drafted tokens
        self.drafted, self.asked = 1.0, 1.0  # rounds: with a draft, with a K above 0
        # {drafted tokens: seconds of the last rounds with so many}
        self.seconds: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=9))
        self.to_try = list(FIRST_KS)  # the Ks of the next rounds
        self.patience = 1  # rounds without a draft between two tries
        self.waited = 1  # rounds without a draft since the last try
        self.K, self.begun = 0, 0.0  # of the round that runs: its K, when it began

    def __call__(self, last_round: Round) -> int:
        """Learn from the last Round, and return the K of the next one: 0 to draft nothing."""
        if last_round.tokens:  # not the prefill
            self.learn(last_round, self.clock() - self.begun)
        self.K = self.to_try.pop(0) if self.to_try else self.choose()
        self.begun = self.clock()
        return self.K

    def learn(self, last_round: Round, seconds: float) -> None:
        """Add a Round, which took `seconds`, to the times of rounds with as many drafted tokens and
        to the sums: of tokens (accepted, examined) and of rounds (drafted, asked). In a sum, each
        token or round weighs 0.99 times as much as the next one. If the round was faster than as
        many tokens without a draft, self.patience and self.waited become 1: the next try is soon.
        """
        weight = 0.99**last_round.examined  # about a hundred drafted tokens count
        self.accepted = weight * self.accepted + last_round.accepted
        self.examined = weight * self.examined + last_round.examined
        self.seconds[len(last_round.draft)].append(seconds)
        if self.K == 0:  # nobody asked for a draft
            return
        self.drafted = 0.99 * self.drafted + (1 if last_round.draft else 0)
        self.asked = 0.99 * self.asked + 1
        if 0 in self.seconds:
            one_by_one = len(last_round.tokens) * median_low(self.seconds[0])
            if one_by_one > seconds:
                self.patience, self.waited = 1, 1

    def choose(self) -> int:
        """The K up to 8 (MAX_K) with the most expected tokens per second. If that is 0, the best
        other K now and then, when it is time to (`tries_again`).
        """
        a = self.accepted / self.examined  # the probability that an examined token is accepted
        h = self.drafted / self.asked  # that the drafter, when it is asked, drafts anything
        # median_low: where two times are in the middle, the shorter was disturbed less
        seen = {K: median_low(times) for K, times in self.seconds.items()}
        alone = seen[0]  # FIRST_KS has rounds without drafts
        if len(seen) == 1:  # nothing was drafted yet: a guess
            slope, start = alone / MAX_K, alone
        else:
            slope, start = linear_regression(list(seen.keys()), list(seen.values()))

        def tokens_per_second(K: int) -> float:
            cost = seen.get(K, start + slope * K)  # a straight line, until it was tried
            n_tokens = h * tokens_per_round(a, K) + (1 - h)  # 1 in a round without a draft
            seconds = h * cost + (1 - h) * alone
            return n_tokens / seconds

        best = max(range(1, MAX_K + 1), key=tokens_per_second)
        pays = tokens_per_second(best) > 1 / alone
        if pays or self.tries_again():
            return best
        return 0

    def tries_again(self) -> bool:
        """Whether to draft in the next round although it does not pay. Call it once before each
        such round, as it counts them. After a draft that paid, the answer is yes at once, then
        after 2, 4, 8, ... rounds without a draft, up to 64. Changes self.waited and self.patience.
        """
        self.waited += 1
        if self.waited <= self.patience:
            return False
        self.waited = 0
        self.patience = min(2 * self.patience, MAX_PATIENCE)  # the next try is twice as far
        return True
