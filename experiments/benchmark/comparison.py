"""Runs of both decoders, taking turns on the same prompts: the raw material of the benchmark.

Every text runs to its full number of tokens, past <|endoftext|> too, so that all sides write
equally many. Prefill is timed apart. On each prompt all variants take turns, in another order
each time.
"""

import statistics
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from cli.values import AUTO
from decoding.auto_k import new_auto_k
from decoding.difference import explain_difference
from decoding.run import Run
from decoding.streams import Purpose, stream
from experiments.progress import progress
from sampling import RULES, Rng

TIMED_PARTS = "draft", "verify", "sampling"
WARMUP_TOKENS = 6  # tokens


@dataclass(frozen=True)
class Variant:
    """A draft by its name, a K and a rule; a K of 0 is the autoregressive loop."""

    draft: str | None = None
    K: int | str = 0
    verification: str = "token"


PLAIN = Variant()


def measure_in_turns(ways, repeats, seed, name):
    """Call functions in turns, in a new random order each turn, after one turn to warm up.

    ways: {key: function()}; name: for the progress bar
    Returns {key: [what the function returned in each of `repeats` turns]}.
    """
    results = {way: [] for way in ways}
    rng = np.random.default_rng(stream(Purpose.ORDER_OF_TURNS, seed))
    for _ in progress(range(repeats + 1), repeats + 1, name, "turns"):
        for i in rng.permutation(len(ways)):
            way = [*ways][i]
            results[way].append(ways[way]())
    return {way: of_way[1:] for way, of_way in results.items()}


@dataclass
class Measurement:
    """The measurement of a variant on one prompt; all fields can be written as JSON.

    is_lookup: whether the draft drafts only where it finds something
    texts, seconds, prefill_seconds: of each repeat
    parts: seconds of all repeats, prefill apart: draft, verify (the target's passes), and sampling:
        all the rest, that is the target's filter, the rule and the loop
    rounds: those of all repeats, prefill apart, as [drafted, examined, accepted]
    pass_seconds: median of the target's passes over K + 1 rows, None if there was none
    draft_seconds: median of a drafted token, its sampling included, None if there was none
    difference: whether and why a greedy text differs from the autoregressive one
    """

    is_lookup: bool
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
        """The number of tokens written in each repeat, a list."""
        return [len(text) for text in self.texts]

    def add(self, run):
        """Decode one repeat with a Run, and add its texts, times and rounds to this measurement.

        Returns [(tokens drafted, clock.Seconds)] of its rounds.
        """
        rounds = run.timed_rounds()
        _, prefill = next(rounds)
        text, timings = [], []
        for this_round, seconds in rounds:
            text += this_round.tokens
            timings.append((len(this_round.draft), seconds))
            self.rounds.append([len(this_round.draft), this_round.examined, this_round.accepted])
            for part, more in zip(TIMED_PARTS, (seconds.draft, seconds.target, seconds.rest)):
                self.parts[part] += more
        self.seconds.append(sum(seconds.total for _, seconds in timings))
        self.prefill_seconds.append(prefill.total)
        self.texts.append(text)
        return timings


def with_fixed_acceptance(rule, acceptance_probability, seed):
    """Return a rule that accepts each drafted token with this probability.

    All passes are run and the real rule is called, so that the time is real; only its verdict on
    the draft is replaced.
    """
    coins = Rng(seed)

    def decide(draft, p, q, rng):
        _, next_token = rule(draft, p, q, rng)
        accepted = [coins.accept(acceptance_probability) for _ in draft]
        return [*accepted, False].index(False), next_token

    return decide


# ---------------------------------------------------------------- all variants


@dataclass(frozen=True)
class Comparison:
    """Variants on one prompt: the first is PLAIN.

    run: the Run of the target alone after the prompt
    drafts: {name: Draft}
    acceptance_probability: of each drafted token, instead of the rule's verdict; None for the rule
    """

    run: Run
    drafts: dict
    variants: list
    acceptance_probability: float | None = None

    def run_of(self, variant, seed, prompt, repeat=0, **changes):
        """Return the Run of a variant. seed, prompt (its number), repeat: they seed the Rng"""
        pair = replace(self.run.pair, draft=self.drafts.get(variant.draft))
        rule, K = RULES[variant.verification], variant.K
        if K == AUTO:
            K = new_auto_k(pair.target, pair.draft, self.run.to_probs, rule)
        if self.acceptance_probability is not None:
            rule = with_fixed_acceptance(
                rule, self.acceptance_probability, stream(Purpose.VERDICT, seed, prompt, repeat)
            )
        rng = partial(Rng, stream(Purpose.TEXT, seed, prompt, repeat))
        return replace(self.run, pair=pair, K=K, new_rng=rng, rule=rule, **changes)

    def is_lookup(self, variant):
        return variant.draft is not None and self.drafts[variant.draft].is_lookup

    def warm_up(self):
        """Decode a few tokens with every variant, so that no timed run pays for new memory."""
        for variant in self.variants:
            for _ in self.run_of(variant, 0, 0, n_tokens=WARMUP_TOKENS).rounds():
                pass

    def measure(self, seed, prompt, repeats):
        """Decode the prompt `repeats` times with every variant, in random order each time.

        Returns a list with the Measurement of each variant. prompt: its number, for the seeds
        """
        found = [Measurement(self.is_lookup(variant)) for variant in self.variants]
        timings = [[] for _ in found]  # of all repeats
        for repeat in range(repeats):
            rng = np.random.default_rng(stream(Purpose.ORDER_OF_RUNS, seed, prompt, repeat))
            for i in rng.permutation(len(found)):
                run = self.run_of(self.variants[i], seed, prompt, repeat)
                timings[i] += found[i].add(run)
        target = self.run.pair.target
        comparable = self.run.to_probs.greedy and self.acceptance_probability is None
        for variant, measurement, of_rounds in zip(self.variants, found, timings):
            passes = [seconds.target for n, seconds in of_rounds if n == variant.K]
            tokens = [seconds.draft / n for n, seconds in of_rounds if n]
            measurement.pass_seconds = statistics.median(passes) if passes else None
            measurement.draft_seconds = statistics.median(tokens) if tokens else None
            plain, text = found[0].texts[-1], measurement.texts[-1]
            if comparable and text != plain:
                measurement.difference = explain_difference(target, self.run.ids, plain, text)
        return found
