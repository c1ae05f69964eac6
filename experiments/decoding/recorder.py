"""Watching speculative decoding from outside: every number of every round, without a line of the
loop changed.

All that the loop uses is passed in, so all of it can be listened to: the drafter (its drafts and
q), the filter of the target's logits (p), the random numbers of the rule (its coins u) and the
clock around each. `Watch` keeps what it hears as one note a round; the trace in the terminal and
the report in the browser (experiments/showing/page.py) show its notes.
"""

import os
import sys
import time
from types import SimpleNamespace

import numpy as np

from experiments.commands.profile import Clock
from experiments.decoding.gumbel import Noisy
from experiments.decoding.running import drafter_of
from sampling import Filter, residual, speculative

N_LIKELY = 4  # candidates a note keeps of each distribution


class Tap:
    """A function whose results are kept until somebody takes them."""

    def __init__(self, function):
        self.function, self.results = function, []

    def __call__(self, *arguments):
        self.results.append(self.function(*arguments))
        return self.results[-1]

    def take(self):
        results, self.results = self.results, []
        return results


def likeliest(p, n=N_LIKELY):  # [n_vocab] -> [up to n]
    """The n likeliest tokens of a distribution, best first, without those of probability 0."""
    top = np.argpartition(p, -n)[-n:] if n < len(p) else np.arange(len(p))
    return [int(token) for token in top[np.argsort(-p[top], kind="stable")] if p[token] > 0]


class Watch:
    """Runs the speculative loop and keeps a note of each of its rounds after the prefill, in
    `notes`:

    round       the Round itself
    draft       the drafted tokens
    p, q        their probabilities; those of the distributions themselves, where `coupled` puts noise on top
    overlap     sum of min(p, q) at each: the probability that the usual rule accepts there
    coins       u of each that was examined, accepted where u < p / q; none where `coupled`
    likely      for each token of the text: [(token, p, q)] of the likeliest; q is None where nothing was drafted
    residual    after a rejection, [(token, probability)] of the likeliest replacements; none where `coupled`
    seconds     of the draft, of the target, and of the rest, the rule, the filter and the loop around them

    coupled: draft and target share the noise of each position (experiments/decoding/gumbel.py).
    """

    def __init__(self, coupled=False):
        self.coupled, self.notes, self.aside = coupled, [], 0.0

    def clock(self):
        """A time.perf_counter that stands still while notes are taken."""
        return time.perf_counter() - self.aside

    def decode(self, target, draft, ids, n_tokens, K, filter, seed, ended, confidence=0.0):
        """The rounds of the speculative loop, as experiments.decoding.running.decode yields them."""
        self.notes, timing, rng = [], Clock(), np.random.default_rng(seed)
        p, q, coins = Tap(filter), Tap(filter), Tap(rng.random)
        of_target, of_draft = p, q
        if self.coupled:
            target, draft = Noisy(target, p, seed), draft and Noisy(draft, q, seed)
            of_target = of_draft = Filter()
        drafter = drafter_of(target, draft, of_draft, rng, confidence)
        proposals = Tap(timing.timed("draft", drafter.propose))
        rounds = speculative(
            SimpleNamespace(
                config=target.config,
                new_cache=target.new_cache,
                read=timing.timed("target", target.read),
            ),
            SimpleNamespace(n_vocab=drafter.n_vocab, prefill=drafter.prefill, propose=proposals),
            *(ids, n_tokens, K, of_target, SimpleNamespace(random=coins), ended),
        )
        yield next(rounds)  # the prefill
        taps, begin = (p, q, coins, proposals), self.start(timing, p, q)
        for one in rounds:
            end = time.perf_counter()
            heard = [tap.take() for tap in taps]
            self.notes.append(self.note(one, *heard, end - begin, dict(timing.seconds)))
            self.aside += time.perf_counter() - end
            yield one
            begin = self.start(timing)

    @staticmethod
    def start(timing, *taps):
        """Forget what belongs to the round before; the time."""
        for tap in taps:
            tap.take()
        timing.seconds.clear()
        return time.perf_counter()

    def note(self, one, p, q, coins, proposals, total, seconds):
        ((draft, q_drawn),) = proposals
        p, q = np.concatenate(p), np.concatenate(q) if q else q_drawn
        places = np.arange(len(draft))
        note = SimpleNamespace(
            round=one, draft=[int(token) for token in draft], residual=None, likely=[]
        )
        note.p, note.q = p[places, draft].tolist(), q[places, draft].tolist()
        note.overlap = np.minimum(p[:-1], q).sum(axis=-1).tolist()
        note.coins = [] if self.coupled else coins[: one.examined]
        for i, token in enumerate(one.tokens):
            drafted = i < len(draft)
            shown = {
                *likeliest(p[i]),
                *(likeliest(q[i]) if drafted else ()),
                *note.draft[i : i + 1],
                int(token),
            }
            rows = [(x, float(p[i, x]), float(q[i, x]) if drafted else None) for x in shown]
            note.likely.append(sorted(rows, key=lambda row: (-row[1], -(row[2] or 0), row[0])))
        if one.accepted < one.examined and not self.coupled:
            rest = residual(p[one.accepted], q[one.accepted])
            shown = dict.fromkeys([*likeliest(rest), int(one.tokens[-1])])
            note.residual = [(x, float(rest[x])) for x in shown]
        note.seconds = seconds | {"rule": total - sum(seconds.values())}
        return note

    def usual_acceptance_rate(self):
        """What the usual rule is expected to accept of the drafts that were examined here; None
        where none was.
        """
        overlaps = [
            overlap for note in self.notes for overlap in note.overlap[: note.round.examined]
        ]
        return sum(overlaps) / len(overlaps) if overlaps else None


