"""Decode the same prompts with several decoders, which take turns, with a clock on each part."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from tqdm import tqdm

from bench.rows import Draft, Runs
from decoding.batching import decode_together
from decoding.clocked import Clocked
from decoding.decode import Decoder, begin, timed
from decoding.streams import Purpose, stream
from decoding.text_difference import explain_difference
from gpt2 import Model
from sampling import RULES, Rng, Round, SamplingParams

Variant = tuple[str, int, str]  # a draft's name, K and the rule
PLAIN: Variant = ("", 0, "token")  # the autoregressive loop


def measure_in_turns(
    decode: Callable[..., dict],
    variants: list[Variant],
    batches: list[list[list[int]]],
    repeats: int,
    seed: int,
) -> dict[Variant, Runs]:
    """Decode every batch of prompts (token ids) with every variant, `repeats` times, in a new order
    each time. Shows a bar on a terminal. Returns {variant: its runs, as rows.py describes them}.

    decode: decode_texts with its first arguments; seed: of the texts and of the orders
    """
    for variant in variants:
        decode(variant, batches[0], (seed, 0, 0))  # memory is slow at its first use
    runs: dict[Variant, Runs] = {variant: [[] for _ in batches] for variant in variants}
    rng = np.random.default_rng(stream(Purpose.ORDER_OF_TURNS, seed))
    for n, prompts in enumerate(tqdm(batches, unit=" prompts", leave=False, disable=None)):
        for repeat in range(repeats):
            for i in rng.permutation(len(variants)):
                run = decode(variants[i], prompts, (seed, n, repeat))
                runs[variants[i]][n].append(run)
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
    """Decode prompts, in one batch if there are several, past <|endoftext|> to n_tokens each, for
    which the context must have room. Returns a run, as rows.py describes it.

    drafts: {name: what make_drafter takes}; seeds: numbers that decide what is random
    acceptance: with which probability a drafted token is accepted; 0 leaves it to the rule
    """
    name, K, rule_name = variant
    decoder: Decoder = "speculative" if name else "autoregressive"
    # of all texts: in a batch, a loop's times are those of the others, too, and tell nothing
    draft_seconds: list[float] = []
    target_seconds: list[float] = []

    def decode_one(i: int, batched: Callable = lambda model: model) -> tuple:
        model: Any = Clocked(batched(target), "read", target_seconds)
        rule = RULES[rule_name]
        if acceptance:
            # the same for all texts of a batch: one unlucky text would slow the others
            rule = with_fixed_acceptance(rule, acceptance, stream(Purpose.VERDICT, *seeds))
        how: dict[str, Any] = {"K": K, "to_probs": to_probs, "rule": rule}
        how["seed"] = stream(Purpose.TEXT, *seeds, i)
        how["around_drafter"] = lambda drafter: Clocked(drafter, "propose", draft_seconds)
        draft, ids = batched(drafts.get(name)), prompts[i]  # no draft for PLAIN and n-grams
        return followed(begin(decoder, model, draft, None, ids, n_tokens, **how), n_tokens)

    if len(prompts) == 1:
        texts = [decode_one(0)]
    else:
        texts = decode_together([partial(decode_one, i) for i in range(len(prompts))], target)
    ids, rounds, seconds = zip(*texts)
    return {
        "texts": [*ids],
        "rounds": [*chain.from_iterable(rounds)],
        "seconds": max(seconds),
        # the first pass is the prefill's
        "draft_seconds": draft_seconds if len(prompts) == 1 else [],
        "target_seconds": target_seconds[1:] if len(prompts) == 1 else [],
    }


def followed(rounds: Iterator[Round], n_tokens: int) -> tuple[list[int], list[Draft], float]:
    """Run the Rounds of a text of n_tokens to their end. Returns (its token ids, a Draft for each
    round but the prefill, the seconds of these rounds together).
    """
    ids: list[int] = []
    drafts: list[Draft] = []
    seconds: list[float] = []
    for one in timed(rounds, seconds):
        room = n_tokens - len(ids) - 1
        drafts.append(Draft(room, len(one.draft), one.examined, one.accepted))
        ids += one.tokens
    return ids, drafts[1:], sum(seconds[1:])


def with_fixed_acceptance(rule: Callable, acceptance: float, seed: Any) -> Callable:
    """Return a rule that accepts each drafted token with this probability, by random numbers from
    the seed. It calls the real rule, so that the time is real, and takes its next token.
    """
    coins = Rng(seed)

    def verify(draft, p, q, rng):  # [k], [k + 1, n_vocab], [k, n_vocab]
        _, next_token = rule(draft, p, q, rng)
        # as many coins in every round, however many tokens it accepts
        accepted = [coins.accept(acceptance) for _ in draft]
        return [*accepted, False].index(False), next_token

    return verify


def has_bug(
    target: Model, batches: list[list[list[int]]], runs: dict[Variant, Runs], variant: Variant
) -> bool:
    """Return whether a greedy text of a variant differs from the plain one, and rounding does not
    explain it. batches: the prompts
    """
    for prompts, plain_repeats, repeats in zip(batches, runs[PLAIN], runs[variant]):
        for plain, run in zip(plain_repeats, repeats):
            for ids, a, b in zip(prompts, plain["texts"], run["texts"]):
                if a != b and explain_difference(target, ids, a, b)["verdict"] == "bug":
                    return True
    return False
