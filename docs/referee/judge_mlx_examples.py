"""CLONE=~/mlx-examples/llms/speculative_decoding python main.py prove mlx_examples

Judges speculative_decode of https://github.com/ml-explore/mlx-examples, whole, with mlx (pip
install "mlx[cpu]"). It takes the likeliest tokens, but tosses coins for the drafts.
"""

from types import SimpleNamespace

import mlx.core as mx
import numpy as np
from clone import CASES, program

from proof.cases import filtered
from proof.prove import prove


class Model:
    """A model of `prove` as theirs: `decode` gives the rows of new tokens x, [1, n], after those it
    has read; it needs no encoded prompt.
    """

    def __init__(self, model, ids):
        self.model, self.ids = model, list(ids)

    def encode(self, prompt):
        return None

    def decode(self, x, memory):
        self.ids += x[0].tolist()
        rows = np.maximum(self.model(self.ids)[-x.shape[1] :], 1e-30)
        return mx.array(np.log(rows))[None]

    def truncate_cache(self, n):
        del self.ids[len(self.ids) - n :]

    def reset_cache(self):
        pass


def referee() -> list[dict]:
    """The results of `prove` for speculative_decode, a loop, at temperature 0."""
    theirs = program("decoder", ["transformers", "model"])

    def loop(target, draft_model, ids, n_tokens, K):
        texts = [[]]  # the whole text, each time that theirs decodes it

        def keep(tokens):
            texts.append(list(tokens))
            return ""

        decoder = object.__new__(theirs.SpeculativeDecoder)  # without loading models
        decoder.model = Model(target, ids[:-1])
        decoder.draft_model = Model(draft_model, ids[:-1])
        decoder.num_draft = K
        decoder.delta = 0.0
        decoder.tokenizer = SimpleNamespace(
            eos_id=10**6,  # never
            decoder_start_id=ids[-1],
            encode=lambda text: [0],
            decode=keep,
        )
        decoder.speculative_decode("", max_tokens=n_tokens)
        return texts[-1]

    return [prove(loop, CASES, "speculative_decode of mlx-examples", filtered(0.0))]
