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
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter, itemgetter
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

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
from .forms import (
    EMPTY_DRAFT,
    TUPLES,
    Form,
    batch_text,
    caller,
    form_of,
    loop_text,
    name_of,
    names_of,
    only_text,
    rule_text,
    tree_text,
    without_prompt,
)

Sampler = Callable[[Case, Branch], tuple[Text, int]]  # a Form that calls a function
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
        """Count a branch and the (text, passes of the target) that it gave, or None if it was left
        out. Of the text n_tokens count.
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
        # a loop does not tell what it drafts; it has left the draft if its first coin says no
        coins = [c.index for c in branch.choices if c.label == "coin"]
        refused = bool(coins) and coins[0] == 1
        leaves_draft = refused or text[: len(drafted)] != drafted
        way = Way(leaves_draft, branch.probability, branch.choices)
        self.ways[text] = max(self.ways.get(text, way), way, key=itemgetter(0, 1))


def walk(
    run: Callable[[Branch], Any], n_tokens: int, most: int, deadline: float
) -> tuple[Tally, Undecidable | None]:
    """Take every branch of a run, or as many as can be. Returns what they gave, and what stopped
    it, if anything did.
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
    """Compare the texts of a run with the target's. Returns distance, kept, first_wrong, problem
    and left_out of an entry, and besides, as Tally has them: branches, choices, length, symbolic,
    meets_zero.

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
        event = dict(text=[], yours=branch.probability, right=0.0, event=str(stopped))
        return result | dict(first_wrong=event | dict(draws=describe_choices(branch.choices)))
    if stopped:
        return result | dict(problem=str(stopped))
    if (lost := 1 - sum(tally.texts.values())) > TOLERANCE:
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
    """The probability of each beginning of n tokens."""
    found: dict[Text, float] = defaultdict(float)
    for text, probability in texts.items():
        found[text[:n]] += probability
    return found


def first_error(yours: dict, right: dict, n_tokens: int) -> tuple[Text, float, float]:
    """The shortest beginning of a text that comes too often, with both probabilities; of several
    of that length, the one with the largest excess.
    """
    excess: dict[Text, float] = {}
    for n in range(1, n_tokens + 1):
        of_yours, of_right = beginnings(yours, n), beginnings(right, n)
        excess = {text: of_yours[text] - of_right[text] for text in of_yours}
        beginning = max(excess, key=lambda text: (excess[text], text))
        if excess[beginning] > TOLERANCE / 10:  # a distance adds up many of them
            break
    return beginning, of_yours[beginning], of_right[beginning]


def way_to(beginning: Text, tally: Tally, target: Model, end: int | None) -> Way:
    """The branch that shows best how a beginning comes about: rather one whose own tokens reach so
    far than one that the target completes; of those, rather one that leaves the draft; of those,
    the likeliest.
    """

    def rank(own: Text) -> tuple[bool, bool, float]:
        leaves_draft, chance, _ = tally.ways[own]
        whole = complete({own: chance}, target, len(beginning), end)
        share = beginnings(whole, len(beginning))[beginning]
        comes_about = share > TOLERANCE
        return comes_about and len(own) >= len(beginning), comes_about and leaves_draft, share

    return tally.ways[max(tally.ways, key=rank)]


def describe_choices(choices: list[Choice]) -> list[str]:
    """The open ones in words, such as "coin of 0.75: no (0.25)"."""
    words = []
    for choice in choices:
        if not choice.is_open:
            continue
        weight = choice.weights[choice.index]
        chance = f"({weight:.2f})" if weight > 0.005 else f"({weight:.0e})"
        if choice.label == "coin":
            words.append(f"coin of {choice.weights[0]:.4g}: {('yes', 'no')[choice.index]} {chance}")
        else:
            row = "" if choice.label == "drafted" else f" from {format_row(choice.weights)}"
            words.append(f"{choice.label} {choice.index}{row} {chance}")
    return words


# ---------------------------------------------------------------- real runs


class Trial:
    """Runs of one case with real random numbers, and the bet on their texts.

    sampler: (case, branch) -> (text, passes of the target), a form that calls a function
    result: the entry of the case
    n_runs: how many runs are wanted
    alpha: the probability that an exact sampler is called wrong
    event: what a run gave that no right one gives, or ""; n_events: how many runs gave such a thing
    """

    def __init__(
        self,
        sampler: Sampler,
        case: Case,
        result: dict[str, Any],
        n_runs: int,
        alpha: float,
        rng: Any,
    ):
        self.sampler, self.case, self.result = sampler, case, result
        self.n_runs, self.rng = n_runs, rng
        self.event, self.n_events = "", 0
        laws = case.laws()
        self.bets = [Bet(law, alpha / len(laws)) for law in laws]

    @property
    def bet(self) -> Bet:
        """The one that speaks most against the sampler."""
        return max(self.bets, key=attrgetter("most"))

    @property
    def is_wrong(self) -> bool:
        return bool(self.event) or self.bet.wrong

    def run(self, deadline: float) -> None:
        """Run it once. Raises OutOfTime, or Undecidable if it raises an error or does not end."""
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
        """A text that is too short for the case is completed by the target."""
        case = self.case
        while len(text) < case.n_tokens and not (text and text[-1] == case.end):
            text = (*text, branch.choose(case.p(text), "completed"))
        return text

    def conclude(self) -> None:
        """Write what the runs show into the entry: `measured`, and `first_wrong` if that is wrong
        and not known. Without a run it changes nothing.
        """
        if not self.bet.runs and not self.event:
            return
        text, yours, right = self.bet.worst() if self.bet.runs else ((), 1.0, 1.0)
        shown = dict(text=list(text), yours=yours, right=right, event=self.event)
        never = self.event or math.isinf(self.bet.log_odds)
        self.result["measured"] = shown | dict(
            runs=self.bet.runs + self.n_events,
            log10_odds=None if never else self.bet.log_odds / math.log(10),
            would_show=self.bet.would_show(),
        )
        if self.is_wrong and not self.result["first_wrong"]:
            self.result["first_wrong"] = shown | dict(draws=None)


def try_in_turn(trials: list[Trial], deadline: float) -> str:
    """Run each trial as often as it wants, a few runs at a time, until one is wrong or the time is
    up. Returns "", or what else made an end: a run raised an error or did not end.
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
    """Judge a rule, a loop, or another form (forms.py). Returns a result, described above.

    function: parameters sample, accept, rng and end are given to it by name; other parameters
        beyond those of its form need defaults
    cases: those of its form in cases.py if None. A function without a parameter `end` is not
        judged in those that have one
    to_probs: what the function does with each row of a model before it samples, such as top-k
    batch: whether it is a rule for batches
    timeout: seconds for all of it
    seed: None for one of its own
    Raises ValueError for a function of another form.
    """
    started = monotonic()
    seed = np.random.SeedSequence().generate_state(1)[0].item() if seed is None else seed
    form, call = form_of(function, batch), caller(function, seed)
    cases = cases_for(form, function, cases, to_probs)
    small = [case for case in cases if not case.is_large]
    given = bool(names_of(function) & {"sample", "accept", "rng"})
    name = name or name_of(function)
    if form is loop_text:
        call = without_prompt(only_text(call), started + timeout)
    sampler = partial(form, call)
    say(name, small[0].name, None)
    if not given:
        try_once(sampler, small[0], started + timeout)
    results = enumerated(name, sampler, small, started + timeout * FOR_BRANCHES)
    seed_generators(seed)
    rng = np.random.default_rng(seed)
    refused = refusals(cases, results) if form is loop_text else []
    verdict, reason = decide(sampler, cases, results, given, started + timeout, rng)
    result = summary(name, verdict, reason, results, monotonic() - started) | dict(seed=seed)
    if verdict == "exact":
        zero = at_zero(sampler, cases, results, started + timeout)
        result["remarks"] = [*refused, *remarks(form, cases, results), *zero]
    return result


