"""The referee: does a rule or a loop of speculative sampling keep the target's distribution?

`prove` calls the function in small cases (cases.py), takes every branch of its random choices
(enumerate.py), and compares the texts that come out with the target's own, by the chain rule. What
draws its own random numbers runs with real ones, too, and so does what cannot be enumerated: a bet
(bet.py) says whether the texts can be the target's.

A result is a dict:

    name
    verdict: "exact"; "wrong"; "not told apart" from exact in real runs, where not all cases can be
        enumerated; or "undecidable"
    reason: why it is not exact or wrong; None if it is
    remarks: what an exact function does besides, such as to gain fewer tokens than verify
    distance: the largest of all cases that were enumerated
    would_show: the distance that real runs would have shown in each case that had any
    cases: a list of entries
    branches, runs, seconds: of all cases
    seed: of real runs: of the drafts, and of numpy.random, random and torch

An entry is a dict about one case:

    name, p and q (for the first new token), K
    kept_by_verify, kept_at_most: what verify gains, and block verification; None for trees
    distance: the total variation distance of the texts; None if undecidable
    kept: what a text gains: its tokens beyond one for each pass of the target, on average; they are
        the drafts that it keeps, if each pass gives a token of its own. None likewise
    first_wrong: None if exact, or a dict: text, the shortest beginning that comes too often; yours
        and right, its probabilities; draws, how it comes about, in words, None if real runs show
        it; event, what no right run gives, if it is that: then text is empty
    problem: what stands in the way of a verdict, or ""
    left_out: the probability of branches that were not taken to their end
    measured: None, or the real runs of this case, a dict: runs; log10_odds against an exact sampler
        (None: what came can never come); would_show; the text that speaks most against it: text,
        its frequency yours, its probability right; event, what a run gave that no right one gives,
        or ""
"""

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter, itemgetter
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from . import forms
from .bet import Bet
from .cases import (
    BATCH_CASES,
    LONG_LOOP,
    LOOP_CASES,
    MANY_ROWS,
    RULE_CASES,
    TREE_CASES,
    WIDE,
    WIDE_LOOP,
    Case,
    Model,
    Text,
    ToProbs,
    complete,
    drafts_kept,
    uneven,
)
from .enumerate import (
    NO_TIME,
    STATE,
    TOO_LONG,
    TOO_MANY,
    Branch,
    Choice,
    Impossible,
    OutOfTime,
    RealBranch,
    Undecidable,
    branches,
    describe_error,
    format_row,
    in_time,
    total_variation,
)
from .follow import followed, seed_generators, untouched

Sampler = Callable[[Case, Branch], tuple[Text, int]]  # a forms.Form that calls a function
FOR_BRANCHES = 0.7  # of the time, for every branch; the rest is for real runs
TOLERANCE = 1e-5  # of a distance: what the rounding of float32 comes to
ALPHA = 1e-6  # the probability that an exact sampler is called wrong by real runs
MOST_IN_ALL = 200_000  # random choices, of all branches of all cases
AFTER_FAILURE = 20_000  # choices at most, once a case is wrong or cannot be decided
CONFIRM = 300  # real runs of each case, if all of them were enumerated and are exact
MEASURE = 5_000  # real runs of each case, if they were not
ACCUSE = 100_000  # real runs at most, in the first case with a distance that is CLEAR
CLEAR = 0.05
WIDE_RUNS = 4_000  # real runs of a case that is too large to enumerate
SHOWS = 0.5  # a distance: where that would not have shown, real runs say nothing
AT_ONCE = 50  # real runs, before the next case has its turn


# ---------------------------------------------------------------- every branch of a case


class Way(NamedTuple):
    """How a text came about: one branch."""

    leaves_draft: bool
    probability: float
    choices: list[Choice]


