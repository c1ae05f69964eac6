"""CLONE=~/GPTFast python main.py prove gptfast

Judges generate of https://github.com/MDK8888/GPTFast with a draft model: with argmax, as in its
Examples, and with a function that samples.
"""

from types import SimpleNamespace

import numpy as np
import torch
from clone import CASES, program

from proof.cases import filtered
from proof.prove import prove

DECODE, CACHE = "GPTFast.Core.Decode.SpeculativeDecode", "GPTFast.Core.KVCache.KVCacheModel"


class ByPosition:
    """A model of `prove` whose cache holds a token at each position."""

    def __init__(self, model):
        heads = dict(num_hidden_layers=1, num_attention_heads=1, hidden_size=1)
        self.model, self.config = model, SimpleNamespace(vocab_size=model.n_vocab, **heads)
        self.ids = [0] * 99

    def __call__(self, input_ids, input_pos, **_):
        first, end = int(input_pos[0]), int(input_pos[-1]) + 1
        self.ids[first:end] = input_ids[0].tolist()
        return SimpleNamespace(logits=torch.tensor(self.model(self.ids[:end])[first:]).log()[None])


def argmax(self, probabilities):
    return probabilities.argmax(-1).view(1, 1)


def sample(self, row):
    row = row.softmax(-1) if row.min() < 0 else row  # for the first token it gets logits
    return torch.multinomial(row, 1).view(1, 1)


def referee() -> list[dict]:
    """The results of `prove` for generate, a loop, with each of its two ways to choose a token."""
    theirs = program(DECODE, stubs=["GPTFast.Core"], real=[CACHE])

    class Cached(theirs.KVCacheModel):
        """Theirs, of a model that has a cache."""

        @classmethod
        def add_static_cache_to_model(cls, model, *_):
            return model

    def judge(name, sampler, to_probs):
        def loop(target, draft_model, ids, n_tokens, K):
            options = sampler, {"max_length": 99}, torch.float64, torch.device("cpu")
            models = (Cached(ByPosition(model), *options) for model in (target, draft_model))
            model = theirs.add_speculative_decoding(*models)
            text = model.generate(torch.tensor([ids]), len(ids) + n_tokens, speculate_k=K)
            return text[0, len(ids) :].tolist()

        return prove(loop, CASES, f"generate of MDK8888/GPTFast, {name}", to_probs)

    return [judge("argmax", argmax, filtered(0.0)), judge("sampling", sample, np.asarray)]
