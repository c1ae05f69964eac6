"""Runs of both decoders, taking turns on the same prompts: the raw material of the benchmark.

Every text runs to its full number of tokens, past <|endoftext|> too, so that all sides write
equally many. Prefill is timed apart. Each prompt is first run once under the ledger, which warms up
and says where the time goes; those runs do not count for the speed. Then all contenders take turns,
in another order each time.
"""

import dataclasses
import statistics
import time
from dataclasses import dataclass, field

import numpy as np
from tqdm import tqdm

from experiments.data.machine import label
from experiments.decoding.adaptive_k import AdaptiveK, round_costs
from experiments.decoding.batching import decode_together
from experiments.decoding.decoders import NGRAM, decode
from experiments.decoding.metrics import explain_difference
from experiments.decoding.settings import AUTO
from experiments.decoding.timing import Clock, clocked
from experiments.measuring.statistics import repeated
from experiments.measuring.synthetic import accept_by_coin
from gpt2 import KVCache
from sampling import Filter

PARTS = ("draft", "verify", "cache", "sampling")  # of a round's time, in the ledger
WARM_UP = 6  # tokens
N_PROMPT = 13  # tokens of a random prompt


@dataclass(frozen=True)
class Contender:
    """What takes part: a draft by its name, a K and an accept/reject rule; a K of 0 is the
    autoregressive loop.
    """

    draft: str | None = None
    K: int | str = 0
    verification: str = "token"


PLAIN = Contender()


@dataclass(frozen=True)
class Task:
    """What a contender has to do, and by which rule. acceptance: decides by coin, where it is
    given.
    """

    ids: list
    n_tokens: int
    filter: Filter = Filter()
    acceptance: float | None = None
    verification: str = "token"


@dataclass
class Run:
    """What was measured of a contender on one prompt, all of it JSON.

    seconds, prefill_seconds, tokens, passes: of each repeat
    rounds: of each repeat, its speculative rounds as [drafted, examined, accepted]
    repeated: 8-grams that occurred before, and all, over all repeats
    ledger: the number of rounds of the run under the ledger, and its seconds by part
    difference: whether and why a greedy text differs from the autoregressive one
    machine: which one measured it
    pass_seconds: median of the target's passes over K + 1 rows, None if there was none
    draft_seconds: median of a drafted token, its sampling included, None if there was none
    """

    draft: str | None
    K: int | str
    ledger: dict
    machine: str = ""
    seconds: list = field(default_factory=list)
    prefill_seconds: list = field(default_factory=list)
    tokens: list = field(default_factory=list)
    passes: list = field(default_factory=list)
    rounds: list = field(default_factory=list)
    repeated: list = field(default_factory=lambda: [0, 0])
    difference: dict | None = None
    pass_seconds: float | None = None
    draft_seconds: float | None = None
    verification: str = "token"

    def add(self, done, prefill_seconds, seconds, text):
        """Count one repeat."""
        self.seconds.append(seconds)
        self.prefill_seconds.append(prefill_seconds)
        self.tokens.append(len(text))
        self.passes.append(len(done))
        counts = [[one.drafted, one.examined, one.accepted] for one in done]
        self.rounds.append(counts if self.K else [])
        self.repeated = [a + b for a, b in zip(self.repeated, repeated(text))]


def is_measured(run, contender, repeats):
    """Whether a Run that was read from a file is one of this contender, and whole."""

    def number(value, least=0):
        return type(value) in (int, float) and value >= least

    def numbers(values, least=0):
        return (
            isinstance(values, list)
            and len(values) == repeats
            and all(number(value, least) for value in values)
        )

    def counts(values):
        return isinstance(values, list) and all(type(value) is int for value in values)

    def is_round(value):
        return counts(value) and len(value) == 3 and value[0] >= value[1] >= value[2] >= 0

    if Contender(run.draft, run.K, run.verification) != contender:
        return False
    if not isinstance(run.machine, str):
        return False
    seconds = [value for value in (run.pass_seconds, run.draft_seconds) if value is not None]
    return bool(
        numbers(run.seconds, 1e-9)
        and numbers(run.prefill_seconds)
        and all(numbers(values, 1) and counts(values) for values in (run.tokens, run.passes))
        and len(run.rounds) == repeats
        and all(is_round(one) for rounds in run.rounds for one in rounds)
        and counts(run.repeated)
        and len(run.repeated) == 2
        and number(run.ledger["rounds"], 1)
        and all(number(run.ledger["split"][part]) for part in PARTS)
        and (run.difference is None or number(run.difference["position"]))
        and (run.difference is None or run.difference["verdict"] in ("tie", "bug"))
        and all(number(value, 1e-12) for value in seconds)
    )


