"""What the page keeps of a run: a `Note` of each round, from its distributions and its coins."""

from dataclasses import dataclass, replace

import numpy as np

from decoding.clock import Seconds
from sampling import Round, residual

N_LIKELY = 4  # candidates a note keeps of each distribution


@dataclass
class Note:
    """The numbers of one round; those of a draft stand at its index."""

    round: Round
    draft: list  # the drafted tokens
    p: list  # their probabilities; with `coupled`, before the noise
    q: list
    overlap: list  # sum of min(p, q): the probability that the token rule accepts there
    matching: list  # sum of p q: the probability that a sample from p is the drafted token
    # u of each examined draft, accepted where u < p / q; None where none was tossed for it, as
    # under shared noise; empty where the block rule tosses for all drafts together
    coins: list
    numbers: list  # which of the run's coins each is, counted from 0
    # P of the block rule: the probability that this many drafts are accepted, given that they were
    # drafted; None with the token rule
    support: list | None
    # for each token, [(token, p, q)] of the likeliest there; q is None where nothing was drafted
    likely: list
    residual: list | None  # after a rejection, [(token, probability)] of the likeliest replacements
    seconds: Seconds


def top_tokens(p, n=N_LIKELY):  # [n_vocab] -> [up to n]
    """The n likeliest tokens of a distribution, best first, without those of probability 0."""
    top = np.argpartition(p, -n)[-n:] if n < len(p) else np.arange(len(p))
    return [int(token) for token in top[np.argsort(-p[top], kind="stable")] if p[token] > 0]


def likely_rows(p, q, *tokens):  # [n_vocab], [n_vocab] or None -> [(token, p, q)]
    """The likeliest tokens of p and of q, and these tokens too, in the order of p."""
    shown = {*top_tokens(p), *tokens}
    if q is not None:
        shown.update(top_tokens(q))
    rows = [(x, float(p[x]), None if q is None else float(q[x])) for x in shown]
    return sorted(rows, key=lambda row: (-row[1], -(row[2] or 0), row[0]))


def residual_rows(p, q, token):  # [n_vocab], [n_vocab] -> [(token, probability)]
    """The likeliest replacements of a rejected draft, and the one that was sampled."""
    rest = residual(p, q)
    shown = dict.fromkeys([*top_tokens(rest), token])
    return [(x, float(rest[x])) for x in shown]


def block_support(p, q):  # [k], [k] -> [k]
    """P of sampling.verify_block for each draft, from the probabilities of the drafted tokens."""
    support, P = [], 1.0
    for p_token, q_token in zip(p, q):
        P = min(1.0, P * p_token / q_token)
        support.append(P)
    return support


def coins_of(p, q, coins):  # [n], [n], [(ratio, u)] -> n times (index, u) or None
    """For each examined draft the coin that the token rule tossed for it, and its index among the
    coins; None where it tossed none. A mistake may leave out the first: coins are told by their
    ratios.
    """
    ratios = np.minimum(1, np.divide(p, q))
    tossed = np.minimum(1, [ratio for ratio, _ in coins[: len(p)]])
    first = len(p) - len(tossed)
    while first < len(p) and not np.allclose(ratios[first:], tossed[: len(p) - first]):
        first += 1
    return [None] * first + [(i, u) for i, (_, u) in enumerate(coins[: len(p) - first])]


class Notes:
    """A watcher of Run.finish that keeps a Note of each round in `notes`.

    in_blocks: whether the rule, which may be a reader's own, is one of block verification
    """

    def __init__(self, run, in_blocks=False):
        self.run, self.in_blocks, self.notes, self.n_tossed = run, in_blocks, [], 0

    def __call__(self, round, seconds=None, coins=()):
        if round is None:
            return
        self.notes.append(self.note(round, seconds, coins))
        self.n_tossed += len(coins)

    def note(self, round, seconds, coins):
        draft = [int(token) for token in round.draft]
        p, n = round.p, len(draft)
        q = round.q if draft else p[:0]
        p_drafted, q_drafted = p[np.arange(n), draft].tolist(), q[np.arange(n), draft].tolist()
        support = block_support(p_drafted, q_drafted) if self.in_blocks else None
        likely = []
        for i, token in enumerate(round.tokens):
            tokens = {int(token), *draft[i : i + 1]}
            likely.append(likely_rows(p[i], q[i] if i < n else None, *tokens))
        replacements = None
        i = round.accepted
        if i < round.examined and not self.run.coupled:
            covered = support[i - 1] if support and i else 1.0
            replacements = residual_rows(covered * p[i], q[i], int(round.tokens[-1]))
        # the block rule tosses for all drafts together
        examined = slice(round.examined)
        tossed = [] if self.in_blocks else coins_of(p_drafted[examined], q_drafted[examined], coins)
        return Note(
            round=replace(round, q=None, p=None),
            draft=draft,
            p=p_drafted,
            q=q_drafted,
            overlap=np.minimum(p[:n], q).sum(axis=-1).tolist(),
            matching=(p[:n] * q).sum(axis=-1).tolist(),
            coins=[coin and coin[1] for coin in tossed],
            numbers=[coin and self.n_tossed + coin[0] for coin in tossed],
            support=support,
            likely=likely,
            residual=replacements,
            seconds=seconds,
        )
