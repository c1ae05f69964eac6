"""Measures what rounds cost: runs rounds of each K only to time them."""

import statistics
import time

import numpy as np
from tqdm import tqdm

from decoding.streams import Purpose, stream
from sampling import Rng, prefill, verify

MAX_K = 8
TIMED_KS = (1, 2, 4, 8)  # a straight line through their costs gives the costs of all K
N_ROUNDS = 2  # rounds of each K in a turn
BUDGET_SECONDS = 1.0  # after which no turn begins
CONTEXT_TOKENS = 64  # tokens in the cache of a RoundTimer
WARMUP_SECONDS = 0.015  # of warm-up rounds with a K, before the timed rounds with this K


class RoundTimer:
    """Runs single rounds after one and the same text, and times them.

    target: a Model; draft: a Draft; to_probs: SamplingParams; rule: a function like sampling.verify
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
        """Run one round with K drafts. Returns (seconds of drafting, seconds of all else)."""
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


def measure_costs_in_turns(target, draft, to_probs, Ks, n_rounds, turns, rule=verify):
    """Time rounds of each K in Ks, and return ([seconds of a round without drafts], {K: [(c, v)]}).
    All lists have one item per turn. turns: an iterable; each turn times n_rounds rounds of each K.
    target: a Model; draft: a Draft; to_probs: SamplingParams; rule: a function like sampling.verify

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
        plain = sum(medians(before + after))  # of drafting, which is 0, and of the rest
        plain_seconds.append(plain)
        for K in Ks:
            drafting, rest = medians(rounds[K])
            costs[K].append((drafting / K / plain, rest / plain))
    return plain_seconds, costs


def medians(rounds):
    """[median drafting seconds, median of the rest] of rounds: [(drafting seconds, the rest)]."""
    return [statistics.median(seconds) for seconds in zip(*rounds)]


def measure_round_costs(target, draft, to_probs, rule):
    """Measure [cost of a round of 0, 1, 2, ... drafts], up to MAX_K or the most that the draft can
    propose. Costs are multiples of a round without drafts, so the first is 1.

    target: a Model; draft: a Draft; to_probs: SamplingParams; rule: a function like sampling.verify
    """
    parts = measure_cost_parts(target, draft, to_probs, rule)
    return [1.0] + [K * c + v for K, (c, v) in enumerate(parts, 1)]


def measure_cost_parts(target, draft, to_probs, rule=verify):
    """Measure [(c, v)] of rounds of 1, 2, ... drafted tokens, up to MAX_K or the most that the
    draft can propose; [] if that is 0. Times a few K and fits the rest. Shows a progress bar.

    c: the cost of drafting one token; v: the cost of the rest of the round. Both are multiples of a
    round without drafts.

    target: a Model; draft: a Draft; to_probs: SamplingParams; rule: a function like sampling.verify
    """
    max_K = min(MAX_K, draft.max_draft_length(target))
    if max_K == 0:
        return []
    timed_Ks = [K for K in TIMED_KS if K < max_K] + [max_K]
    turns = turns_within(BUDGET_SECONDS)
    # disable=None: no bar unless it would be on a terminal
    turns = tqdm(turns, desc="costs of K", delay=1, leave=False, disable=None)
    _, costs = measure_costs_in_turns(target, draft, to_probs, timed_Ks, N_ROUNDS, turns, rule)
    # the median costs of drafting all K tokens, and of verifying them: [n_timed, 2]
    pairs = np.array([np.median([(K * c, v) for c, v in costs[K]], axis=0) for K in timed_Ks])
    # a straight line through each of the two columns; a single K is a constant. The weights w make
    # relative errors count, not absolute ones
    degree = min(1, max_K - 1)
    lines = np.polyfit(timed_Ks, pairs, degree, w=1 / pairs.sum(axis=1))  # [degree + 1, 2]
    Ks = np.arange(1, max_K + 1)
    drafting = np.polyval(lines[:, 0], Ks)
    verifying = np.polyval(lines[:, 1], Ks)
    return list(zip((drafting / Ks).tolist(), verifying.tolist()))


def turns_within(seconds):
    """Yield None for each turn: once, then again until this many seconds have passed."""
    end = time.perf_counter() + seconds
    yield
    while time.perf_counter() < end:
        yield
