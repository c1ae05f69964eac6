"""Times rounds: each round of a run (Stopwatch), and rounds that are run only to be timed
(measure_costs).
"""

import statistics
import time
from dataclasses import dataclass
from types import SimpleNamespace

from sampling import Rng, prefill, verify

CONTEXT_TOKENS = 64  # tokens in the cache of a RoundTimer
WARMUP_SECONDS = 0.015  # of warm-up rounds with a K, before the timed rounds with this K


@dataclass(frozen=True)
class Seconds:
    """The seconds of one round: of drafting, of the target's pass, and of the rest (the target's
    sampling parameters, the rule and the loop).
    """

    draft: float
    target: float
    rest: float

    @property
    def total(self):
        return self.draft + self.target + self.rest


class Stopwatch:
    """Times each round of a loop: its drafting, its target pass and its total.

    The loops of sampling.py look at no clock. They are given `target(...)` and `drafter(...)` in
    place of the model and the drafter, and a caller takes their rounds from `rounds(...)`.
    """

    def __init__(self):
        self.spent = {"draft": 0.0, "target": 0.0}  # seconds of this round so far

    def timed_target(self, model):
        """The model with its passes timed. These three are all that a loop asks of a model."""
        read = self.with_timer("target", model.read)
        return SimpleNamespace(config=model.config, new_cache=model.new_cache, read=read)

    def timed_drafter(self, drafter):
        """The drafter with its proposals timed. These three are all that a loop asks of it."""
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
        """Yield (Round, its Seconds). The time between two rounds is the caller's: it counts for
        none.
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
    """Runs single rounds after a text that does not grow, and times them.

    max_K: the largest K that will be timed, at most draft.max_draft_length(target)
    """

    def __init__(self, target, draft, to_probs, max_K, rule):
        self.target, self.draft, self.to_probs, self.rule = target, draft, to_probs, rule
        self.rng = Rng(0)
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
        tokens, q = self.drafter.propose(self.ids, K)
        drafted = time.perf_counter()
        logits = self.target.read(self.ids + tokens, self.cache, n_last=len(tokens) + 1)
        self.rule(tokens, self.to_probs(logits), q, self.rng)
        return drafted - begin, time.perf_counter() - drafted

    def time_rounds(self, K, n_rounds):
        """[(seconds of drafting, of the rest)] of n_rounds with this K, after untimed rounds.

        The untimed rounds warm up the CPU's caches, so that they hold what they hold in a text.
        """
        if self.draft.is_lookup:  # it seldom finds a draft: mostly a round without one came before
            pairs = [(self.time_round(0), self.time_round(K)) for _ in range(n_rounds)]
            return [after for _, after in pairs]
        warm_up = 0.0
        while warm_up < WARMUP_SECONDS:
            warm_up += sum(self.time_round(K))
        return [self.time_round(K) for _ in range(n_rounds)]


def measure_costs(target, draft, to_probs, Ks, n_rounds, turns, rule=verify):
    """Time rounds of each K: ([seconds of a round without drafts], {K: [(c, v)]}), one item a turn.
    turns: an iterable; all K are timed once in each turn, n_rounds rounds each.

    c is the time of drafting one token, v the time of the rest of a round, mostly the pass that
    verifies; both as multiples of a round without drafts. Whole rounds are timed: drafting alone
    would find its weights in the cache, from which the target's passes displace them. A turn is
    short: a machine that gets faster or slower does so for all rounds of a turn.
    """
    timer = RoundTimer(target, draft, to_probs, max(Ks), rule)
    plain, costs = [], {K: [] for K in Ks}
    for _ in turns:
        # time rounds without drafts before and after the others
        before = timer.time_rounds(0, n_rounds)
        rounds = {K: timer.time_rounds(K, n_rounds) for K in Ks}
        plain.append(sum(medians(before + timer.time_rounds(0, n_rounds))))
        for K in Ks:
            drafting, rest = medians(rounds[K])
            costs[K].append((drafting / K / plain[-1], rest / plain[-1]))
    return plain, costs


def medians(rounds):
    """[median seconds of drafting, of the rest], from what RoundTimer.time_rounds returns."""
    return [statistics.median(seconds) for seconds in zip(*rounds)]
