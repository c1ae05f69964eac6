"""The same draft and the same coins under every rule: the right ones, shared noise, and each
mistake of the museum.

A generator that gives one number after the other would soon give two rules different coins: the one
that tosses fewer is ahead. Here each round begins its numbers anew, by its place in the text, so
that two rules meet the same draft and the same coins for as long as their texts agree.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Callable

import numpy as np

from experiments.cli.help import docstring
from experiments.decoding import decoders
from experiments.decoding.decoders import NGRAM, with_drafter
from experiments.decoding.gumbel import Noisy
from experiments.proving import inexact
from experiments.proving.distance import compare, toy_laws
from experiments.proving.mistakes import ERRORS, MISTAKES, Mistake, Setting
from experiments.proving.patching import made
from sampling import Filter, speculative, verify, verify_block

DRAFTING, TOSSING = 0, 1  # what random numbers are for


@dataclass(frozen=True)
class Rule:
    """A way to decide on a draft.

    kind: "right", "inexact", "noise" or "mistake"
    decide: what sampling.speculative calls; a mistake is made in that or around it
    """

    name: str
    kind: str
    what: str
    decide: Callable
    mistake: Mistake | None = None

    @property
    def setting(self):
        return self.mistake.setting if self.mistake else Setting()

    def prepared(self, drafter):
        """The drafter as this rule needs it."""
        return inexact.prepared(drafter, self.decide)


def first_paragraph(function):
    """Of a function's documentation, on one line."""
    return " ".join(docstring(function).split("\n\n")[0].split())


def all_rules():
    """Every Rule, the token rule first."""
    rules = []
    for name, decide in inexact.RULES.items():
        kind = "right" if decide in (verify, verify_block) else "inexact"
        rules.append(Rule(name, kind, first_paragraph(decide), decide))
    rules.append(Rule("shared noise", "noise", NOISE, verify))
    for name, mistake in MISTAKES.items():
        decide = decoders.RULES[mistake.setting.verification]
        rules.append(Rule(name, "mistake", mistake.what, decide, mistake))
    return rules


NOISE = "Draft and target choose under the same noise; a draft stays where both choose the same."
RULES = all_rules()


class PlacedNumbers:
    """Random numbers that begin anew at each place of the text."""

    def __init__(self, seed, purpose):
        self.seed = seed
        self.purpose = purpose

    def move_to(self, place):
        self.rng = np.random.default_rng([self.purpose, place, self.seed])

    def random(self):
        return self.rng.random()


class PlacedDrafter:
    """A drafter that moves the numbers to the place where its round begins."""

    def __init__(self, drafter, *numbers):
        self.drafter = drafter
        self.numbers = numbers
        self.n_vocab = drafter.n_vocab
        self.prefill = drafter.prefill

    def propose(self, ids, k):
        for numbers in self.numbers:
            numbers.move_to(len(ids))
        return self.drafter.propose(ids, k)


def rounds_of(rule, session, prompt):
    """The rounds of the speculative loop with numbers that depend on the place."""
    settings = session.settings
    target, draft, filter = session.target, session.draft, settings.sampling
    if rule.kind == "noise":
        target = Noisy(target, filter, prompt.seed)
        draft = draft if draft == NGRAM else Noisy(draft, filter, prompt.seed)
        filter = Filter()
    drafted = PlacedNumbers(prompt.seed, DRAFTING)
    coins = PlacedNumbers(prompt.seed, TOSSING)
    target, drafter = with_drafter(target, draft, filter, drafted)
    drafter = PlacedDrafter(rule.prepared(drafter), drafted, coins)
    how = (settings.n_tokens_to_generate, settings.K, filter, coins, session.ended, rule.decide)
    return speculative(target, drafter, prompt.ids, *how)


def text_row(rule, session, prompt, check):
    """The text that a rule writes, and how it came about; `error` where the program fails."""
    tokens, sources, n_rounds, error = [], [], 0, None
    with made(rule.mistake) if rule.mistake else nullcontext():
        try:
            rounds = rounds_of(rule, session, prompt)
            next(rounds)  # the prefill
            for one in rounds:
                check()
                n_rounds += 1
                tokens += [int(token) for token in one.tokens]
                sources += one.sources[: len(one.tokens)]
        except ERRORS as failure:
            error = " ".join(f"{type(failure).__name__}: {failure}".split())
    return {
        "tokens": tokens,
        "sources": sources,
        "shown": shown(session.encoder, prompt.ids, tokens),
        "tokens_per_pass": len(tokens) / n_rounds if n_rounds else None,
        "error": error,
    }


def shown(encoder, ids, tokens):
    """The text that each token completes."""
    decode = encoder.incremental_decoder()
    decode(ids)
    pieces = [decode([token]) for token in tokens]
    rest = decode([], final=True)
    if pieces:
        pieces[-1] += rest
    return pieces


def parting(first, second):
    """The place of the first token in which two texts differ; None for equal texts."""
    for place, (one, other) in enumerate(zip(first, second)):
        if one != other:
            return place
    return None if len(first) == len(second) else min(len(first), len(second))


def law_row(rule):
    """The exact law of a rule on the toy pair, against the target's own."""
    law, right = toy_laws(rule.setting, rule.mistake, rule.decide, rule.prepared)
    if rule.kind == "noise":
        # no enumeration of a continuous noise: it is the target's law by the Gumbel-max theorem,
        # which tests/decoding/test_gumbel.py holds the loop to
        law = right
    texts = sorted(law.keys() | right.keys(), key=lambda text: (-right.get(text, 0), str(text)))
    far, _ = compare(law, right)
    return {
        "distance": far,
        "law": [["".join(map(letter, t)), right.get(t, 0.0), law.get(t, 0.0)] for t in texts],
    }


def letter(token):
    """A token of the toy as a letter; what ends a text in an error is a name already."""
    return "ABC"[token] if isinstance(token, int) else f" {token}"


def pieces(mistake):
    """The lines a mistake changes: [(function, right, wrong)]."""
    return [
        (f"{function.__module__}.{function.__qualname__}", right, wrong)
        for function, changes in mistake.changes.items()
        for right, wrong in changes.items()
    ]


class Laws:
    """The laws of the rules, each computed once."""

    def __init__(self):
        self.known = {}

    def of(self, rule):
        if rule.name not in self.known:
            self.known[rule.name] = law_row(rule)
        return self.known[rule.name]


def rule_rows(session, request, laws, check):
    """Yield what the page shows of each rule; the first is the one the others part from.

    check() is called after every round.
    """
    session = session.changed(mode="speculative", **request.settings)
    prompt = session.prompt(request.prompt)
    first = None
    for rule in RULES:
        row = {"name": rule.name, "kind": rule.kind, "what": rule.what}
        row |= text_row(rule, session, prompt, check) | laws.of(rule)
        first = first or row["tokens"]
        row["parts"] = parting(first, row["tokens"])
        if rule.mistake:
            row["seen_in"] = rule.mistake.seen_in
            row["cost"] = rule.mistake.cost
            row["pieces"] = pieces(rule.mistake)
        yield row