@dataclass
class Tally:
    """What the branches of a run gave."""

    texts: dict[Text, float] = field(default_factory=lambda: defaultdict(float))
    ways: dict[Text, Way] = field(default_factory=dict)  # the likeliest that leaves the draft
    kept: float = 0.0  # tokens beyond one for each pass of the target, on average
    left_out: float = 0.0  # probability of the branches that were not taken to their end
    branches: int = 0
    choices: int = 0
    length: int = 0  # of the longest text
    symbolic: bool = False  # whether it draws random numbers that were not handed to it
    meets_zero: bool = False  # whether it decides something else where one of them is 0 exactly

    def add(self, outcome: tuple[Iterable[int], int] | None, branch: Branch, n_tokens: int) -> None:
        """Add one branch of a run to all fields.

        outcome: (text, passes of the target) that it gave, or None if it was left out; of the text
            n_tokens count
        """
        self.branches += 1
        self.choices += len(branch.choices)
        self.symbolic |= branch.symbolic
        self.meets_zero |= branch.meets_zero
        if outcome is None:
            self.left_out += branch.probability
            return
        whole, n_passes = tuple(outcome[0]), outcome[1]
        text = whole[:n_tokens]
        self.length = max(self.length, len(whole))
        self.texts[text] += branch.probability
        self.kept += branch.probability * (len(text) - n_passes)
        drafted = tuple(c.index for c in branch.choices if c.label == "drafted")
        # a loop does not tell what it drafts; it has left the draft if its first coin says no, 1
        coins = [c.index for c in branch.choices if c.label == "coin"]
        leaves_draft = coins[:1] == [1] or text[: len(drafted)] != drafted
        way = Way(leaves_draft, branch.probability, branch.choices)
        best = self.ways.get(text, way)
        self.ways[text] = max(best, way, key=lambda way: (way.leaves_draft, way.probability))


def walk(
    run: Callable[[Branch], Any], n_tokens: int, most: int, deadline: float
) -> tuple[Tally, Undecidable | None]:
    """Take every branch of a run, or as many as can be, with symbolic numbers in place of random
    ones. Returns (what they gave, None), or (what they gave until then, the Undecidable that
    stopped it). Other errors of the run come as an Undecidable, too; KeyboardInterrupt passes.

    run: branch -> (text, passes of the target); of a text n_tokens count
    most: choices, before it gives up
    deadline: a time of time.monotonic, at which it gives up
    """
    tally = Tally()
    try:
        with untouched(), followed():
            for outcome, branch in branches(run, most, deadline):
                tally.add(outcome, branch, n_tokens)
    except Undecidable as problem:
        if problem.branch:
            tally.symbolic |= problem.branch.symbolic
        return tally, problem
    return tally, None


def examine(
    run: Callable[[Branch], tuple[Iterable[int], int]],
    target: Model,
    n_tokens: int,
    end: int | None = None,
    most: int = MOST_IN_ALL,
    deadline: float = math.inf,
) -> dict[str, Any]:
    """Compare the texts of a run with the target's, by taking every branch of it. Returns a dict:
    distance, the total variation distance, and kept, the tokens beyond one a pass on average (both
    None if there is a problem); first_wrong (None, or a dict: text, yours, right, draws, perhaps
    event, as told above); problem, "" or why not every branch could be taken; and, as Tally has
    them, left_out, branches, choices, length, symbolic, meets_zero.

    run: makes its random choices with the Branch. Returns (text, number of passes of the target).
        Of a text only n_tokens count; a shorter one, without `end`, is completed by the target
    most: choices, before it gives up
    deadline: a time of time.monotonic, at which it gives up
    """
    tally, stopped = walk(run, n_tokens, most, deadline)
    result: dict[str, Any] = dict(distance=None, kept=None, first_wrong=None, problem="")
    for name in ("left_out", "choices", *INNER):
        result[name] = getattr(tally, name)
    if isinstance(stopped, Impossible) and (branch := stopped.branch):
        draws = describe_choices(branch.choices)
        event = dict(text=[], yours=branch.probability, right=0.0, draws=draws, event=str(stopped))
        return result | dict(first_wrong=event)
    if stopped:
        return result | dict(problem=str(stopped))
    lost = 1 - sum(tally.texts.values())
    if lost > TOLERANCE:
        rare = f"rare branches, of probability {lost:.0e}"
        return result | dict(problem=f"it raised, or did not end, in {rare}")
    yours = complete(tally.texts, target, n_tokens, end)
    right = complete({(): 1.0}, target, n_tokens, end)
    result |= dict(distance=total_variation(yours, right), kept=tally.kept)
    if result["distance"] > TOLERANCE:
        text, of_yours, of_right = first_error(yours, right, n_tokens)
        draws = describe_choices(way_to(text, tally, target, end).choices)
        result["first_wrong"] = dict(text=list(text), yours=of_yours, right=of_right, draws=draws)
    return result


