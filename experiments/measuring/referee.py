"""The referee: from runs to rows, and which figures may be published.

A speedup is the time of our own cached autoregressive loop over the time of the speculative one:
same prompts, as many tokens, prefill apart, medians over repeats. It is withheld, with the reason,
when the numbers of tokens differ, when greedy texts differ and rounding does not explain it, and
when the 95 % interval over prompts spans 1 or cannot be had. Where texts are repetition loops,
which are easy to draft, the row says so.
"""

import statistics
from collections import Counter

from experiments.decoding.adaptive_k import MAX_K
from experiments.decoding.decoders import NGRAM
from experiments.decoding.settings import AUTO
from experiments.measuring.statistics import (
    LEAST_PROMPTS,
    counts_by_position,
    drafting_share,
    interval,
    ratio,
)
from experiments.measuring.theory import speedup

LOOP = 0.2  # share of repeated 8-grams from which a text counts as a loop


def costs_of(plain, fast):
    """(c, v): medians over prompts of the time of a drafted token and of a pass over K + 1 rows,
    both in one-row passes; None for what was not seen.
    """
    units = [run.pass_seconds for run in plain]
    return (
        median_ratio([run.draft_seconds for run in fast], units),
        median_ratio([run.pass_seconds for run in fast], units),
    )


def median_ratio(seconds, units):
    """The median of seconds over units, where both are known; None if they nowhere are."""
    found = [cost / unit for cost, unit in zip(seconds, units) if cost is not None and unit]
    return statistics.median(found) if found else None


def unequal_counts(plain, fast):
    """Says on how many prompts the two did not always write equally many tokens; None for none."""
    n = sum(len({*p.tokens, *f.tokens}) > 1 for p, f in zip(plain, fast))
    return f"the token counts differ on {n} of {len(fast)} prompts" if n else None


def first_bug(fast):
    """The first token at which a greedy text differs without a tie; None if there is no such."""
    differences = [run.difference for run in fast if run.difference]
    return min((d["position"] for d in differences if d["verdict"] == "bug"), default=None)


def doubt(fast, low_high):
    """Why a speedup in time with this 95 % interval must not be published though the token counts
    agree, or None.
    """
    bug = first_bug(fast)
    if bug is not None:
        return (
            f"greedy texts differ (first at token {bug}) and float rounding does not explain it: "
            "a bug"
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
            "autoregressive_tokens_per_second": tokens_per_second(one),
            "tokens_per_second": tokens_per_second(two),
        }
    return found


def tokens_per_second(runs):
    """Of the first repeats' tokens and the median times."""
    return ratio([run.tokens[0] for run in runs], [statistics.median(run.seconds) for run in runs])


def flags_of(fast, share, machines):
    """What a reader has to know of the texts, and of where they were written."""
    flags = []
    if len(machines) > 1:
        counts = ", ".join(f"{one['prompts']} on {name}" for name, one in machines.items())
        flags.append(
            f"machines: speeds and times are of several, taken together; prompts: {counts}"
        )
    if share and share >= LOOP:
        flags.append(f"repetition: {share:.0%} of the 8-grams repeat")
    ties = sum(bool(run.difference) and run.difference["verdict"] == "tie" for run in fast)
    if ties:
        flags.append(f"ties: rounding changed the greedy text of {ties} prompts")
    return flags


def rounds_in(run):
    """The rounds [drafted, examined, accepted] of all repeats."""
    return [one for rounds in run.rounds for one in rounds]


class Counts:
    """What the speculative runs of all prompts add up to, listed by prompt."""

    def __init__(self, fast):
        rounds = [rounds_in(run) for run in fast]
        self.rounds = [one for run in rounds for one in run]
        self.drafted = [sum(drafted for drafted, _, _ in run) for run in rounds]
        self.examined = [sum(examined for _, examined, _ in run) for run in rounds]
        self.accepted = [sum(accepted for _, _, accepted in run) for run in rounds]
        self.written = [sum(run.tokens) for run in fast]
        self.passes = [sum(run.passes) for run in fast]
        self.acceptance = ratio(self.accepted, self.examined)


