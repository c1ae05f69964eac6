"""The same draft and the same coins under every rule: the right ones, shared noise, and each
mistake of the museum.

A generator that gives one number after the other would soon give two rules different coins: the one
that tosses fewer is ahead. Here each round begins its numbers anew, by its place in the text, so
that two rules meet the same draft and the same coins for as long as their texts agree.
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Callable

from decoding.coupled import verify_match
from decoding.difference import first_difference
from decoding.streams import Purpose, stream
from page.report import pieces
from proving.distance import distance_and_errors, toy_distributions
from proving.inexact_rules import COMPARED, adapt_drafter
from proving.limits import describe_error
from proving.mistakes import ERRORS, MISTAKES, Mistake, MistakeCase
from proving.patching import apply_mistake
from sampling import RULES, Rng, verify, verify_block


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


WHAT = {  # each rule does
    "token rule": "keep a drafted token with probability min(1, p/q); replace the first rejected "
    "one by a sample from norm(max(0, p - q))",
    "match rule": "sample a token from p; keep the drafted token if it is the same",
    "block verification": "decide on the draft as a whole: on average this keeps at least as many "
    "tokens as the token rule",
    "typical acceptance": "keep a token if p is above a threshold, which is lower where the target "
    "is less certain (Medusa)",
    "speculative cascade": "the token rule, but for q in place of p where the draft is certain",
    "shared noise": "draft and target choose under the same noise; keep a drafted token if both "
    "choose the same",
}


def all_rules():
    """Yield every Rule, the token rule first."""
    decisions = {"token rule": verify, "match rule": verify_match} | COMPARED
    for name, decide in decisions.items():
        kind = "right" if decide in (verify, verify_match, verify_block) else "inexact"
        yield Rule(name, kind, WHAT[name], decide)
    yield Rule("shared noise", "noise", WHAT["shared noise"], verify)
    for name, mistake in MISTAKES.items():
        decide = RULES[mistake.case.verification]
        yield Rule(name, "mistake", mistake.what, decide, mistake)


ALL_RULES = {rule.name: rule for rule in all_rules()}
LETTERS = dict(enumerate("ABC"))  # the tokens of the toy


# ---------------------------------------------------------------- the text of a rule


class Placed(Rng):
    """A Rng that begins its numbers anew with each round, at its place in the text."""

    def __init__(self, seed, place):
        self.seed, self.place = seed, place

    def begin(self, K, last):
        """K of the round that begins, after the Round `last`."""
        self.place += len(last.tokens)
        super().__init__(stream(Purpose.ROUND, self.seed, self.place))
        return K


def rounds_of(rule, config, pair, prompt):
    """The rounds of the speculative loop under a rule, otherwise as a GenerationConfig says."""
    run = replace(config, coupled=rule.kind == "noise").new_run(pair, prompt)
    if run.coupled:
        return run.rounds()

    def loop(target, drafter, *values, **options):
        return run.loop(target, adapt_drafter(drafter, rule.decide), *values, **options)

    rng = Placed(prompt.seed, len(prompt.ids))
    K = partial(rng.begin, run.K)
    return replace(run, loop=loop, K=K, rule=rule.decide).rounds(rng)


def text_row(rule, config, pair, prompt, tell):
    """The text that a rule writes, and how it came about; `error` where the program fails."""
    tokens, sources, n_rounds, error = [], [], 0, None
    with apply_mistake(rule.mistake) if rule.mistake else nullcontext():
        try:
            rounds = rounds_of(rule, config, pair, prompt)
            next(rounds)  # the prefill
            for one in rounds:
                tell()
                n_rounds += 1
                tokens += one.tokens
                sources += one.sources
        except ERRORS as failure:
            error = describe_error(failure)
    _, shown = pieces(pair.encoder, prompt.ids, tokens)
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
    """The exact distribution of texts under a rule on the toy pair, against the target's own. There
    is none for shared noise, which is continuous: its branches cannot be enumerated.
    """
    rule = ALL_RULES[name]
    if rule.kind == "noise":
        return {"distribution": None}
    case = rule.mistake.case if rule.mistake else MistakeCase()
    found, right = toy_distributions(case, rule.mistake, rule.decide)
    texts = sorted(found.keys() | right.keys(), key=lambda text: (-right.get(text, 0), str(text)))
    far, errors = distance_and_errors(found, right)

    def row(text):
        # what ends a text in an error is a name already
        name = "".join(LETTERS.get(token, f" {token}") for token in text)
        return [name, right.get(text, 0.0), found.get(text, 0.0)]

    return {"distance": far, "errors": errors, "distribution": [row(text) for text in texts]}


# ---------------------------------------------------------------- all that the page shows


def rule_rows(config, pair, prompt, tell):
    """Yield what the page shows of each rule, after a Prompt and otherwise as a GenerationConfig
    says; the first is the one the others part from.

    tell() is called after every round.
    """
    first = None
    for rule in ALL_RULES.values():
        row = {"name": rule.name, "kind": rule.kind, "what": rule.what}
        row |= text_row(rule, config, pair, prompt, tell) | distribution_row(rule.name)
        first = first or row["tokens"]
        row["parts"] = first_difference(first, row["tokens"])
        if rule.mistake:
            row["seen_in"] = rule.mistake.seen_in
            row["cost"] = rule.mistake.cost
            row["changes"] = [
                (f"{function.__module__}.{function.__qualname__}", right, wrong)
                for function, pieces in rule.mistake.changes.items()
                for right, wrong in pieces.items()
            ]
        yield row
