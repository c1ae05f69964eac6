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
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.data.machine import label
from experiments.data.values import AUTO
from experiments.decoding.adaptive_k import new_K
from experiments.decoding.batching import decode_together
from experiments.decoding.clock import Clock, clocked
from experiments.decoding.job import RULES, Job, decode
from experiments.decoding.metrics import explain_difference
from experiments.measuring.statistics import repeated
from experiments.measuring.synthetic import accept_by_coin

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
    looks_up: whether the draft drafts only where it finds something
    """

    draft: str | None
    K: int | str
    ledger: dict
    verification: str = "token"
    looks_up: bool = False
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

    def add(self, done, prefill_seconds, seconds, text):
        """Count one repeat."""
        self.seconds.append(seconds)
        self.prefill_seconds.append(prefill_seconds)
        self.tokens.append(len(text))
        self.passes.append(len(done))
        counts = [[one.drafted, one.examined, one.accepted] for one in done]
        self.rounds.append(counts if self.K else [])
        self.repeated = [a + b for a, b in zip(self.repeated, repeated(text))]


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
                parts = accept_by_coin(parts, self.acceptance, coins)
            return clock(parts) if clock else parts

        return decode(target, draft, job, tap)

    def run(self, contender, seed, clock=None, **changes):
        """The rounds of a contender."""
        job = self.job_of(contender, seed, **changes)
        return self.rounds(self.target, self.drafts.get(contender.draft), job, clock)

    def warm_up(self):
        """A few rounds of every contender: new memory is slow the first time, which the first in
        turn would pay for all.
        """
        for contender in self.contenders:
            fixed = dataclasses.replace(contender, K=4) if contender.K == AUTO else contender
            list(self.run(fixed, [0], n_tokens=WARM_UP))

    def ledger(self, contender, seed):
        """Where the seconds of one run after its prefill go: the number of rounds, and seconds by
        part.

        draft, verify, cache (keys and values copied into place), and sampling: all the rest, that
        is the filter, the accept/reject rule and the loop.
        """
        clock = Clock(in_detail=True)
        rounds = self.run(contender, seed, clock)
        next(rounds)  # the prefill
        clock.clear()
        begin = time.perf_counter()
        n_rounds = len(list(rounds))
        seconds = time.perf_counter() - begin
        split = {part: clock.seconds[part] for part in ("draft", "verify", "cache")}
        return {"rounds": n_rounds, "split": split | {"sampling": seconds - sum(split.values())}}

    def measure(self, seed, repeats):
        """The Runs of all contenders."""
        runs, texts = [], [None for _ in self.contenders]
        for one in self.contenders:
            costs = self.ledger(one, [*seed, 0])
            looks_up = one.draft is not None and self.drafts[one.draft].looks_up
            runs.append(Run(one.draft, one.K, costs, one.verification, looks_up, label()))
        passes = [[] for _ in runs]  # seconds of each pass over K + 1 rows
        tokens = [[] for _ in runs]  # seconds of each drafted token
        for repeat in range(repeats):
            for i in np.random.default_rng([*seed, repeat]).permutation(len(runs)):
                clock, K = Clock(), self.contenders[i].K
                rounds = self.run(self.contenders[i], [*seed, repeat], clock)
                done, prefill_seconds, seconds = clocked(rounds)
                texts[i] = [int(token) for one in done for token in one.tokens]
                runs[i].add(done, prefill_seconds, seconds, texts[i])
                if K != AUTO:
                    passes[i] += [elapsed for rows, elapsed in clock.passes if rows == K + 1]
                tokens[i] += [elapsed / n for n, elapsed in clock.proposals if n]
            comparable = self.job.filter.greedy and self.acceptance is None
        for i, run in enumerate(runs):
            run.pass_seconds = statistics.median(passes[i]) if passes[i] else None
            run.draft_seconds = statistics.median(tokens[i]) if tokens[i] else None
            if comparable and texts[i] != texts[0]:
                both = texts[0], texts[i]
                run.difference = explain_difference(self.target, self.job.ids, *both)
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


def batch_speeds(race, batch_sizes, repeats):
    """{(batch size, contender): median tokens per second}, after random prompts. All take turns."""
    rng, n_vocab = np.random.default_rng(0), race.target.config.n_vocab
    prompts = rng.integers(0, n_vocab - 1, (max(batch_sizes), N_PROMPT)).tolist()
    found = {(n, one): [] for n in batch_sizes for one in race.contenders}
    for repeat in tqdm(range(repeats + 1), desc="batches", leave=False, disable=None):
        for (n, one), speeds in found.items():
            speed = batch_speed(race, one, prompts[:n])
            if repeat > 0:  # the first is a warm-up
                speeds.append(speed)
    return {key: statistics.median(speeds) for key, speeds in found.items()}


def batch_rows(race, batch_sizes, repeats):
    """A row for each contender and batch size: both decoders' tokens per second, the autoregressive
    one's against its own for one text, and the speedup.
    """
    speeds, rows = batch_speeds(race, batch_sizes, repeats), []
    alone = speeds.get((1, PLAIN))
    for one in race.contenders[1:]:
        for n in batch_sizes:
            plain, fast = speeds[n, PLAIN], speeds[n, one]
            figures = {"batch_size": n, "autoregressive": plain, "speculative": fast}
            figures |= {"of_one": alone and plain / alone, "speedup": fast / plain}
            rows.append(dataclasses.asdict(one) | figures)
    return rows
