"""Records the rounds of a run for the page: a `Note` of each, from its distributions and Rng."""

from dataclasses import dataclass, replace

import numpy as np
from decoding.clock import Seconds

from sampling import Round

N_LIKELY = 4  # candidates a note keeps of each distribution


@dataclass
class Note:
    """The numbers of one round. Lists have one entry for each drafted token, unless said below."""

    round: Round
    draft: list  # the drafted tokens
    p: list  # their probabilities; with `coupled`, before the noise
    q: list
    overlap: list  # sum of min(p, q): the probability that the token rule accepts there
    # u of each examined draft, accepted where u < p / q; None if the rule tossed other coins or
    # none, as under shared noise; empty where the block rule tosses for all drafts together
    coins: list
    numbers: list  # which of the run's coins each is, counted from 0
    # P of the block rule: the probability that this many drafts are accepted, given that they were
    # drafted; None with the token rule
    support: list | None
    # for each token, [(token, p, q)] of the likeliest there; q is None where nothing was drafted
    likely: list
    # after a rejection, [(token, probability)] of the likeliest replacements
    residual: list | None
    seconds: Seconds


def top_tokens(p, n=N_LIKELY):  # [n_vocab] -> [up to n]
    """A list of the ids of the n likeliest tokens of a distribution, best first. Tokens with
    probability 0 are left out.
    """
    # argpartition would refuse an n above the number of tokens
    top = np.argpartition(p, -n)[-n:] if n < len(p) else np.arange(len(p))
    best_first = top[np.argsort(-p[top], kind="stable")]
    return [int(token) for token in best_first if p[token] > 0]


def likely_rows(p, q, *tokens):  # [n_vocab], [n_vocab] or None -> [(token, p, q)]
    """A list of the N_LIKELY likeliest tokens of p and of q each, and of the given `tokens`. An
    item is (token id, p of the token, q of the token), likeliest by p first. If q is None, so is q
    of each.
    """
    shown = {*top_tokens(p), *tokens}
    if q is not None:
        shown.update(top_tokens(q))
    rows = [(token, float(p[token]), None if q is None else float(q[token])) for token in shown]
    by_p_q_and_id = lambda row: (-row[1], -(row[2] or 0), row[0])
    return sorted(rows, key=by_p_q_and_id)


def replacements(this_round, rng):
    """The N_LIKELY likeliest replacements of the token that a Round rejected: [(id, its probability
    in the residual)], likeliest first. If the one that was sampled is none of them, it is appended.
    Returns None if no token was rejected, or if the rule did not sample the round's last token.

    rng: the RecordingRng of the run, just after the round. It holds what the rule sampled last.
    """
    if this_round.accepted == this_round.examined:
        return None
    residual, sampled = rng.sampled  # the last distribution that was sampled from, and its token
    if sampled != this_round.tokens[-1]:  # the token came from elsewhere: the residual is unknown
        return None
    tokens = top_tokens(residual)
    if sampled not in tokens:
        tokens.append(sampled)
    return [(token, float(residual[token])) for token in tokens]


def block_support(p, q):  # [k], [k] -> [k]
    """The P of block verification after each drafted token, a list of floats: the product of the
    ratios p / q so far, cut to 1 at each token. p, q: probabilities of the drafted tokens

    P is computed anew, because a rule does not return it, and the run's rule may have a mistake.
    """
    support, P = [], 1.0
    for p_token, q_token in zip(p, q):
        P = min(1.0, P * p_token / q_token)
        support.append(P)
    return support


def coins_of_drafts(p, q, tossed, n_examined):  # [k], [k], [(ratio, u)] -> [n_examined]
    """The random number u that decided on each examined draft, as a list. The list is all None if
    the coins of the round are not those that the token rule tosses.

    p, q: probabilities of the drafted tokens
    tossed: the (ratio, u) of each coin of the round. The token rule tosses one for each draft in
        turn, with the ratio p / q. If a mistake skips a draft, nobody can tell which coin decided
        on which draft.
    """
    ratios = np.divide(p, q).tolist()[: len(tossed)]
    if len(tossed) < n_examined or [ratio for ratio, _ in tossed] != ratios:
        return [None] * n_examined
    return [u for _, u in tossed[:n_examined]]


class Notes:
    """A watcher of Run.finish that appends a Note of each round to the list `notes`.

    run: the Run that is watched
    in_blocks: whether the rule, which may be a reader's own, is one of block verification
    """

    def __init__(self, run, in_blocks=False):
        self.run, self.in_blocks = run, in_blocks
        self.notes = []
        self.n_tossed = 0  # coins, up to the last Note

    def __call__(self, this_round, seconds=None, rng=None):
        if this_round is not None:  # None is the end of the run
            self.notes.append(self.note(this_round, seconds, rng))

    def note(self, this_round, seconds, rng):
        """Return the Note of a Round, and add its coins to n_tossed. Call this once for each Round,
        in their order.

        seconds: the decoding.clock.Seconds of the Round
        rng: the Rng of the text, just after the Round
        """
        draft = [int(token) for token in this_round.draft]
        p, n = this_round.p, len(draft)  # [n + 1, n_vocab]
        q = this_round.q if draft else p[:0]  # [n, n_vocab]
        p_drafted, q_drafted = p[np.arange(n), draft].tolist(), q[np.arange(n), draft].tolist()
        support = block_support(p_drafted, q_drafted) if self.in_blocks else None
        likely = []
        for i, token in enumerate(this_round.tokens):
            tokens = {int(token), *draft[i : i + 1]}  # a bonus has no drafted token beside it
            likely.append(likely_rows(p[i], q[i] if i < n else None, *tokens))
        first = self.n_tossed  # the number of the round's first coin
        tossed = getattr(rng, "tossed", [])  # shared noise tosses no coins
        self.n_tossed = len(tossed)
        coins = []  # the block rule tosses for all drafts together
        if not self.in_blocks:
            coins = coins_of_drafts(p_drafted, q_drafted, tossed[first:], this_round.examined)
        # the rule tossed a coin for each examined draft, in order; None: no coin of its own
        numbers = [None if u is None else first + i for i, u in enumerate(coins)]
        return Note(
            round=replace(this_round, q=None, p=None),
            draft=draft,
            p=p_drafted,
            q=q_drafted,
            overlap=np.minimum(p[:n], q).sum(axis=-1).tolist(),
            coins=coins,
            numbers=numbers,
            support=support,
            likely=likely,
            residual=None if self.run.coupled else replacements(this_round, rng),
            seconds=seconds,
        )
