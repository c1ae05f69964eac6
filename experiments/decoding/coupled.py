"""Shared noise: sampling whose text does not depend on the draft, at any temperature.

Sampling is greedy decoding of noisy logits. With g(x) independent draws of the standard Gumbel
distribution,

    P(argmax over x of log p(x) + g(x)  =  y)  =  p(y)

which is the Gumbel-max trick (Gumbel 1954; Yellott 1977). Give draft and target the same noise at
the same position of the text, decode greedily, and the decoding loops need not know: the
speculative text is the autoregressive text, token for token, as it always is for greedy decoding,
and both are draws from the target's distribution. Where p and q are close they mostly choose the
same token, so drafts are accepted (Daliri, Musco and Suresh 2024, arXiv 2408.07978).
"""

import numpy as np


def noise(seed, position, n_vocab):  # -> [n_vocab]
    """The Gumbel noise of one position of a text: a function of its arguments only."""
    return np.random.default_rng([position, seed]).gumbel(size=n_vocab)


class Noisy:
    """A model whose likeliest token is a draw from the filtered distribution of another. For the
    loops it is a model.
    """

    def __init__(self, model, filter, seed):
        self.model, self.filter, self.seed = model, filter, seed
        self.config, self.new_cache = model.config, model.new_cache

    def read(self, ids, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        """log p plus the noise of each row's position, the one of the token that it scores. A token
        that the filter left nothing has minus infinity, and never wins."""
        p = self.filter(self.model.read(ids, cache, n_last))
        positions = range(len(ids) + 1 - n_last, len(ids) + 1)
        with np.errstate(divide="ignore"):
            scores = np.log(p)
        for row, position in zip(scores, positions):
            row += noise(self.seed, position, len(row))
        return scores
