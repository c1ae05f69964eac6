"""Synthetic acceptance: drafts that are accepted by coin, whatever the models say.

All passes are run, so the time is real; only the verdict is not.
"""

from sampling import toss


class RememberingDrafter:
    """A drafter that remembers its last draft."""

    def __init__(self, drafter):
        self.drafter = drafter
        self.n_vocab = drafter.n_vocab
        self.prefill = drafter.prefill
        self.draft = []

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        self.draft, q = self.drafter.propose(ids, k)
        return self.draft, q


class CoinFilter:
    """A filter of the target that decides by coin whether the drafter's tokens are accepted.

    In place of the target's distribution at each drafted token comes certainty: of that token with
    the given probability, else of another. `verify` cannot but agree.
    """

    def __init__(self, filter, drafter, acceptance, rng):
        self.filter, self.drafter = filter, drafter
        self.acceptance, self.rng = acceptance, rng

    def __call__(self, logits):  # [k + 1, n_vocab] -> [k + 1, n_vocab]
        p = self.filter(logits)
        for row, token in zip(p, self.drafter.draft):
            accepted = toss(self.acceptance, self.rng)
            row[:] = 0
            row[token if accepted else (token + 1) % len(row)] = 1
        return p


def accept_by_coin(drafter, filter, acceptance, rng):
    """(drafter, filter) for the loop, with which drafts are accepted with this probability."""
    drafter = RememberingDrafter(drafter)
    return drafter, CoinFilter(filter, drafter, acceptance, rng)
