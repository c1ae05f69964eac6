"""Synthetic acceptance: drafts that are accepted by coin, whatever the models say.

All passes are run, so the time is real; only the verdict is not.
"""

from dataclasses import replace

from sampling import toss


class CoinFilter:
    """A filter of the target that decides by coin whether the drafter's tokens are accepted.

    In place of the target's distribution at each drafted token comes certainty: of that token with
    the given probability, else of another. `verify` cannot but agree.
    """

    def __init__(self, filter, acceptance, rng):
        self.filter, self.acceptance, self.rng = filter, acceptance, rng
        self.draft = []

    def listen_to(self, drafter):
        self.drafter, self.n_vocab, self.prefill = drafter, drafter.n_vocab, drafter.prefill
        return self

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        self.draft, q = self.drafter.propose(ids, k)
        return self.draft, q

    def __call__(self, logits):  # [k + 1, n_vocab] -> [k + 1, n_vocab]
        p = self.filter(logits)
        for row, token in zip(p, self.draft):
            accepted = toss(self.acceptance, self.rng)
            row[:] = 0
            row[token if accepted else (token + 1) % len(row)] = 1
        return p


def accept_by_coin(parts, acceptance, rng):
    """The Parts of a loop (job.py) in which drafts are accepted with this probability."""
    coin = CoinFilter(parts.p_filter, acceptance, rng)
    return replace(parts, p_filter=coin, draft=parts.draft.wrapped(coin.listen_to))