# ---------------------------------------------------------------- the trace in the terminal

MARKS = {"draft": ("", "|"), "correction": ("[", "]"), "bonus": ("(", ")"), "target": ("{", "}")}
# as in ESC [ ... m
COLOURS = {"draft": "32", "correction": "1;31", "bonus": "1;34", "target": "1;33", "aside": "2"}


def in_colour(stream):
    """Whether to colour what goes there: a terminal that can, and a user who has not set NO_COLOR
    (no-color.org).
    """
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def printable(text):
    r"""Text on one line: a line break as \n, and whatever else a terminal would obey, as Python
    spells it.

    >>> print(printable("é\n\x1b[2J"))
    é\n\x1b[2J
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class Trace:
    """A `show` of timed_run: each round of a watched run on a line, every token in the marks of
    where it came from.
    """

    def __init__(self, watch, encoder, out=None):
        self.watch, self.encoder, self.out = watch, encoder, out or sys.stdout
        self.coloured, self.decode, self.n_rounds = (
            in_colour(self.out),
            encoder.incremental_decoder(),
            0,
        )
        names = {
            "draft": "accepted draft",
            "correction": "correction",
            "bonus": "bonus",
            "target": "target alone",
        }
        legend = "  ".join(self.marked(name, source) for source, name in names.items())
        print(f"round  accepted  text    {legend}", file=self.out, flush=True)

    def paint(self, text, kind):
        return f"\x1b[{COLOURS[kind]}m{text}\x1b[0m" if self.coloured else text

    def marked(self, text, source):
        return self.paint(text.join(MARKS[source]), source)

    def __call__(self, one=None):
        """Show the Round that has just been watched; None ends the text."""
        if one is None:
            # bytes of a character that was never finished
            rest = printable(self.decode([], final=True))
            line = " " * 17 + rest if rest else None
        else:
            self.n_rounds += 1
            pieces = [
                self.marked(printable(self.decode([token])), source)
                for token, source in zip(one.tokens, one.sources)
            ]
            line = f"{self.n_rounds:>5}  {f'{one.accepted}/{one.examined}':>8}  " + "".join(pieces)
            for token in self.watch.notes[-1].draft[one.accepted : one.examined]:
                line += self.paint(f'  not "{printable(self.encoder.decode([token]))}"', "aside")
        if line:
            print(line, file=self.out, flush=True)
