"""From measurements to rows: speedups, and which figures may be published.

A speedup is the time of our own cached autoregressive loop over the time of the speculative one:
same prompts, as many tokens, prefill apart, medians over repeats. It is withheld, with the reason,
when the numbers of tokens differ, when greedy texts differ and rounding does not explain it, and
when the 95 % interval over prompts spans 1 or cannot be had. Where texts are repetition loops,
which are easy to draft, the row says so.
"""

import dataclasses
import statistics

from cli.values import AUTO
from decoding.costs import MAX_K

from decoding.theory import speedup
from experiments.benchmark.comparison import PLAIN, TIMED_PARTS, Measurement
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
NOTHING = Estimate([], [])  # of no prompts: its value is None


# In this file `plain` and `speculative` are lists with a Measurement of each prompt: of the
# autoregressive loop, and of the variant that a row is about.


def median_seconds_by_prompt(measurements: list[Measurement]):
    """Return the list of each prompt's median seconds over repeats."""
    return [statistics.median(measurement.seconds) for measurement in measurements]


def tokens_by_prompt(measurements: list[Measurement]):
    """Return the list of each prompt's number of tokens in the first repeat."""
    return [measurement.token_counts[0] for measurement in measurements]


def relative_cost(seconds, plain: list[Measurement]):
    """Convert a cost in seconds to units of one target pass over one token, as timed in plain
    decoding. Returns an Estimate over prompts; its value is None if no prompt has both times.

    seconds: the cost on each prompt, a list of numbers, or None where there is none
    plain: the Measurement of plain decoding on each prompt
    """
    costs, units = [], []
    for cost, measurement in zip(seconds, plain):
        if cost is not None and measurement.pass_seconds:
            costs.append(cost)
            units.append(measurement.pass_seconds)
    return Estimate(costs, units)


# ---------------------------------------------------------------- what is withheld, and why


def why_counts_differ(plain: list[Measurement], speculative: list[Measurement]):
    """Return a text that says on how many prompts the numbers of tokens differ, between repeats or
    between the two lists; None if on no prompt.

    plain, speculative: the Measurement of each prompt, without a draft and with one
    """
    n_different = 0
    for of_plain, of_speculative in zip(plain, speculative):
        if len({*of_plain.token_counts, *of_speculative.token_counts}) > 1:
            n_different += 1
    if n_different == 0:
        return None
    return f"the token counts differ on {n_different} of {len(speculative)} prompts"


def why_withheld(speculative: list[Measurement], low_high):
    """Return why a speedup must not be published, a text; None if it may be. Reasons are: a bug
    made greedy texts differ from the autoregressive ones; there is no interval; it contains 1.

    speculative: the Measurement of each prompt, with a draft
    low_high: the 95 % interval of the speedup, [low, high] or None
    """
    differences = [measurement.difference for measurement in speculative if measurement.difference]
    bugs = [difference for difference in differences if difference["verdict"] == "bug"]
    if bugs:
        first = min(difference["position"] for difference in bugs)
        return (
            f"greedy texts differ (first at token {first}) and float rounding does not explain "
            "it: a bug"
        )
    if low_high is None:
        return (
            f"{len(speculative)} prompts give no 95 % interval: --n_prompts {MIN_PROMPTS} or more"
        )
    low, high = low_high
    if low <= 1 <= high:
        return f"its interval, {low:.2f} to {high:.2f}, contains 1"
    return None


def why_mistimed(v):
    """Return why v, the Estimate of the verify cost, must not be published: a text, or None if it
    may be.

    A pass over several tokens cannot be faster than a pass over one. So a v below 1 that has an
    interval is published only if noise explains it: the interval reaches 1, and is narrow.
    """
    if v.value >= 1 or v.interval is None:
        return None
    _, high = v.interval
    reaches_1 = high >= 1
    is_narrow = high <= MAX_COST_RATIO * v.value
    if reaches_1 and is_narrow:
        return None
    return "it is below 1: passes over one row were timed badly"