def beginnings(texts: dict[Text, float], n: int) -> dict[Text, float]:
    """{the first n tokens of a text: their probability}, from {text: probability}."""
    found: dict[Text, float] = defaultdict(float)
    for text, probability in texts.items():
        found[text[:n]] += probability
    return found


def first_error(
    yours: dict[Text, float], right: dict[Text, float], n_tokens: int
) -> tuple[Text, float, float]:
    """The shortest beginning of a text that comes too often: (its tokens, its probability in
    `yours`, its probability in `right`); of several of that length, the one with the largest
    excess. yours and right: {text of n_tokens or less: probability}, which differ
    """
    for n in range(1, n_tokens + 1):
        of_yours, of_right = beginnings(yours, n), beginnings(right, n)
        # (excess, beginning); of equals the last in the order of texts
        excess, beginning = max((of_yours[text] - of_right[text], text) for text in of_yours)
        if excess > TOLERANCE / 10:  # a distance adds up many of them
            break
    return beginning, of_yours[beginning], of_right[beginning]


def way_to(beginning: Text, tally: Tally, target: Model, end: int | None) -> Way:
    """The branch, of those in tally.ways, that shows best how a beginning of a text comes about:
    rather one whose own tokens reach so far than one that the target completes (to `end` at most);
    of those, rather one that leaves the draft; of those, the likeliest.
    """

    def rank(own: Text) -> tuple[bool, bool, float]:
        """How well the branch that gave the text `own` shows it; the largest rank is the best."""
        leaves_draft, chance, _ = tally.ways[own]
        whole = complete({own: chance}, target, len(beginning), end)
        share = beginnings(whole, len(beginning))[beginning]
        if share <= TOLERANCE:  # the beginning does not come about by it
            return False, False, share
        return len(own) >= len(beginning), leaves_draft, share

    return tally.ways[max(tally.ways, key=rank)]


def describe_choices(choices: list[Choice]) -> list[str]:
    """What a branch chose, in words, with probabilities: "drafted 2 (0.40)", "coin of 0.75: no
    (0.25)", "sampled 1 from [0.5, 0.5] (0.50)". Choices without an alternative are left out.
    """
    words = []
    for choice in choices:
        if not choice.is_open:
            continue
        weight = choice.weights[choice.index]
        chance = f"({weight:.2f})" if weight > 0.005 else f"({weight:.0e})"
        what = f"{choice.label} {choice.index} from {format_row(choice.weights)}"
        if choice.label == "drafted":
            what = f"drafted {choice.index}"
        elif choice.label == "coin":
            answer = "no" if choice.index else "yes"
            what = f"coin of {choice.weights[0]:.4g}: {answer}"
        words.append(f"{what} {chance}")
    return words


# ---------------------------------------------------------------- real runs


