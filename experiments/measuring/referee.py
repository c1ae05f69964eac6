"""The referee: from runs to rows, and which figures may be published.

A speedup is the time of our own cached autoregressive loop over the time of the speculative one:
same prompts, as many tokens, prefill apart, medians over repeats. It is withheld, with the reason,
when the numbers of tokens differ, when greedy texts differ and rounding does not explain it, and
when the 95 % interval over prompts spans 1 or cannot be had. Where texts are repetition loops,
which are easy to draft, the row says so.
"""

import dataclasses
import statistics
from collections import Counter

from experiments.data.values import AUTO
from experiments.decoding.adaptive_k import MAX_K
from experiments.measuring.runner import PARTS, PLAIN
from experiments.measuring.statistics import (
    LEAST_PROMPTS,
    Figure,
    acceptance,
    as_columns,
    counts,
    drafting_share,
    ratio,
    repeated,
)
from experiments.measuring.theory import speedup

LOOP = 0.2  # share of repeated 8-grams from which a text counts as a loop


def seconds_of(runs):
    """The median time of each prompt."""
    return [statistics.median(run.seconds) for run in runs]


def tokens_of(runs):
    """The tokens of each prompt in the first repeat."""
    return [run.tokens[0] for run in runs]


def in_passes(seconds, plain):
    """The median over prompts of these seconds, in one-row passes; None if nowhere known."""
    pairs = zip(seconds, (run.pass_seconds for run in plain))
    found = [cost / unit for cost, unit in pairs if cost is not None and unit]
    return statistics.median(found) if found else None


# ---------------------------------------------------------------- what is withheld, and why


def unequal_counts(plain, fast):
    """Says on how many prompts the two did not always write equally many tokens; None for none."""
    n = sum(len({*p.tokens, *f.tokens}) > 1 for p, f in zip(plain, fast))
    return f"the token counts differ on {n} of {len(fast)} prompts" if n else None


def doubt(fast, low_high):
    """Why a speedup with this interval must not be published, or None."""
    differences = [run.difference for run in fast if run.difference]
    bugs = [one["position"] for one in differences if one["verdict"] == "bug"]
    if bugs:
        return (
            f"greedy texts differ (first at token {min(bugs)}) and float rounding does not explain "
            "it: a bug"
        )
    if low_high is None:
        return f"{len(fast)} prompts give no 95 % interval: --n_prompts {LEAST_PROMPTS} or more"
    low, high = low_high
    if low <= 1 <= high:
        return f"its interval, {low:.2f} to {high:.2f}, contains 1"
    return None


def machines_of(plain, fast):
    """{machine: what it measured}: how many prompts, and both decoders' tokens per second."""
    found = {}
    for machine, n in Counter(run.machine for run in fast).items():
        one, two = ([run for run in runs if run.machine == machine] for runs in (plain, fast))
        found[machine] = {
            "prompts": n,
            "autoregressive_tokens_per_second": ratio(tokens_of(one), seconds_of(one)),
            "tokens_per_second": ratio(tokens_of(two), seconds_of(two)),
        }
    return found


def flags_of(fast, repetition):
    """What a reader has to know of the texts."""
    flags = []
    if repetition and repetition >= LOOP:
        flags.append(f"repetition: {repetition:.0%} of the 8-grams repeat")
    ties = sum(bool(run.difference) and run.difference["verdict"] == "tie" for run in fast)
    if ties:
        flags.append(f"ties: rounding changed the greedy text of {ties} prompts")
    return flags


# ---------------------------------------------------------------- a row


def prediction(K, a, c, v, share):
    """(the speedup that theory predicts, None), or (None, why there is no prediction)."""
    if K == AUTO:
        return None, "K changes from round to round"
    if None in (a, c, v):
        return None, "no round drafted all K tokens"
    return speedup(a, K, c, v, share), None


def median_prefill(runs):
    return statistics.median(seconds for run in runs for seconds in run.prefill_seconds)


def figures_of(plain, fast, by_token):
    """{name: Figure} of all ratios over prompts. by_token: Runs by the token rule, if any."""
    seconds, passes = seconds_of(fast), [len(run.rounds) for run in fast]
    figures = {
        "tokens_per_second": Figure(tokens_of(fast), seconds),
        "speedup_time": Figure(seconds_of(plain), seconds),
        "speedup_target_passes": Figure([len(run.rounds) for run in plain], passes),
        "acceptance_rate": acceptance([run.rounds for run in fast], len(fast[0].texts)),
        "tokens_per_target_pass": Figure([sum(run.tokens) for run in fast], passes),
    }
    unequal = unequal_counts(plain, fast)
    figures["speedup_target_passes"].withheld = unequal
    figures["speedup_time"].withheld = unequal or doubt(fast, figures["speedup_time"].interval)
    gain = Figure(seconds_of(by_token), seconds if by_token else [])
    figures["speedup_over_token"] = gain
    if by_token:
        gain.withheld = doubt(fast, gain.interval)
    return figures


def row_of(contender, runs, **about):
    """One row of the results, from {contender: its Runs by prompt}. `about` stands in it as it is.

    Where the token rule took part too, another rule is also compared with it.
    """
    plain, fast, K = runs[PLAIN], runs[contender], contender.K
    token = dataclasses.replace(contender, verification="token")
    figures = figures_of(plain, fast, runs.get(token, []) if token != contender else [])
    withheld = {name: one.withheld for name, one in figures.items()}
    of_rounds = counts([run.rounds for run in fast], MAX_K if K == AUTO else K)
    n_rounds = sum(of_rounds["accepted_histogram"])

    # compare with theory
    c = in_passes([run.draft_seconds for run in fast], plain)
    v = in_passes([run.pass_seconds for run in fast], plain)
    share = drafting_share(K == AUTO or not fast[0].looks_up, K, of_rounds["drafted"], n_rounds)
    predicted, unknown = prediction(K, figures["acceptance_rate"].value, c, v, share)
    time = figures["speedup_time"]
    withheld |= {"predicted_speedup": unknown, "measured_over_predicted": time.withheld or unknown}

    repetition = ratio(*zip(*(repeated(text) for run in fast for text in run.texts)))
    return {
        **dataclasses.asdict(contender),
        **about,
        "prompts": len(fast),
        "tokens": sum(tokens_of(fast)),
        "machines": machines_of(plain, fast),
        "autoregressive_tokens_per_second": ratio(tokens_of(plain), seconds_of(plain)),
        **as_columns(figures),
        "draft_cost": c,
        "verify_cost": v,
        "predicted_speedup": predicted,
        "measured_over_predicted": time.published and predicted and time.value / predicted,
        **of_rounds,
        "milliseconds_per_round": {
            part: 1e3 * sum(run.parts[part] for run in fast) / n_rounds for part in PARTS
        },
        "prefill_seconds": median_prefill(fast),
        "autoregressive_prefill_seconds": median_prefill(plain),
        "repetition": repetition,
        "flags": flags_of(fast, repetition),
        "withheld": {name: why for name, why in withheld.items() if why},
    }
