"""From runs to rows: speedups, and which figures may be published.

A speedup is the time of our own cached autoregressive loop over the time of the speculative one:
same prompts, as many tokens, prefill apart, medians over repeats. It is withheld, with the reason,
when the numbers of tokens differ, when greedy texts differ and rounding does not explain it, and
when the 95 % interval over prompts spans 1 or cannot be had. Where texts are repetition loops,
which are easy to draft, the row says so.
"""

import dataclasses
import statistics

from cli.values import AUTO
from decoding.auto_k import MAX_K
from decoding.theory import speedup
from experiments.benchmark.comparison import PLAIN, TIMED_PARTS
from experiments.benchmark.intervals import (
    MIN_PROMPTS,
    Estimate,
    acceptance_estimate,
    count_repeated_ngrams,
    drafting_share,
    estimate_columns,
    ratio,
    round_columns,
)

MAX_COST_RATIO = 1.1  # times the verify cost: noise is small where the interval reaches no further
LOOP_SHARE = 0.2  # share of repeated 8-grams from which a text counts as a loop


def median_seconds_by_prompt(runs):
    """Return the list of each prompt's median seconds over repeats."""
    return [statistics.median(run.seconds) for run in runs]


def tokens_by_prompt(runs):
    """Return the list of each prompt's number of tokens in the first repeat."""
    return [run.tokens[0] for run in runs]


def tokens_per_second(runs):
    """Return the tokens of all prompts over their median seconds, from a list of Measurements."""
    return ratio(tokens_by_prompt(runs), median_seconds_by_prompt(runs))


def relative_cost(seconds, plain):
    """Return the Estimate of a cost in one-row target passes; None if no prompt has both times.

    seconds: the cost on each prompt, or None; plain: Measurements of the autoregressive loop
    """
    pairs = zip(seconds, (run.pass_seconds for run in plain))
    known = [(cost, unit) for cost, unit in pairs if cost is not None and unit]
    return Estimate(*zip(*known)) if known else None


# ---------------------------------------------------------------- what is withheld, and why


def why_counts_differ(plain, fast):
    """Say on how many prompts the two variants wrote different numbers of tokens; None if none."""
    n = sum(len({*p.tokens, *f.tokens}) > 1 for p, f in zip(plain, fast))
    return f"the token counts differ on {n} of {len(fast)} prompts" if n else None


def why_withheld(fast, low_high):
    """Return why a speedup must not be published, or None: greedy texts differ by a bug, there is
    no
    interval, or the interval contains 1.

    fast: Measurements of each prompt; low_high: the interval [low, high], or None
    """
    differences = [run.difference for run in fast if run.difference]
    bugs = [where["position"] for where in differences if where["verdict"] == "bug"]
    if bugs:
        return (
            f"greedy texts differ (first at token {min(bugs)}) and float rounding does not explain "
            "it: a bug"
        )
    if low_high is None:
        return f"{len(fast)} prompts give no 95 % interval: --n_prompts {MIN_PROMPTS} or more"
    low, high = low_high
    if low <= 1 <= high:
        return f"its interval, {low:.2f} to {high:.2f}, contains 1"
    return None


def why_mistimed(v):
    """Return why the Estimate of the verify cost must not be published, or None.

    A pass over more rows takes no less time than a pass over one. Where it seems to, noise must be
    able to explain that, and be small.
    """
    if v.value >= 1 or v.interval is None:
        return None
    _, high = v.interval
    if 1 <= high <= MAX_COST_RATIO * v.value:
        return None
    return "it is below 1: passes over one row were timed badly"


def text_flags(fast, repetition):
    """Return a list of warnings about the texts: repetition loops, and ties broken by rounding."""
    flags = []
    if repetition and repetition >= LOOP_SHARE:
        flags.append(f"repetition: {repetition:.0%} of the 8-grams repeat")
    ties = sum(bool(run.difference) and run.difference["verdict"] == "tie" for run in fast)
    if ties:
        flags.append(f"ties: rounding changed the greedy text of {ties} prompts")
    return flags


# ---------------------------------------------------------------- a row