def text_flags(speculative: list[Measurement], repetition):
    """Return a list of warnings (texts): about repetition loops, and about greedy texts that differ
    from the autoregressive ones because rounding broke a tie.

    speculative: the Measurement of each prompt, with a draft
    repetition: the share of 8-grams that occurred before in their text, None if there are none
    """
    flags = []
    if repetition and repetition >= LOOP_SHARE:
        flags.append(f"repetition: {repetition:.0%} of the 8-grams repeat")
    differences = [measurement.difference for measurement in speculative if measurement.difference]
    n_ties = sum(difference["verdict"] == "tie" for difference in differences)
    if n_ties:
        flags.append(f"ties: rounding changed the greedy text of {n_ties} prompts")
    return flags


# ---------------------------------------------------------------- a row


def measured_estimates(plain: list[Measurement], speculative: list[Measurement], n_same):
    """Return {column: Estimate} for the columns "tokens_per_second", "speedup_time", which may be
    withheld, "acceptance_rate" and "tokens_per_target_pass".

    plain, speculative: the Measurement of each prompt, without a draft and with one
    n_same: how many repeats of a prompt make the same random decisions, and so count as one in the
        interval of the acceptance rate
    """
    seconds = median_seconds_by_prompt(speculative)
    speedup_time = Estimate(median_seconds_by_prompt(plain), seconds)
    counts_differ = why_counts_differ(plain, speculative)
    speedup_time.withheld = counts_differ or why_withheld(speculative, speedup_time.interval)
    rounds = [measurement.rounds for measurement in speculative]
    n_tokens = [sum(measurement.token_counts) for measurement in speculative]
    return {
        "tokens_per_second": Estimate(tokens_by_prompt(speculative), seconds),
        "speedup_time": speedup_time,
        "acceptance_rate": acceptance_estimate(rounds, n_same),
        "tokens_per_target_pass": Estimate(n_tokens, [len(of_prompt) for of_prompt in rounds]),
    }


def rule_estimates(variant, measurements):
    """Return {"speedup_over_token": Estimate, "tokens_per_pass_over_token": Estimate}: how many
    times as fast a Variant's rule is as the token rule, and how many times as many tokens a pass
    yields. Both may be withheld. Both are NOTHING if the Variant's rule is the token rule, or if
    its draft and K were not measured with the token rule.

    measurements: {Variant: [Measurement of each prompt]}
    """
    token_variant = dataclasses.replace(variant, verification="token")
    if variant == token_variant or token_variant not in measurements:
        return {"speedup_over_token": NOTHING, "tokens_per_pass_over_token": NOTHING}
    by_rule, by_token = measurements[variant], measurements[token_variant]
    in_time = Estimate(median_seconds_by_prompt(by_token), median_seconds_by_prompt(by_rule))
    # both wrote equally many tokens, so the ratio of passes is that of tokens per pass
    passes_by_token = [len(measurement.rounds) for measurement in by_token]
    in_passes = Estimate(passes_by_token, [len(measurement.rounds) for measurement in by_rule])
    in_time.withheld = why_withheld(by_rule, in_time.interval)
    in_passes.withheld = why_withheld(by_rule, in_passes.interval)
    return {"speedup_over_token": in_time, "tokens_per_pass_over_token": in_passes}


def cost_estimates(plain: list[Measurement], speculative: list[Measurement]):
    """Return {"draft_cost": Estimate of c, "verify_cost": Estimate of v}: the costs of drafting one
    token and of a target pass over K + 1 tokens, in units of a target pass over one token. v is
    withheld if why_mistimed gives a reason.

    plain, speculative: the Measurement of each prompt, without a draft and with one
    """
    c = relative_cost([measurement.draft_seconds for measurement in speculative], plain)
    v = relative_cost([measurement.pass_seconds for measurement in speculative], plain)
    if v.value is not None:
        v.withheld = why_mistimed(v)
    return {"draft_cost": c, "verify_cost": v}


def predict_speedup(K, h, estimates):
    """Return (the speedup that theory predicts, None), or (None, why there is no prediction).

    K: a number or "auto"; h: the share of rounds with a draft, a number, None for "auto"
    estimates: {column: Estimate}, of which the acceptance rate and the two costs are used
    """
    a, c, v = (estimates[name] for name in ("acceptance_rate", "draft_cost", "verify_cost"))
    if K == AUTO:
        return None, "K changes from round to round"
    # v is None if no round drafted all K tokens, a and c only if no round drafted any
    if None in (a.value, c.value, v.value):
        return None, "no round drafted all K tokens"
    if v.withheld:
        return None, "v is withheld"
    return speedup(a.value, K, c.value, v.value, h), None


