"""Ratios of sums over prompts with their 95 % intervals, and counts over rounds and texts."""

import math
import statistics
from functools import partial

import numpy as np

MIN_PROMPTS = 6  # with fewer, the interval of an acceptance rate covers too little
N_GRAM = 8  # repeated runs of this many tokens are a loop, not a coincidence


def ratio(numerators, denominators):
    """Return sum(numerators) / sum(denominators) of two lists; None if the second sum is 0."""
    total = sum(denominators)
    return sum(numerators) / total if total else None


def ratio_interval(numerators, denominators):
    """Return [low, high], the 95 % interval of sum(numerators) / sum(denominators).

    numerators, denominators: lists with a number, 0 or more, for each prompt
    Returns None with fewer than MIN_PROMPTS prompts, or if the numerators or the denominators of
    all prompts but one are 0.

    The jackknife (Tukey 1958; Efron and Tibshirani 1993, chapter 11): leave out each prompt in
    turn; how far the ratio moves tells its standard error. Student's t widens the interval, because
    the standard error is itself estimated from few prompts. All of this is done with the ratio's
    logarithm, because 2 and 1/2 are equally far from 1. With six prompts, even or skewed as in
    tests/benchmark/test_intervals.py, the interval covers the true ratio in 93 to 95 % of cases; a
    percentile bootstrap would in 83 to 86 %.
    """
    n = len(numerators)
    # [n] each: the sums over all prompts except prompt i
    numerators_without = sum(numerators) - np.asarray(numerators, float)
    denominators_without = sum(denominators) - np.asarray(denominators, float)
    if n < MIN_PROMPTS:
        return None
    if min(*numerators_without, *denominators_without) <= 0:  # 0 has no logarithm
        return None
    # the jackknife: the square root of (n - 1) / n times the sum of squares, of the logarithm
    standard_error = math.sqrt(n - 1) * np.log(numerators_without / denominators_without).std()
    factor = math.exp(student_t(n - 1) * standard_error)
    value = ratio(numerators, denominators)
    return [value / factor, value * factor]


def share_interval(successes, trials, n_same=1):
    """Return [low, high], the 95 % interval of sum(successes) / sum(trials), a share from 0 to 1.

    successes, trials: lists with a count for each prompt
    n_same: how often each trial was made with the same outcome, which counts as one trial
    Returns None if fewer than MIN_PROMPTS prompts had a trial.

    Prompts differ, so trials of one prompt tell less than independent ones. The interval is that
    of as many independent trials as would be equally uncertain (Korn and Graubard 1998): a score
    interval with continuity correction (Newcombe 1998, method 4), or the rule of three if all or
    none succeeded. It covers the true acceptance rate in 94 % of cases or more; see
    tests/benchmark/test_intervals.py.
    """
    n_prompts = np.count_nonzero(trials)
    if n_prompts < MIN_PROMPTS:
        return None
    share, n_trials = ratio(successes, trials), sum(trials) / n_same
    if share in (0, 1):
        reach = min(1.0, 3 / n_trials)
        return [0.0, reach] if share == 0 else [1 - reach, 1.0]
    # the variance of the share over prompts, and that of independent trials
    errors = np.subtract(successes, share * np.asarray(trials)) / sum(trials)
    variance = n_prompts / (n_prompts - 1) * (errors @ errors)
    # the variance itself is estimated from few prompts: widen it as Student's t does
    widening = (student_t(n_prompts - 1) / student_t(math.inf)) ** 2
    trial_variance = share * (1 - share)
    # so many independent trials have the variance found; at most as many as there were
    n_effective = trial_variance / max(trial_variance / n_trials, widening * variance)
    return [score_bound(share, n_effective, side) for side in (-1, 1)]


def score_bound(share, n, side):
    """Return the lower (side -1) or upper (side 1) bound of the 95 % score interval with continuity
    correction (Newcombe 1998, method 4), for a share, from 0 to 1, of n independent trials. n may
    be a fraction.
    """
    # the continuity correction: half a trial outwards
    share = min(1, max(0, share + side / (2 * n)))
    z = student_t(math.inf)  # 1.96, the normal distribution's
    middle = share + z**2 / (2 * n)
    reach = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return float(min(1, max(0, (middle + side * reach) / (1 + z**2 / n))))


