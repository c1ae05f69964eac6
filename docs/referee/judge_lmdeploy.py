"""CLONE=~/lmdeploy python main.py prove lmdeploy

Judges rejection_sample of https://github.com/InternLM/lmdeploy: its Triton kernels, in NumPy.
"""

from types import SimpleNamespace

from clone import ROUNDS, program, with_bonus
from triton_in_numpy import TRITON

from proof.prove import prove


def referee() -> list[dict]:
    """The results of `prove` for rejection_sample, a rule; its Triton kernels run in NumPy."""
    module = "lmdeploy.pytorch.spec_decode.reject_sampler"
    theirs = program(module, ["lmdeploy", *TRITON], known=TRITON)
    # one noise serves all places of a draft: it is drawn on only for the place that is rejected
    theirs.sample_recovered_tokens_kernel.is_late = True
    settings = SimpleNamespace(max_top_k=0, top_k=None)  # so it samples, and is not greedy

    def sample(draft, p, q, bonus):
        batch = p.log()[None], draft[None], bonus, settings, q[None]  # of one text
        tokens, _, _ = theirs.rejection_sample(*batch)
        return tokens[0]

    return [prove(with_bonus(sample), ROUNDS, "rejection_sample of InternLM/lmdeploy")]