def prediction_columns(K, h, estimates):
    """Return two columns, the speedup that theory predicts and the measured speedup over it, as
    ({column: value or None}, {column: why the value is None, or None}).

    K: a number or "auto"; h: the share of rounds with a draft, a number, None for "auto"
    estimates: {column: Estimate}, as from measured_estimates and cost_estimates
    """
    predicted, why_unknown = predict_speedup(K, h, estimates)
    measured = estimates["speedup_time"]
    over_predicted = None
    if measured.published and predicted:
        over_predicted = measured.value / predicted
    columns = {"predicted_speedup": predicted, "measured_over_predicted": over_predicted}
    reasons = {
        "predicted_speedup": why_unknown,
        "measured_over_predicted": measured.withheld or why_unknown,
    }
    return columns, reasons


def text_columns(plain: list[Measurement], speculative: list[Measurement]):
    """Return {column: value} about the texts: how many, their length, plain speed, seconds of
    prefill, repetition and warnings.

    plain, speculative: the Measurement of each prompt, without a draft and with one
    """
    repeated, n_grams = [], []
    for measurement in speculative:
        for text in measurement.texts:
            n_repeated, n = count_repeated_ngrams(text)
            repeated.append(n_repeated)
            n_grams.append(n)
    repetition = ratio(repeated, n_grams)
    plain_seconds = median_seconds_by_prompt(plain)
    return {
        "prompts": len(speculative),
        "tokens": sum(tokens_by_prompt(speculative)),
        "autoregressive_tokens_per_second": ratio(tokens_by_prompt(plain), plain_seconds),
        "prefill_seconds": median_prefill(speculative),
        "autoregressive_prefill_seconds": median_prefill(plain),
        "repetition": repetition,
        "flags": text_flags(speculative, repetition),
    }


def median_prefill(measurements: list[Measurement]):
    """Return the median seconds of prefill over all prompts and repeats."""
    return statistics.median(
        seconds for measurement in measurements for seconds in measurement.prefill_seconds
    )


def milliseconds_per_round(measurements: list[Measurement]):
    """Return {part of a round, "draft", "verify" or "sampling": its mean milliseconds} over all
    rounds of all prompts.
    """
    n_rounds = sum(len(measurement.rounds) for measurement in measurements)
    means = {}
    for part in TIMED_PARTS:
        seconds = sum(measurement.parts[part] for measurement in measurements)
        means[part] = 1e3 * seconds / n_rounds
    return means


def result_row(variant, measurements, n_same=1, **about):
    """Return one row of the results for a Variant with a draft, a dict: what was measured,
    estimated, predicted and counted, and in "withheld" {column: why its figure is not published}.

    measurements: {Variant: [Measurement of each prompt]}, with PLAIN among the variants
    n_same: how many repeats of a prompt make the same random decisions. All repeats of greedy
        decoding do: they tell no more about the acceptance rate than one repeat.
    about: {column: value} to put into the row unchanged
    If the same draft and K were measured with the token rule too, the row compares the two rules.
    """
    plain, speculative = measurements[PLAIN], measurements[variant]
    K = variant.K
    estimates = {
        **measured_estimates(plain, speculative, n_same),
        **rule_estimates(variant, measurements),
        **cost_estimates(plain, speculative),
    }
    rounds = [measurement.rounds for measurement in speculative]
    longest_draft = MAX_K if K == AUTO else K
    counts = round_columns(rounds, longest_draft)
    h = None  # the share of rounds with a draft; with K auto nothing is predicted
    if K != AUTO:
        is_model = not speculative[0].is_lookup
        n_rounds = sum(counts["accepted_histogram"])  # each round is counted once
        h = drafting_share(is_model, K, counts["drafted"], n_rounds)
    prediction, reasons = prediction_columns(K, h, estimates)
    withheld = {name: estimate.withheld for name, estimate in estimates.items()} | reasons
    return {
        **dataclasses.asdict(variant),
        **about,
        **text_columns(plain, speculative),
        **estimate_columns(estimates),
        "drafting_share": h,
        **prediction,
        **counts,
        "milliseconds_per_round": milliseconds_per_round(speculative),
        "withheld": {name: reason for name, reason in withheld.items() if reason},
    }