def runs_from_json(values, contenders, repeats):
    """The Runs of a prompt from a file. Raises ValueError unless they are whole."""
    try:
        runs = [Run(**value) for value in values]
        whole = [is_measured(*pair, repeats) for pair in zip(runs, contenders, strict=True)]
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(str(error)) from None
    if not all(whole):
        raise ValueError("not what is measured")
    return runs


# ---------------------------------------------------------------- watching a run


class ObservedModel:
    """A model that keeps (rows, seconds) of each pass; clock: times its passes as this part, and
    the writing of its cache.
    """

    def __init__(self, model, part, clock=None):
        self.model, self.config, self.clock = model, model.config, clock
        self.timed_read = clock.timed(part, model.read) if clock else model.read
        self.calls = []

    def new_cache(self, *n_positions):
        cache = self.model.new_cache(*n_positions)
        if self.clock and isinstance(cache, KVCache):
            cache.write = self.clock.timed("cache", cache.write)
        return cache

    def read(self, ids, cache, n_last=1):
        begin = time.perf_counter()
        logits = self.timed_read(ids, cache, n_last)
        self.calls.append((len(logits), time.perf_counter() - begin))
        return logits


class ObservedDrafter:
    """A drafter that adds (tokens, seconds) of each proposal to `calls`."""

    def __init__(self, drafter, calls, clock=None):
        self.n_vocab, self.prefill = drafter.n_vocab, drafter.prefill
        self.timed_propose = clock.timed("draft", drafter.propose) if clock else drafter.propose
        self.calls = calls

    def propose(self, ids, k):
        begin = time.perf_counter()
        draft, q = self.timed_propose(ids, k)
        self.calls.append((len(draft), time.perf_counter() - begin))
        return draft, q


def rounds_of(target, draft, K, task, seed, observe=None):
    """The rounds of a contender. observe(drafter) may put something around the drafter."""

    def wrap(drafter, filter):
        if task.acceptance is not None:
            rng = np.random.default_rng([*seed, 1])
            drafter, filter = accept_by_coin(drafter, filter, task.acceptance, rng)
        return observe(drafter) if observe else drafter, filter

    decoder = "speculative" if K else "autoregressive"
    limits = {"K": K, "filter": task.filter, "seed": seed, "verification": task.verification}
    return decode(decoder, target, draft, task.ids, task.n_tokens, **limits, wrap=wrap)


class Observed:
    """The rounds of a contender, under a clock if one is given. While they are consumed, `passes`
    fills with (rows, seconds) of the target's passes and `proposals` with (tokens, seconds) of the
    drafter's; keeping them costs less than a thousandth of a pass.
    """

    def __init__(self, target, draft, K, task, seed, clock=None):
        self.proposals = []
        if K == AUTO:
            K = AdaptiveK(round_costs(target, draft, task.filter, task.verification))
        if clock:
            timed_filter = clock.timed("sampling", task.filter)
            task = dataclasses.replace(task, filter=timed_filter)
        target = ObservedModel(target, "verify", clock)
        if draft not in (None, NGRAM):
            draft = ObservedModel(draft, "draft", clock)
        self.passes = target.calls
        self.rounds = rounds_of(
            target,
            draft,
            K,
            task,
            seed,
            observe=lambda drafter: ObservedDrafter(drafter, self.proposals, clock),
        )


