"""CLONE=~/speculative-decoder python main.py prove beriltatli

Judges accept_reject of https://github.com/beriltatli/speculative-decoder, a rule for batches.
"""

import torch
from clone import ROUNDS, program

from proof.cases import BATCH_CASES, MANY_ROWS, WIDE
from proof.prove import prove


def referee() -> list[dict]:
    """The results of `prove` for accept_reject, a rule for batches."""
    theirs = program("spec.accept")

    def rule(drafts, p, q):
        """Returns a row of tokens for each draft, and how many of its first ones count."""
        drafts = torch.tensor(drafts)
        verdict = theirs.accept_reject(torch.tensor(p), torch.tensor(q), drafts)
        tokens = torch.nn.functional.pad(drafts, (0, 1))  # a place more, if all are accepted
        tokens[torch.arange(len(drafts)), verdict.n_accepted] = verdict.next_token
        return tokens, verdict.n_accepted + 1

    cases = [*ROUNDS, *BATCH_CASES, WIDE, MANY_ROWS]
    return [prove(rule, cases, "accept_reject of beriltatli/speculative-decoder", batch=True)]
