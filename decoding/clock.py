"""What a round costs: one clock for whole runs, for their parts, and for single rounds."""

import statistics
import time
from collections import defaultdict
from dataclasses import dataclass, replace

from decoding.drafts import SeenTarget
from sampling import Chance, verify

PAST = 64  # tokens in the cache before single rounds that are timed
SETTLING = 0.015  # seconds of rounds of a kind before those of it that are timed


@dataclass(frozen=True)
class Seconds:
    """What a round took: drafting, the target's passes, and the rest: the rule, filter and loop.

    passes: of each pass of the draft; the look-up of n-grams has none
    """

    draft: float
    target: float
    rule: float
    passes: list

    @property
    def total(self):
        return self.draft + self.target + self.rule


class Clock:
    """Times the parts of a run: `rounds` decodes it, and says what its rounds took.

    seconds: {part: seconds} of "draft", "verify" and "sampling" (here the filter alone), and with
        in_detail of "cache", the writing of keys and values; what a part takes inside another
        counts for the inner one only
    passes, draft_passes: (rows, seconds) of each pass of the target, and of the draft's model
    proposals: (tokens, seconds) of each draft
    """

    def __init__(self, in_detail=False):
        self.in_detail, self.inner, self.seconds = in_detail, [0.0], defaultdict(float)
        self.passes, self.draft_passes, self.proposals = [], [], []

    def on(self, run):
        """The same run (decoding/run.py), its models, drafter and filter under this clock."""
        target = TimedModel(run.pair.target, self, "verify", self.passes)
        draft = run.pair.draft
        if draft is not None:
            draft = draft.over(lambda model: TimedModel(model, self, "draft", self.draft_passes))
            draft = draft.wrapped(lambda drafter: TimedDrafter(drafter, self))
        pair = replace(run.pair, target=target, draft=draft)
        return replace(run, pair=pair, filter=self.timed("sampling", run.filter))

    def rounds(self, run, chance=None):
        """Yield (Round, its Seconds) of a run. Between two rounds, no time is counted."""
        rounds = self.on(run).rounds(chance)
        noted = self.passes, self.draft_passes, self.proposals
        while True:
            before = [len(calls) for calls in noted]
            begin = time.perf_counter()
            round = next(rounds, None)
            elapsed = time.perf_counter() - begin
            if round is None:
                return
            new = [calls[n:] for calls, n in zip(noted, before)]
            target, passes, proposals = ([seconds for _, seconds in calls] for calls in new)
            # the look-up of n-grams makes no passes: there, whole proposals are the drafting
            draft = sum(passes) if passes else sum(proposals)
            yield round, Seconds(draft, sum(target), elapsed - draft - sum(target), passes)

    def timed(self, part, function, note=lambda result, elapsed: None):
        """The function, with the seconds of its calls added to the part and told to `note`."""

        def call(*arguments, **named):
            self.inner.append(0.0)
            begin = time.perf_counter()
            result = function(*arguments, **named)
            elapsed = time.perf_counter() - begin
            self.seconds[part] += elapsed - self.inner.pop()
            self.inner[-1] += elapsed
            note(result, elapsed)
            return result

        return call


class TimedModel:
    """A model under a Clock. For the loops it is a model."""

    def __init__(self, model, clock, part, passes):
        self.model, self.config, self.clock = model, model.config, clock
        note = lambda logits, elapsed: passes.append((len(logits), elapsed))
        self.read = clock.timed(part, model.read, note)

    def new_cache(self, n_positions=None):
        cache = self.model.new_cache(n_positions)
        if self.clock.in_detail and hasattr(cache, "write"):
            cache.write = self.clock.timed("cache", cache.write)
        return cache


class TimedDrafter:
    def __init__(self, drafter, clock):
        self.n_vocab, self.prefill = drafter.n_vocab, drafter.prefill
        note = lambda draft, elapsed: clock.proposals.append((len(draft[0]), elapsed))
        self.propose = clock.timed("draft", drafter.propose, note)


class RoundTimer:
    """Runs single rounds after a text that does not grow, and says what they take.

    most_K: the largest K that will be asked for, at most draft.longest(target)
    tell: is called with the K of each round, the prefill's included, before it begins
    """

    def __init__(self, target, draft, filter, most_K, rule, tell=lambda K: None):
        self.filter, self.rule, self.draft, self.tell = filter, rule, draft, tell
        self.chance = Chance(0)
        self.target = SeenTarget(target)
        self.drafter = draft.drafter(self.target, filter, self.chance)
        self.cache = self.target.new_cache(PAST + most_K)
        room = min(target.config.n_ctx, draft.n_ctx) - most_K
        # a text that repeats itself, for the look-up
        self.ids = [0] * max(1, min(PAST, room))
        self.run(0)  # the prefill

    def run(self, K):
        """Seconds of (drafting, all the rest of a round)."""
        self.tell(K)
        begin = time.perf_counter()
        tokens, q = self.drafter.propose(self.ids, K)
        drafted = time.perf_counter()
        logits = self.target.read(self.ids + tokens, self.cache, n_last=len(tokens) + 1)
        self.rule(tokens, q, self.filter(logits), self.chance)
        return drafted - begin, time.perf_counter() - drafted

    def timed(self, K, n_rounds):
        """What `run` says of n_rounds with this K.

        Rounds that are not timed come before them, until the caches hold what they hold in a text.
        """
        if self.draft.looks_up:  # it seldom finds anything: the round before mostly had no draft
            pairs = [(self.run(0), self.run(K)) for _ in range(n_rounds)]
            return [after for _, after in pairs]
        settling = 0.0
        while settling < SETTLING:
            settling += sum(self.run(K))
        return [self.run(K) for _ in range(n_rounds)]


def measure_costs(target, draft, filter, Ks, n_rounds, turns, rule=verify, tell=lambda K: None):
    """What rounds of each K cost, measured once in each of the turns, which are any iterable:
    ([seconds of a round without drafts], {K: [(c, v)]}).

    c is the time of drafting a token, v that of all the rest of a round, which is little more than
    the pass that verifies; both in rounds without drafts. Whole rounds are timed: a draft that was
    timed alone would find its weights in the cache, from which the target's passes displace them.
    A turn is short: a machine that gets faster or slower does so for all rounds of a turn.
    """
    timer = RoundTimer(target, draft, filter, max(Ks), rule, tell)
    plain, costs = [], {K: [] for K in Ks}
    for _ in turns:
        # time rounds without drafts before and after the others
        before = timer.timed(0, n_rounds)
        rounds = {K: timer.timed(K, n_rounds) for K in Ks}
        plain.append(sum(medians(before + timer.timed(0, n_rounds))))
        for K in Ks:
            drafting, rest = medians(rounds[K])
            costs[K].append((drafting / K / plain[-1], rest / plain[-1]))
    return plain, costs


def medians(rounds):
    """(median of drafting, of all the rest) of what RoundTimer.timed says."""
    return [statistics.median(seconds) for seconds in zip(*rounds)]