def ledger(target, draft, K, task, seed):
    """Where the seconds of one run after its prefill go: the number of rounds, and seconds by part.

    draft, verify, cache (keys and values copied into place), and sampling: all the rest, that is
    the filter, the accept/reject rule and the loop.
    """
    clock = Clock()
    rounds = Observed(target, draft, K, task, seed, clock).rounds
    next(rounds)  # the prefill
    clock.seconds.clear()
    begin = time.perf_counter()
    n_rounds = len(list(rounds))
    seconds = time.perf_counter() - begin
    split = {part: clock.seconds[part] for part in ("draft", "verify", "cache")}
    return {"rounds": n_rounds, "split": split | {"sampling": seconds - sum(split.values())}}


# ---------------------------------------------------------------- all contenders


def warm_up(target, drafts, contenders, ids, filter):
    """A few rounds of every contender: new memory is slow the first time, which the first in turn
    would pay for all.
    """
    task = Task(ids, WARM_UP, filter)
    for contender in contenders:
        K = 4 if contender.K == AUTO else contender.K
        list(rounds_of(target, drafts.get(contender.draft), K, task, [0]))


def measure(target, drafts, contenders, task, seed, repeats, tick=None):
    """The Runs of all contenders on one prompt; the first contender is PLAIN.

    tick() is called after every run.
    """
    tasks = [dataclasses.replace(task, verification=one.verification) for one in contenders]
    runs = []
    for one, task in zip(contenders, tasks):
        costs = ledger(target, drafts.get(one.draft), one.K, task, [*seed, 0])
        runs.append(Run(one.draft, one.K, costs, label(), verification=one.verification))
        if tick:
            tick()
    texts = [None for _ in contenders]
    passes = [[] for _ in contenders]  # seconds of each pass over K + 1 rows
    tokens = [[] for _ in contenders]  # seconds of each drafted token
    for repeat in range(repeats):
        for i in np.random.default_rng([*seed, repeat]).permutation(len(contenders)):
            draft, K = drafts.get(contenders[i].draft), contenders[i].K
            observed = Observed(target, draft, K, tasks[i], [*seed, repeat])
            done, prefill_seconds, seconds = clocked(observed.rounds)
            texts[i] = [int(token) for one in done for token in one.tokens]
            runs[i].add(done, prefill_seconds, seconds, texts[i])
            if K != AUTO:
                passes[i] += [elapsed for rows, elapsed in observed.passes if rows == K + 1]
            tokens[i] += [elapsed / n for n, elapsed in observed.proposals if n]
            if tick:
                tick()
    for i, run in enumerate(runs):
        run.pass_seconds = statistics.median(passes[i]) if passes[i] else None
        run.draft_seconds = statistics.median(tokens[i]) if tokens[i] else None
        comparable = task.filter.greedy and task.acceptance is None
        if comparable and texts[i] != texts[0]:
            run.difference = explain_difference(target, task.ids, texts[0], texts[i])
    return runs


# ---------------------------------------------------------------- several texts at once


def batch_speed(target, draft, K, tasks):
    """Tokens per second of all tasks decoded together, prefill apart."""

    def run(i):
        # the batch hands in models that take part in its passes
        return lambda target, draft: clocked(rounds_of(target, draft, K, tasks[i], [i]))

    runs = decode_together([run(i) for i in range(len(tasks))], [target, draft], len(tasks))
    slowest = max(seconds for _, _, seconds in runs)
    return sum(task.n_tokens for task in tasks) / slowest


def batch_speeds(target, draft, Ks, batch_sizes, n_tokens, repeats, acceptance=None):
    """{(batch size, K): median tokens per second}, greedy, after random prompts. All take turns."""
    rng = np.random.default_rng(0)
    prompts = rng.integers(0, target.config.n_vocab - 1, (max(batch_sizes), N_PROMPT)).tolist()
    tasks = [Task(ids, n_tokens, acceptance=acceptance) for ids in prompts]
    found = {(n, K): [] for n in batch_sizes for K in Ks}
    for repeat in tqdm(range(repeats + 1), desc="throughput", leave=False, disable=None):
        for (n, K), speeds in found.items():
            speed = batch_speed(target, draft, K, tasks[:n])
            if repeat > 0:  # the first is a warm-up
                speeds.append(speed)
    return {key: statistics.median(speeds) for key, speeds in found.items()}