def prediction(fast, counts, c, v):
    """(the speedup that theory predicts, None), or (None, why there is no prediction)."""
    K = fast[0].K
    if K == AUTO:
        return None, "K changes from round to round"
    if None in (counts.acceptance, c, v):
        return None, "no round drafted all K tokens"
    is_model = fast[0].draft != NGRAM
    share = drafting_share(is_model, K, sum(counts.drafted), sum(counts.passes))
    return speedup(counts.acceptance, K, c, v, share), None


def milliseconds_per_round(fast):
    """Of each part of a round, from the ledgers."""
    n_rounds = sum(run.ledger["rounds"] for run in fast)
    parts = fast[0].ledger["split"]
    totals = {part: sum(run.ledger["split"][part] for run in fast) for part in parts}
    return {part: 1e3 * total / n_rounds for part, total in totals.items()}


def median_prefill(runs):
    return statistics.median(seconds for run in runs for seconds in run.prefill_seconds)


def row_of(target, temperature, plain, fast, n_skipped, labels, token=None):
    """One row of the results, from the Runs of both decoders on the same prompts; where these took
    turns with the token rule and the same drafts, from its Runs as well.
    """
    draft, K = fast[0].draft, fast[0].K
    counts = Counts(fast)
    seconds = [statistics.median(run.seconds) for run in fast]
    alone = [statistics.median(run.seconds) for run in plain]
    tokens = [run.tokens[0] for run in fast]
    c, v = costs_of(plain, fast)
    by_token = [statistics.median(run.seconds) for run in token or []]
    most = MAX_K if K == AUTO else K
    examined_at, by_position, histogram = counts_by_position(counts.rounds, most)
    intervals = {
        "speedup_time": interval(alone, seconds),
        "speedup_over_token": interval(by_token, seconds) if token else None,
        "tokens_per_second": interval(tokens, seconds),
        "acceptance_rate": interval(counts.accepted, counts.examined, most=1),
        "tokens_per_target_pass": interval(counts.written, counts.passes),
    }

    # say which figures are withheld, and why
    unequal = unequal_counts(plain, fast)
    reason = unequal or doubt(fast, intervals["speedup_time"])
    unclear = doubt(fast, intervals["speedup_over_token"]) if token else None
    predicted, unpredicted = prediction(fast, counts, c, v)
    withheld = {
        "speedup_time": reason,
        "speedup_over_token": unclear,
        "predicted_speedup": unpredicted,
        "speedup_target_passes": unequal,
        "measured_over_predicted": reason or unpredicted,
    }
    measured = None if reason else ratio(alone, seconds)
    in_passes = None if unequal else ratio([sum(run.passes) for run in plain], counts.passes)
    repeats, grams = zip(*(run.repeated for run in fast))
    share = ratio(repeats, grams)
    machines = machines_of(plain, fast)

    return {
        "draft": draft,
        "target": target,
        "K": K,
        "verification": fast[0].verification,
        "temperature": temperature,
        **labels,
        "prompts": len(fast),
        "skipped_prompts": n_skipped,
        "tokens": sum(tokens),
        "machines": machines,
        "autoregressive_tokens_per_second": tokens_per_second(plain),
        "tokens_per_second": tokens_per_second(fast),
        "speedup_time": measured,
        "speedup_over_token": ratio(by_token, seconds) if token and not unclear else None,
        "speedup_target_passes": in_passes,
        "acceptance_rate": counts.acceptance,
        "tokens_per_target_pass": ratio(counts.written, counts.passes),
        "draft_cost": c,
        "verify_cost": v,
        "predicted_speedup": predicted,
        "measured_over_predicted": measured / predicted if measured and predicted else None,
        "intervals": intervals,
        "acceptance_by_position": by_position,
        "examined_by_position": examined_at,
        "accepted_histogram": histogram,
        "drafted": sum(counts.drafted),
        "wasted_drafts": sum(counts.drafted) - sum(counts.accepted),
        "milliseconds_per_round": milliseconds_per_round(fast),
        "prefill_seconds": median_prefill(fast),
        "autoregressive_prefill_seconds": median_prefill(plain),
        "repetition": share,
        "flags": flags_of(fast, share, machines),
        "withheld": {name: why for name, why in withheld.items() if why},
    }
