"""Runs of both decoders, taking turns on the same prompts: the raw material of the benchmark.

Every text runs to its full number of tokens, past <|endoftext|> too, so that all sides write
equally many. Prefill is timed apart. On each prompt all contenders take turns, in another order
each time.
"""

import statistics
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial

import numpy as np
from tqdm import tqdm

from backends.machine import label
from checkpoints.files import note
from cli.values import AUTO
from decoding.adaptive_k import new_K
from decoding.clock import Clock
from decoding.metrics import explain_difference
from decoding.run import Run
from decoding.together import all_together
from sampling import RULES, Chance

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


def say(text):
    """Say on stderr what is being done, where no bar says it."""
    if not sys.stderr.isatty():
        note(text)


def progress(items, total, name, unit):
    """Yield the items, with a bar on a terminal; elsewhere with a note now and then."""
    bar = {"desc": name, "unit": f" {unit}", "leave": False, "disable": None}
    say(f"{name}: 0 of {total} {unit}")
    noted = time.monotonic()
    for n, item in enumerate(tqdm(items, total=total, **bar), 1):
        yield item
        if time.monotonic() - noted >= PERIOD:
            say(f"{name}: {n} of {total} {unit}")
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
class Measured:
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

    def add(self, run, clock):
        """Decode one repeat under this Clock, and count it."""
        rounds = clock.rounds(run)
        _, prefill = next(rounds)
        clock.seconds.clear()
        text, seconds = [], 0.0
        for round, took in rounds:
            seconds += took.total
            text += round.tokens
            self.rounds.append([len(round.draft), round.examined, round.accepted])
        self.seconds.append(seconds)
        self.prefill_seconds.append(prefill.total)
        self.texts.append(text)
        parts = {part: clock.seconds[part] for part in TIMED_PARTS[:-1]}
        parts["sampling"] = seconds - sum(parts.values())
        self.parts = {part: self.parts[part] + more for part, more in parts.items()}


def by_coin(rule, acceptance, seed):
    """The rule, but each draft is accepted with this probability. All passes are run and the rule
    is asked, so the time is real; only the verdict is not.
    """
    coins = Chance(seed)

    def decide(draft, q, p, chance):
        _, next_token = rule(draft, q, p, chance)
        accepted = [coins.toss(acceptance) for _ in draft]
        return [*accepted, False].index(False), next_token

    return decide


# ---------------------------------------------------------------- all contenders


@dataclass(frozen=True)
class Race:
    """Contenders on one prompt: the first is PLAIN.

    run: what each has to write, by the target alone
    acceptance: the probability to accept each drafted token with, in place of the rule's verdict;
        or None
    """

    run: Run
    drafts: dict
    contenders: list
    acceptance: float | None = None

    def run_of(self, contender, seed, n_texts=1, **changes):
        """The Run of a contender, as one of n_texts at a time."""
        pair = replace(self.run.pair, draft=self.drafts.get(contender.draft))
        rule, K = RULES[contender.verification], contender.K
        if K == AUTO:
            K = new_K(pair.target, pair.draft, self.run.filter, rule, n_texts)
        if self.acceptance is not None:
            rule = by_coin(rule, self.acceptance, [*seed, 1])
        chance = partial(Chance, seed)
        return replace(self.run, pair=pair, K=K, new_chance=chance, rule=rule, **changes)

    def looks_up(self, contender):
        return contender.draft is not None and self.drafts[contender.draft].looks_up

    def warm_up(self):
        """A few rounds of every contender: the first would pay for new memory."""
        for contender in self.contenders:
            for _ in self.run_of(contender, [0], n_tokens=WARM_UP).rounds():
                pass

    def measure(self, seed, repeats):
        """What was Measured of all contenders."""
        found = [Measured(label(), self.looks_up(contender)) for contender in self.contenders]
        clocks = [Clock(in_detail=True) for _ in found]
        for repeat in range(repeats):
            for i in np.random.default_rng([*seed, repeat]).permutation(len(found)):
                run = self.run_of(self.contenders[i], [*seed, repeat])
                found[i].add(run, clocks[i])
        target = self.run.pair.target
        comparable = self.run.filter.greedy and self.acceptance is None
        for contender, measured, clock in zip(self.contenders, found, clocks):
            passes = [elapsed for rows, elapsed in clock.passes if rows - 1 == contender.K]
            tokens = [elapsed / n for n, elapsed in clock.proposals if n]
            measured.pass_seconds = statistics.median(passes) if passes else None
            measured.draft_seconds = statistics.median(tokens) if tokens else None
            plain, text = found[0].texts[-1], measured.texts[-1]
            if comparable and text != plain:
                measured.difference = explain_difference(target, self.run.ids, plain, text)
        return found


# ---------------------------------------------------------------- several texts at once


def seconds_of(run):
    """The seconds of a run, prefill apart."""
    rounds = Clock().rounds(run)
    next(rounds)  # the prefill
    return sum(took.total for _, took in rounds)


def batch_speed(race, contender, prompts, seed):
    """Tokens per second of all prompts decoded together, prefill apart."""
    n = len(prompts)
    runs = [race.run_of(contender, [seed, i], n, ids=ids) for i, ids in enumerate(prompts)]
    runs = [replace(run, K=runs[0].K) for run in runs]  # they share one
    return n * race.run.n_tokens / max(all_together(seconds_of, runs))


def batch_rows(race, batch_sizes, repeats, seed, name):
    """A row for each contender and batch size, after random prompts."""
    rng, n_vocab = np.random.default_rng(seed), race.run.pair.target.config.n_vocab
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
            rows.append(asdict(contender) | figures)
    return rows
