"""Runs of both decoders, taking turns on the same prompts: the raw material of the benchmark.

Every text runs to its full number of tokens, past <|endoftext|> too, so that all sides write
equally many. Prefill is timed apart. On each prompt all contenders take turns, in another order
each time.
"""

import dataclasses
import statistics
import sys
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.data.machine import label
from experiments.decoding.adaptive_k import new_K
from experiments.decoding.batching import decode_together
from experiments.decoding.clock import Clock, clocked
from experiments.decoding.job import RULES, Job, decode
from experiments.decoding.metrics import explain_difference

TIMED_PARTS = "draft", "verify", "cache", "sampling"
WARM_UP = 6  # tokens
N_RANDOM = 13  # tokens of a random prompt
PERIOD = 10  # seconds between two notes of progress, at least


@dataclass(frozen=True)
class Contender:
    """A draft by its name, a K and a rule; a K of 0 is the autoregressive loop."""

    draft: str | None = None
    K: int | str = 0
    verification: str = "token"


PLAIN = Contender()


def note(text):
    """Say on stderr what is being done, where no bar says it."""
    if not sys.stderr.isatty():
        print(f"note: {text}", file=sys.stderr, flush=True)


def progress(items, total, name, unit):
    """Yield the items, with a bar on a terminal; elsewhere with a note now and then."""
    bar = {"desc": name, "unit": f" {unit}", "leave": False, "disable": None}
    note(f"{name}: 0 of {total} {unit}")
    noted = time.monotonic()
    for n, item in enumerate(tqdm(items, total=total, **bar), 1):
        yield item
        if time.monotonic() - noted >= PERIOD:
            note(f"{name}: {n} of {total} {unit}")
            noted = time.monotonic()


def in_turns(ways, repeats, seed, name):
    """{way: what it returned in each turn}: turns in random order, after a warm-up.

    name: of what is measured, for whoever waits
    """
    results, rng = {way: [] for way in ways}, np.random.default_rng(seed)
    for _ in progress(range(repeats + 1), repeats + 1, name, "turns"):
        for i in rng.permutation(len(ways)):
            way = [*ways][i]
            results[way].append(ways[way]())
    return {way: of_way[1:] for way, of_way in results.items()}


@dataclass
class Run:
    """What was measured of a contender on one prompt, all of it JSON.

    machine: which one measured it
    looks_up: whether the draft drafts only where it finds something
    texts, seconds, prefill_seconds: of each repeat
    parts: seconds of all repeats, prefill apart, in draft, verify, cache (keys and values copied
        into place), and sampling: all the rest, that is the filter, the rule and the loop
    rounds: those of all repeats, prefill apart, as [drafted, examined, accepted]
    pass_seconds: median of the target's passes over K + 1 rows, None if there was none
    draft_seconds: median of a drafted token, its sampling included, None if there was none
    difference: whether and why a greedy text differs from the autoregressive one
    """

    machine: str
    looks_up: bool
    parts: dict = field(default_factory=lambda: dict.fromkeys(TIMED_PARTS, 0.0))
    texts: list = field(default_factory=list)
    seconds: list = field(default_factory=list)
    prefill_seconds: list = field(default_factory=list)
    rounds: list = field(default_factory=list)
    pass_seconds: float | None = None
    draft_seconds: float | None = None
    difference: dict | None = None

    @property
    def tokens(self):
        """How many were written in each repeat."""
        return [len(text) for text in self.texts]

    def add(self, rounds, clock):
        """Run one repeat under this Clock, and count it."""
        begin = time.perf_counter()
        next(rounds)  # the prefill
        prefilled = time.perf_counter()
        clock.seconds.clear()
        written = list(rounds)
        seconds = time.perf_counter() - prefilled
        self.seconds.append(seconds)
        self.prefill_seconds.append(prefilled - begin)
        self.texts.append([int(token) for round in written for token in round.tokens])
        self.rounds += [[round.drafted, round.examined, round.accepted] for round in written]
        parts = {part: clock.seconds[part] for part in TIMED_PARTS[:-1]}
        parts["sampling"] = seconds - sum(parts.values())
        self.parts = {part: self.parts[part] + more for part, more in parts.items()}


# ---------------------------------------------------------------- all contenders