class Trial:
    """Runs of one case with real random numbers, and the bet on their texts.

    sampler: (case, branch) -> (text, passes of the target), a form that calls a function
    result: the entry of the case
    n_runs: how many runs are wanted
    alpha: the probability that an exact sampler is called wrong
    rng: the numpy.random.Generator that drafts, and completes texts; its user may change it
    event: what a run gave that no right one gives, or ""; n_events: how many runs gave such a thing
    """

    def __init__(
        self, sampler: Sampler, case: Case, result: dict, n_runs: int, alpha: float, rng: Any
    ):
        self.sampler, self.case, self.result = sampler, case, result
        self.n_runs, self.rng = n_runs, rng
        self.event, self.n_events = "", 0
        laws = case.laws()
        self.bets = [Bet(law, alpha / len(laws)) for law in laws]

    @property
    def bet(self) -> Bet:
        """Of the bets on the case's views, the one that speaks most against the sampler."""
        return max(self.bets, key=attrgetter("most"))

    @property
    def is_wrong(self) -> bool:
        """Whether the runs until now show that the sampler is wrong."""
        return bool(self.event) or self.bet.wrong

    def run(self, deadline: float) -> None:
        """Run the sampler once: the views of its text, completed, go into self.bets; what no right
        sampler gives goes into self.event. Raises OutOfTime at the deadline, a time of
        time.monotonic, and Undecidable if the sampler raises an error, does not end, or returns
        what cannot be read.
        """
        branch, where = RealBranch(rng=self.rng), f"in a real run of the case {self.case.name}"
        try:
            with np.errstate(all="ignore"):  # as in `followed`
                text, _ = in_time(partial(self.sampler, self.case), branch, deadline)
        except (KeyboardInterrupt, OutOfTime):
            raise
        except Impossible as event:
            self.event = self.event or str(event)
            self.n_events += 1
        except Undecidable as problem:
            raise Undecidable(f"{where}: {problem}") from None
        except BaseException as error:
            raise Undecidable(f"{where} it raised {describe_error(error)}") from None
        else:
            views = self.case.views(self.completed(text, branch))
            for bet, view in zip(self.bets, views):
                bet.add(view)

    def completed(self, text: Text, branch: Branch) -> Text:
        """A text, completed to the case's n_tokens or to its end by tokens of the target, which are
        choices of the branch.
        """
        case = self.case
        while len(text) < case.n_tokens and not (text and text[-1] == case.end):
            text = (*text, branch.choose(case.p(text), "completed"))
        return text

    def conclude(self) -> None:
        """Write what the runs show into self.result, the entry of the case: `measured`, and also
        `first_wrong` if they show that it is wrong and the entry has none. Without a run it changes
        nothing.
        """
        bet = self.bet
        if not bet.runs and not self.event:
            return
        text, yours, right = bet.worst() if bet.runs else ((), 1.0, 1.0)
        shown = dict(text=list(text), yours=yours, right=right, event=self.event)
        never = self.event or math.isinf(bet.log_odds)
        odds = None if never else bet.log_odds / math.log(10)
        n_runs, would_show = bet.runs + self.n_events, bet.would_show()
        figures = dict(runs=n_runs, log10_odds=odds, would_show=would_show)
        self.result["measured"] = shown | figures
        if self.is_wrong and not self.result["first_wrong"]:
            self.result["first_wrong"] = shown | dict(draws=None)


def try_in_turn(trials: list[Trial], deadline: float) -> str:
    """Run each trial as often as it wants, a few runs at a time, until one is wrong or the deadline
    comes, a time of time.monotonic. Returns "", or what else made an end: a run raised an error or
    did not end. A bar shows the progress.
    """
    turns = range(0, max((trial.n_runs for trial in trials), default=0), AT_ONCE)
    try:
        for done in shown(turns, "real runs"):
            for trial in trials:
                for _ in range(min(AT_ONCE, trial.n_runs - done)):
                    trial.run(deadline)
                    if trial.is_wrong:
                        return ""
    except OutOfTime:
        pass
    except Undecidable as problem:
        return str(problem)
    return ""


# ---------------------------------------------------------------- the verdict


