"""CLONE=~/speculative-decoding python main.py prove lucidrains

Judges speculative_decoding of https://github.com/lucidrains/speculative-decoding (pip install
einops) without its top-k filter.
"""

import torch
from clone import CASES, program

from proof.prove import prove


class WithCache:
    """A model of `prove` whose cache is the tokens that it has read."""

    def __init__(self, model):
        self.model = model

    def __call__(self, ids, cache=None, **_):
        """(logits of the ids that the cache lacks, [1, n, n_vocab]; a cache of all ids)."""
        known = ids[:, :0] if cache is None else cache[0][..., 0]
        n_known = known.shape[1]
        ids = torch.cat([known, ids[:, n_known:]], dim=1)
        rows = self.model(ids[0].tolist())[n_known:]
        return torch.tensor(rows).log()[None], (ids[..., None], None)


def referee() -> list[dict]:
    """The results of `prove` for speculative_decoding, a loop."""
    theirs = program("speculative_decoding.speculative_decoding", stubs=["beartype"])

    def loop(target, draft_model, ids, n_tokens, K):
        new, _ = theirs.speculative_decoding(
            WithCache(target),
            WithCache(draft_model),
            torch.tensor([ids]),
            len(ids) + n_tokens,
            gamma=K,
            filter_thres=0.0,  # keep all tokens
        )
        return new[0].tolist()  # without the prompt

    return [prove(loop, CASES, "speculative_decoding of lucidrains/speculative-decoding")]
