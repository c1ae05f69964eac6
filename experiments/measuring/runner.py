"""Runs of both decoders, taking turns on the same prompts: the raw material of the benchmark.

Every text runs to its full number of tokens, past <|endoftext|> too, so that all sides write
equally many. Prefill is timed apart. On each prompt all contenders take turns, in another order
each time.
"""

import dataclasses
import statistics
import time
from dataclasses import dataclass, field
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

PARTS = "draft", "verify", "cache", "sampling"
WARM_UP = 6  # tokens
N_PROMPT = 13  # tokens of a random prompt


@dataclass(frozen=True)
class Contender:
    """A draft by its name, a K and a rule; a K of 0 is the autoregressive loop."""

    draft: str | None = None
    K: int | str = 0
    verification: str = "token"


PLAIN = Contender()


def in_turns(ways, repeats):
    """{name: what it returned in each turn}: turns in random order, after a warm-up."""
    found, rng = {name: [] for name in ways}, np.random.default_rng(0)
    names = list(ways)
    for _ in tqdm(range(repeats + 1), unit=" turns", leave=False, disable=None):
        for i in rng.permutation(len(names)):
            found[names[i]].append(ways[names[i]]())
    return {name: results[1:] for name, results in found.items()}


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
    parts: dict = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
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
        done = list(rounds)
        seconds = time.perf_counter() - prefilled
        self.seconds.append(seconds)
        self.prefill_seconds.append(prefilled - begin)
        self.texts.append([int(token) for one in done for token in one.tokens])
        self.rounds += [[one.drafted, one.examined, one.accepted] for one in done]
        parts = {part: clock.seconds[part] for part in PARTS[:-1]}
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

    def job_of(self, contender, seed, **changes):
        """What a contender has to write."""
        draft, rule = self.drafts.get(contender.draft), contender.verification
        K = new_K(contender.K, self.target, draft, self.job.filter, RULES[rule])
        return dataclasses.replace(self.job, K=K, seed=seed, rule=rule, **changes)

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
        runs = [Run(label(), self.looks_up(one)) for one in self.contenders]
        clocks = [Clock(in_detail=True) for _ in runs]
        for repeat in range(repeats):
            for i in np.random.default_rng([*seed, repeat]).permutation(len(runs)):
                rounds = self.run(self.contenders[i], [*seed, repeat], clocks[i])
                runs[i].add(rounds, clocks[i])
        comparable = self.job.filter.greedy and self.acceptance is None
        for one, run, clock in zip(self.contenders, runs, clocks):
            passes = [elapsed for rows, elapsed in clock.passes if rows - 1 == one.K]
            tokens = [elapsed / n for n, elapsed in clock.proposals if n]
            run.pass_seconds = statistics.median(passes) if passes else None
            run.draft_seconds = statistics.median(tokens) if tokens else None
            plain, text = runs[0].texts[-1], run.texts[-1]
            if comparable and text != plain:
                run.difference = explain_difference(self.target, self.job.ids, plain, text)
        return runs


# ---------------------------------------------------------------- several texts at once


def batch_speed(race, contender, prompts):
    """Tokens per second of all prompts decoded together, prefill apart."""
    jobs = [race.job_of(contender, [i], ids=ids) for i, ids in enumerate(prompts)]

    def task(job):
        # the batch hands in models that take part in its passes
        return lambda target, draft: clocked(race.rounds(target, draft, job))

    draft = race.drafts.get(contender.draft)
    runs = decode_together(map(task, jobs), race.target, draft, len(jobs))
    slowest = max(seconds for _, _, seconds in runs)
    return len(prompts) * race.job.n_tokens / slowest


def batch_rows(race, batch_sizes, repeats):
    """A row for each contender and batch size, after random prompts."""
    rng, n_vocab = np.random.default_rng(0), race.target.config.n_vocab
    prompts = rng.integers(0, n_vocab - 1, (max(batch_sizes), N_PROMPT)).tolist()
    ways = {
        (n, one): partial(batch_speed, race, one, prompts[:n])
        for n in batch_sizes
        for one in race.contenders
    }
    speeds = {key: statistics.median(found) for key, found in in_turns(ways, repeats).items()}
    alone, rows = speeds.get((1, PLAIN)), []
    for one in race.contenders[1:]:
        for n in batch_sizes:
            plain, fast = speeds[n, PLAIN], speeds[n, one]
            figures = {"batch_size": n, "autoregressive": plain, "speculative": fast}
            figures |= {"of_one": alone and plain / alone, "speedup": fast / plain}
            rows.append(dataclasses.asdict(one) | figures)
    return rows
