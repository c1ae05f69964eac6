"""The same draft and the same coins under every rule: the right ones, shared noise, and each
mistake of the museum.

A generator that gives one number after the other would soon give two rules different coins: the one
that tosses fewer is ahead. Here each round begins its numbers anew, by its place in the text, so
that two rules meet the same draft and the same coins for as long as their texts agree.
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Callable

import numpy as np

from experiments.data.docstrings import docstring
from experiments.decoding import job
from experiments.page.report import pieces
from experiments.proving import inexact
from experiments.proving.distance import compare, parting, toy_distributions
from experiments.proving.mistakes import ERRORS, MISTAKES, Mistake, Setting
from experiments.proving.own import described
from experiments.proving.patching import made
from sampling import verify, verify_block


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


def all_rules():
    """Yield every Rule, the token rule first."""
    for name, decide in inexact.RULES.items():
        kind = "right" if decide in (verify, verify_block) else "inexact"
        first_paragraph, _, _ = docstring(decide).partition("\n\n")
        yield Rule(name, kind, " ".join(first_paragraph.split()), decide)
    yield Rule("shared noise", "noise", NOISE, verify)
    for name, mistake in MISTAKES.items():
        decide = job.RULES[mistake.setting.verification]
        yield Rule(name, "mistake", mistake.what, decide, mistake)


NOISE = "Draft and target choose under the same noise; a draft stays where both choose the same."
RULES = {rule.name: rule for rule in all_rules()}
LETTERS = dict(enumerate("ABC"))  # the tokens of the toy


# ---------------------------------------------------------------- the text of a rule


class PlacedDrafter:
    """A drafter that begins the numbers anew at the place of the text where its round begins."""

    def __init__(self, drafter, seed, *generators):
        self.drafter, self.seed, self.generators = drafter, seed, generators
        self.n_vocab, self.prefill = drafter.n_vocab, drafter.prefill

    def propose(self, ids, k):
        for purpose, generator in enumerate(self.generators):
            fresh = np.random.default_rng([purpose, len(ids), self.seed])
            generator.bit_generator.state = fresh.bit_generator.state
        return self.drafter.propose(ids, k)


def rounds_of(rule, session, prompt):
    """The rounds of the speculative loop under a rule."""
    rng, coins = np.random.default_rng(), np.random.default_rng()

    def placed(drafter):
        return PlacedDrafter(inexact.prepared(drafter, rule.decide), prompt.seed, rng, coins)

    def tap(parts):
        draft = parts.draft.wrapped(placed)
        return replace(parts, draft=draft, rng=rng, coins=coins, rule=rule.decide)

    pair = session.pair
    wanted = replace(session.job(prompt, pair), coupled=rule.kind == "noise")
    return job.decode(pair.target, pair.draft, wanted, tap)


def text_row(rule, session, prompt, tell):
    """The text that a rule writes, and how it came about; `error` where the program fails."""
    tokens, sources, n_rounds, error = [], [], 0, None
    with made(rule.mistake) if rule.mistake else nullcontext():
        try:
            rounds = rounds_of(rule, session, prompt)
            next(rounds)  # the prefill
            for one in rounds:
                tell()
                n_rounds += 1
                tokens += [int(token) for token in one.tokens]
                sources += one.sources[: len(one.tokens)]
        except ERRORS as failure:
            error = described(failure)
    _, shown = pieces(session.encoder, prompt.ids, tokens)
    return {
        "tokens": tokens,
        "sources": sources,
        "shown": shown,
        "tokens_per_pass": len(tokens) / n_rounds if n_rounds else None,
        "error": error,
    }


# ---------------------------------------------------------------- the distribution of a rule


@cache
def distribution_row(name):
    """The exact distribution of texts under a rule on the toy pair, against the target's own."""
    rule = RULES[name]
    setting = rule.mistake.setting if rule.mistake else Setting()
    found, right = toy_distributions(setting, rule.mistake, rule.decide)
    if rule.kind == "noise":
        # no enumeration of a continuous noise: it is the target's by the Gumbel-max theorem, which
        # the tests of experiments/decoding/coupled.py hold the loop to
        found = right
    texts = sorted(found.keys() | right.keys(), key=lambda text: (-right.get(text, 0), str(text)))
    far, errors = compare(found, right)

    def row(text):
        # what ends a text in an error is a name already
        name = "".join(LETTERS.get(token, f" {token}") for token in text)
        return [name, right.get(text, 0.0), found.get(text, 0.0)]

    return {"distance": far, "errors": errors, "distribution": [row(text) for text in texts]}


# ---------------------------------------------------------------- all that the page shows


def rule_rows(session, request, tell):
    """Yield what the page shows of each rule; the first is the one the others part from.

    tell() is called after every round.
    """
    session = session.changed(mode="speculative", **request.settings)
    prompt = session.prompt(request.prompt)
    first = None
    for rule in RULES.values():
        row = {"name": rule.name, "kind": rule.kind, "what": rule.what}
        row |= text_row(rule, session, prompt, tell) | distribution_row(rule.name)
        first = first or row["tokens"]
        row["parts"] = parting(first, row["tokens"])
        if rule.mistake:
            row["seen_in"] = rule.mistake.seen_in
            row["cost"] = rule.mistake.cost
            row["changes"] = [
                (f"{function.__module__}.{function.__qualname__}", right, wrong)
                for function, pieces in rule.mistake.changes.items()
                for right, wrong in pieces.items()
            ]
        yield row
