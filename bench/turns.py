"""Decode the same prompts with several decoders, which take turns, with a clock on each part."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from bench.rows import Draft, Run, Runs
from decoding.batching import decode_together
from decoding.clocked import TimedRound, timed_rounds
from decoding.streams import Purpose, stream
from decoding.text_difference import explain_difference
from gpt2 import Model
from sampling import RULES, Rng, SamplingParams

Variant = tuple[str, int, str]  # a draft's name, K and the rule
PLAIN: Variant = ("", 0, "token")  # the autoregressive loop


class Written(NamedTuple):
    """A text that was written, and its rounds but the prefill."""

    ids: list[int]
    drafts: list[Draft]  # of each round
    seconds: float  # of all rounds together
    draft_seconds: list[float]  # of each round
    target_seconds: list[float]


def measure_in_turns(
    decode: Callable[..., dict],
    variants: list[Variant],
    batches: list[list[list[int]]],
    repeats: int,
    seed: int,
) -> dict[Variant, Runs]:
    """Decode every batch of prompts (token ids) with every variant, a (name of a draft, K, rule),
    `repeats` times, in a new order each time, after one batch with each to warm up. Shows a bar on
    a terminal. Returns {variant: its runs}: for each batch a list of what decode returned, one for
    each repeat.

    decode(variant, prompts, seeds): decodes one batch and returns a dict; seeds, (seed, number of
        the batch, of the repeat), decides what is random
    seed: of the texts and of the orders
    """
    for variant in variants:
        decode(variant, batches[0], (seed, 0, 0))  # memory is slow at its first use
    runs: dict[Variant, Runs] = {variant: [[] for _ in batches] for variant in variants}
    rng = np.random.default_rng(stream(Purpose.ORDER_OF_TURNS, seed))
    n_prompts = sum(map(len, batches))
    # None: on a terminal only
    with tqdm(total=n_prompts, unit=" prompts", leave=False, disable=None) as bar:
        for n, prompts in enumerate(batches):
            for repeat in range(repeats):
                for i in rng.permutation(len(variants)):
                    variant = variants[i]
                    run = decode(variant, prompts, (seed, n, repeat))
                    runs[variant][n].append(run)
            bar.update(len(prompts))
    return runs


def decode_texts(
    target: Model,
    drafts: dict[str, Any],
    n_tokens: int,
    to_probs: SamplingParams,
    acceptance: float,
    variant: Variant,
    prompts: list[list[int]],
    seeds: tuple[int, int, int],
) -> dict:
    """Decode prompts with a variant, in one batch if there are several. Each text has n_tokens, for
    which the context must have room; <|endoftext|> does not end it. Returns the dict that run_of
    describes.

    drafts: {name: a Model, a head, or None for n-grams}; to_probs: makes p and q of logits
    acceptance: the probability with which each drafted token is accepted, whatever p and q;
        0 leaves that to the rule
    variant: (name of the draft, or "" to decode without one; K; "token" or "block", the rule)
    prompts: the token ids of each
    seeds: three numbers; with equal ones the same texts come out
    """
    name, K, rule_name = variant
    decoder = "speculative" if name else "autoregressive"
    draft = drafts.get(name)  # None without one

    def decode_one(i: int, batched: Callable) -> Written:
        """Decode prompt i. batched(model) stands for target and draft; batched(None) is None."""
        rounds = timed_rounds(
            decoder,
            batched(target),
            batched(draft),
            None,  # without an encoder, <|endoftext|> is a token like any other
            prompts[i],
            n_tokens,
            K=K,
            to_probs=to_probs,
            seed=stream(Purpose.TEXT, *seeds, i),
            rule=rule_of(rule_name, acceptance, seeds),  # one of its own, with the same coins
        )
        return written(rounds, n_tokens)

    if len(prompts) == 1:
        texts = [decode_one(0, batched=lambda model: model)]
    else:
        texts = decode_together([partial(decode_one, i) for i in range(len(prompts))], target)
    return run_of(texts)


def run_of(texts: list[Written]) -> Run:
    """The run of texts that were written together, a batch if they are several: a dict.

    "texts": the token ids of each; "rounds": a Draft for each round, those of all texts in a row
    "seconds": of the slowest text, without its prefill
    "draft_seconds", "target_seconds": of each round's parts; [] for a batch
    """
    is_batch = len(texts) > 1  # there a loop waits for the others, too: its parts tell nothing
    return {
        "texts": [text.ids for text in texts],
        "rounds": [draft for text in texts for draft in text.drafts],
        "seconds": max(text.seconds for text in texts),
        "draft_seconds": [] if is_batch else texts[0].draft_seconds,
        "target_seconds": [] if is_batch else texts[0].target_seconds,
    }


def written(rounds: Iterator[TimedRound], n_tokens: int) -> Written:
    """Run the rounds of a text of n_tokens, prefill first, to their end. Returns a Written: the
    token ids of the text; and without the prefill's, a Draft for each round, the seconds of all
    together, and for each round those of the drafter and those of the target.
    """
    ids: list[int] = []
    drafts: list[Draft] = []
    in_all = 0.0
    draft_seconds, target_seconds = [], []
    next(rounds)  # the prefill, which writes no token
    for timed in rounds:
        one = timed.round
        n_left = n_tokens - len(ids)  # of the text, when the round begins
        room = n_left - 1  # the round ends with a token of the target's own
        drafts.append(Draft(room, len(one.draft), one.examined, one.accepted))
        ids += one.tokens
        in_all += timed.seconds
        draft_seconds.append(timed.drafting)
        target_seconds.append(timed.reading)
    return Written(ids, drafts, in_all, draft_seconds, target_seconds)


def rule_of(name: str, acceptance: float, seeds: tuple[int, int, int]) -> Callable:
    """Return the accept/reject rule of this name, "token" or "block", to be used for one text. If
    acceptance is not 0, it accepts each drafted token with that probability, whatever the models
    say, by random numbers that decide alike for equal seeds: (seed, number of the batch, of the
    repeat).
    """
    rule = RULES[name]
    if acceptance == 0:
        return rule
    # all texts of a batch have equal seeds, so equal coins: one unlucky text would slow the others
    return with_fixed_acceptance(rule, acceptance, stream(Purpose.VERDICT, *seeds))


def with_fixed_acceptance(rule: Callable, acceptance: float, seed: Any) -> Callable:
    """Return a rule (draft, p, q, rng) -> (n_accepted, next token) that accepts each drafted token
    with the probability `acceptance`, up to the first rejection. It calls the real rule each time,
    so that the time is real, and returns its next token.

    rule: the real one, with the same arguments and results; seed: of the numbers that accept
    """
    coins = Rng(seed)

    def verify(draft, p, q, rng):  # [k], [k + 1, n_vocab], [k, n_vocab]
        _, next_token = rule(draft, p, q, rng)
        # as many coins in every round, however many tokens it accepts
        rejected = [i for i in range(len(draft)) if not coins.accept(acceptance)]
        n_accepted = rejected[0] if rejected else len(draft)
        return n_accepted, next_token

    return verify


def has_bug(
    target: Model, batches: list[list[list[int]]], runs: dict[Variant, Runs], variant: Variant
) -> bool:
    """Return whether a greedy text of a variant differs from the plain one, and at the first
    difference the logits of the two tokens lie further apart than rounding can move them.

    target: the Model that wrote them; batches: lists of prompts, which are token ids
    runs: {variant: for each batch a list of dicts, one for each repeat, with "texts"}, as
        measure_in_turns returns it; that of PLAIN has the plain texts
    """
    for prompt, plain_text, text in texts_side_by_side(batches, runs[PLAIN], runs[variant]):
        if plain_text != text:
            found = explain_difference(target, prompt, plain_text, text)
            if found["verdict"] == "bug":
                return True
    return False


def texts_side_by_side(
    batches: list[list[list[int]]], plain: Runs, runs: Runs
) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """Yield (prompt, its text in a run of `plain`, its text in that of `runs`), all token ids, for
    each prompt of each batch and each repeat. plain, runs: for each batch a list of dicts, one for
    each repeat, with "texts"
    """
    for prompts, plain_repeats, repeats in zip(batches, plain, runs):
        for plain_run, run in zip(plain_repeats, repeats):
            yield from zip(prompts, plain_run["texts"], run["texts"])
