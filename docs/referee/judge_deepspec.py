"""CLONE=~/DeepSpec python main.py prove deepspec

Judges verify_draft_tokens of https://github.com/deepseek-ai/DeepSpec.
"""

from types import SimpleNamespace

import torch
from clone import ROUNDS, program

from proof.prove import prove


def referee() -> list[dict]:
    """The results of `prove` for verify_draft_tokens, a rule."""
    theirs = program("deepspec.eval.base_evaluator", ["deepspec"], ["deepspec.utils.sampling"])

    def rule(draft, p, q):
        target = lambda **_: SimpleNamespace(logits=torch.tensor(p).log()[None])
        ids = torch.tensor([[0, *draft]])  # the last token of the text, then the drafted
        result = theirs.verify_draft_tokens(
            target_model=target,
            proposal=theirs.DraftProposal(len(draft), ids, torch.tensor(q)[None]),
            position_ids=torch.arange(len(draft) + 1)[None],
            start=0,
            past_key_values_target=None,
            temperature=1.0,
            max_proposal_tokens=len(draft),
        )
        return result.committed_tokens[0].tolist()

    return [prove(rule, ROUNDS, "verify_draft_tokens of deepseek-ai/DeepSpec")]
