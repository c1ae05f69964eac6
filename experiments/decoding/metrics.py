"""What a run's rounds add up to, and why two greedy texts differ."""

import numpy as np


def speculation(done):
    """The speculative decoder's figures in the JSON object, from its rounds.

    The acceptance rate is accepted / examined, and null where nothing was examined.
    """
    drafted = sum(one.drafted for one in done)
    examined = sum(one.examined for one in done)
    accepted = sum(one.accepted for one in done)
    return {
        "rounds": len(done),
        "drafted": drafted,
        "examined": examined,
        "accepted": accepted,
        "acceptance_rate": accepted / examined if examined else None,
        "tokens_per_target_pass": sum(len(one.tokens) for one in done) / len(done),
    }


def explain_difference(target, ids, first, second):
    """Why two greedy texts differ: the position, the gap between the two best logits there, and a
    verdict.

    The logits at that position are computed twice, in one pass and one row at a time, which shows
    what rounding does to them. A gap of at most twice that is a tie, which rounding may break
    either way; a larger gap is a bug.
    """
    pairs = list(zip(first, second))
    position = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    text = ids + first[:position]
    whole = target.read(text, target.new_cache())[0]
    cache = target.new_cache()
    for end in range(1, len(text) + 1):
        single = target.read(text[:end], cache)[0]
    # a token removed by a filter has a logit of minus infinity
    whole, single = np.maximum(whole, -1e4), np.maximum(single, -1e4)
    rounding = max(abs(whole - single).max(), np.finfo(whole.dtype).eps * abs(whole).max())
    second_best, best = np.sort(whole)[-2:]
    gap = best - second_best
    return {
        "position": position,
        "gap": float(gap),
        "float_error": float(rounding),
        "verdict": "tie" if gap <= 2 * rounding else "bug",
    }
