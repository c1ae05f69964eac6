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
    """A sampler that ran with one of the ways in which its random choices can fall (a branch)."""

    ended: bool  # whether it was taken to its end; if not, as it was too unlikely, it has no text
    text: Text
    n_passes: int  # of the target
    branch: Branch

    @property
    def leaves_draft(self) -> bool:
        """Whether its text is not what was drafted: it does not begin with the drafted tokens, or
        the first coin, by which a draft is accepted, said no. Of a loop only coins are known: none
        of its choices is labelled "drafted".
        """
        drafted = tuple(c.index for c in self.branch.choices if c.label == "drafted")
        coins = [c.index for c in self.branch.choices if c.label == "coin"]
        yes, no = 0, 1
        first_coin = coins[0] if coins else yes
        return first_coin == no or self.text[: len(drafted)] != drafted


def examine(
    run: Callable[[Branch], tuple[Iterable[int], int]],
    target: Model,
    n_tokens: int,
    end: int | None = None,
    most: float = math.inf,
    deadline: float = math.inf,
) -> dict[str, Any]:
    """Let a sampler run once for every way in which its random choices can fall (a branch), and
    compare the distribution of its texts with the target's. Returns a dict:

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

    run: the sampler; it makes its random choices with the Branch, and returns (text, number of
        passes of the target)
    target: text -> the right distribution of the next token, [n_vocab]
    n_tokens, end: only so many tokens of a text count; one that is shorter, and does not have the
        token `end`, is completed by the target
    most: random choices, of all branches together, before it gives up
    deadline: a time of time.monotonic, at which it gives up
    """
    taken, error = walk(run, most, deadline)
    found = UNDECIDED | dict(
        left_out=sum(one.branch.probability for one in taken if not one.ended),
        branches=len(taken),
        choices=sum(len(one.branch.choices) for one in taken),
        length=max((len(one.text) for one in taken), default=0),
        symbolic=any(one.branch.symbolic for one in taken),
        meets_zero=any(one.branch.meets_zero for one in taken),
    )
    if error:
        return found | end_of(error)
    runs = [one._replace(text=one.text[:n_tokens]) for one in taken if one.ended]
    return found | compare(runs, target, n_tokens, end)  # "problem" if much was left out


def end_of(error: Undecidable) -> dict[str, Any]:
    """What the error that ended an enumeration tells, as a part of the dict of `examine`:
    {"first_wrong": a dict} for an Impossible, what no right sampler gives, that was raised in a
    run, its `branch`; else {"problem": the error in words}. With "symbolic": True if that run drew
    random numbers that were not handed to it. "first_wrong" has an event, and so an empty text.
    """
    branch = error.branch
    found: dict[str, Any] = dict(problem=str(error))
    if branch and isinstance(error, Impossible):
        draws = describe_choices(branch.choices)
        event = dict(text=[], yours=branch.probability, right=0.0, draws=draws, event=str(error))
        found = dict(first_wrong=event)
    if branch and branch.symbolic:
        found["symbolic"] = True
    return found


def walk(
    run: Callable[[Branch], tuple[Iterable[int], int]], most: float, deadline: float
) -> tuple[list[Run], Undecidable | None]:
    """Let a sampler run once for every way in which its random choices can fall, or for as many of
    them as can be taken. Functions that draw random numbers give stand-ins meanwhile (`followed`);
    a sampler that gets past them, to the global generators, is Undecidable (`untouched`). Returns
    ([a Run for each], None), or (those until then, the error that made an end, an Undecidable). A
    Run that has not ended has the text () and 0 passes. Raises nothing but KeyboardInterrupt.

    run: the sampler, Branch -> (text, number of passes of the target)
    most: random choices, of all runs together, before it gives up
    deadline: a time of time.monotonic, at which it gives up
    """
    taken: list[Run] = []
    try:
        with untouched(), followed():
            for outcome, branch in branches(run, most, deadline):
                ended = outcome is not None
                text, n_passes = (), 0
                if ended:
                    text, n_passes = outcome
                taken.append(Run(ended, tuple(text), n_passes, branch))
    except Undecidable as problem:
        return taken, problem
    return taken, None


def compare(runs: list[Run], target: Model, n_tokens: int, end: int | None) -> dict[str, Any]:
    """Compare the texts of all runs, each completed by the target to n_tokens or the token `end`,
    with the texts that the target alone writes. Returns {"distance": the total variation distance,
    "kept": tokens of a text beyond one for each pass, on average}; if the distance is more than
    1e-5 (TOLERANCE), with "first_wrong": {"text": the shortest beginning that comes too often,
    "yours", "right": its probabilities, "draws": the choices that lead to it, in words, "event":
    "", which only `end_of` fills}. Returns {"problem": in words} if the runs have less than the
    probability 1 - TOLERANCE.

    target: text -> the distribution of the next token, [n_vocab]
    """
    incomplete: Law = defaultdict(float)  # the texts before the target completes them
    kept = 0.0
    for run in runs:
        incomplete[run.text] += run.branch.probability
        kept += run.branch.probability * (len(run.text) - run.n_passes)
    left_out = 1 - sum(incomplete.values())
    if left_out > TOLERANCE:
        rare = f"rare branches, of probability {left_out:.0e}"
        return dict(problem=f"it raised, or did not end, in {rare}")
    yours = complete(incomplete, target, n_tokens, end)
    empty_text: Law = {(): 1.0}  # for certain: the target writes all that follows
    right = complete(empty_text, target, n_tokens, end)
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
    excess. If none exceeds TOLERANCE / 10, it is the whole text with the largest excess.

    yours, right: {text of n_tokens or less: probability}, which differ
    """
    for n in range(1, n_tokens + 1):
        of_yours, of_right = beginnings(yours, n), beginnings(right, n)
        # the largest excess; of equals the last in the order of texts
        excess, beginning = max((of_yours[text] - of_right[text], text) for text in of_yours)
        if excess > TOLERANCE / 10:  # less than TOLERANCE: a distance adds up many excesses
            break
    return beginning, of_yours[beginning], of_right[beginning]


def way_to(beginning: Text, runs: list[Run], target: Model) -> list[Choice]:
    """The choices of the run that shows best how a beginning of a text comes about. The order is:

    1. runs in which it comes about with a probability of more than 1e-5 (TOLERANCE)
    2. of these, runs that wrote all of it; the target completes the others
    3. of these, runs whose text is not what was drafted
    4. of these, the likeliest

    runs: all branches, of which one at least has a text that begins so, or is a part of it
    target: text -> the distribution of the next token, [n_vocab]
    """

    def rank(run: Run) -> tuple[bool, bool, float]:
        completed = range(len(run.text), len(beginning))  # the places that the target fills
        chance = run.branch.probability
        for i in completed:
            chance *= target(beginning[:i])[beginning[i]]
        if chance <= TOLERANCE:
            return False, False, chance
        return not completed, run.leaves_draft, chance

    fitting = []
    for run in runs:
        n_common = min(len(run.text), len(beginning))
        if run.text[:n_common] == beginning[:n_common]:
            fitting.append(run)
    return max(fitting, key=rank).branch.choices


def describe_choices(choices: list[Choice]) -> list[str]:
    """The choices of a run in words, such as "drafted 2 (0.40)", in their order: the tokens that
    were drafted, and of the others those that could have been made in another way.
    """
    shown = [choice for choice in choices if choice.label == "drafted" or len(choice.options) > 1]
    return [choice.describe() for choice in shown]
