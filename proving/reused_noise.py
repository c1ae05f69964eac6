"""Random numbers that are used twice: for a drafted token, and again for its replacement.

The right code has no use for them. They are what the mistake `draft-noise-again` needs, with random
numbers and in an enumeration.
"""

import numpy as np

from proving.enumeration import EnumeratingRng


def sample_and_keep(rng, p):  # [n_vocab] -> token
    """A token sampled from p. rng.kept, a list, gets the number that chose it.

    p divides the numbers from 0 to 1 into one interval for each token. In an enumeration the number
    is any of the token's interval: that is kept.
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
    """A token sampled from p with the number that chose the token kept n_back calls ago."""
    number = rng.kept[-n_back]
    if not isinstance(rng, EnumeratingRng):
        rng.sampled = p, token_at(p, number)  # for whoever shows it, as RecordingRng does
        return rng.sampled[1]
    begin, end = number
    ends = p.cumsum()
    shared = np.minimum(ends, end) - np.maximum(ends - p, begin)
    shared[shared < 1e-12] = 0  # rounding
    return rng.sample(shared / shared.sum())


def token_at(p, number):  # [n_vocab], 0 <= number < 1 -> token
    """The token whose interval holds the number."""
    cumulative = p.cumsum()
    token = cumulative.searchsorted(number * cumulative[-1], side="right")
    return int(min(token, np.flatnonzero(p)[-1]))  # rounding must not lead out of p