def measured_estimates(plain, fast, by_token):
    """Return {column: Estimate} of speeds, speedups and acceptance.

    plain, fast, by_token: Measurements of each prompt, of the autoregressive loop, of a variant,
    and of the same variant with the token rule (empty if there is none to compare with)
    """
    seconds, passes = median_seconds_by_prompt(fast), [len(run.rounds) for run in fast]
    speedup_time = Estimate(median_seconds_by_prompt(plain), seconds)
    unequal = why_counts_differ(plain, fast)
    speedup_time.withheld = unequal or why_withheld(fast, speedup_time.interval)
    gain_time = Estimate(median_seconds_by_prompt(by_token), seconds if by_token else [])
    # both wrote equally many tokens
    gain_passes = Estimate([len(run.rounds) for run in by_token], passes if by_token else [])
    for gain in (gain_time, gain_passes) if by_token else ():
        gain.withheld = why_withheld(fast, gain.interval)
    return {
        "tokens_per_second": Estimate(tokens_by_prompt(fast), seconds),
        "speedup_time": speedup_time,
        "acceptance_rate": acceptance_estimate([run.rounds for run in fast]),
        "tokens_per_target_pass": Estimate([sum(run.tokens) for run in fast], passes),
        "speedup_over_token": gain_time,
        "tokens_per_pass_over_token": gain_passes,
    }


def theory_columns(K, plain, fast, a, rounds):
    """Predict the speedup of a draft with this K from acceptance and costs.

    a: the acceptance rate; rounds: what `round_columns` returns of them
    Returns ({column: Estimate} of the costs, {column: value} of the prediction, why there is no
    prediction or None).
    """
    none = Estimate([], [])
    c = relative_cost([run.draft_seconds for run in fast], plain) or none
    v = relative_cost([run.pass_seconds for run in fast], plain) or none
    if v is not none:
        v.withheld = why_mistimed(v)
    h, predicted, unknown = None, None, None
    if K == AUTO:
        unknown = "K changes from round to round"
    else:
        n_rounds = sum(rounds["accepted_histogram"])
        h = drafting_share(not fast[0].is_lookup, K, rounds["drafted"], n_rounds)
        if None in (a, c.value, v.value):
            unknown = "no round drafted all K tokens"
        elif v.withheld:
            unknown = "v is withheld"
        else:
            predicted = speedup(a, K, c.value, v.value, h)
    costs = {"draft_cost": c, "verify_cost": v}
    return costs, {"drafting_share": h, "predicted_speedup": predicted}, unknown


def text_columns(plain, fast):
    """Return {column: value} about the texts: how many, seconds of prefill, and repetition."""
    repetition = ratio(*zip(*(count_repeated_ngrams(text) for run in fast for text in run.texts)))
    return {
        "prompts": len(fast),
        "tokens": sum(tokens_by_prompt(fast)),
        "autoregressive_tokens_per_second": tokens_per_second(plain),
        "prefill_seconds": median_prefill(fast),
        "autoregressive_prefill_seconds": median_prefill(plain),
        "repetition": repetition,
        "flags": text_flags(fast, repetition),
    }


def median_prefill(runs):
    """Return the median seconds of prefill, over all prompts and repeats."""
    return statistics.median(seconds for run in runs for seconds in run.prefill_seconds)


def milliseconds_per_round(runs):
    """Return {part of a round: mean milliseconds} over all prompts."""
    n_rounds = sum(len(run.rounds) for run in runs)
    total = lambda part: sum(run.parts[part] for run in runs)
    return {part: 1e3 * total(part) / n_rounds for part in TIMED_PARTS}


def result_row(variant, runs, **about):
    """Return one row of the results (a dict) for a variant.

    runs: {variant: [Measurement of each prompt]}, with PLAIN among the variants
    about: {column: value} to put into the row unchanged
    If the same draft and K were measured with the token rule too, the row compares the two rules.
    """
    plain, fast, K = runs[PLAIN], runs[variant], variant.K
    token = dataclasses.replace(variant, verification="token")
    ratios = measured_estimates(plain, fast, runs.get(token, []) if token != variant else [])
    rounds = round_columns([run.rounds for run in fast], MAX_K if K == AUTO else K)
    costs, theory, unknown = theory_columns(K, plain, fast, ratios["acceptance_rate"].value, rounds)
    figures = ratios | costs
    time, predicted = figures["speedup_time"], theory["predicted_speedup"]
    theory["measured_over_predicted"] = time.published and predicted and time.value / predicted
    withheld = {name: figure.withheld for name, figure in figures.items()}
    withheld |= {"predicted_speedup": unknown, "measured_over_predicted": time.withheld or unknown}
    return {
        **dataclasses.asdict(variant),
        **about,
        **text_columns(plain, fast),
        **estimate_columns(figures),
        **theory,
        **rounds,
        "milliseconds_per_round": milliseconds_per_round(fast),
        "withheld": {name: why for name, why in withheld.items() if why},
    }
