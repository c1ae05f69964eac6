"""From runs to rows: speedups, and which figures may be published.

A speedup is the time of our own cached autoregressive loop over the time of the speculative one:
same prompts, as many tokens, prefill apart, medians over repeats. It is withheld, with the reason,
when the numbers of tokens differ, when greedy texts differ and rounding does not explain it, and
when the 95 % interval over prompts spans 1 or cannot be had. Where texts are repetition loops,
which are easy to draft, the row says so.
"""

import dataclasses
import statistics
from collections import Counter

from cli.values import AUTO
from decoding.adaptive_k import MAX_K
from experiments.benchmark.runner import PLAIN, TIMED_PARTS
from experiments.benchmark.statistics import (
    LEAST_PROMPTS,
    Figure,
    acceptance,
    as_columns,
    counts,
    drafting_share,
    ratio,
    repeated,
)
from experiments.benchmark.theory import best, speedup

LOOP = 0.2  # share of repeated 8-grams from which a text counts as a loop


def seconds_of(runs):
    """The median time of each prompt."""
    return [statistics.median(run.seconds) for run in runs]


def tokens_of(runs):
    """The tokens of each prompt in the first repeat."""
    return [run.tokens[0] for run in runs]


def speed_of(runs):
    return ratio(tokens_of(runs), seconds_of(runs))


def in_passes(seconds, plain):
    """The median over prompts of these seconds, in one-row passes; None if nowhere known."""
    pairs = zip(seconds, (run.pass_seconds for run in plain))
    costs = [cost / unit for cost, unit in pairs if cost is not None and unit]
    return statistics.median(costs) if costs else None


# ---------------------------------------------------------------- what is withheld, and why


def unequal_counts(plain, fast):
    """Says on how many prompts the two did not always write equally many tokens; None for none."""
    n = sum(len({*p.tokens, *f.tokens}) > 1 for p, f in zip(plain, fast))
    return f"the token counts differ on {n} of {len(fast)} prompts" if n else None


def why_withheld(fast, low_high):
    """Why a speedup with this interval must not be published, or None."""
    differences = [run.difference for run in fast if run.difference]
    bugs = [where["position"] for where in differences if where["verdict"] == "bug"]
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
    about = {}
    for machine, n in Counter(run.machine for run in fast).items():
        on_it = lambda runs: [run for run in runs if run.machine == machine]
        about[machine] = {
            "prompts": n,
            "autoregressive_tokens_per_second": speed_of(on_it(plain)),
            "tokens_per_second": speed_of(on_it(fast)),
        }
    return about


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


def prediction(K, a, c, v, h):
    """(the speedup that theory predicts, None), or (None, why there is no prediction)."""
    if K == AUTO:
        return None, "K changes from round to round"
    if None in (a, c, v):
        return None, "no round drafted all K tokens"
    return speedup(a, K, c, v, h), None


def median_prefill(runs):
    return statistics.median(seconds for run in runs for seconds in run.prefill_seconds)


def figures_of(plain, fast, by_token):
    """{name: Figure} of all ratios over prompts. by_token: Runs by the token rule, if any."""
    seconds, passes = seconds_of(fast), [len(run.rounds) for run in fast]
    figures = {
        "tokens_per_second": Figure(tokens_of(fast), seconds),
        "speedup_time": Figure(seconds_of(plain), seconds),
        "acceptance_rate": acceptance([run.rounds for run in fast]),
        "tokens_per_target_pass": Figure([sum(run.tokens) for run in fast], passes),
    }
    unequal = unequal_counts(plain, fast)
    time = figures["speedup_time"]
    time.withheld = unequal or why_withheld(fast, time.interval)
    gain = Figure(seconds_of(by_token), seconds if by_token else [])
    figures["speedup_over_token"] = gain
    if by_token:
        gain.withheld = why_withheld(fast, gain.interval)
    return figures


def row_of(contender, runs, **about):
    """One row of the results, from {contender: its Runs by prompt}. `about` stands in it as it is.

    Where the token rule took part too, another rule is also compared with it.
    """
    plain, fast, K = runs[PLAIN], runs[contender], contender.K
    token = dataclasses.replace(contender, verification="token")
    figures = figures_of(plain, fast, runs.get(token, []) if token != contender else [])
    withheld = {name: figure.withheld for name, figure in figures.items()}
    of_rounds = counts([run.rounds for run in fast], MAX_K if K == AUTO else K)
    n_rounds = sum(of_rounds["accepted_histogram"])

    # compare with theory
    c = in_passes([run.draft_seconds for run in fast], plain)
    v = in_passes([run.pass_seconds for run in fast], plain)
    # h of a K that changes is not known
    is_model, drafted = not fast[0].looks_up, of_rounds["drafted"]
    h = None if K == AUTO else drafting_share(is_model, K, drafted, n_rounds)
    predicted, unknown = prediction(K, figures["acceptance_rate"].value, c, v, h)
    time = figures["speedup_time"]
    withheld |= {"predicted_speedup": unknown, "measured_over_predicted": time.withheld or unknown}

    repetition = ratio(*zip(*(repeated(text) for run in fast for text in run.texts)))
    return {
        **dataclasses.asdict(contender),
        **about,
        "prompts": len(fast),
        "tokens": sum(tokens_of(fast)),
        "machines": machines_of(plain, fast),
        "autoregressive_tokens_per_second": speed_of(plain),
        **as_columns(figures),
        "draft_cost": c,
        "verify_cost": v,
        "drafting_share": h,
        "predicted_speedup": predicted,
        "measured_over_predicted": time.published and predicted and time.value / predicted,
        **of_rounds,
        "milliseconds_per_round": {
            part: 1e3 * sum(run.parts[part] for run in fast) / n_rounds for part in TIMED_PARTS
        },
        "prefill_seconds": median_prefill(fast),
        "autoregressive_prefill_seconds": median_prefill(plain),
        "repetition": repetition,
        "flags": flags_of(fast, repetition),
        "withheld": {name: why for name, why in withheld.items() if why},
    }


# ---------------------------------------------------------------- the best K


def best_K(rows, costs):
    """The K that theory calls the best, beside the fastest of these rows, which differ in K only.

    costs: [(c, v)] of rounds of 1, 2, ... drafts, timed one by one (adaptive_k.costs_of_parts)
    """
    same = "draft", "target", "temperature", "verification"
    fastest = max(rows, key=lambda row: row["tokens_per_second"])
    accepted = [row["drafted"] - row["wasted_drafts"] for row in rows]
    a = ratio(accepted, [sum(row["examined_by_position"]) for row in rows])
    shares = [row["drafting_share"] for row in rows if row["drafting_share"] is not None]
    h = statistics.median(shares) if shares else None
    K = c = v = expected = None
    if costs and None not in (a, h):
        by_K = dict(enumerate(costs, 1))
        K, expected = best(a, by_K, h)
        c, v = by_K[K]
    return {
        **{name: fastest[name] for name in same},
        "acceptance_rate": a,
        "drafting_share": h,
        "draft_cost": c,
        "verify_cost": v,
        "predicted_K": K,
        "predicted_speedup": expected,
        "fastest_K": fastest["K"],
        "acceptance_by_position": fastest["acceptance_by_position"],
        "tokens_per_target_pass": fastest["tokens_per_target_pass"],
        "speedup_time": fastest["speedup_time"],
        "intervals": {"speedup_time": fastest["intervals"]["speedup_time"]},
    }