def prove(
    function: Callable,
    cases: Sequence[Case] | None = None,
    name: str | None = None,
    to_probs: ToProbs = np.asarray,
    *,
    batch: bool = False,
    timeout: float = 300.0,
    seed: int | None = None,
) -> dict[str, Any]:
    """Judge a sampler: a rule (draft, p, q), a rule for trees (tokens, parents, p, q) or a loop
    (target, draft_model, ids, n_tokens, K), as forms.py describes them. Returns a result, a dict
    with name, verdict, reason, cases and more, described above. It seeds the global generators of
    random, numpy.random and torch.

    function: parameters sample, accept, rng and end are given to it by name; other parameters
        beyond those of its form need defaults
    cases: those of its form in cases.py if None. A function without a parameter `end` is not
        judged in those that have one
    to_probs: what the function does with each row of a model before it samples, such as top-k
    batch: whether it is a rule for batches
    timeout: seconds for all of it
    seed: of real runs; None for another each time
    Raises ValueError for a function of another form, or without a case to judge it in.
    """
    started = monotonic()
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    form, call = forms.form_of(function, batch), forms.caller(function, seed)
    cases = cases_for(form, function, cases, to_probs)
    small = [case for case in cases if not case.is_large]
    given = bool(forms.names_of(function) & {"sample", "accept", "rng"})
    name = name or forms.name_of(function)
    if form is forms.loop_text:
        call = forms.without_prompt(call, started + timeout)
    sampler = partial(form, call)
    say(name, small[0].name, None)
    if not given:
        try_once(sampler, small[0], started + timeout)
    results = enumerated(name, sampler, small, started + timeout * FOR_BRANCHES)
    seed_generators(seed)
    rng = np.random.default_rng(seed)
    refused = refusals(cases, results) if form is forms.loop_text else []
    verdict, reason = decide(sampler, cases, results, given, started + timeout, rng)
    result = summary(name, verdict, reason, results, monotonic() - started) | dict(seed=seed)
    if verdict == "exact":
        zero = at_zero(sampler, cases, results, started + timeout)
        result["remarks"] = [*refused, *remarks(form, cases, results), *zero]
    return result


def try_once(sampler: Sampler, case: Case, deadline: float) -> bool:
    """Run a sampler once in a case with real random numbers, and drop what comes of it, errors,
    too: the first call may import something that draws, and is to be followed later. Returns
    whether the run ended well.
    """
    with suppress(Exception, Undecidable, SystemExit):
        Trial(sampler, case, {}, 1, ALPHA, np.random.default_rng()).run(deadline)
        return True
    return False


def summary(
    name: str, verdict: str, reason: str | None, results: list[dict[str, Any]], seconds: float
) -> dict[str, Any]:
    """A result of `prove`, with all keys described above, from the entries of its cases; remarks
    are [], and the seed is None. The entries are copied, without the keys INNER.
    """
    distances = [result["distance"] for result in results if result["distance"] is not None]
    measured = [result["measured"] for result in results if result["measured"]]
    shown = [{key: x for key, x in r.items() if key not in INNER} for r in results]
    would_show = max((m["would_show"] for m in measured), default=None)
    n_branches, n_runs = sum(r["branches"] for r in results), sum(m["runs"] for m in measured)
    return dict(
        name=name, verdict=verdict, reason=reason, remarks=[],
        distance=max(distances, default=None), would_show=would_show,
        cases=shown, branches=n_branches, runs=n_runs, seconds=seconds, seed=None,
    )  # fmt: skip


INNER = ("branches", "length", "symbolic", "meets_zero")  # of an entry, which no result shows


def cases_for(
    form: forms.Form, function: Callable, cases: Sequence[Case] | None, to_probs: ToProbs
) -> list[Case]:
    """The cases in which a function is judged: the given ones, or CASES[form] if None; for a
    function without a parameter `end` only those without an end. They are copied, with to_probs,
    and those that are too large to enumerate come last. Raises ValueError if all are too large, or
    none is left.
    """
    if cases is None:
        cases = CASES[form]
        if to_probs is not np.asarray:
            cases = [uneven(case) for case in cases]
    if "end" not in forms.names_of(function):  # it has not been told of one
        cases = [case for case in cases if case.end is None]
    if all(case.is_large for case in cases):
        expected = "a small one; without an end, if the function has no parameter end"
        raise ValueError(f"no case is left to enumerate: expected {expected}")
    in_order = sorted(cases, key=lambda case: case.is_large)
    return [case.under(to_probs) for case in in_order]


