"""The referee: from runs to rows, and which figures may be published.

A speedup is the time of our own cached autoregressive loop over the time of the speculative one:
same prompts, as many tokens, prefill apart, medians over repeats. It is withheld, with the reason,
when the counts of tokens differ, when greedy texts differ and rounding does not explain it, and
when the 95 % interval over prompts spans 1 or cannot be had. Where texts are repetition loops,
which are easy to draft, the row says so.
"""

import statistics
from itertools import chain

import numpy as np

from experiments.decoding.adaptive_k import MAX_K
from experiments.measuring.theory import speedup

# the range of n values covers their median with probability 1 - 2 ** (1 - n): 95 % needs 6
LEAST_PROMPTS = 6
LOOP = 0.2  # share of repeated 8-grams from which a text counts as a loop


def ratio(numerators, denominators):
    """Sum over sum, None where the second is 0."""
    total = sum(denominators)
    return sum(numerators) / total if total else None


def interval(numerators, denominators, n_resamples=2000):
    """The 95 % bootstrap interval over prompts of sum(numerators) / sum(denominators); None for too
    few prompts.

    Percentile method: the prompts are drawn again, with replacement, n_resamples times, always the
    same ones.
    """
    n = len(numerators)
    if n < LEAST_PROMPTS or not sum(denominators):
        return None
    weights = np.random.default_rng(0).multinomial(n, [1 / n] * n, n_resamples)
    below = weights @ np.asarray(denominators, float)
    ratios = (weights @ np.asarray(numerators, float))[below > 0] / below[below > 0]
    return [float(value) for value in np.percentile(ratios, [2.5, 97.5])]


def counts_of(rounds, K):
    """By position: examined drafts, and the accepted part of them (None of none); and the histogram
    of accepted lengths.
    """
    positions = range(1, K + 1)
    examined = [sum(e >= i for _, e, _ in rounds) for i in positions]
    accepted = [sum(a >= i for _, _, a in rounds) for i in positions]
    histogram = [sum(a == i for _, _, a in rounds) for i in range(K + 1)]
    return examined, [a / e if e else None for a, e in zip(accepted, examined)], histogram


def costs_of(plain, fast):
    """(c, v): medians over prompts of the time of a drafted token and of a pass over K + 1 rows,
    both in one-row passes.
    """
    found = []
    for name in ("draft_seconds", "pass_seconds"):
        pairs = [(f[name], p["pass_seconds"]) for p, f in zip(plain, fast)]
        ratios = [cost / unit for cost, unit in pairs if cost is not None and unit]
        found.append(statistics.median(ratios) if ratios else None)
    return found


def speedup_withheld(plain, fast, spread):
    """Why a speedup in time must not be published, or None. spread is its 95 % interval."""
    tokens = [{*p["tokens"], *f["tokens"]} for p, f in zip(plain, fast)]
    if n := sum(len(counts) > 1 for counts in tokens):
        return f"the token counts differ on {n} of {len(tokens)} prompts"
    bugs = [
        run["difference"]["position"]
        for run in fast
        if run["difference"] and run["difference"]["verdict"] == "bug"
    ]
    if bugs:
        return f"greedy texts differ (first at token {min(bugs)}) and float rounding does not explain it: a bug"
    if spread is None:
        return f"{len(plain)} prompts give no 95 % interval: --n_prompts {LEAST_PROMPTS} or more"
    if spread[0] <= 1 <= spread[1]:
        return f"too noisy to tell: the interval {spread[0]:.2f} to {spread[1]:.2f} spans 1"


def drafting_share(draft, K, drafted, n_rounds):
    """h of the theory: 1 for a model, which drafts in every round; of n-grams the part of all
    places that they filled.
    """
    return drafted / (K * n_rounds) if draft == "ngram" else 1


def flags_of(fast, share):
    """What a reader has to know of the texts."""
    flags = [f"repetition: {share:.0%} of the 8-grams repeat"] if share and share >= LOOP else []
    ties = sum(bool(run["difference"]) and run["difference"]["verdict"] == "tie" for run in fast)
    return flags + ([f"ties: rounding changed the greedy text of {ties} prompts"] if ties else [])


def row_of(target, temperature, plain, fast, n_skipped, labels):
    """One row of the results, from the runs of both decoders on the same prompts (see
    measuring.measure).
    """
    draft, K = fast[0]["draft"], fast[0]["K"]
    seconds, alone = ([statistics.median(run["seconds"]) for run in runs] for runs in (fast, plain))
    tokens = [run["tokens"][0] for run in fast]
    written, passes = ([sum(run[name]) for run in fast] for name in ("tokens", "passes"))
    drafted, examined, accepted = (
        [sum(one[i] for one in chain(*run["rounds"])) for run in fast] for i in range(3)
    )
    a, (c, v) = ratio(accepted, examined), costs_of(plain, fast)
    rounds = [*chain(*(chain(*run["rounds"]) for run in fast))]
    examined_at, by_position, histogram = counts_of(rounds, MAX_K if K == "auto" else K)
    intervals = {
        "speedup_time": interval(alone, seconds),
        "tokens_per_second": interval(tokens, seconds),
        "acceptance_rate": interval(accepted, examined),
        "tokens_per_target_pass": interval(written, passes),
    }
    if K == "auto":
        unpredicted = "K changes from round to round"
    else:
        unpredicted = "no round drafted all K tokens" if None in (a, c, v) else None
    predicted = (
        None
        if unpredicted
        else speedup(a, K, c, v, drafting_share(draft, K, sum(drafted), sum(passes)))
    )
    reason = speedup_withheld(plain, fast, intervals["speedup_time"])
    counts_differ = reason is not None and reason.startswith("the token counts")
    share = ratio(*zip(*(run["repeated"] for run in fast)))
    time = None if reason else ratio(alone, seconds)
    withheld = {"speedup_time": reason, "predicted_speedup": unpredicted}
    withheld["speedup_target_passes"] = reason if counts_differ else None
    withheld["measured_over_predicted"] = reason or unpredicted
    n_rounds = sum(run["ledger"]["rounds"] for run in fast)
    split = {
        part: sum(run["ledger"]["split"][part] for run in fast)
        for part in fast[0]["ledger"]["split"]
    }
    return {
        "draft": draft,
        "target": target,
        "K": K,
        "temperature": temperature,
        **labels,
        "prompts": len(fast),
        "skipped_prompts": n_skipped,
        "tokens": sum(tokens),
        "autoregressive_tokens_per_second": ratio([run["tokens"][0] for run in plain], alone),
        "tokens_per_second": ratio(tokens, seconds),
        "speedup_time": time,
        "speedup_target_passes": None
        if counts_differ
        else ratio([sum(run["passes"]) for run in plain], passes),
        "acceptance_rate": a,
        "tokens_per_target_pass": ratio(written, passes),
        "draft_cost": c,
        "verify_cost": v,
        "predicted_speedup": predicted,
        "measured_over_predicted": time / predicted if time and predicted else None,
        "intervals": intervals,
        "acceptance_by_position": by_position,
        "examined_by_position": examined_at,
        "accepted_histogram": histogram,
        "drafted": sum(drafted),
        "wasted_drafts": sum(drafted) - sum(accepted),
        "milliseconds_per_round": {part: 1e3 * total / n_rounds for part, total in split.items()},
        "prefill_seconds": statistics.median(s for run in fast for s in run["prefill_seconds"]),
        "autoregressive_prefill_seconds": statistics.median(
            s for run in plain for s in run["prefill_seconds"]
        ),
        "repetition": share,
        "flags": flags_of(fast, share),
        "withheld": {name: why for name, why in withheld.items() if why},
    }
