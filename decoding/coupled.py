"""Shared noise: sampling whose text does not depend on the draft, at any temperature.

Sampling is taking the best of noisy scores. With g(x) independent draws of the standard Gumbel
distribution,

    P(argmax over x of log p(x) + g(x)  =  y)  =  p(y)

which is the Gumbel-max trick (Gumbel 1954; Yellott 1977). Give draft and target the same noise at
the same position of the text, and keep a drafted token where the target chooses the same. The
speculative text is then the autoregressive text, token for token, as it always is for greedy
decoding, and both are draws from the target's distribution. Where p and q are close they mostly
choose the same token, so drafts are accepted (Daliri, Musco and Suresh 2024, arXiv 2408.07978).

So it takes no more than another Chance, `Shared`, and another rule, `agree`.
"""

import numpy as np


def noise(seed, position, n_vocab):  # -> [n_vocab]
    """The Gumbel noise of one position of a text: a function of its arguments only."""
    return np.random.default_rng([position, seed]).gumbel(size=n_vocab)


def scores(p, seed, position):  # [n_vocab] -> [n_vocab]
    """log p plus the noise of a position. A token that the filter left nothing has minus infinity,
    and never wins."""
    with np.errstate(divide="ignore"):
        return np.log(p) + noise(seed, position, len(p))


class Shared:
    """The Chance of a text whose noise depends on the seed and the position alone.

    position: of the token that is sampled next
    begin: of the first token of the round, where `agree` goes back to
    """

    def __init__(self, seed, n_prompt):
        self.seed, self.position, self.begin = seed, n_prompt, n_prompt

    def sample(self, p):  # [n_vocab] -> token
        best = int(scores(p, self.seed, self.position).argmax())
        self.position += 1
        return best


def match(draft, q, p, chance):  # as sampling.verify
    """Sample a token from p, and keep the drafted one if it is the same.

    Exact for any q, but with independent choices it keeps a drafted token with probability p, where
    `verify` keeps it with min(1, p / q).
    """
    for i, token in enumerate(draft):
        sampled = chance.sample(p[i])
        if sampled != token:
            return i, sampled
    return len(draft), chance.sample(p[len(draft)])


def agree(draft, q, p, chance):  # as sampling.verify, with Shared
    """Match, under the noise that the draft was chosen with."""
    chance.position = chance.begin
    result = match(draft, q, p, chance)
    chance.begin = chance.position
    return result
