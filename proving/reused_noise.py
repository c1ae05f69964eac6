"""Random numbers that are used twice: for a drafted token, and again for its replacement.

Only the mistake `draft-noise-again` does this. It has to work with random numbers, which are a
sampling.Rng's, and in an enumeration, which has none.
"""

import numpy as np

from proving.enumeration import EnumeratingRng

# The tokens divide the numbers from 0 to 1 into intervals, of length p[token] and in order. A
# number chooses the token in whose interval it lies.


def sample_and_keep(rng, p):  # [n_vocab] -> token
    """Sample a token from p, and append the random number that chose it to the list rng.kept. The
    first call adds this list to rng, a sampling.Rng.

    An EnumeratingRng has no random numbers. For it, the interval of all numbers that would have
    chosen the token is appended, (begin, end).
    """
    ends = p.cumsum()
    if isinstance(rng, EnumeratingRng):
        token = rng.sample(p)
        number = ends[token] - p[token], ends[token]
    else:
        number = rng.random()
        token = token_at(p, number)
    vars(rng).setdefault("kept", []).append(number)
    return token


def sample_again(rng, n_back, p):  # [n_vocab] -> token
    """Sample a token from p with the random number that sample_and_keep kept n_back calls ago: 1 is
    its last call. Sets rng.sampled. rng: the Rng that sample_and_keep was called with

    An EnumeratingRng kept an interval of numbers: it chooses, as a new random choice, in which
    token's interval the number lies.
    """
    number = rng.kept[-n_back]
    if not isinstance(rng, EnumeratingRng):
        token = token_at(p, number)
        rng.sampled = p, token  # as a RecordingRng notes it, for the page
        return token
    # the number is anywhere in its interval: how much of that lies in the interval of each token
    begin, end = number  # here an interval
    ends = p.cumsum()
    overlap = np.minimum(ends, end) - np.maximum(ends - p, begin)
    overlap[overlap < 1e-12] = 0  # none, or rounding
    return rng.sample(overlap / overlap.sum())


def token_at(p, number):  # [n_vocab], 0 <= number < 1 -> token
    """The token whose interval in the cumulative distribution of p holds the number."""
    cumulative = p.cumsum()  # the ends of the intervals; the last is 1, up to rounding
    token = cumulative.searchsorted(number * cumulative[-1], side="right")
    return int(min(token, np.flatnonzero(p)[-1]))  # rounding must not lead out of p
