"""Time both decoders in turns on the same prompts: the measurements behind the benchmark's rows.

Every text runs to its full number of tokens, past <|endoftext|> too, so that all variants write
equally many. Prefill is timed separately. On each prompt all variants take turns, in a new order
for each repeat.
"""

import statistics
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from cli.values import AUTO
from decoding.run import Run

from decoding.auto_k import new_auto_k
from decoding.streams import Purpose, stream
from decoding.text_difference import explain_difference
from experiments.progress import progress
from sampling import RULES, Rng

TIMED_PARTS = "draft", "verify", "sampling"
WARMUP_TOKENS = 6  # tokens


@dataclass(frozen=True)
class Variant:
    """A draft with a K and a rule. Without a draft it is the autoregressive loop."""

    draft: str | None = None  # its name
    K: int | str = 0  # a number or "auto"; 0 without a draft
    verification: str = "token"


PLAIN = Variant()


def measure_in_turns(functions, repeats, seed, name):
    """Call every function once in each turn, in a new random order. The first turn is a warm-up,
    `repeats` turns follow. Prints progress on stderr. Returns {key: [what the function of this key
    returned in each turn after the warm-up]}.

    functions: {key: function without arguments}
    seed: of the orders; name: what is measured, a text for the progress
    """
    results = {key: [] for key in functions}
    keys = [*functions]
    rng = np.random.default_rng(stream(Purpose.ORDER_OF_TURNS, seed))
    for _ in progress(range(repeats + 1), repeats + 1, name, "turns"):
        for i in rng.permutation(len(keys)):
            key = keys[i]
            results[key].append(functions[key]())
    # without the turn to warm up
    return {key: returned[1:] for key, returned in results.items()}


