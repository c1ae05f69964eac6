"""Ratios over prompts and their 95 % intervals."""

import math
import statistics
from functools import partial
from itertools import chain

import numpy as np

MIN_PROMPTS = 6  # with fewer, the interval of an acceptance rate covers too little
N_GRAM = 8  # repeated runs of this many tokens are a loop, not a coincidence


def ratio(numerators, denominators):
    """Return sum(numerators) / sum(denominators); None if the denominators sum to 0."""
    total = sum(denominators)
    return sum(numerators) / total if total else None


def interval(numerators, denominators):
    """Return [low, high], the 95 % interval of sum(numerators) / sum(denominators).

    numerators, denominators: lists with a number, 0 or more, for each prompt
    Returns None with fewer than MIN_PROMPTS prompts, or if the numerators or the denominators of
    all prompts but one are 0.

    The jackknife (Tukey 1958; Efron and Tibshirani 1993, chapter 11): leave out each prompt in
    turn; how far the ratio moves tells its standard error. Student's t widens the interval, because
    the standard error is itself estimated from few prompts. All of this is done with the ratio's
    logarithm, because 2 and 1/2 are equally far from 1. With six prompts, even or skewed as in
    tests/benchmark/test_statistics.py, the interval covers the true ratio in 93 to 95 % of cases;
    that of a percentile bootstrap does in 83 to 86 %.
    """
    n = len(numerators)
    # two arrays [n]: the sums over all prompts except prompt i
    left_out = [sum(values) - np.asarray(values, float) for values in (numerators, denominators)]
    if n < MIN_PROMPTS or np.min(left_out) <= 0:
        return None
    above, below = left_out
    standard_error = math.sqrt(n - 1) * np.log(above / below).std()
    factor = math.exp(student_t(n - 1) * standard_error)
    value = ratio(numerators, denominators)
    return [value / factor, value * factor]


def share_interval(successes, trials, repeats=1):
    """Return the 95 % interval [low, high] of sum(successes) / sum(trials), a share from 0 to 1,
    with one number of each for a prompt; None if fewer than MIN_PROMPTS prompts had a trial.

    Prompts differ, so trials of one prompt tell less than independent ones. The interval is that
    of as many independent trials as would be equally uncertain (Korn and Graubard 1998): a score
    interval with continuity correction (Newcombe 1998, method 4), or the rule of three where all or
    none succeeded. It covers the true acceptance rate in 94 % of cases or more; see
    tests/benchmark/test_statistics.py.

    repeats: how often each trial was made; a repeat makes the same decision, so it adds nothing
    """
    n_prompts = np.count_nonzero(trials)
    if n_prompts < MIN_PROMPTS:
        return None
    share, n_trials = ratio(successes, trials), sum(trials) / repeats
    if share in (0, 1):
        reach = min(1.0, 3 / n_trials)
        return [0.0, reach] if share == 0 else [1 - reach, 1.0]
    # the variance of the share over prompts, and that of independent trials
    errors = np.subtract(successes, share * np.asarray(trials)) / sum(trials)
    variance = n_prompts / (n_prompts - 1) * (errors @ errors)
    too_few = (student_t(n_prompts - 1) / student_t(math.inf)) ** 2
    of_one_trial = share * (1 - share)
    n_effective = of_one_trial / max(of_one_trial / n_trials, too_few * variance)
    return [score_bound(share, n_effective, side) for side in (-1, 1)]


def score_bound(share, n, side):
    """The lower (side -1) or upper (1) bound of the share in n independent trials: where the normal
    approximation would put the share, or half a trial beyond it, on the edge of what is likely.
    """
    share = min(1, max(0, share + side / (2 * n)))
    z = student_t(math.inf)
    middle = share + z**2 / (2 * n)
    reach = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return float(min(1, max(0, (middle + side * reach) / (1 + z**2 / n))))


def student_t(freedom):
    """How many standard errors a 95 % interval reaches to each side, for this many degrees of
    freedom: Fisher's expansion around the normal distribution's 1.96.

    Within 0.001 from five degrees on (Abramowitz and Stegun 1964, 26.7.5).
    """
    return np.polyval([1.58954, 2.55585, 2.82250, 2.37227, 1.95996], 1 / freedom)


def median_and_range(values):
    """Return {"value": the median, "low": the least, "high": the largest} of measured values."""
    return {"value": statistics.median(values), "low": min(values), "high": max(values)}


class Estimate:
    """The ratio of two sums over prompts, with its 95 % interval.

    withheld: why it must not be published, a text; None if it may
    """

    def __init__(self, numerators, denominators, withheld=None, interval_of=interval):
        self.value = ratio(numerators, denominators)
        self.interval = interval_of(numerators, denominators)
        self.withheld = withheld

    @property
    def published(self):
        return None if self.withheld else self.value


def estimate_columns(figures):
    """Return {name: published value} of {name: Estimate}, with all intervals under "intervals"."""
    published = {name: figure.published for name, figure in figures.items()}
    intervals = {name: figure.interval for name, figure in figures.items()}
    return published | {"intervals": intervals}


# ---------------------------------------------------------------- rounds

# The rounds of a prompt are [(drafted, examined, accepted)].


def acceptance_estimate(by_prompt, repeats=1):
    """Return the Estimate of the acceptance rate: accepted over examined tokens.

    by_prompt: for each prompt its rounds [(drafted, examined, accepted)], of all repeats
    """
    examined = [sum(e for _, e, _ in rounds) for rounds in by_prompt]
    accepted = [sum(a for _, _, a in rounds) for rounds in by_prompt]
    return Estimate(accepted, examined, interval_of=partial(share_interval, repeats=repeats))


def round_columns(by_prompt, K):
    """Return {column: value} that sums up the rounds of all prompts.

    By position in the draft, 1 to K: how many tokens were examined, and which share of them was
    accepted (None if none was examined).
    """
    rounds = [*chain(*by_prompt)]
    drafted, _, accepted = map(sum, zip(*rounds))
    positions = range(1, K + 1)
    examined_at = [sum(e >= i for _, e, _ in rounds) for i in positions]
    accepted_at = [sum(a >= i for _, _, a in rounds) for i in positions]
    return {
        "acceptance_by_position": [a / e if e else None for a, e in zip(accepted_at, examined_at)],
        "examined_by_position": examined_at,
        "accepted_histogram": [sum(a == i for _, _, a in rounds) for i in range(K + 1)],
        "drafted": drafted,
        "wasted_drafts": drafted - accepted,
    }


def drafting_share(is_model, K, drafted, n_rounds):
    """Return h of the theory: 1 for a model; for n-grams the share of K positions they filled."""
    return 1 if is_model else drafted / (K * n_rounds)


def count_repeated_ngrams(ids):
    """Return (8-grams of a text that occurred before, all its 8-grams), as two numbers.

    >>> count_repeated_ngrams([1, 2] * 10)
    (11, 13)
    """
    grams = [tuple(ids[i : i + N_GRAM]) for i in range(len(ids) - N_GRAM + 1)]
    return len(grams) - len({*grams}), len(grams)
