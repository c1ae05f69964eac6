"""From measurements to a row of the table: a speedup, what caused it, and which figures stand.

A speedup is the time of our own cached autoregressive loop over that of the speculative one: same
prompts, as many tokens, prefill apart, medians over repeats.

Here the runs of a decoder are a list for each prompt, with a dict for each repeat:

    texts            the token ids of its text; of several texts, if these are one batch
    seconds          of all rounds but the prefill; of the slowest text of a batch
    rounds           a Draft for each round
    draft_seconds    of each round
    target_seconds   of the target's pass in each round
"""

import statistics
from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from bench.intervals import ratio, ratio_interval
from decoding.theory import speedup


class Draft(NamedTuple):
    """What became of the draft of a round, in numbers of tokens."""

    room: int  # as many could be drafted before the end of the text
    drafted: int
    examined: int
    accepted: int


Run = dict[str, Any]
Runs = list[list[Run]]
ROOMY = 0.75  # of the rounds must have room for K tokens: the last ones of a text are shorter
DRAFTING = 0.9  # of those must draft K tokens: the formula is about a drafter that always does
LEAST_VERIFY_COST = 0.95  # K + 1 rows take no less time than one; the rest is noise


def make_row(plain: Runs, runs: Runs, K: int, bug: bool = False) -> dict[str, Any]:
    """Return what a drafter with K did beside plain decoding, as a row of the table: {"prompts",
    "tokens": how many; each figure by its name; "intervals": {"speedup", "tokens_per_target_pass"
    and "acceptance_rate": its 95 % interval, or None}; "withheld": {figure: why it is None}}.

    plain, runs: of the autoregressive loop and of the drafter, for the same prompts: for each, a
        list of what decode_texts returned, one for each repeat
    bug: whether greedy texts differ from the plain ones, and rounding does not explain it
    Figures: tokens per second without and with drafts, their ratio (the speedup), tokens per pass
    of the target, the acceptance rate, draft_cost and verify_cost (the times to draft a token and
    of a pass over K + 1 rows, in passes over one), and the speedup predicted from the last three.
    Withheld are the speedup, verify_cost and the prediction if noise or a bug may explain them.
    """
    # lists, with a number for each prompt
    plain_seconds = median_seconds(plain)
    seconds = median_seconds(runs)
    n_tokens = [number_of_tokens(repeats[0]) for repeats in runs]  # as many in every repeat
    examined = sum_per_prompt(runs, attrgetter("examined"))
    accepted = sum_per_prompt(runs, attrgetter("accepted"))
    n_passes = [statistics.mean(len(run["rounds"]) for run in repeats) for repeats in runs]

    # numbers, of all prompts together
    figures: dict[str, Any] = {
        "plain_tokens_per_second": ratio(n_tokens, plain_seconds),
        "tokens_per_second": ratio(n_tokens, seconds),
        "speedup": ratio(plain_seconds, seconds),
        "tokens_per_target_pass": ratio(n_tokens, n_passes),
        "acceptance_rate": ratio(accepted, examined),
        "draft_cost": relative_cost(plain, runs, seconds_per_drafted_token),
        "verify_cost": relative_cost(plain, runs, lambda run: full_passes(run, K)),
    }
    # as the formula names them
    a, c, v = figures["acceptance_rate"], figures["draft_cost"], figures["verify_cost"]
    intervals = {
        "speedup": ratio_interval(plain_seconds, seconds),
        "tokens_per_target_pass": ratio_interval(n_tokens, n_passes),
        "acceptance_rate": ratio_interval(accepted, examined, most=1),
    }

    reasons = {  # None for a figure that stands
        "speedup": why_no_speedup(
            intervals["speedup"], bug, tokens_per_pass=figures["tokens_per_target_pass"]
        ),
        "verify_cost": why_no_verify_cost(v),
        "predicted": why_no_prediction(runs, K, v),
    }
    withheld = {name: reason for name, reason in reasons.items() if reason}
    if "predicted" not in withheld:
        figures["predicted"] = speedup(a, K, c, v)
    for name in withheld:
        figures[name] = None
    return {
        "prompts": sum(len(repeats[0]["texts"]) for repeats in runs),
        "tokens": sum(n_tokens),
        **figures,
        "intervals": intervals,
        "withheld": withheld,
    }


def number_of_tokens(run: Run) -> int:
    """Return how many tokens the texts of a run have together."""
    return sum(len(text) for text in run["texts"])


def median_seconds(runs: Runs) -> list[float]:
    """Return for each prompt the median of "seconds" over its repeats, which are dicts."""
    return [statistics.median(run["seconds"] for run in repeats) for repeats in runs]