CASES: dict[forms.Form, list[Case]] = {
    forms.rule_text: [*RULE_CASES, WIDE],
    forms.batch_text: [*RULE_CASES, *BATCH_CASES, WIDE, MANY_ROWS],
    forms.tree_text: TREE_CASES,
    forms.loop_text: [*LOOP_CASES, WIDE_LOOP, LONG_LOOP],
}


def enumerated(
    name: str, sampler: Sampler, cases: list[Case], deadline: float
) -> list[dict[str, Any]]:
    """Take every branch of each case, until the deadline, a time of time.monotonic, and
    MOST_IN_ALL choices. Returns an entry for each case, with the keys INNER besides; where not
    every branch was taken, its `problem` says why. Once a run does not end, the other cases get no
    time. `say` is told of each case, under the function's name, and a bar shows the progress.
    """
    results: list[dict[str, Any]] = []
    left = MOST_IN_ALL
    for case in shown(cases, "cases"):
        say(name, case.name, None)
        run = partial(sampler, case)
        found = examine(run, case.p, case.n_tokens, case.end, left, deadline)
        left -= found.pop("choices")
        if found["first_wrong"] or found["problem"]:  # the others are to show where
            left = min(left, AFTER_FAILURE)
        if found["problem"] == TOO_LONG:
            deadline = 0.0  # the problem of all others is that their time is up
        results.append(entry(case) | found)
        say(name, case.name, results[-1])
    return results


def entry(case: Case) -> dict[str, Any]:
    """The entry of a case of which nothing is known yet, with all keys described above, and INNER
    besides. kept_by_verify and kept_at_most are None for trees and for cases that are too large.
    """
    by_verify = at_most = None
    if not case.parents and not case.is_large:
        by_verify, at_most = drafts_kept(case, block=False), drafts_kept(case, block=True)
    return dict(
        name=case.name, p=case.p(()).tolist(), q=case.q(()).tolist(), K=case.K,
        kept_by_verify=by_verify, kept_at_most=at_most,
        distance=None, kept=None, first_wrong=None, problem="", left_out=0.0, measured=None,
        branches=0, length=0, symbolic=False, meets_zero=False,
    )  # fmt: skip


def refusals(cases: list[Case], results: list[dict[str, Any]]) -> list[str]:
    """Remove from both lists the cases with K = 0 in which a loop raises an error, if it is judged
    in others: it may refuse these. Returns a remark on each, in words.

    results: the entries of the cases, in their order
    """
    notes = []
    for case, result in list(zip(cases, results)):
        is_refused = case.K == 0 and result["problem"].startswith("it raised")
        if is_refused and any(other["distance"] is not None for other in results):
            cases.remove(case)
            results.remove(result)
            notes.append(f"for K = 0 {result['problem']}")
    return notes


def decide(
    sampler: Sampler,
    cases: list[Case],
    results: list[dict[str, Any]],
    given: bool,
    deadline: float,
    rng: np.random.Generator,
) -> tuple[str, str | None]:
    """(the verdict, its reason or None). Where real runs are needed, they are made until the
    deadline, and `results` is changed: what they show is written into the entries, and an entry is
    added for each case that is too large to enumerate.

    results: the entries of the cases that were enumerated, in the order of `cases`
    given: whether the random numbers are handed to the function, so that it needs none of its own
    rng: of the drafts in real runs
    """
    forgive_empty_drafts(results)
    own = not given or any(result["symbolic"] for result in results)
    if verdict := without_real_runs(results, own):
        return verdict
    results += [entry(case) for case in cases if case.is_large]
    if STATE in problems_of(results):  # what was enumerated is not what it does
        for result in results:
            result["first_wrong"] = None
        # it may have drawn ahead: the symbolic numbers that it has left end the runs that meet them
        any(try_once(sampler, cases[0], deadline) for _ in range(MEASURE))
    trials = [
        Trial(sampler, case, result, n_runs, ALPHA / len(cases), rng)
        for case, result, n_runs in to_try(list(zip(cases, results)), own)
    ]
    failure = try_in_turn(trials, deadline)
    for trial in trials:
        trial.conclude()
    return after_real_runs(trials, results, failure)


