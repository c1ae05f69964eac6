"""TRITON_INTERPRET=1 CLONE=~/lmdeploy python main.py prove lmdeploy

Judges rejection_sample of https://github.com/InternLM/lmdeploy (1263d5c): its Triton kernels, in
Triton's interpreter. The bonus token is drawn here.
"""

from types import SimpleNamespace

import torch
from clone import RULES, program

from proof.prove import prove

STUBS = [
    "lmdeploy",
    "lmdeploy.pytorch",
    "lmdeploy.pytorch.engine",
    "lmdeploy.pytorch.engine.logits_process",
    "lmdeploy.pytorch.spec_decode",
]


def referee() -> list[dict]:
    theirs = program("lmdeploy.pytorch.spec_decode.reject_sampler", STUBS)
    settings = SimpleNamespace(max_top_k=0, top_k=None)

    def rule(draft, p, q):
        K = len(draft)
        tokens, _, _ = theirs.rejection_sample(
            torch.tensor(p[None, :K], dtype=torch.float32).log(),
            torch.tensor([draft], dtype=torch.long),
            torch.multinomial(torch.tensor(p[K:]), 1)[0],
            settings,
            torch.tensor(q[None], dtype=torch.float32),
        )
        return [token for token in tokens[0].tolist() if token >= 0]

    return [prove(rule, RULES, "rejection_sample of lmdeploy")]
