"""What the page shows of each round, noted as the Rounds of a loop pass by."""

from collections.abc import Iterator
from typing import Any

import numpy as np

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

    def coins(self, n: int) -> list[float]:
        """Up to n first coins that were tossed since the last call."""
        tossed, self.tossed = self.tossed, []
        return tossed[:n]


class LikeliestRng(Rng):
    """An Rng that samples the likeliest token of any distribution."""

    position = round_start = 0  # as SharedNoise, whose rule it can follow

    def sample(self, p):  # [n_vocab] -> token
        return int(p.argmax())


def noted(rounds: Iterator[Round], rng: Any, rule: str) -> Iterator[dict[str, Any]]:
    """The note of each Round but the prefill, as soon as it comes.

    rng: of the text; only a RecordingRng has coins. rule: "token", "block" or "coupled"
    """
    for this_round in rounds:
        coins = rng.coins(this_round.examined) if isinstance(rng, RecordingRng) else []
        if this_round.tokens:  # the prefill has none
            yield note_of(this_round, coins if rule == "token" else [], rule)


def note_of(this_round: Round, coins: list[float], rule: str) -> dict[str, Any]:
    """The numbers of one round, just after it, for JSON. Lists have an item for each drafted token,
    but for those of `tokens`, the tokens that the round wrote.

    p, q: the probabilities of the drafted tokens
    overlap: the sum of min(p, q) over all tokens; under the block rule, p times the support before
    coins: u of each examined draft under the token rule, which accepts it where u < p / q; none
        where the likeliest tokens are written
    support: under the block rule, the probability that this many drafts are accepted
    likely: for each of `tokens`, [(token, p, q)]; q is None where nothing was drafted
    """
    draft, p, q = [int(token) for token in this_round.draft], this_round.p, this_round.q
    n = len(draft)
    p_drafted = p[np.arange(n), draft].tolist()
    q_drafted = q[np.arange(n), draft].tolist() if n else []
    support = block_support(p_drafted, q_drafted) if rule == "block" else None
    before = np.array([1.0, *support[:-1]])[:, None] if support else 1.0
    return {
        "accepted": this_round.accepted,
        "examined": this_round.examined,
        "tokens": this_round.tokens,
        "sources": this_round.sources,
        "draft": draft,
        "p": p_drafted,
        "q": q_drafted,
        "overlap": np.minimum(before * p[:n], q).sum(axis=-1).tolist() if n else [],
        "coins": coins,
        "support": support,
        "likely": [
            likely_rows(p[i], q[i] if i < n else None, {int(token), *draft[i : i + 1]})
            for i, token in enumerate(this_round.tokens)
        ],
    }


def top_tokens(p) -> list[int]:  # [n_vocab] -> up to N_LIKELY ids
    """The likeliest tokens of a distribution, best first, without those of probability 0."""
    n = min(N_LIKELY, len(p))
    top = np.argpartition(p, -n)[-n:]
    best_first = top[np.argsort(-p[top], kind="stable")]
    return [int(token) for token in best_first if p[token] > 0]


def likely_rows(p, q, tokens: set[int]) -> list[tuple]:  # [n_vocab], [n_vocab] or None
    """[(token, p, q)] of the likeliest tokens of p and of q, and of `tokens`, likeliest by p first;
    q is None for all if the distribution q is.
    """
    shown = tokens.union(top_tokens(p), [] if q is None else top_tokens(q))
    rows = [(token, float(p[token]), None if q is None else float(q[token])) for token in shown]
    return sorted(rows, key=lambda row: (-row[1], -(row[2] or 0), row[0]))


def block_support(p: list[float], q: list[float]) -> list[float]:
    """The P of block verification after each drafted token (sampling.verify_block): the product of
    the ratios p / q so far, cut to 1 at each token.
    """
    support, P = [], 1.0
    for p_token, q_token in zip(p, q):
        P = min(1.0, P * p_token / q_token)
        support.append(P)
    return support