def try_once(sampler: Sampler, case: Case, deadline: float) -> None:
    """Make one real run, whatever comes of it: the first call may import something that draws, and
    is to be followed later.
    """
    with suppress(Exception, Undecidable, SystemExit):
        Trial(sampler, case, {}, 1, ALPHA, np.random.default_rng()).run(deadline)


def summary(
    name: str, verdict: str, reason: str | None, results: list[dict[str, Any]], seconds: float
) -> dict[str, Any]:
    """A result of `prove`, from its cases."""
    distances = [result["distance"] for result in results if result["distance"] is not None]
    measured = [result["measured"] for result in results if result["measured"]]
    shown = [{key: x for key, x in r.items() if key not in INNER} for r in results]
    return dict(
        name=name,
        verdict=verdict,
        reason=reason,
        remarks=[],
        distance=max(distances, default=None),
        would_show=max((m["would_show"] for m in measured), default=None),
        cases=shown,
        branches=sum(result["branches"] for result in results),
        runs=sum(m["runs"] for m in measured),
        seconds=seconds,
        seed=None,
    )


INNER = ("branches", "length", "symbolic", "meets_zero")  # of an entry, which no result shows


def cases_for(
    form: Form, function: Callable, cases: Sequence[Case] | None, to_probs: ToProbs
) -> list[Case]:
    """The cases in which a function is judged: the given ones, or those of its form if None; for a
    function without a parameter `end` only those without an end. Each gets to_probs, and those that
    are too large to enumerate come last. Raises ValueError if all are too large, or none is left.
    """
    if cases is None:
        cases = CASES[form]
    if "end" not in names_of(function):  # it has not been told of one
        cases = [case for case in cases if case.end is None]
    if all(case.is_large for case in cases):
        raise ValueError("expected a parameter end, or a case without an end")
    in_order = sorted(cases, key=lambda case: case.is_large)
    return [replace(case, to_probs=to_probs) for case in in_order]


