"""CLONE=~/vllm-ascend python main.py prove vllm_ascend

Judges rejection_sample of https://github.com/vllm-project/vllm-ascend as it runs without Triton: as
it stands, and with the configuration enable_block_verify. Constants of vLLM that it imports stand
here, and its uniform random numbers are torch.rand's; no memory is pinned.
"""

import functools
from types import SimpleNamespace

import torch
from clone import RULES, program, with_bonus

from proof.prove import prove

KNOWN = {
    "vllm.v1.sample.rejection_sampler": dict(
        GREEDY_TEMPERATURE=0, MAX_SPEC_LEN=128, PLACEHOLDER_TOKEN_ID=-1, RejectionSampler=object
    ),
    "vllm.triton_utils": dict(HAS_TRITON=False),
}


def referee() -> list[dict]:
    """The results of `prove` for rejection_sample, a rule, without and with block verification."""
    theirs = program("vllm_ascend.sample.rejection_sampler", ["vllm", "vllm_ascend"], known=KNOWN)
    theirs.generate_uniform_probs = lambda n, *_: torch.rand(n, dtype=torch.float64)
    theirs.torch = Unpinned()

    def judge(name, block):
        method = SimpleNamespace(
            enable_block_verify=block,
            enable_entropy_verify=False,
            posterior_threshold=0.95,
            posterior_alpha=0.4,
        )
        config = SimpleNamespace(rejection_sampler_config=method, enable_reduce_sample=False)
        theirs.get_ascend_config = lambda: config
        settings = SimpleNamespace(
            all_greedy=False, all_random=True, temperature=torch.ones(1), generators={}
        )

        def sample(draft, p, q, bonus):
            K = len(draft)
            lengths, ends = [K], torch.tensor([K], dtype=torch.int32)  # in a batch of one
            draft, logits = draft.to(torch.int32), p.log()
            batch = draft, lengths, K, ends, q, logits, bonus[None], settings
            return theirs.rejection_sample(*batch)[0]

        # with enable_block_verify, drafts of fewer tokens are verified as without
        cases = [case for case in RULES if case.K >= 3] if block else RULES
        return prove(with_bonus(sample), cases, f"rejection_sample of vllm-ascend{name}")

    return [judge("", block=False), judge(", enable_block_verify", block=True)]


class Unpinned:
    """torch, but for pin_memory, an argument that is left out: it needs a device."""

    def __getattr__(self, name):
        """What torch has of this name; of a function that makes tensors, a form without pinning."""
        found = getattr(torch, name)
        if name not in ("tensor", "arange", "ones", "full", "empty", "zeros"):
            return found

        @functools.wraps(found)
        def unpinned(*arguments, pin_memory=False, **more):
            # looked up at each call: `prove` replaces functions of torch while it runs
            return getattr(torch, name)(*arguments, **more)

        return unpinned