def forgive_empty_drafts(results: list[dict[str, Any]]) -> None:
    """Change the entries of a function that could be judged in no case: where an error for an empty
    draft is its `first_wrong`, it becomes the `problem`: such a function does not run at all.
    """
    if any(result["distance"] is not None for result in results):
        return
    for result in results:
        event = (result["first_wrong"] or {}).get("event", "")
        if event.startswith(forms.EMPTY_DRAFT):
            result |= dict(problem=event, first_wrong=None)


def problems_of(results: list[dict[str, Any]]) -> list[str]:
    """The problems of the cases that have one."""
    return [result["problem"] for result in results if result["problem"]]


def without_real_runs(results: list[dict[str, Any]], own: bool) -> tuple[str, str | None] | None:
    """(the verdict, its reason or None), if the entries of the enumerated cases tell it: "wrong" or
    "undecidable"; None if real runs are needed.

    own: whether the function has random numbers of its own
    """
    problems, is_wrong = problems_of(results), any(result["first_wrong"] for result in results)
    if forms.TUPLES in problems:
        return "undecidable", forms.TUPLES
    # where these are all problems, real runs may tell more even if no number is hidden
    others = {*problems} - {STATE, TOO_MANY, NO_TIME}
    if TOO_LONG in problems or (others and not own):
        return ("wrong", None) if is_wrong and not own else ("undecidable", problems[0])
    if is_wrong and not own and STATE not in problems:
        return "wrong", None
    return None


def to_try(
    pairs: list[tuple[Case, dict[str, Any]]], own: bool
) -> Iterator[tuple[Case, dict[str, Any], int]]:
    """Yield (case, its entry, how many real runs of it are needed), from pairs (case, its entry);
    those that need none are left out. If some are wrong, that is one of them only: the first that
    is clearly wrong, or else the one with the largest distance.

    own: whether the function has random numbers of its own
    """
    problems = problems_of([result for _, result in pairs])
    wrong = [pair for pair in pairs if pair[1]["first_wrong"]]
    if wrong:
        distance = lambda pair: pair[1]["distance"] or 1.0
        clear = [pair for pair in wrong if distance(pair) > CLEAR]
        case, result = clear[0] if clear else max(wrong, key=distance)
        yield case, result, ACCUSE
        return
    for case, result in pairs:
        if case.is_large:
            yield case, result, WIDE_RUNS
        elif own or problems:
            yield case, result, MEASURE if problems else CONFIRM


def after_real_runs(
    trials: list[Trial], results: list[dict[str, Any]], failure: str
) -> tuple[str, str | None]:
    """(the verdict, its reason or None), once all real runs are made: "wrong" if they show that; if
    not, "exact" where every branch of every case was taken and is right, else "not told apart" if
    there were enough runs, and "undecidable" if not, or if enumeration alone says that it is wrong.

    results: the entries of the cases
    failure: what made an end of the real runs, or ""
    """
    problems = problems_of(results)
    if any(trial.is_wrong for trial in trials):
        return "wrong", None
    if failure:
        raised = [problem for problem in problems if problem.startswith("it raised")]
        return "undecidable", raised[0] if raised else failure
    wrong = [result["first_wrong"] for result in results if result["first_wrong"]]
    if wrong:
        figures = f"{wrong[0]['yours']:.4f} for {wrong[0]['right']:.4f}"
        n_runs = sum(trial.bet.runs for trial in trials)
        few = f"{figures} is too little to be seen in {n_runs:,} real runs, or not followed rightly"
        return "undecidable", few
    if not problems:
        return "exact", None
    were_enough = all(trial.bet.would_show() < SHOWS for trial in trials)
    return "not told apart" if were_enough else "undecidable", problems[0]