@dataclass(frozen=True)
class Race:
    """Contenders on one prompt: the first is PLAIN.

    job: what each has to write. acceptance: decides by coin, where it is given.
    """

    target: Any
    drafts: dict
    contenders: list
    job: Job
    acceptance: float | None = None

    def K_of(self, contender, n_texts=1):
        """The K of a contender that decodes so many texts together."""
        draft, rule = self.drafts.get(contender.draft), RULES[contender.verification]
        return new_K(contender.K, self.target, draft, self.job.filter, rule, n_texts)

    def job_of(self, contender, seed, **changes):
        """What a contender has to write."""
        K, rule = self.K_of(contender), contender.verification
        return replace(self.job, K=K, seed=seed, rule=rule, **changes)

    def rounds(self, target, draft, job, clock=None):
        """The rounds of a job with these models, under a Clock if one is given."""

        def tap(parts):
            if self.acceptance is not None and parts.draft:
                coins = np.random.default_rng([*job.seed, 1])
                parts = parts.accepting(self.acceptance, coins)
            return clock(parts) if clock else parts

        return decode(target, draft, job, tap)

    def run(self, contender, seed, clock=None, **changes):
        """The rounds of a contender."""
        job = self.job_of(contender, seed, **changes)
        return self.rounds(self.target, self.drafts.get(contender.draft), job, clock)

    def looks_up(self, contender):
        return contender.draft is not None and self.drafts[contender.draft].looks_up

    def warm_up(self):
        """A few rounds of every contender: the first would pay for new memory."""
        for contender in self.contenders:
            list(self.run(contender, [0], n_tokens=WARM_UP))

    def measure(self, seed, repeats):
        """The Runs of all contenders."""
        runs = [Run(label(), self.looks_up(contender)) for contender in self.contenders]
        clocks = [Clock(in_detail=True) for _ in runs]
        for repeat in range(repeats):
            for i in np.random.default_rng([*seed, repeat]).permutation(len(runs)):
                rounds = self.run(self.contenders[i], [*seed, repeat], clocks[i])
                runs[i].add(rounds, clocks[i])
        comparable = self.job.filter.greedy and self.acceptance is None
        for contender, run, clock in zip(self.contenders, runs, clocks):
            passes = [elapsed for rows, elapsed in clock.passes if rows - 1 == contender.K]
            tokens = [elapsed / n for n, elapsed in clock.proposals if n]
            run.pass_seconds = statistics.median(passes) if passes else None
            run.draft_seconds = statistics.median(tokens) if tokens else None
            plain, text = runs[0].texts[-1], run.texts[-1]
            if comparable and text != plain:
                run.difference = explain_difference(self.target, self.job.ids, plain, text)
        return runs


# ---------------------------------------------------------------- several texts at once


def batch_speed(race, contender, prompts, seed):
    """Tokens per second of all prompts decoded together, prefill apart."""
    n = len(prompts)
    same = {"K": race.K_of(contender, n), "rule": contender.verification}
    jobs = [replace(race.job, ids=ids, seed=[seed, i], **same) for i, ids in enumerate(prompts)]

    def task(job):
        # the batch hands in models that take part in its passes
        return lambda target, draft: clocked(race.rounds(target, draft, job))

    draft = race.drafts.get(contender.draft)
    runs = decode_together(map(task, jobs), race.target, draft, n)
    slowest = max(seconds for _, _, seconds in runs)
    return n * race.job.n_tokens / slowest


def batch_rows(race, batch_sizes, repeats, seed, name):
    """A row for each contender and batch size, after random prompts."""
    rng, n_vocab = np.random.default_rng(seed), race.target.config.n_vocab
    prompts = rng.integers(0, n_vocab - 1, (max(batch_sizes), N_RANDOM)).tolist()
    ways = {
        (n, contender): partial(batch_speed, race, contender, prompts[:n], seed)
        for n in batch_sizes
        for contender in race.contenders
    }
    turns = in_turns(ways, repeats, seed, name)
    speeds = {way: statistics.median(of_way) for way, of_way in turns.items()}
    alone, rows = speeds.get((1, PLAIN)), []
    for contender in race.contenders[1:]:
        for n in batch_sizes:
            plain, fast = speeds[n, PLAIN], speeds[n, contender]
            figures = {"batch_size": n, "autoregressive": plain, "speculative": fast}
            figures |= {"of_one": alone and plain / alone, "speedup": fast / plain}
            rows.append(dataclasses.asdict(contender) | figures)
    return rows
