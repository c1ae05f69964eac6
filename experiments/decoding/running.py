"""Running a decoding loop under a clock, counting what it did, and explaining two greedy texts that
differ.
"""

import time

import numpy as np
from tqdm import tqdm

from sampling import NeuralDrafter, NGramDrafter, autoregressive, never, speculative


def drafter_of(target, draft, filter, rng, confidence=0.0):
    """What drafts for the target: a model, or the look-up of n-grams where draft is None."""
    return (
        NeuralDrafter(draft, filter, rng, confidence)
        if draft
        else NGramDrafter(target.config.n_vocab)
    )


def decode(
    decoder,
    target,
    draft,
    ids,
    n_tokens,
    K,
    filter,
    seed,
    ended=never,
    confidence=0.0,
    wrap=lambda *pair: pair,
):
    """The rounds of one decoder, "autoregressive" or "speculative"; where draft is None, n-grams
    are looked up.

    wrap(drafter, filter) may put something between them and the loop: a clock, or another's
    verdict.
    """
    rng = np.random.default_rng(seed)
    if decoder == "autoregressive":
        return autoregressive(target, ids, n_tokens, filter, rng, ended)
    drafter, filter = wrap(drafter_of(target, draft, filter, rng, confidence), filter)
    return speculative(target, drafter, ids, n_tokens, K, filter, rng, ended)


def clocked(rounds, each=lambda one: None, clock=time.perf_counter):
    """Consume a decoding loop: its rounds, the seconds of the prefill, the seconds of all after it."""
    begin, done = clock(), []
    next(rounds)  # the prefill
    prefilled = clock()
    for one in rounds:
        done.append(one)
        each(one)
    return done, prefilled - begin, clock() - prefilled


def visible(ids, encoder):
    """The ids without the <|endoftext|> that ended them."""
    return ids[:-1] if ids and ids[-1] == encoder.end_of_text else ids


def streaming(encoder, begin=""):
    """A `show` of timed_run that prints the text as it comes, after what it begins with, and a line
    break at the end.
    """
    decode = encoder.incremental_decoder()
    print(begin, end="", flush=True)

    def show(one=None):
        print(
            decode(visible(one.tokens, encoder)) if one else decode([], final=True) + "\n",
            end="",
            flush=True,
        )

    return show


def timed_run(rounds, n_tokens, encoder, show, clock=time.perf_counter):
    """Consume a decoding loop and time it: its rounds, and what the JSON object says of any
    decoder.

    show, where there is one, is called with each Round, and without one at the end.
    """
    bar = tqdm(total=n_tokens, unit=" tokens", delay=1, leave=False, disable=True if show else None)

    def watch(one):
        bar.update(len(one.tokens))
        if show:
            show(one)

    done, prefill_seconds, seconds = clocked(rounds, watch, clock)
    bar.close()
    if show:
        show()
    ids = [int(token) for one in done for token in one.tokens]
    return done, {
        "text": encoder.decode(visible(ids, encoder)),
        "token_ids": ids,
        "seconds": seconds,
        "prefill_seconds": prefill_seconds,
        "tokens_per_second": len(ids) / seconds,
    }


def speculation(done):
    """What it says of the speculative decoder beside that. Acceptance rate: accepted / examined,
    null if none was.
    """
    counts = {
        name: sum(getattr(one, name) for one in done)
        for name in ("drafted", "examined", "accepted")
    }
    return {
        "rounds": len(done),
        **counts,
        "acceptance_rate": counts["accepted"] / counts["examined"] if counts["examined"] else None,
        "tokens_per_target_pass": sum(len(one.tokens) for one in done) / len(done),
    }


def explain_difference(target, ids, first, second):
    """Why two greedy texts differ: the place, the gap between the two best logits there, and a
    verdict.

    The same logits, computed in one pass and one row at a time, show what rounding does to them. A
    gap within twice that is a tie, which rounding may break either way; a larger one is a bug.
    """
    pairs = list(zip(first, second))
    position = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    text, cache = ids + first[:position], target.new_cache()
    whole = target.read(text, target.new_cache())[0]
    for end in range(1, len(text) + 1):
        single = target.read(text[:end], cache)[0]
    # minus infinity: a token that a filter took away
    whole, single = np.maximum(whole, -1e4), np.maximum(single, -1e4)
    rounding = max(abs(whole - single).max(), np.finfo(whole.dtype).eps * abs(whole).max())
    gap = np.diff(np.sort(whole)[-2:])[0]
    verdict = "tie" if gap <= 2 * rounding else "bug"
    return {
        "position": position,
        "gap": float(gap),
        "float_error": float(rounding),
        "verdict": verdict,
    }


def compare(first, second, target, ids, filter):
    """What the JSON object says of the two results together; None where one of them was not asked
    for.

    "difference" is there only where it needs explaining: for two greedy texts that differ.
    """
    if not (first and second):
        return {"speedup": None, "identical": None}
    identical = first["token_ids"] == second["token_ids"]
    found = {
        "speedup": second["tokens_per_second"] / first["tokens_per_second"],
        "identical": identical,
    }
    if filter.greedy and not identical:
        found["difference"] = explain_difference(
            target, ids, first["token_ids"], second["token_ids"]
        )
    return found
