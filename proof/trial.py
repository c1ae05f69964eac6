"""A sampler in one case: what is known of that, and its runs with real random numbers."""

import math
from collections.abc import Callable
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

import numpy as np

from . import enumerate as enumeration
from .bet import Bet
from .cases import Case, Text, drafts_kept
from .enumerate import Branch, Impossible, OutOfTime, RealBranch, Undecidable

ALPHA = 1e-6  # the probability that an exact sampler is called wrong by real runs
Sampler = Callable[[Case, Branch], tuple[Text, int]]  # a forms.Form that calls a function


class Trial:
    """A sampler in one case, a pair of small models: what its enumeration and its runs with real
    random numbers show.

    sampler: (case, branch) -> (text, passes of the target), a form that calls a function
    entry: what is known, the dict that prove.py describes; of a new trial nothing is
    alpha: the probability that an exact sampler is called wrong by its real runs
    rng: the numpy.random.Generator that drafts, and completes texts; its user may change it
    events: what real runs gave that no right one gives
    """

    def __init__(self, sampler: Sampler, case: Case, alpha: float, rng: np.random.Generator):
        self.sampler, self.case, self.alpha, self.rng = sampler, case, alpha, rng
        self.entry = new_entry(case)
        self.events: list[str] = []

    @cached_property
    def bets(self) -> list[Bet]:
        """A bet for each right distribution that the case has: one, of its texts; of a case too
        large to enumerate several, each of a few tokens of a text. They share the probability alpha
        to call an exact sampler wrong, in equal parts.
        """
        laws = self.case.laws()
        return [Bet(law, self.alpha / len(laws)) for law in laws]

    @property
    def bet(self) -> Bet:
        """Of the bets the one that speaks most against the sampler."""
        return max(self.bets, key=attrgetter("most"))

    @property
    def is_wrong(self) -> bool:
        """Whether the real runs until now show that the sampler is wrong."""
        return bool(self.events) or self.bet.wrong

    def run(self, deadline: float) -> None:
        """Run the sampler once, with real random numbers. Its text, completed by the target if it
        is too short, is added to self.bets, to each the part that it is about (Case.views); what no
        right sampler gives goes into self.events instead, in words. Raises OutOfTime at the
        deadline, a time of time.monotonic, and Undecidable if the sampler raises an error, does not
        end, or returns what cannot be read.
        """
        branch = RealBranch(rng=self.rng)
        try:
            text = self.text_of_run(branch, deadline)
        except Impossible as event:
            self.events.append(str(event))
            return
        while len(text) < self.case.n_tokens and not (text and text[-1] == self.case.end):
            text = (*text, branch.choose(self.case.p(text), "completed"))
        for bet, view in zip(self.bets, self.case.views(text)):
            bet.add(view)

    def text_of_run(self, branch: RealBranch, deadline: float) -> Text:
        """The text that the sampler returns when it runs with a branch. Raises OutOfTime at the
        deadline, Impossible for what no right sampler gives, and Undecidable, which names the case,
        in place of any other error but KeyboardInterrupt.
        """
        where = f"in a real run of the case {self.case.name}"
        run = partial(self.sampler, self.case)
        try:
            with np.errstate(all="ignore"):  # as in `followed`
                text, _ = enumeration.in_time(run, branch, deadline)
        except (KeyboardInterrupt, OutOfTime, Impossible):
            raise  # as it is; the last two are subclasses of Undecidable
        except Undecidable as problem:
            raise Undecidable(f"{where}: {problem}") from None
        except BaseException as error:
            raise Undecidable(f"{where} it raised {enumeration.describe_error(error)}") from None
        return text

    def conclude(self) -> None:
        """Write what the real runs show into self.entry, a dict: "measured", with their number, the
        odds against an exact sampler, the text that speaks most against it, and the first event. If
        they show that the sampler is wrong, and "first_wrong" is None, that gets text and event,
        and "distance" and "kept" become None. Without a run it changes nothing.
        """
        bet = self.bet
        n_runs = bet.runs + len(self.events)
        if n_runs == 0:
            return
        text, yours, right = bet.worst()
        event = self.events[0] if self.events else ""
        shown = dict(text=list(text), yours=yours, right=right, event=event)
        if event or not math.isfinite(bet.log_odds):
            log10_odds = None  # infinite: an exact sampler never does that
        else:
            log10_odds = bet.log_odds / math.log(10)
        figures = dict(runs=n_runs, log10_odds=log10_odds, would_show=bet.would_show())
        self.entry["measured"] = shown | figures
        if self.is_wrong and not self.entry["first_wrong"]:  # what enumeration said is refuted
            self.entry |= dict(first_wrong=shown | dict(draws=None), distance=None, kept=None)


def new_entry(case: Case) -> dict[str, Any]:
    """The entry of a case in a result of `prove`, with all keys that the top of prove.py describes,
    before anything is known of a sampler. kept_by_verify and kept_at_most, what verify and block
    verification gain, are None for trees and for cases that are too large to enumerate.
    """
    is_small_chain = not case.parents and not case.is_large
    p, q = case.p(()), case.q(())  # after the empty text
    return dict(
        name=case.name, p=p.tolist(), q=q.tolist(), K=case.K,
        is_large=case.is_large,
        kept_by_verify=drafts_kept(case, block=False) if is_small_chain else None,
        kept_at_most=drafts_kept(case, block=True) if is_small_chain else None,
        distance=None, kept=None, first_wrong=None, problem="", left_out=0.0, measured=None,
        branches=0, length=0, symbolic=False, meets_zero=False,
    )  # fmt: skip
