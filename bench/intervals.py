"""Ratios of sums over prompts, and their 95 % intervals."""

import math
from collections.abc import Sequence

import numpy as np

MIN_PROMPTS = 6  # with fewer, the intervals cover too little


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float | None:
    """Return sum(numerators) / sum(denominators); None if the second sum is 0."""
    total = sum(denominators)
    return sum(numerators) / total if total else None


def ratio_interval(
    numerators: Sequence[float], denominators: Sequence[float], most: float = math.inf
) -> tuple[float, float] | None:
    """Return the 95 % interval (low, high) of sum(numerators) / sum(denominators). Both have a
    number of 0 or more for each prompt; `most` is the largest ratio that is possible.

    Returns None for fewer than 6 prompts (MIN_PROMPTS); if the numerators, or the denominators, are
    0 for all prompts but one; and if the ratio is `most`.

    The jackknife (Tukey 1958; Efron and Tibshirani 1993, chapter 11): leave out each prompt in
    turn; how far the ratio moves tells its standard error. Student's t widens the interval, because
    the standard error is itself estimated from few prompts. All of this is done with the ratio's
    logarithm, because 2 and 1/2 are equally far from 1. With six prompts, even or skewed as in
    tests/bench/test_intervals.py, the interval covers the true ratio in 93 to 95 % of cases, and
    an acceptance rate up to 0.95 in 92 to 96 %; a percentile bootstrap would in 83 to 86 %.
    """
    n = len(numerators)
    # [n] each: the sums over all prompts except prompt i
    numerators_without = sum(numerators) - np.asarray(numerators, float)
    denominators_without = sum(denominators) - np.asarray(denominators, float)
    if n < MIN_PROMPTS or min(*numerators_without, *denominators_without) <= 0:  # 0 has no log
        return None
    value = sum(numerators) / sum(denominators)
    if value == most:
        return None
    logs = np.log(numerators_without / denominators_without)
    # the square root of (n - 1) / n times the sum of the squares of their deviations
    standard_error = math.sqrt(n - 1) * float(logs.std())
    factor = math.exp(student_t(n - 1) * standard_error)
    return value / factor, min(most, value * factor)


def student_t(freedom: float) -> float:
    """Return how many standard errors a 95 % interval reaches to each side with these degrees of
    freedom, by Fisher's expansion around the normal distribution's 1.96.

    Within 0.001 from five degrees on (Abramowitz and Stegun 1964, 26.7.5).

    >>> round(student_t(5), 2), round(student_t(math.inf), 2)
    (2.57, 1.96)
    """
    return float(np.polyval([1.58954, 2.55585, 2.82250, 2.37227, 1.95996], 1 / freedom))
