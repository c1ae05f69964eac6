"""Shared noise: sampling whose text does not depend on the draft, at any temperature.

To sample from p, add noise to log p and take the token with the largest sum. With g(x) independent
draws of the standard Gumbel distribution,

    P(argmax over x of log p(x) + g(x)  =  y)  =  p(y)

which is the Gumbel-max trick (Gumbel 1954; Yellott 1977). Give draft and target the same noise at
the same position of the text, and keep a drafted token if the target chooses the same token. The
speculative text is then the autoregressive text, token for token, as it always is for greedy
decoding, and both are draws from the target's distribution. If p and q are close, they mostly
choose the same token, so drafts are accepted (Daliri, Musco and Suresh 2024, arXiv 2408.07978).

The loop stays the same. Only the Rng, `SharedNoise`, and the rule, `verify_shared_noise`, differ.
"""

import numpy as np

from decoding.streams import Purpose, stream


def gumbel_noise(seed: int, position: int, n_vocab: int):  # -> [n_vocab]
    """The Gumbel noise of one position of a text, equal for equal arguments."""
    rng = np.random.default_rng(stream(Purpose.SHARED_NOISE, seed, position))
    return rng.gumbel(size=n_vocab)


def noisy_log_probs(p, seed: int, position: int):  # [n_vocab] -> [n_vocab]
    """log p plus the Gumbel noise of a position, so that the argmax is a sample from p; minus
    infinity for a token of probability 0.
    """
    with np.errstate(divide="ignore"):
        return np.log(p) + gumbel_noise(seed, position, len(p))


class SharedNoise:
    """The Rng of one text. Its choice depends only on p, the seed and the position in the text.

    position: of the next token to sample; it begins at n_prompt, the number of the prompt's tokens
    round_start: the position of the round's first token, to which `verify_shared_noise` goes back
    """

    def __init__(self, seed: int, n_prompt: int):
        self.seed, self.position, self.round_start = seed, n_prompt, n_prompt

    def sample(self, p):  # [n_vocab] -> token
        """Return the token with the largest noisy log probability; go to the next position."""
        token = int(noisy_log_probs(p, self.seed, self.position).argmax())
        self.position += 1
        return token


def verify_match(draft, p, q, rng):  # [k], [k + 1, n_vocab], [k, n_vocab] -> n_accepted, token
    """Sample from the rows of p in turn, by rng.sample, and accept drafted tokens while the samples
    equal them. `token` is the first sample that differs, or that from the last row if none does. q
    is not used.

    Exact for any q. But if the samples are independent, a drafted token x is accepted only with
    probability p(x); `verify` accepts it with min(1, p(x) / q(x)).
    """
    for i, token in enumerate(draft):
        sampled = rng.sample(p[i])
        if sampled != token:
            return i, sampled
    return len(draft), rng.sample(p[len(draft)])


def verify_shared_noise(draft, p, q, rng):  # [k], [k + 1, n_vocab], [k, n_vocab] -> int, token
    """Accept drafted tokens while the target chooses the same with the noise that they were sampled
    with. `token` is the first that it chooses otherwise, or the one after all of them. q is not
    used.

    rng: the text's SharedNoise. It is set back to the first position of the round; afterwards it is
    at the position behind `token`, where the next round starts.
    """
    rng.position = rng.round_start
    n_accepted, token = verify_match(draft, p, q, rng)
    rng.round_start = rng.position
    return n_accepted, token
