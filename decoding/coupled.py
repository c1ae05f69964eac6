"""Shared noise: sampling whose text does not depend on the draft, at any temperature.

Sampling is taking the best of noisy scores. With g(x) independent draws of the standard Gumbel
distribution,

    P(argmax over x of log p(x) + g(x)  =  y)  =  p(y)

which is the Gumbel-max trick (Gumbel 1954; Yellott 1977). Give draft and target the same noise at
the same position of the text, and keep a drafted token where the target chooses the same. The
speculative text is then the autoregressive text, token for token, as it always is for greedy
decoding, and both are draws from the target's distribution. Where p and q are close they mostly
choose the same token, so drafts are accepted (Daliri, Musco and Suresh 2024, arXiv 2408.07978).

The loop stays the same: only the Rng, `SharedNoise`, and the rule, `agree`, are different.
"""

import numpy as np

from decoding.streams import Purpose, stream


def noise(seed, position, n_vocab):  # -> [n_vocab]
    """The Gumbel noise of one position of a text: a function of its arguments only."""
    return np.random.default_rng(stream(Purpose.SHARED_NOISE, seed, position)).gumbel(size=n_vocab)


def scores(p, seed, position):  # [n_vocab] -> [n_vocab]
    """log p plus the noise of a position. A token of probability 0 has minus infinity, and never
    wins."""
    with np.errstate(divide="ignore"):
        return np.log(p) + noise(seed, position, len(p))


class SharedNoise:
    """The Rng of a text whose noise depends on the seed and the position alone.

    position: where in the text the next token is sampled
    begin: the position of the first token of the round, to which `agree` goes back
    """

    def __init__(self, seed, n_prompt):
        self.seed, self.position, self.begin = seed, n_prompt, n_prompt

    def sample(self, p):  # [n_vocab] -> token
        best = int(scores(p, self.seed, self.position).argmax())
        self.position += 1
        return best


def match(draft, p, q, rng):  # as sampling.verify
    """Sample a token from p, and keep the drafted one if it is the same.

    Exact for any q, but with independent choices it keeps a drafted token with probability p, where
    `verify` keeps it with min(1, p / q).
    """
    for i, token in enumerate(draft):
        sampled = rng.sample(p[i])
        if sampled != token:
            return i, sampled
    return len(draft), rng.sample(p[len(draft)])


def agree(draft, p, q, rng):  # as sampling.verify; rng: SharedNoise
    """Go back to the first position of the round, then `match` with the noise the draft had."""
    rng.position = rng.begin
    result = match(draft, p, q, rng)
    rng.begin = rng.position
    return result