def student_t(freedom):
    """Return how many standard errors a 95 % interval reaches to each side, a float, by Fisher's
    expansion around the normal distribution's 1.96. freedom: the degrees of freedom

    Within 0.001 from five degrees on (Abramowitz and Stegun 1964, 26.7.5).

    >>> round(float(student_t(5)), 2), round(float(student_t(math.inf)), 2)
    (2.57, 1.96)
    """
    return np.polyval([1.58954, 2.55585, 2.82250, 2.37227, 1.95996], 1 / freedom)


def median_and_range(values):
    """Return {"value": the median, "low": the least, "high": the largest} of a list of numbers."""
    return {"value": statistics.median(values), "low": min(values), "high": max(values)}


class Estimate:
    """The ratio of two sums over prompts, with its 95 % interval; None and None without a ratio.

    numerators, denominators: lists with a number for each prompt
    withheld: why it must not be published, a text; None if it may
    interval_of: a function (numerators, denominators) that returns [low, high] or None
    """

    def __init__(self, numerators, denominators, withheld=None, interval_of=ratio_interval):
        self.value = ratio(numerators, denominators)
        self.interval = interval_of(numerators, denominators)
        self.withheld = withheld

    @property
    def published(self):
        """The ratio, or None if it is withheld."""
        return None if self.withheld else self.value


def estimate_columns(estimates):
    """Return {column: its ratio, None if it is withheld}, and in it the key "intervals" with
    {column: [low, high] or None}, also of withheld ratios.

    estimates: {column: Estimate}
    """
    published = {name: estimate.published for name, estimate in estimates.items()}
    intervals = {name: estimate.interval for name, estimate in estimates.items()}
    return published | {"intervals": intervals}


# ---------------------------------------------------------------- rounds

# Here the rounds of a prompt are a list of (drafted, examined, accepted), three numbers of tokens.


def acceptance_estimate(rounds_of_prompts, n_same=1):
    """Return the Estimate of the acceptance rate: accepted over examined tokens.

    rounds_of_prompts: for each prompt a list: (drafted, examined, accepted), the numbers of tokens
        of each round in all repeats
    n_same: how many repeats make the same decisions, and so count as one in the interval
    """
    accepted, examined = [], []
    for rounds in rounds_of_prompts:
        accepted.append(sum(n_accepted for _, _, n_accepted in rounds))
        examined.append(sum(n_examined for _, n_examined, _ in rounds))
    return Estimate(accepted, examined, interval_of=partial(share_interval, n_same=n_same))


def round_columns(rounds_of_prompts, K):
    """Sum up the rounds of all prompts. Returns a dict of columns:

        acceptance_by_position: for each position in the draft, 1 to K, which share of the examined
            tokens was accepted, None if none was examined; examined_by_position: how many were
        accepted_histogram: in how many rounds 0, 1, ... K tokens were accepted
        drafted, wasted_drafts: numbers of tokens; wasted are those not accepted

    rounds_of_prompts: for each prompt a list: (drafted, examined, accepted), the numbers of tokens
        of each round
    """
    rounds = [counts for of_prompt in rounds_of_prompts for counts in of_prompt]
    drafted = sum(n_drafted for n_drafted, _, _ in rounds)
    accepted = [n_accepted for _, _, n_accepted in rounds]
    examined_at, acceptance_at = [], []
    for position in range(1, K + 1):
        n_examined = sum(examined >= position for _, examined, _ in rounds)
        n_accepted = sum(n >= position for n in accepted)
        examined_at.append(n_examined)
        acceptance_at.append(n_accepted / n_examined if n_examined else None)
    return {
        "acceptance_by_position": acceptance_at,
        "examined_by_position": examined_at,
        "accepted_histogram": [accepted.count(n) for n in range(K + 1)],
        "drafted": drafted,
        "wasted_drafts": drafted - sum(accepted),
    }


def drafting_share(is_model, K, drafted, n_rounds):
    """Return the share of rounds with a draft, which the theory of the speedup calls h: 1 for a
    model, which always drafts. For n-grams a draft of fewer than K tokens counts in proportion.

    is_model: whether the draft is a model
    drafted: the number of drafted tokens in n_rounds rounds with up to K of them
    >>> drafting_share(False, 4, 20, 10)
    0.5
    """
    return 1 if is_model else drafted / (K * n_rounds)


def count_repeated_ngrams(ids):
    """Return (how many 8-grams of a text have occurred before in it, how many 8-grams it has).

    ids: the token ids of the text, a list
    >>> count_repeated_ngrams([1, 2] * 10)
    (11, 13)
    """
    grams = [tuple(ids[i : i + N_GRAM]) for i in range(len(ids) - N_GRAM + 1)]
    return len(grams) - len({*grams}), len(grams)
