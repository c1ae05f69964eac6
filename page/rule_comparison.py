"""The same draft and the same coins under every rule: the right ones, shared noise, and each
mistake of the museum.

If both rules read one sequence of random numbers, a rule that tosses fewer coins would soon be at
another number. Here each round begins a sequence of its own, which depends on its place in the
text. So two rules meet the same draft and the same coins for as long as their texts agree.
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Callable

from decoding.coupled import verify_match
from decoding.streams import Purpose, stream
from decoding.text_difference import first_difference
from page.report import decode_each
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
    what: what the rule does, in words
    decide: the function that the loop calls, (draft, p, q, rng) -> (n_accepted, token), such as
        sampling.verify
    mistake: a change to `decide`, or to the loop around it
    """

    name: str
    kind: str
    what: str
    decide: Callable
    mistake: Mistake | None = None


WHAT = {  # {name: what the rule does}
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
    """Yield every Rule that the page lists: first the token rule, then the other accept/reject
    rules, exact and inexact, then shared noise, then each mistake of the museum.
    """
    decisions = {"token rule": verify, "match rule": verify_match} | COMPARED
    for name, decide in decisions.items():
        is_exact = decide in (verify, verify_match, verify_block)
        yield Rule(name, "right" if is_exact else "inexact", WHAT[name], decide)
    # its `decide` is not called: rounds_with_rule lets the noise decide
    yield Rule("shared noise", "noise", WHAT["shared noise"], verify)
    for name, mistake in MISTAKES.items():
        decide = RULES[mistake.case.verification]
        yield Rule(name, "mistake", mistake.what, decide, mistake)


ALL_RULES = {rule.name: rule for rule in all_rules()}
LETTERS = dict(enumerate("ABC"))  # the tokens of the toy


# ---------------------------------------------------------------- the text of a rule


class RoundRng(Rng):
    """An Rng with new random numbers for each round, which depend on the round's place in the text.

    seed: an int; place: how many tokens the text has before its first round
    """

    def __init__(self, seed, place):
        self.seed, self.place = seed, place

    def begin_round(self, K, last_round):
        """Begin the round after `last_round`, a Round (at first the prefill, without tokens): move
        `place` on by its tokens, and seed the generator anew by `place`. Returns K, unchanged: the
        loop calls this for the K of each round, and so at the beginning of each round.
        """
        self.place += len(last_round.tokens)
        # every rule gets the same numbers at the same place of the text
        super().__init__(stream(Purpose.ROUND, self.seed, self.place))
        return K


def rounds_with_rule(rule, config, pair, prompt):
    """Run the speculative loop under a Rule. Returns an iterator over the Rounds; the first is the
    prefill, without tokens. If the Rule has a `mistake`, the caller has to iterate inside of
    proving.patching.apply_mistake. A Rule of the kind "noise" decodes under shared noise.

    config: the GenerationConfig, of which the Rule replaces the accept/reject rule
    pair, prompt: the Pair of models, and the Prompt that they continue
    """
    run = replace(config, coupled=rule.kind == "noise").new_run(pair, prompt)
    if run.coupled:
        return run.rounds()

    def loop(target, drafter, *values, **options):  # an inexact rule may need another q
        return run.loop(target, adapt_drafter(drafter, rule.decide), *values, **options)

    rng = RoundRng(prompt.seed, len(prompt.ids))
    K = partial(rng.begin_round, run.K)  # returns K, and seeds the Rng for the round
    return replace(run, loop=loop, K=K, rule=rule.decide).rounds(rng)


def decode_with_rule(rule, config, pair, prompt, tell):
    """Decode a Prompt under a Rule, otherwise as a GenerationConfig says. Calls tell(), without
    arguments, after every round. Returns a dict:

    tokens, sources, shown: three lists: the id of each token, its Round.sources, and its text
    tokens_per_pass: tokens per round, or None if there was no round
    error: None, or the error with which a mistake ended the text, in words
    """
    tokens, sources, n_rounds, error = [], [], 0, None
    with apply_mistake(rule.mistake) if rule.mistake else nullcontext():
        try:
            rounds = rounds_with_rule(rule, config, pair, prompt)
            next(rounds)  # the prefill
            for this_round in rounds:
                tell()
                n_rounds += 1
                tokens += this_round.tokens
                sources += this_round.sources
        except ERRORS as failure:
            error = describe_error(failure)
    return {
        "tokens": tokens,
        "sources": sources,
        "shown": decode_each(pair.encoder, prompt.ids, tokens),
        "tokens_per_pass": len(tokens) / n_rounds if n_rounds else None,
        "error": error,
    }


# ---------------------------------------------------------------- the distribution of a rule


@cache
def distribution_row(name):
    """How exact the Rule of this name is: {"distance", "errors", "distribution"} on the toy pair.
    Its two models are so small that all texts can be enumerated, so these figures are exact.

    distance: the total variation distance from the target alone, of texts without an error
    errors: the probability that a text ends with an error
    distribution: [[text, its probability with the target alone, with the rule]], likeliest first
    Shared noise is continuous and cannot be enumerated: it has {"distribution": None} alone.
    """
    rule = ALL_RULES[name]
    if rule.kind == "noise":
        return {"distribution": None}
    case = rule.mistake.case if rule.mistake else MistakeCase()
    with_rule, alone = toy_distributions(case, rule.mistake, rule.decide)
    texts = with_rule.keys() | alone.keys()
    rows = []
    likeliest_first = lambda text: (-alone.get(text, 0), str(text))
    for text in sorted(texts, key=likeliest_first):
        # the last "token" of a text can be the name of the error that ended it
        letters = "".join(LETTERS.get(token, f" {token}") for token in text)
        rows.append([letters, alone.get(text, 0.0), with_rule.get(text, 0.0)])
    distance, errors = distance_and_errors(with_rule, alone)
    return {"distance": distance, "errors": errors, "distribution": rows}


# ---------------------------------------------------------------- all that the page shows


def compare_rules(config, pair, prompt, tell):
    """Decode a Prompt under each Rule, otherwise as a GenerationConfig says, and yield a dict of
    what the page shows of the Rule: its name, kind and what; the keys of decode_with_rule (its
    text) and of distribution_row (its exactness); and

    parts: where its text parts from that of the token rule: the index of the first token that
        differs, or None
    seen_in, cost, changes: of a mistake only: Mistake.seen_in and cost, both str, and the changed
        pieces of source, [(function, right, wrong)]
    tell() is called, without arguments, after every round.
    """
    first_text = None
    for rule in ALL_RULES.values():
        row = {"name": rule.name, "kind": rule.kind, "what": rule.what}
        row |= decode_with_rule(rule, config, pair, prompt, tell) | distribution_row(rule.name)
        first_text = first_text or row["tokens"]  # of the token rule, which comes first
        row["parts"] = first_difference(first_text, row["tokens"])
        if rule.mistake:
            row["seen_in"] = rule.mistake.seen_in
            row["cost"] = rule.mistake.cost
            row["changes"] = [
                (f"{function.__module__}.{function.__qualname__}", right, wrong)
                for function, pieces in rule.mistake.changes.items()
                for right, wrong in pieces.items()
            ]
        yield row
