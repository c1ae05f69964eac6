"""CLONE=~/vllm python main.py prove vllm

Judges the rejection sampler in PyTorch that vLLM had up to 0.8 (a clone of v0.8.5, or its wheel,
unpacked).
"""

import torch
from clone import ROUNDS, program

from proof.prove import prove


def referee() -> list[dict]:
    torch.compiler.set_stance("force_eager")
    layers = "vllm.model_executor.layers"
    stubs = ["vllm", "vllm.envs", "vllm.logger", "vllm.platforms", "vllm.model_executor", layers]
    theirs = program(f"{layers}.rejection_sampler", stubs)
    sampler = theirs.RejectionSampler(use_flashinfer=False)
    sampler.init_tensors("cpu")

    def rule(draft, p, q):
        bonus = torch.tensor(p[-1:]).multinomial(1)
        p, q = (torch.tensor(rows, dtype=torch.float32)[None] for rows in (p, q))
        tokens = sampler(p, bonus, q, torch.tensor([draft], dtype=torch.long))[0].tolist()
        return [token for token in tokens if token >= 0]  # -1 fills what is not kept

    return [prove(rule, ROUNDS, "RejectionSampler of vllm-project/vllm")]
