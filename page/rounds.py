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
        """The first n numbers that were recorded since the last call, fewer if there are fewer. All
        recorded numbers are forgotten.
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
    """Yield note_of each Round but the prefill, as soon as it comes.

    rng: what made the random choices of the text; only a RecordingRng has coins, and only those of
    the token rule are noted. rule: "token", "block" or "coupled"
    """
    for this_round in rounds:
        coins: list[float] = []
        if rule == "token" and isinstance(rng, RecordingRng):
            coins = rng.coins(this_round.examined)
        if this_round.tokens:  # the prefill has none
            yield note_of(this_round, coins, rule)


def note_of(this_round: Round, coins: list[float], rule: str) -> dict[str, Any]:
    """The numbers of one round, for JSON. this_round: a Round of sampling.py with tokens. rule:
    "token", "block" or "coupled". Of the result, most keys are those of Round. "tokens", "sources"
    and "likely" have an item for each token that the round wrote, the other lists one for each
    drafted token:

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
    support = None
    before: Any = 1.0
    if rule == "block":
        support = block_support(p_drafted, q_drafted)
        before = np.array([1.0, *support[:-1]])[:, None]  # the support before each token, [n, 1]
    likely = []
    for i, token in enumerate(this_round.tokens):  # one more than drafted, if all were accepted
        written_and_drafted = {int(token), *draft[i : i + 1]}
        likely.append(likely_rows(p[i], q[i] if i < n else None, written_and_drafted))
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
        "likely": likely,
    }


def top_tokens(p) -> list[int]:  # [n_vocab] -> up to N_LIKELY ids
    """The N_LIKELY likeliest tokens of a distribution, best first; none of probability 0."""
    n = min(N_LIKELY, len(p))
    top = np.argpartition(p, -n)[-n:]  # the n likeliest, in no order
    best_first = top[np.argsort(-p[top], kind="stable")]
    return [int(token) for token in best_first if p[token] > 0]


def likely_rows(p, q, tokens: set[int]) -> list[tuple]:  # [n_vocab], [n_vocab] or None
    """[(token, p, q)] of the likeliest tokens by p and by q, and of `tokens`, the likeliest by p
    first, of equals the likeliest by q, then the lowest id. The third is None if q is.
    """
    if q is None:
        shown = tokens.union(top_tokens(p))
        return [(token, float(p[token]), None) for token in sorted(shown, key=lambda t: (-p[t], t))]
    shown = tokens.union(top_tokens(p), top_tokens(q))
    best_first = sorted(shown, key=lambda t: (-p[t], -q[t], t))
    return [(token, float(p[token]), float(q[token])) for token in best_first]


def block_support(p: list[float], q: list[float]) -> list[float]:
    """For each drafted token, the probability with which block verification accepts the draft at
    least up to it, given the draft (w in sampling.verify_block): the product of the ratios p / q so
    far, cut to 1 at each token. p, q: the probabilities of the drafted tokens.
    """
    support, P = [], 1.0
    for p_token, q_token in zip(p, q):
        P = min(1.0, P * p_token / q_token)
        support.append(P)
    return support