CASES: dict[Form, list[Case]] = {
    rule_text: [*RULE_CASES, WIDE],
    batch_text: [*RULE_CASES, *BATCH_CASES, WIDE, MANY_ROWS],
    tree_text: TREE_CASES,
    loop_text: [*LOOP_CASES, WIDE_LOOP, LONG_LOOP],
}


def enumerated(
    name: str, sampler: Sampler, cases: list[Case], deadline: float
) -> list[dict[str, Any]]:
    """Take every branch of each case. Returns an entry for each, with INNER besides. Once one does
    not end, the others get no time: that is their problem.
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
            deadline = 0.0  # for the others
        results.append(entry(case) | found)
        say(name, case.name, results[-1])
    return results


def entry(case: Case) -> dict[str, Any]:
    """The entry of a case of which nothing is known yet, with INNER besides."""
    chain = not case.parents and not case.is_large
    by_verify, at_most = (drafts_kept(case, block) if chain else None for block in (False, True))
    return dict(
        name=case.name, p=case.p(()).tolist(), q=case.q(()).tolist(), K=case.K,
        kept_by_verify=by_verify, kept_at_most=at_most,
        distance=None, kept=None, first_wrong=None, problem="", left_out=0.0, measured=None,
        branches=0, length=0, symbolic=False, meets_zero=False,
    )  # fmt: skip


def refusals(cases: list[Case], results: list[dict[str, Any]]) -> list[str]:
    """Take from both lists the cases that a loop may refuse: K = 0, if it raises an error there and
    not everywhere. Returns a remark on each.
    """
    notes = []
    for case, result in [*zip(cases, results)]:
        refused = case.K == 0 and result["problem"].startswith("it raised")
        if refused and any(other["distance"] is not None for other in results):
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
    """The verdict and its reason. Where it takes real runs, it adds what they show to the results,
    and an entry for each case that is too large to enumerate.

    given: whether the random numbers are handed to the function, so that it needs none of its own
    """
    forgive_empty_drafts(results)
    own = not given or any(result["symbolic"] for result in results)
    if verdict := without_real_runs(results, own):
        return verdict
    results += [entry(case) for case in cases if case.is_large]
    if STATE in problems_of(results):  # what was enumerated is not what it does
        for result in results:
            result |= dict(first_wrong=None)
    trials = [
        Trial(sampler, case, result, n_runs, ALPHA / len(cases), rng)
        for case, result, n_runs in to_try([*zip(cases, results)], own)
    ]
    failure = try_in_turn(trials, deadline)
    for trial in trials:
        trial.conclude()
    return after_real_runs(trials, results, failure)


def forgive_empty_drafts(results: list[dict[str, Any]]) -> None:
    """Change the results of a function that is judged in no case: an error for an empty draft is
    no wrong text then, but one more problem.
    """
    if not any(result["distance"] is not None for result in results):
        for result in results:
            event = (result["first_wrong"] or {}).get("event", "")
            if event.startswith(EMPTY_DRAFT):
                result |= dict(problem=event, first_wrong=None)


def problems_of(results: list[dict[str, Any]]) -> list[str]:
    return [result["problem"] for result in results if result["problem"]]


def without_real_runs(results: list[dict[str, Any]], own: bool) -> tuple[str, str | None] | None:
    """The verdict and its reason, if every branch tells it; None if real runs are needed.

    own: whether the function has random numbers of its own
    """
    problems, is_wrong = problems_of(results), any(result["first_wrong"] for result in results)
    if TUPLES in problems:
        return "undecidable", TUPLES
    # of these, real runs may tell more even where no number is hidden
    is_final = not own and bool({*problems} - {STATE, TOO_MANY, NO_TIME})
    if TOO_LONG in problems or is_final:
        return ("wrong", None) if is_wrong and not own else ("undecidable", problems[0])
    if is_wrong and not own and STATE not in problems:
        return "wrong", None
    return None


def to_try(
    pairs: list[tuple[Case, dict[str, Any]]], own: bool
) -> Iterator[tuple[Case, dict[str, Any], int]]:
    """Yield (case, its entry, how many real runs of it are needed), those with none left out.
    If some are wrong, that is one of them only: the first that is clearly wrong, or else the one
    with the largest distance.
    """
    problems = problems_of([result for _, result in pairs])
    if wrong := [pair for pair in pairs if pair[1]["first_wrong"]]:
        distance = lambda pair: pair[1]["distance"] or 1.0
        accused = next((pair for pair in wrong if distance(pair) > CLEAR), None)
        yield *(accused or max(wrong, key=distance)), ACCUSE
        return
    for case, result in pairs:
        if case.is_large:
            yield case, result, WIDE_RUNS
        elif own or problems:
            yield case, result, MEASURE if problems else CONFIRM


def after_real_runs(
    trials: list[Trial], results: list[dict[str, Any]], failure: str
) -> tuple[str, str | None]:
    """The verdict and its reason, once the trials are concluded.

    failure: what made an end of the real runs, or ""
    """
    problems = problems_of(results)
    if any(trial.is_wrong for trial in trials):
        return "wrong", None
    if failure:
        return "undecidable", next((p for p in problems if p.startswith("it raised")), failure)
    if wrong := [result["first_wrong"] for result in results if result["first_wrong"]]:
        figures = f"{wrong[0]['yours']:.4f} for {wrong[0]['right']:.4f}"
        n_runs = sum(trial.bet.runs for trial in trials)
        few = f"{figures} is too little to be seen in {n_runs:,} real runs, or not followed rightly"
        return "undecidable", few
    if not problems:
        return "exact", None
    were_enough = all(trial.bet.would_show() < SHOWS for trial in trials)
    return "not told apart" if were_enough else "undecidable", problems[0]


def remarks(form: Form, cases: Sequence[Case], results: list[dict[str, Any]]) -> Iterator[str]:
    """Yield in words where an exact function returns more tokens than it was asked for, and where
    it does not gain as many as it should.
    """
    case, result = max(zip(cases, results), key=lambda pair: pair[1]["length"] - pair[0].n_tokens)
    if result["length"] > case.n_tokens:
        asked = f"n_tokens = {case.n_tokens}"
        yield f"it returns up to {result['length']} tokens for {asked}; the first n_tokens count"
    known = [result for result in results if result["kept"] is not None]
    least = min(known, key=itemgetter("kept"))
    if (n_more := -least["kept"]) > TOLERANCE:
        yield f"it makes {n_more:.2f} more passes of the target than tokens ({least['name']})"
        return
    chains = [result for result in known if result["kept_by_verify"] is not None]
    if not chains:
        return
    why = "; does it draft too {}, take the wrong row of q, or use a stale cache?"
    why = why if form is loop_text else ""
    fewer = lambda result: result["kept_by_verify"] - result["kept"]
    if fewer(worst := max(chains, key=fewer)) > TOLERANCE:
        figures = f"{max(worst['kept'], 0):.4f} for {worst['kept_by_verify']:.4f}"
        hint = why.format("few, lose the bonus")
        yield f"it gains fewer tokens than verify, {figures} ({worst['name']}){hint}"
    more = lambda result: result["kept"] - result["kept_at_most"]
    if more(worst := max(chains, key=more)) > TOLERANCE:
        figures = f"{worst['kept']:.4f} for {worst['kept_at_most']:.4f}"
        hint = why.format("many")
        yield f"it gains more tokens than block verification, {figures} ({worst['name']}){hint}"


def at_zero(
    sampler: Sampler, cases: list[Case], results: list[dict[str, Any]], deadline: float
) -> Iterator[str]:
    """Yield in words what an exact function writes that the target never does, where a random
    number is exactly 0.
    """
    for case, result in zip(cases, results):
        if not result["meets_zero"]:
            continue

        def run(branch: Branch, case: Case = case) -> tuple[Text, int]:
            branch.takes_zero = True
            return sampler(case, branch)

        tally, _ = walk(run, case.n_tokens, AFTER_FAILURE, deadline)
        (law,) = case.laws()
        for text in sorted(tally.texts):
            if not any(right[: len(text)] == text for right in law):
                shown = " ".join(map(str, text))
                yield (
                    f'where a random number is exactly 0, it writes "{shown}", of probability 0 '
                    f"({case.name}): does it accept by <=, where < is meant?"
                )
                return


def more_by_block(result: dict[str, Any]) -> float:
    """How many more drafts block verification keeps in a case than the token rule."""
    return (result["kept_at_most"] or 0.0) - (result["kept_by_verify"] or 0.0)


# ---------------------------------------------------------------- while it runs


def say(name: str, case: str, result: dict[str, Any] | None) -> None:
    """Tell whoever waits that a case begins (None), or what was found. A process that may be
    stopped at any time replaces it (alone.py).
    """


def shown(items: Sequence, unit: str) -> Iterator[Any]:
    """Yield the items, with a bar if tqdm is installed, which names the case that is tried."""
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
