"""The texts of a run against the target's own, by taking every branch of it."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .bet import beginnings
from .cases import Law, Model, Text, complete
from .enumerate import Branch, Choice, Impossible, Undecidable, branches, total_variation
from .follow import followed, untouched

TOLERANCE = 1e-5  # of a distance: what the rounding of float32 comes to
UNDECIDED: dict[str, Any] = dict(distance=None, kept=None, first_wrong=None, problem="")


class Run(NamedTuple):
    """One branch of a run."""

    ended: bool  # whether it was taken to its end; if not, it has no text
    text: Text
    n_passes: int  # of the target
    branch: Branch

    @property
    def leaves_draft(self) -> bool:
        """Whether its text is not what was drafted."""
        drafted = tuple(c.index for c in self.branch.choices if c.label == "drafted")
        # a loop does not tell what it drafts; it has left the draft if its first coin says no, 1
        coins = [c.index for c in self.branch.choices if c.label == "coin"]
        return coins[:1] == [1] or self.text[: len(drafted)] != drafted


def examine(
    run: Callable[[Branch], tuple[Iterable[int], int]],
    target: Model,
    n_tokens: int,
    end: int | None = None,
    most: float = math.inf,
    deadline: float = math.inf,
) -> dict[str, Any]:
    """Compare the texts of a run with the target's. Returns a dict:

    distance: the total variation distance; kept: tokens beyond one a pass, on average; both None if
        there is a problem
    first_wrong: None, or a dict: text, the shortest beginning of a text that comes too often; yours
        and right, its probabilities; draws, the choices that lead to it, in words; event, "", or in
        words what no right run gives, and then text is []
    problem: "", or why not every branch could be taken
    left_out: the probability of branches that were not taken to their end
    branches, choices: how many; length: tokens of the longest text
    symbolic: whether it draws random numbers that were not handed to it
    meets_zero: whether it decides something else where one of them is 0 exactly

    run: makes its random choices with the Branch. Returns (text, number of passes of the target).
        Of a text only n_tokens count; a shorter one, without `end`, is completed by the target
    most: choices, before it gives up
    deadline: a time of time.monotonic, at which it gives up
    """
    taken, stopped = walk(run, most, deadline)
    found = UNDECIDED | dict(
        left_out=sum(one.branch.probability for one in taken if not one.ended),
        branches=len(taken),
        choices=sum(len(one.branch.choices) for one in taken),
        length=max((len(one.text) for one in taken), default=0),
        symbolic=any(one.branch.symbolic for one in taken),
        meets_zero=any(one.branch.meets_zero for one in taken),
    )
    if stopped:
        return found | end_of(stopped)
    runs = [one._replace(text=one.text[:n_tokens]) for one in taken if one.ended]
    return found | compare(runs, target, n_tokens, end)


def end_of(stopped: Undecidable) -> dict[str, Any]:
    """What the error that stopped a run tells, as a part of what `examine` returns: {"first_wrong":
    a dict} if a branch gave what no right one gives, else {"problem": in words}; and {"symbolic":
    True} if that branch had symbolic numbers.
    """
    branch = stopped.branch
    found: dict[str, Any] = dict(problem=str(stopped))
    if branch and isinstance(stopped, Impossible):
        draws = describe_choices(branch.choices)
        event = dict(text=[], yours=branch.probability, right=0.0, draws=draws, event=str(stopped))
        found = dict(first_wrong=event)
    if branch and branch.symbolic:
        found["symbolic"] = True
    return found


def walk(
    run: Callable[[Branch], tuple[Iterable[int], int]], most: float, deadline: float
) -> tuple[list[Run], Undecidable | None]:
    """Take every branch of a run, or as many as can be, with symbolic numbers in place of random
    ones. Returns (a Run for each, None), or (those until then, the Undecidable that stopped it).
    Other errors of the run come as an Undecidable, too; KeyboardInterrupt passes.

    run: returns (text, number of passes of the target)
    most: choices, before it gives up
    deadline: a time of time.monotonic, at which it gives up
    """
    taken: list[Run] = []
    try:
        with untouched(), followed():
            for outcome, branch in branches(run, most, deadline):
                text, n_passes = outcome or ((), 0)  # None if it was not taken to its end
                taken.append(Run(outcome is not None, tuple(text), n_passes, branch))
    except Undecidable as problem:
        return taken, problem
    return taken, None


def compare(runs: list[Run], target: Model, n_tokens: int, end: int | None) -> dict[str, Any]:
    """Compare the texts of all runs, each completed by the target to n_tokens or the token `end`,
    with the texts that the target alone writes. Returns {"distance": the total variation distance,
    "kept": tokens of a text beyond one for each pass, on average}; if the distance is more than
    1e-5 (TOLERANCE), with "first_wrong": {"text": the shortest beginning that comes too often,
    "yours", "right": its probabilities, "draws": the choices that lead to it, in words, "event":
    ""}. Returns {"problem": in words} if the runs have less than the probability 1 - TOLERANCE.

    target: text -> the distribution of the next token, [n_vocab]
    """
    yours: Law = defaultdict(float)
    kept = 0.0
    for run in runs:
        yours[run.text] += run.branch.probability
        kept += run.branch.probability * (len(run.text) - run.n_passes)
    left_out = 1 - sum(yours.values())
    if left_out > TOLERANCE:
        rare = f"rare branches, of probability {left_out:.0e}"
        return dict(problem=f"it raised, or did not end, in {rare}")
    yours = complete(yours, target, n_tokens, end)
    right = complete({(): 1.0}, target, n_tokens, end)
    found = dict(distance=total_variation(yours, right), kept=kept)
    if found["distance"] <= TOLERANCE:
        return found
    text, of_yours, of_right = first_error(yours, right, n_tokens)
    draws = describe_choices(way_to(text, runs, target))
    wrong = dict(text=list(text), yours=of_yours, right=of_right, draws=draws, event="")
    return found | dict(first_wrong=wrong)


def first_error(yours: Law, right: Law, n_tokens: int) -> tuple[Text, float, float]:
    """The shortest beginning of a text that comes too often: (its tokens, its probability in
    `yours`, its probability in `right`); of several of that length, the one with the largest
    excess. yours and right: {text of n_tokens or less: probability}, which differ
    """
    for n in range(1, n_tokens + 1):  # the last n at the latest
        of_yours, of_right = beginnings(yours, n), beginnings(right, n)
        # (excess, beginning); of equals the last in the order of texts
        excess, beginning = max((of_yours[text] - of_right[text], text) for text in of_yours)
        if excess > TOLERANCE / 10:  # a distance adds up many of them
            break
    return beginning, of_yours[beginning], of_right[beginning]


def way_to(beginning: Text, runs: list[Run], target: Model) -> list[Choice]:
    """The choices of the run that shows best how a beginning of a text comes about: rather one
    whose own tokens reach so far than one that the target completes; of those, rather one whose
    text is not what was drafted; of those, the likeliest. But those in which it comes about with
    probability 1e-5 (TOLERANCE) or less come last.

    runs: all branches, of which one at least has a text that begins so, or is a part of it
    target: text -> the distribution of the next token, [n_vocab]
    """

    def rank(run: Run) -> tuple[bool, bool, float]:
        completed = range(len(run.text), len(beginning))  # the places that the target fills
        by_target = math.prod(target(beginning[:i])[beginning[i]] for i in completed)
        chance = run.branch.probability * by_target
        if chance <= TOLERANCE:
            return False, False, chance
        return not completed, run.leaves_draft, chance

    # each is cut to the length of the other
    fitting = [run for run in runs if run.text[: len(beginning)] == beginning[: len(run.text)]]
    return max(fitting, key=rank).branch.choices


def describe_choices(choices: list[Choice]) -> list[str]:
    """What a branch chose, in words: its drafts, and each choice that had another option."""
    shown = [choice for choice in choices if choice.label == "drafted" or len(choice.options) > 1]
    return [choice.describe() for choice in shown]
