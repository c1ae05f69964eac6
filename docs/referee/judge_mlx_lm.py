"""python main.py prove mlx_lm

Judges speculative_generate_step of https://github.com/ml-explore/mlx-lm as it is installed (pip
install mlx-lm; without Apple's GPU also "mlx[cpu]"). Its sampler is an argument: here one that
draws from the rows by `prove`, in place of mlx's own.
"""

import numpy as np
from clone import SPARSE

from proof.prove import prove


class Tokens:
    """A cache: the tokens that a model has read."""

    def __init__(self):
        self.ids, self.state = [], []

    def is_trimmable(self):
        return True

    def trim(self, n):
        del self.ids[len(self.ids) - n :]
        return n


def referee() -> list[dict]:
    """The results of `prove` for speculative_generate_step, a loop."""
    try:
        import mlx.core as mx
        import mlx_lm
        from mlx_lm.generate import speculative_generate_step
    except ImportError as error:
        raise ValueError("prove mlx_lm needs mlx-lm: pip install mlx-lm") from error

    class Model:
        """A model of `prove` as theirs: a list with one cache, as of one layer, and rows of logits
        for new tokens.
        """

        def __init__(self, model):
            self.model = model

        def make_cache(self):
            return [Tokens()]

        def __call__(self, ids, cache):
            return mx.array(np.log(self.model(ids[0].tolist(), *cache)))[None]

    def loop(target, draft_model, ids, n_tokens, K, sample):
        steps = speculative_generate_step(
            mx.array(ids),
            Model(target),
            Model(draft_model),
            num_draft_tokens=K,
            max_tokens=n_tokens,
            sampler=lambda rows: mx.array([sample(row) for row in np.exp(rows)], mx.uint32),
        )
        return [token for token, _, _ in steps]

    return [prove(loop, SPARSE, f"speculative_generate_step of mlx-lm {mlx_lm.__version__}")]
