"""CLONE=~/Speculative-Sampling python main.py prove shreyansh26

Judges speculative_sampling of https://github.com/shreyansh26/Speculative-Sampling.
"""

import torch
from clone import CASES, CausalLM, program

from proof.prove import prove


def referee() -> list[dict]:
    """The results of `prove` for speculative_sampling, a loop."""
    theirs = program("speculative_sampling", stubs=["transformers"])

    def loop(target, draft_model, ids, n_tokens, K):
        text = theirs.speculative_sampling(
            CausalLM(target),
            CausalLM(draft_model),
            torch.tensor([ids]),
            len(ids) + n_tokens,
            tokenizer=None,
            lookahead=K,
            debug=False,
        )
        return text[0, len(ids) :].tolist()

    return [prove(loop, CASES, "speculative_sampling of shreyansh26/Speculative-Sampling")]
