"""CLONE=~/gpt-fast python main.py prove gpt_fast

Judges generate of https://github.com/meta-pytorch/gpt-fast with a draft model.
"""

from types import SimpleNamespace

import torch
from clone import CASES, program

from proof.prove import prove


class ByPosition:
    """A model of `prove` that gpt-fast calls: its cache holds a token at each position."""

    def __init__(self, model):
        self.model, self.config = model, SimpleNamespace(block_size=99)

    def setup_caches(self, max_seq_length, **_):
        self.ids = [0] * max_seq_length

    def __call__(self, ids, input_pos):
        first, end = int(input_pos[0]), int(input_pos[-1]) + 1
        self.ids[first:end] = ids[0].tolist()
        return torch.tensor(self.model(self.ids[:end])[first:]).log()[None]


def referee() -> list[dict]:
    """The results of `prove` for generate, a loop."""
    theirs = program("generate", stubs=["model", "tokenizer"])  # generate.py of the clone

    def loop(target, draft_model, ids, n_tokens, K):
        text, _counts = theirs.generate(
            ByPosition(target),
            torch.tensor(ids),
            n_tokens,
            interactive=False,
            draft_model=ByPosition(draft_model),
            speculate_k=K,
        )
        return text[len(ids) :].tolist()

    return [prove(loop, CASES, "generate of meta-pytorch/gpt-fast")]
