"""What the page shows of each round, noted as the Rounds of a loop pass by."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from cli.trace import sources_of
from sampling import Rng, Round

N_LIKELY = 5  # candidates noted of each distribution


class RecordingRng(Rng):
    """An Rng that records in `tossed` the u of each call of `accept`, which returned u < ratio."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.tossed: list[float] = []

    def accept(self, ratio: float) -> bool:
        self.tossed.append(self.random())
        return self.tossed[-1] < ratio

    def take_coins(self, n: int) -> list[float]:
        """Return the first n numbers that were recorded since the last call, fewer if there are
        fewer, and forget all that were recorded.
        """
        tossed = self.tossed
        self.tossed = []
        return tossed[:n]


class LikeliestRng(Rng):
    """An Rng that samples the likeliest token of any distribution."""

    position = round_start = 0  # as SharedNoise, whose rule it can follow

    def sample(self, p):  # [n_vocab] -> token
        return int(p.argmax())


def noted(rounds: Iterator[Round], rng: Any, rule: str) -> Iterator[dict[str, Any]]:
    """Yield of each Round but the prefill, as soon as it comes, what the page shows of it, the dict
    that note_of returns.

    rng: what makes the random choices of the text. The numbers by which drafts are accepted, the
        coins of a note, are known of a RecordingRng with the token rule only; else they are []
    rule: "token", "block" or "coupled"
    """
    for this_round in rounds:
        coins: list[float] = []
        if rule == "token" and isinstance(rng, RecordingRng):
            coins = rng.take_coins(this_round.examined)
        if this_round.tokens:  # the prefill has none
            yield note_of(this_round, coins, rule)


def note_of(this_round: Round, coins: list[float], rule: str) -> dict[str, Any]:
    """The numbers of one round that wrote tokens, for JSON. coins: the numbers u that were drawn to
    accept drafted tokens, [] if they are not known; rule: "token", "block" or "coupled". Returns

    accepted, examined: how many drafted tokens
    tokens, sources: each token that was written, and where it came from (cli.trace.sources_of)
    draft: the drafted tokens; p and q: of each of them, its probability
    overlap: of each drafted place, the sum of min(p, q) over all tokens. Under the block rule, p is
        multiplied there by the support of the drafted token before; at the first place by 1
    coins: as given
    support: under the block rule, of each drafted token, the probability that it is accepted with
        all before it, on average over the drafts that begin so; under another rule None
    likely: for each of `tokens`, the likely_rows [(token, p, q)] of its place
    """
    draft = [int(token) for token in this_round.draft]
    p, q = this_round.p, this_round.q
    p_drafted = [float(p[i, token]) for i, token in enumerate(draft)]
    q_drafted = [float(q[i, token]) for i, token in enumerate(draft)]
    support = None
    factors = [1.0] * len(draft)  # of p in the overlap, at each drafted place
    if rule == "block":
        support = block_support(p_drafted, q_drafted)
        factors = [1.0, *support[:-1]]  # the support of the token before
    overlap = []
    for i in range(len(draft)):
        overlap.append(float(np.minimum(factors[i] * p[i], q[i]).sum()))
    return {
        "accepted": this_round.accepted,
        "examined": this_round.examined,
        "tokens": this_round.tokens,
        "sources": sources_of(this_round),
        "draft": draft,
        "p": p_drafted,
        "q": q_drafted,
        "overlap": overlap,
        "coins": coins,
        "support": support,
        "likely": likely_of(this_round),
    }


def likely_of(this_round: Round) -> list[list[tuple]]:
    """For each token that a round wrote, the rows [(token, its p, its q)] of the tokens that were
    likely in its place, the token itself and the one that was drafted there. q is None in the place
    after the last drafted token.
    """
    likely = []
    for i, token in enumerate(this_round.tokens):
        if i < len(this_round.draft):
            drafted = int(this_round.draft[i])
            likely.append(likely_rows(this_round.p[i], this_round.q[i], {int(token), drafted}))
        else:  # the target's own token after the last drafted one
            likely.append(likely_rows(this_round.p[i], None, {int(token)}))
    return likely


def top_tokens(p) -> list[int]:  # [n_vocab] -> up to N_LIKELY ids
    """The five likeliest tokens (N_LIKELY) of a distribution, best first; none of probability 0."""
    n = min(N_LIKELY, len(p))
    top = np.argpartition(p, -n)[-n:]  # the n likeliest, in no order
    best_first = top[np.argsort(-p[top], kind="stable")]
    return [int(token) for token in best_first if p[token] > 0]


def likely_rows(p, q, tokens: set[int]) -> list[tuple]:  # [n_vocab], [n_vocab] or None
    """[(token, its p, its q)] of the five likeliest tokens by p, the five by q, and `tokens`: the
    likeliest by p first, of equals the likeliest by q, then the lowest id. If q is None, only those
    by p and `tokens`, and None in place of their q.
    """
    shown = tokens.union(top_tokens(p))  # a new set
    if q is None:
        best_first = sorted(shown, key=lambda token: (-p[token], token))
        return [(token, float(p[token]), None) for token in best_first]
    shown |= set(top_tokens(q))
    best_first = sorted(shown, key=lambda token: (-p[token], -q[token], token))
    return [(token, float(p[token]), float(q[token])) for token in best_first]


def block_support(p: list[float], q: list[float]) -> list[float]:
    """For each drafted token, the probability with which block verification accepts the draft at
    least up to it, on average over the drafts that begin so (w in sampling.verify_block): the
    product of the ratios p / q so far, cut to 1 at each token. p, q: the probabilities of the
    drafted tokens.
    """
    support = []
    so_far = 1.0
    for p_token, q_token in zip(p, q):
        so_far = min(1.0, so_far * p_token / q_token)
        support.append(so_far)
    return support
