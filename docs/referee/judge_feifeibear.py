"""CLONE=~/LLMSpeculativeSampling python main.py prove feifeibear

Judges https://github.com/feifeibear/LLMSpeculativeSampling: speculative_sampling, which keeps a
cache, and speculative_sampling_v2. Both raise an error when token 0 is sampled: it is never, here.
"""

from functools import partial
from types import SimpleNamespace

import torch
from clone import CASES, program

from proof.prove import prove


class FromOne:
    """A model of `prove` that counts tokens from 1. What it has read is in its cache, as keys."""

    device = torch.device("cpu")

    def __init__(self, model):
        self.model = model

    def __call__(self, input_ids, past_key_values=None, **_):
        known = torch.tensor([], dtype=int) if past_key_values is None else past_key_values[0][0]
        ids = torch.cat([known.flatten(), input_ids.flatten()])
        rows = torch.tensor(self.model((ids - 1).tolist())[known.numel() :]).log()
        logits = torch.nn.functional.pad(rows, (1, 0), value=-torch.inf)
        cache = ids.view(1, 1, -1, 1)
        return SimpleNamespace(logits=logits[None], past_key_values=[(cache, cache)])


def referee() -> list[dict]:
    theirs = program("sampling.speculative_sampling")
    theirs.tqdm = partial(theirs.tqdm, disable=True)  # a bar for each run

    def judge(function):
        def loop(target, draft_model, ids, n_tokens, K):
            prompt = torch.tensor([ids]) + 1
            text = function(prompt, FromOne(draft_model), FromOne(target), n_tokens, gamma=K)
            return (text[0, len(ids) :] - 1).tolist()

        return prove(loop, CASES, f"{function.__name__} of feifeibear/LLMSpeculativeSampling")

    return [judge(theirs.speculative_sampling), judge(theirs.speculative_sampling_v2)]
