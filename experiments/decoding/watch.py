"""Watching a decoding from outside: every number of every round, without a change to the loop.

The loop is handed all that it uses: the models (their passes are timed), the filter, the rule (it
is asked about the draft, p and q) and the random numbers (of which the rule takes its coins u).
`Watch` listens to each of them and keeps one `Note` a round. The trace in the terminal
(experiments/cli/trace.py) and the page in the browser (experiments/page/report.py) show its notes.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from experiments.decoding.clock import Clock
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
    # u of each examined draft, accepted where u < p / q; none where `coupled`, or where the block
    # rule tosses for all drafts together
    coins: list
    numbers: list  # which of the run's random numbers each coin is, counted from 0
    # P of the block rule: the probability that this many drafts are accepted, given that they were
    # drafted; None with the token rule
    support: list | None
    # for each token, [(token, p, q)] of the likeliest there; q is None where nothing was drafted
    likely: list
    residual: list | None  # after a rejection, [(token, probability)] of the likeliest replacements
    seconds: dict  # of drafting, of the target's pass, and of the rest: the rule, filter and loop
    passes: list  # seconds of each pass of the draft


def kept(function, results):
    """The function, with its results appended to a list."""

    def call(*arguments):
        results.append(function(*arguments))
        return results[-1]

    return call


class Numbers:
    """The random numbers of a run, in order; `forced`, {index: number}, replaces some of them."""

    def __init__(self, seed, forced=None):
        self.rng = np.random.default_rng(seed)
        self.forced, self.taken = forced or {}, []

    def random(self):
        number = self.rng.random()
        self.taken.append(self.forced.get(len(self.taken), number))
        return self.taken[-1]


def likeliest(p, n=N_LIKELY):  # [n_vocab] -> [up to n]
    """The n likeliest tokens of a distribution, best first, without those of probability 0."""
    top = np.argpartition(p, -n)[-n:] if n < len(p) else np.arange(len(p))
    return [int(token) for token in top[np.argsort(-p[top], kind="stable")] if p[token] > 0]


def likely_rows(p, q, *tokens):  # [n_vocab], [n_vocab] or None -> [(token, p, q)]
    """The likeliest tokens of p and of q, and these tokens too, in the order of p."""
    shown = {*likeliest(p), *tokens}
    if q is not None:
        shown.update(likeliest(q))
    rows = [(x, float(p[x]), None if q is None else float(q[x])) for x in shown]
    return sorted(rows, key=lambda row: (-row[1], -(row[2] or 0), row[0]))


def residual_rows(p, q, token):  # [n_vocab], [n_vocab] -> [(token, probability)]
    """The likeliest replacements of a rejected draft, and the one that was sampled."""
    rest = residual(p, q)
    shown = dict.fromkeys([*likeliest(rest), token])
    return [(x, float(rest[x])) for x in shown]


def block_support(p, q):  # [k], [k] -> [k]
    """P of sampling.verify_block for each draft, from the probabilities of the drafted tokens."""
    support, P = [], 1.0
    for p_token, q_token in zip(p, q):
        P = min(1.0, P * p_token / q_token)
        support.append(P)
    return support


class Watch:
    """A tap (see job.py) that keeps a Note of each round after the prefill in `notes`.

    forced: {index: number}, random numbers to use in place of the seed's
    """

    def __init__(self, job, forced=None):
        self.job, self.numbers, self.timer = job, Numbers(job.seed, forced), Clock()
        self.p, self.q = [], []  # what the filters said in this round
        self.notes, self.aside = [], 0.0
        self.asked, self.tossed = ([], None), range(0)  # of the rule, and the numbers it took

    def clock(self):
        """A time.perf_counter that stands still while notes are taken and shown."""
        return time.perf_counter() - self.aside

    def __call__(self, parts):
        parts = self.timer(parts)

        def rule(draft, q, p, rng):
            begin = len(self.numbers.taken)
            result = parts.rule(draft, q, p, rng)
            self.asked = draft, q
            self.tossed = range(begin, len(self.numbers.taken))
            return result

        return replace(
            parts,
            p_filter=kept(self.job.filter, self.p),
            q_filter=kept(self.job.filter, self.q),
            rng=self.numbers,
            coins=self.numbers,
            rule=rule,
        )

    def watched(self, rounds):
        """The same rounds, with a Note of each."""
        yield next(rounds)  # the prefill
        while True:
            for found in (self.timer, self.p, self.q):
                found.clear()
            begin = time.perf_counter()
            one = next(rounds, None)
            end = time.perf_counter()
            if one is None:
                return
            passes = [elapsed for _, elapsed in self.timer.draft_passes]
            # the look-up of n-grams has no passes
            drafting = passes or [elapsed for _, elapsed in self.timer.proposals]
            target = sum(elapsed for _, elapsed in self.timer.passes)
            seconds = {"draft": sum(drafting), "target": target}
            seconds["rule"] = end - begin - sum(seconds.values())
            self.notes.append(self.note(one, seconds, passes))
            yield one
            self.aside += time.perf_counter() - end

    def note(self, one, seconds, passes):
        in_blocks = self.job.rule == "block"
        draft, q = self.asked
        draft, p = [int(token) for token in draft], np.concatenate(self.p)
        if self.q or not draft:  # the look-up of n-grams has no filter to listen to
            q = np.concatenate([p[:0], *self.q])
        places = np.arange(len(draft))
        # the first numbers of the token rule are its coins; the next one chooses the target's token
        tossed = [] if self.job.coupled or in_blocks else self.tossed[: one.examined]
        p_drafted, q_drafted = p[places, draft].tolist(), q[places, draft].tolist()
        support = block_support(p_drafted, q_drafted) if in_blocks else None
        likely = []
        for i, token in enumerate(one.tokens):
            drafted = i < len(draft)
            tokens = {int(token), draft[i]} if drafted else {int(token)}
            likely.append(likely_rows(p[i], q[i] if drafted else None, *tokens))
        replacements, i = None, one.accepted
        if i < one.examined and not self.job.coupled:
            covered = support[i - 1] if support and i else 1.0
            replacements = residual_rows(covered * p[i], q[i], int(one.tokens[-1]))
        return Note(
            round=one,
            draft=draft,
            p=p_drafted,
            q=q_drafted,
            overlap=np.minimum(p[:-1], q).sum(axis=-1).tolist(),
            matching=(p[:-1] * q).sum(axis=-1).tolist(),
            coins=[self.numbers.taken[index] for index in tossed],
            numbers=[*tossed],
            support=support,
            likely=likely,
            residual=replacements,
            seconds=seconds,
            passes=passes,
        )

    def usual_acceptance_rate(self):
        """The share of examined drafts that the token rule would accept; None of none."""
        overlaps = [x for note in self.notes for x in note.overlap[: note.round.examined]]
        return sum(overlaps) / len(overlaps) if overlaps else None