def remarks(
    form: forms.Form, cases: Sequence[Case], results: list[dict[str, Any]]
) -> Iterator[str]:
    """Yield in words what an exact function does besides: that it returns more tokens than it was
    asked for, makes more passes of the target than tokens, or gains fewer tokens than verify or
    more than block verification; each for the case in which it is the most.

    results: the entries of the cases, in their order
    """
    case, result = max(zip(cases, results), key=lambda pair: pair[1]["length"] - pair[0].n_tokens)
    if result["length"] > case.n_tokens:
        asked = f"n_tokens = {case.n_tokens}"
        yield f"it returns up to {result['length']} tokens for {asked}; the first n_tokens count"
    known = [result for result in results if result["kept"] is not None]
    least = min(known, key=itemgetter("kept"))
    if -least["kept"] > TOLERANCE:
        n_more = f"{-least['kept']:.2f} more passes of the target than tokens"
        yield f"it makes {n_more} ({least['name']})"
        return
    chains = [result for result in known if result["kept_by_verify"] is not None]
    if not chains:
        return
    row_or_cache = "take the wrong row of q, or use a stale cache?"
    fewer = lambda result: result["kept_by_verify"] - result["kept"]
    worst = max(chains, key=fewer)
    if fewer(worst) > TOLERANCE:
        figures = f"{max(worst['kept'], 0):.4f} for {worst['kept_by_verify']:.4f}"
        hint = f"; does it draft too few, lose the bonus, {row_or_cache}"
        hint = hint if form is forms.loop_text else ""
        yield f"it gains fewer tokens than verify, {figures} ({worst['name']}){hint}"
    more = lambda result: result["kept"] - result["kept_at_most"]
    worst = max(chains, key=more)
    if more(worst) > TOLERANCE:
        figures = f"{worst['kept']:.4f} for {worst['kept_at_most']:.4f}"
        hint = f"; does it draft too many, {row_or_cache}" if form is forms.loop_text else ""
        yield f"it gains more tokens than block verification, {figures} ({worst['name']}){hint}"


def at_zero(
    sampler: Sampler, cases: list[Case], results: list[dict[str, Any]], deadline: float
) -> Iterator[str]:
    """Yield one remark in words, or none: what an exact function writes that the target never does,
    where a random number is exactly 0. The cases in which that decides something (`meets_zero` of
    their entries) are enumerated again, with such numbers, until one is found.

    deadline: a time of time.monotonic, at which that is given up
    """

    def run(branch: Branch, case: Case) -> tuple[Text, int]:
        branch.takes_zero = True
        return sampler(case, branch)

    for case, result in zip(cases, results):
        if not result["meets_zero"]:
            continue
        tally, _ = walk(partial(run, case=case), case.n_tokens, AFTER_FAILURE, deadline)
        (law,) = case.laws()
        never = [t for t in tally.texts if not any(right[: len(t)] == t for right in law)]
        if never:
            text = " ".join(map(str, min(never)))
            what = f'it writes "{text}", of probability 0 ({case.name})'
            question = "does it accept by <=, where < is meant?"
            yield f"where a random number is exactly 0, {what}: {question}"
            return


def more_by_block(result: dict[str, Any]) -> float:
    """How many more drafts block verification keeps in a case than the token rule, on average: its
    "kept_at_most" less its "kept_by_verify"; 0 for trees, where both are None.
    """
    return (result["kept_at_most"] or 0.0) - (result["kept_by_verify"] or 0.0)


# ---------------------------------------------------------------- while it runs


def say(name: str, case: str, result: dict[str, Any] | None) -> None:
    """Tell whoever waits for the function of this name that a case begins (result is None), or what
    was found in it, its entry. Here it does nothing; alone.py, a process that may be stopped at any
    time, replaces it.
    """


def shown(items: Sequence, unit: str) -> Iterator[Any]:
    """Yield the items. If tqdm is installed, a bar on stderr counts them in this unit, and shows
    the name of the item, if it has one.
    """
    try:
        from tqdm import tqdm
    except ImportError:
        yield from items
        return
    # a program may close sys.stderr
    with tqdm(items, unit, file=sys.__stderr__, leave=False, disable=None) as bar:
        for item in bar:
            bar.set_postfix_str(getattr(item, "name", ""), refresh=True)
            yield item
