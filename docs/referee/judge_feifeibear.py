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
    """A model of `prove` that counts tokens from 1: 0 is never sampled, which theirs takes for an
    error. What it has read is in its cache, as keys [1, 1, n, 1].
    """

    device = torch.device("cpu")

    def __init__(self, model):
        self.model = model

    def __call__(self, input_ids, past_key_values=None, **_):
        """Logits of the new input_ids, and all ids until now as the next past_key_values."""
        known = torch.tensor([], dtype=int)
        if past_key_values is not None:
            known = past_key_values[0][0].flatten()
        ids = torch.cat([known, input_ids.flatten()])
        rows = torch.tensor(self.model((ids - 1).tolist())[len(known) :]).log()
        logits = torch.nn.functional.pad(rows, (1, 0), value=-torch.inf)  # token 0 is impossible
        keys = ids.view(1, 1, -1, 1)
        return SimpleNamespace(logits=logits[None], past_key_values=[(keys, keys)])


def referee() -> list[dict]:
    """The results of `prove` for speculative_sampling and speculative_sampling_v2, loops."""
    theirs = program("sampling.speculative_sampling")
    theirs.tqdm = partial(theirs.tqdm, disable=True)  # a bar for each run

    def judge(function):
        def loop(target, draft_model, ids, n_tokens, K):
            prompt = torch.tensor([ids]) + 1  # as FromOne counts
            text = function(prompt, FromOne(draft_model), FromOne(target), n_tokens, gamma=K)
            return (text[0, len(ids) :] - 1).tolist()

        return prove(loop, CASES, f"{function.__name__} of feifeibear/LLMSpeculativeSampling")

    return [judge(theirs.speculative_sampling), judge(theirs.speculative_sampling_v2)]
