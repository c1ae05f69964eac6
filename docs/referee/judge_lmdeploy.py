"""CLONE=~/lmdeploy python main.py prove lmdeploy

Judges rejection_sample of https://github.com/InternLM/lmdeploy: its Triton kernels, in NumPy.
"""

from types import SimpleNamespace

from clone import ROUNDS, program, with_bonus
from triton_in_numpy import TRITON

from proof.prove import prove


def referee() -> list[dict]:
    module = "lmdeploy.pytorch.spec_decode.reject_sampler"
    theirs = program(module, ["lmdeploy", *TRITON], known=TRITON)
    theirs.sample_recovered_tokens_kernel.is_late = True  # one noise serves all places of a draft
    settings = SimpleNamespace(max_top_k=0, top_k=None)

    def sample(draft, p, q, bonus):
        tokens, _, _ = theirs.rejection_sample(p.log()[None], draft[None], bonus, settings, q[None])
        return tokens[0]

    return [prove(with_bonus(sample), ROUNDS, "rejection_sample of InternLM/lmdeploy")]