def sum_per_prompt(runs: Runs, number: Callable[[Draft], int]) -> list[int]:
    """Return for each prompt the sum of number(draft) over the rounds of all repeats.

    runs: for each prompt a list of runs, dicts with "rounds", a Draft for each round
    """
    rounds_of_each = [joined(repeats, itemgetter("rounds")) for repeats in runs]
    return [sum(map(number, rounds)) for rounds in rounds_of_each]


def joined(repeats: list[Run], of_run: Callable[[Run], list]) -> list:
    """Return in one list what of_run(run), a list, gives for each of the repeats of a prompt."""
    found = []
    for run in repeats:
        found += of_run(run)
    return found


# ---------------------------------------------------------------- the costs c and v


def seconds_per_drafted_token(run: Run) -> list[float]:
    """Return for each round with a draft the seconds that a token of the draft took. For the run of
    a batch, whose parts are not timed, "draft_seconds" is [], and so is the result.
    """
    timed = zip(run["rounds"], run["draft_seconds"])  # equally long, or the second is []
    return [seconds / draft.drafted for draft, seconds in timed if draft.drafted]


def full_passes(run: Run, K: int) -> list[float]:
    """Return the seconds of each of the target's passes over K + 1 rows, those of rounds with K
    drafted tokens. For the run of a batch, whose parts are not timed, "target_seconds" is [], and
    so is the result.
    """
    timed = zip(run["rounds"], run["target_seconds"])
    return [seconds for draft, seconds in timed if draft.drafted == K]


def relative_cost(plain: Runs, runs: Runs, cost: Callable[[Run], list[float]]) -> float | None:
    """Return how long something takes, in passes of the target over one row, as they were timed in
    plain decoding. Of each prompt, the median of both is taken; the result is the sum of the first
    over all prompts, divided by that of the second. Prompts in which it never happened do not
    count; None if it happened in none.

    plain, runs: of the autoregressive loop and of the drafter, for the same prompts
    cost(run): how long it took each time that it happened in a run, in seconds
    """
    costs, units = [], []  # medians, of each prompt
    for plain_repeats, repeats in zip(plain, runs):
        seconds = joined(repeats, cost)
        if seconds:
            costs.append(statistics.median(seconds))
            plain_seconds = joined(plain_repeats, lambda run: full_passes(run, K=0))
            units.append(statistics.median(plain_seconds))
    return ratio(costs, units)


# ---------------------------------------------------------------- what is withheld


def why_no_speedup(
    interval: tuple[float, float] | None, bug: bool, tokens_per_pass: float
) -> str | None:
    """Return why a speedup must not be published: a bug, no interval, or one that lies above the
    tokens per pass. None if it may be.
    """
    if bug:
        return "greedy texts differ, and rounding does not explain it: a bug"
    if interval is None:
        return "too few prompts, or batches of them, for an interval"
    if interval[0] > tokens_per_pass:  # no pass takes less time than one over a single row
        return "above the tokens per pass: other programs kept the machine busy"
    return None


def why_no_verify_cost(v: float | None) -> str | None:
    """Return why v, the cost of a pass over K + 1 rows, must not be published: nothing was timed,
    or it is below that of one row by more than noise. None if it may be.
    """
    if v is None:
        return "no pass over K + 1 rows was timed"
    if v < LEAST_VERIFY_COST:
        return f"below {LEAST_VERIFY_COST}: passes over one row were timed badly"
    return None


def why_no_prediction(runs: Runs, K: int, v: float | None) -> str | None:
    """Return in words why no speedup must be predicted; None if it may be. The formula takes for
    granted that every round drafts K tokens. So it must not be used in three cases: fewer than 75 %
    of the rounds (ROOMY) have room for K tokens before the text's end; fewer than 90 % of those
    (DRAFTING) draft K, because look-up found no match or a draft model's context was full; or v,
    the cost of a pass over K + 1 rows, is None or withheld.

    runs: of the drafter, for each prompt a dict for each repeat, with "rounds", a Draft for each
    """
    rounds: list[Draft] = []
    for repeats in runs:
        rounds += joined(repeats, itemgetter("rounds"))
    drafted = [one.drafted for one in rounds if one.room >= K]
    if len(drafted) < ROOMY * len(rounds):
        return "too few of its rounds had room for K tokens before the text's end"
    if drafted.count(K) < DRAFTING * len(drafted):
        return "too few of its rounds drafted K tokens"
    if why_no_verify_cost(v):
        return "v is withheld"  # which the formula needs
    return None