@dataclass
class Measurement:
    """What was measured of a variant on one prompt. All fields can be written as JSON.

    is_lookup: whether the draft searches the text, and often drafts nothing
    parts: {part of a round: seconds}, the sum over all repeats without prefill. "draft"; "verify",
        the target's passes; "sampling", all else: the sampling parameters, the rule and the loop
    texts: the new token ids of each repeat
    seconds, prefill_seconds: of each repeat; seconds are without prefill
    rounds: [drafted, examined, accepted] of each round of all repeats, without prefill
    pass_seconds: median of the target's passes over K + 1 rows, None if there was none
    draft_seconds: median of a drafted token, its sampling included, None if there was none
    difference: what explain_difference says if the greedy text of the last repeat differs from the
        autoregressive one, else None
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
    def token_counts(self):
        """How many tokens each repeat wrote, a list of ints."""
        return [len(text) for text in self.texts]

    def measure_repeat(self, run):
        """Decode the text of a Run, and add its tokens, times and rounds to this measurement as one
        more repeat.

        Returns [(number of drafted tokens, clock.Seconds)] of its rounds without the prefill.
        """
        rounds = run.timed_rounds()
        _, prefill = next(rounds)
        text, timings = [], []
        for this_round, seconds in rounds:
            text += this_round.tokens
            n_drafted = len(this_round.draft)
            timings.append((n_drafted, seconds))
            self.rounds.append([n_drafted, this_round.examined, this_round.accepted])
            self.parts["draft"] += seconds.draft
            self.parts["verify"] += seconds.target
            self.parts["sampling"] += seconds.rest
        self.seconds.append(sum(seconds.total for _, seconds in timings))
        self.prefill_seconds.append(prefill.total)
        self.texts.append(text)
        return timings

    def set_medians(self, timings, K):
        """Set pass_seconds, the median time of the target's passes over K + 1 tokens, and
        draft_seconds, the median time of drafting one token; None if there was none.

        timings: [(number of drafted tokens, clock.Seconds)] of the rounds of all repeats
        K: the variant's, an int or "auto"; with "auto" pass_seconds becomes None
        """
        passes = [seconds.target for n_drafted, seconds in timings if n_drafted == K]
        tokens = [seconds.draft / n_drafted for n_drafted, seconds in timings if n_drafted]
        self.pass_seconds = statistics.median(passes) if passes else None
        self.draft_seconds = statistics.median(tokens) if tokens else None


def with_fixed_acceptance(rule, acceptance_probability, seed):
    """Return an accept/reject rule that accepts each drafted token with acceptance_probability, as
    decided by random numbers from this seed.

    rule: the real rule. It is called, so that the time is real, and its next token is taken
    Both rules are functions (draft, p, q, rng) -> (number of accepted tokens, next token).
    """
    verdicts = Rng(seed)

    def verify(draft, p, q, rng):
        """Call the real rule; return (a random number of accepted tokens, its next token)."""
        _, next_token = rule(draft, p, q, rng)
        # as many random numbers in every round, however many tokens it accepts
        accepted = [verdicts.accept(acceptance_probability) for _ in draft]
        n_accepted = accepted.index(False) if False in accepted else len(accepted)
        return n_accepted, next_token

    return verify


# ---------------------------------------------------------------- all variants


@dataclass(frozen=True)
class Comparison:
    """Measures variants on one prompt.

    run: the Run of the target alone after the prompt
    drafts: {name: Draft}
    variants: a list of Variants, of which the first is PLAIN
    acceptance_probability: of each drafted token, instead of the rule's verdict; None for the rule
    """

    run: Run
    drafts: dict
    variants: list
    acceptance_probability: float | None = None

    def run_of(self, variant, seed, prompt, repeat=0, **changes):
        """Return the Run that decodes the prompt with a Variant, accepting drafts with a fixed
        probability if --synthetic_acceptance says so. For the first Variant with K auto, measures
        the costs of rounds, in about a second.

        seed, prompt, repeat: three ints that decide the random numbers; prompt: the prompt's number
        changes: fields of the Run that differ from those of self.run
        """
        pair = replace(self.run.pair, draft=self.drafts.get(variant.draft))
        rule, K = RULES[variant.verification], variant.K
        if K == AUTO:
            # later calls find the costs that the first has measured
            K = new_auto_k(pair.target, pair.draft, self.run.to_probs, rule)
        if self.acceptance_probability is not None:
            verdict_seed = stream(Purpose.VERDICT, seed, prompt, repeat)
            rule = with_fixed_acceptance(rule, self.acceptance_probability, verdict_seed)
        rng = partial(Rng, stream(Purpose.TEXT, seed, prompt, repeat))
        return replace(self.run, pair=pair, K=K, new_rng=rng, rule=rule, **changes)

    def is_lookup(self, variant):
        """Return whether a Variant has a draft that searches the text."""
        return variant.draft is not None and self.drafts[variant.draft].is_lookup

    def warm_up(self):
        """Decode a few tokens with every variant, so that no timed run pays for new memory."""
        for variant in self.variants:
            for _ in self.run_of(variant, seed=0, prompt=0, n_tokens=WARMUP_TOKENS).rounds():
                pass

    def measure(self, seed, prompt, repeats):
        """Decode the prompt `repeats` times with every variant, in random order each time. Returns
        a list with the Measurement of each variant.

        seed, prompt: ints that decide the random numbers; prompt: the prompt's number
        """
        measurements = [Measurement(self.is_lookup(variant)) for variant in self.variants]
        timings = [[] for _ in self.variants]  # of the rounds of all repeats, for each variant
        for repeat in range(repeats):
            rng = np.random.default_rng(stream(Purpose.ORDER_OF_RUNS, seed, prompt, repeat))
            for i in rng.permutation(len(self.variants)):
                run = self.run_of(self.variants[i], seed, prompt, repeat)
                timings[i] += measurements[i].measure_repeat(run)
        # texts are the same for all variants if they are greedy, and no fixed probability decides
        comparable = self.run.to_probs.greedy and self.acceptance_probability is None
        plain_text = measurements[0].texts[-1]  # the first variant is PLAIN
        target, prompt_ids = self.run.pair.target, self.run.ids
        for i, measurement in enumerate(measurements):
            measurement.set_medians(timings[i], self.variants[i].K)
            text = measurement.texts[-1]
            if comparable and text != plain_text:
                difference = explain_difference(target, prompt_ids, plain_text, text)
                measurement.difference = difference
        return measurements
