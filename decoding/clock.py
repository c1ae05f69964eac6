"""Times rounds: those of a run (Stopwatch), and rounds run only to be timed (measure_costs)."""

import statistics
import time
from dataclasses import dataclass
from types import SimpleNamespace

from decoding.streams import Purpose, stream
from sampling import Rng, prefill, verify

CONTEXT_TOKENS = 64  # tokens in the cache of a RoundTimer
WARMUP_SECONDS = 0.015  # of warm-up rounds with a K, before the timed rounds with this K


@dataclass(frozen=True)
class Seconds:
    """The seconds that one round took, in three parts."""

    draft: float  # drafting
    target: float  # the target's pass
    rest: float  # all else: the target's probabilities, the rule and the loop

    @property
    def total(self):
        return self.draft + self.target + self.rest


class Stopwatch:
    """Times each round of a loop of sampling.py, which itself looks at no clock.

    The loop is called with timed_target(model) and timed_drafter(drafter) in place of the model and
    the drafter. A caller takes the loop's rounds from timed_rounds(loop's rounds).
    """

    def __init__(self):
        self.spent = {"draft": 0.0, "target": 0.0}  # seconds of this round so far

    def timed_target(self, model):
        """The model for a loop, which needs only these attributes; its passes add to self.spent."""
        read = self.with_timer("target", model.read)
        return SimpleNamespace(config=model.config, new_cache=model.new_cache, read=read)

    def timed_drafter(self, drafter):
        """The drafter for a loop, which needs only these parts; its time goes to self.spent."""
        propose = self.with_timer("draft", drafter.propose)
        return SimpleNamespace(n_vocab=drafter.n_vocab, prefill=drafter.prefill, propose=propose)

    def with_timer(self, part, function):
        """The function, wrapped: each call adds its seconds to spent[part], "draft" or "target"."""

        def call(*arguments, **named):
            begin = time.perf_counter()
            result = function(*arguments, **named)
            self.spent[part] += time.perf_counter() - begin
            return result

        return call

    def timed_rounds(self, rounds):
        """Yield (Round, its Seconds) for each Round of the loop's iterator. What the caller does
        between two rounds is not timed.
        """
        while True:
            self.spent.update(draft=0.0, target=0.0)
            begin = time.perf_counter()
            this_round = next(rounds, None)
            elapsed = time.perf_counter() - begin
            if this_round is None:
                return
            yield this_round, Seconds(**self.spent, rest=elapsed - sum(self.spent.values()))


class RoundTimer:
    """Runs single rounds after one and the same text, and times them.

    target: a Model; draft: a Draft; to_probs: SamplingParams; rule: as in sampling.RULES
    max_K: the largest K that will be timed, at most draft.max_draft_length(target)
    """

    def __init__(self, target, draft, to_probs, max_K, rule):
        self.target, self.draft, self.to_probs, self.rule = target, draft, to_probs, rule
        self.rng = Rng(stream(Purpose.TIMING, 0))
        self.drafter = draft.new_drafter(target, to_probs, self.rng)
        room = min(target.config.n_ctx, draft.n_ctx) - max_K
        # a text that repeats itself, for the look-up
        ids = [0] * max(1, min(CONTEXT_TOKENS, room))
        self.ids, _, self.cache = prefill(target, ids, max_K)
        self.drafter.prefill(ids[:-1], self.cache)
        self.time_round(0)  # the first round is slower than those after it

    def time_round(self, K):
        """Run one round with K drafts: (seconds of drafting, seconds of the rest of the round)."""
        begin = time.perf_counter()
        draft, q = self.drafter.propose(self.ids, K)
        middle = time.perf_counter()
        logits = self.target.read(self.ids + draft, self.cache, n_last=len(draft) + 1)
        self.rule(draft, self.to_probs(logits), q, self.rng)
        return middle - begin, time.perf_counter() - middle

    def time_rounds(self, K, n_rounds):
        """Run n_rounds with this K, and return [(seconds of drafting, seconds of the rest)]. Rounds
        that do not count come first, so that the CPU's caches are as in the middle of a text.
        """
        if self.draft.is_lookup:  # mostly finds no draft: so a round without a draft comes first
            timed = []
            for _ in range(n_rounds):
                self.time_round(0)
                timed.append(self.time_round(K))
            return timed
        warm_up_seconds = 0.0
        while warm_up_seconds < WARMUP_SECONDS:
            warm_up_seconds += sum(self.time_round(K))
        return [self.time_round(K) for _ in range(n_rounds)]


def measure_costs(target, draft, to_probs, Ks, n_rounds, turns, rule=verify):
    """Time rounds of each K in Ks, and return ([seconds of a round without drafts], {K: [(c, v)]}).
    All lists have one item per turn. turns: an iterable; each turn times n_rounds rounds of each K.
    target: a Model; draft: a Draft; to_probs: SamplingParams; rule: as in sampling.RULES

    c is the time of drafting one token, v the time of the rest of a round, mostly the pass that
    verifies; both as multiples of a round without drafts. Whole rounds are timed: drafting alone
    would find its weights in the cache, from which the target's passes displace them. A turn is
    short: a machine that gets faster or slower does so for all rounds of a turn.
    """
    timer = RoundTimer(target, draft, to_probs, max(Ks), rule)
    plain_seconds, costs = [], {K: [] for K in Ks}
    for _ in turns:
        # time rounds without drafts before and after the others
        before = timer.time_rounds(0, n_rounds)
        rounds = {K: timer.time_rounds(K, n_rounds) for K in Ks}
        after = timer.time_rounds(0, n_rounds)
        plain = sum(medians(before + after))
        plain_seconds.append(plain)
        for K in Ks:
            drafting, rest = medians(rounds[K])
            costs[K].append((drafting / K / plain, rest / plain))
    return plain_seconds, costs


def medians(rounds):
    """[median seconds of drafting, of the rest]; rounds: [(seconds of drafting, of the rest)]."""
    return [statistics.median(seconds) for seconds in zip(*rounds)]
