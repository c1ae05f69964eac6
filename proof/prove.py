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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
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
        """Count a branch and the (text, passes of the target) that it gave."""
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
        # a loop does not tell what it drafts: its first coin says no
        refused = [c.index for c in branch.choices if c.label == "coin"][:1] == [1]
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
    seen: list[Branch] = []

    def watched(branch: Branch) -> Any:
        seen[:] = [branch]
        return run(branch)

    try:
        with untouched(), followed():
            for outcome, branch in branches(watched, most, deadline):
                tally.add(outcome, branch, n_tokens)
    except Undecidable as problem:
        tally.symbolic |= any(branch.symbolic for branch in seen)
        if isinstance(problem, Impossible) and seen:
            way = Way(True, seen[0].probability, seen[0].choices)
            tally.ways = {(): way}
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
    and left_out of an entry, and besides:

        branches, choices, length: how many there are, tokens of the longest text
        symbolic: whether it draws random numbers that were not handed to it
        meets_zero: whether it decides something else where one of them is 0 exactly

    run: makes its random choices with the Branch. Returns (text, number of passes of the target).
        Of a text only n_tokens count; a shorter one, without `end`, is completed by the target
    most: choices, before it gives up
    deadline: a time of time.monotonic, at which it gives up
    """
    tally, stopped = walk(run, n_tokens, most, deadline)
    result: dict[str, Any] = dict(distance=None, kept=None, first_wrong=None, problem="")
    for name in "left_out branches choices length symbolic meets_zero".split():
        result[name] = getattr(tally, name)
    if isinstance(stopped, Impossible):
        way = tally.ways[()]
        event = dict(text=[], yours=way.probability, right=0.0, draws=describe_way(way))
        return result | dict(first_wrong=event | dict(event=str(stopped)))
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
        way = way_to(text, tally, target, end)
        result["first_wrong"] = dict(
            text=list(text), yours=of_yours, right=of_right, draws=describe_way(way)
        )
    return result


def first_error(yours: dict, right: dict, n_tokens: int) -> tuple[Text, float, float]:
    """The shortest beginning of a text that comes too often, with both probabilities; of several
    of that length, the one with the largest excess.
    """
    for n in range(1, n_tokens + 1):
        excess: dict[Text, float] = defaultdict(float)
        for sign, texts in ((1, yours), (-1, right)):
            for text, probability in texts.items():
                excess[text[:n]] += sign * probability
        beginning = max(excess, key=lambda text: (excess[text], text))
        if excess[beginning] > TOLERANCE / 10 or n == n_tokens:
            break
    of = lambda texts: sum(p for text, p in texts.items() if text[:n] == beginning)
    return beginning, of(yours), of(right)


def way_to(beginning: Text, tally: Tally, target: Model, end: int | None) -> Way:
    """The branch that shows best how a beginning comes about: one whose own tokens reach so far,
    not the target's that complete it; one that leaves the draft; the likeliest.
    """

    def fit(text: Text) -> tuple[bool, bool, float]:
        leaves_draft, chance, _ = tally.ways[text]
        whole = complete({text: chance}, target, len(beginning), end)
        share = sum(p for text, p in whole.items() if text[: len(beginning)] == beginning)
        own = share > TOLERANCE and len(text) >= len(beginning)
        return own, leaves_draft and share > TOLERANCE, share

    return tally.ways[max(tally.ways, key=fit)]


def describe_way(way: Way) -> list[str]:
    """The open choices of a branch in words, such as "coin of 0.75: no (0.25)"."""
    words = []
    for choice in way.choices:
        chance = f"({choice.weights[choice.index]:.2f})"
        if not choice.is_open:
            continue
        if choice.label == "coin":
            words.append(f"coin of {choice.weights[0]:.4g}: {('yes', 'no')[choice.index]} {chance}")
        else:
            row = "" if choice.label == "drafted" else f" from {format_row(choice.weights)}"
            words.append(f"{choice.label} {choice.index}{row} {chance}")
    return words


# ---------------------------------------------------------------- real runs


class Trial:
    """Runs of one case with real random numbers, and the bet on their texts.

    event: what a run gave that no right one gives, or ""
    n_events: how many runs gave such a thing
    """

    def __init__(self, form: Form, call: Callable, case: Case, alpha: float, rng: Any):
        self.form, self.call, self.case, self.rng = form, call, case, rng
        self.bet, self.event, self.n_events = Bet(case.law(), alpha), "", 0

    @property
    def is_wrong(self) -> bool:
        return bool(self.event) or self.bet.wrong

    def run(self, deadline: float) -> None:
        """Run it once. Raises OutOfTime, or Undecidable if it raises an error or does not end."""
        branch = RealBranch(rng=self.rng)
        try:
            with np.errstate(all="ignore"):  # as in `followed`
                text, _ = in_time(partial(self.form, self.call, self.case), branch, deadline)
        except (KeyboardInterrupt, OutOfTime):
            raise
        except Impossible as event:
            self.event = self.event or str(event)
            self.n_events += 1
        except Undecidable as problem:
            raise Undecidable(f"with real random numbers: {problem}") from None
        except BaseException as error:
            raised = describe_error(error)
            raise Undecidable(f"with real random numbers it raised {raised}") from None
        else:
            self.bet.add(self.case.what_counts(self.completed(text, branch)))

    def completed(self, text: Text, branch: Branch) -> Text:
        """A text that is too short for the case is completed by the target."""
        case = self.case
        while len(text) < case.n_tokens and not (text and text[-1] == case.end):
            text = (*text, branch.choose(case.p(text), "completed"))
        return text

    def found(self) -> dict[str, Any]:
        """What it shows: `measured` of an entry."""
        text, yours, right = self.bet.worst() if self.bet.runs else ((), 1.0, 1.0)
        never = self.event or math.isinf(self.bet.log_odds)
        return dict(
            runs=self.bet.runs + self.n_events,
            log10_odds=None if never else self.bet.log_odds / math.log(10),
            would_show=self.bet.would_show(),
            text=list(text),
            yours=yours,
            right=right,
            event=self.event,
        )


def try_in_turn(trials: list[tuple[Trial, dict, int]], deadline: float) -> str:
    """Run each trial as often as its number says, a few runs at a time, until one is wrong or the
    time is up. Returns "", or what else made an end: a run raised an error or did not end.
    """
    turns = range(0, max((n for *_, n in trials), default=0), AT_ONCE)
    try:
        for done in shown(turns, "real runs"):
            for trial, _, n in trials:
                for _ in range(min(AT_ONCE, n - done)):
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
    cases: those of its form in cases.py if None; of them, without a parameter end, those without an
        end. All of them if given
    to_probs: what the function does with each row of a model before it samples, such as top-k
    batch: whether it is a rule for batches
    timeout: seconds for all of it
    seed: None for one of its own
    Raises ValueError for a function of another form.
    """
    started = monotonic()
    form, call = form_of(function, batch), caller(function)
    cases = cases_for(form, function, cases, to_probs)
    small = [case for case in cases if not case.is_large]
    given = bool(names_of(function) & {"sample", "accept", "rng"})
    name = name or name_of(function)
    if form is loop_text:
        call = without_prompt(only_text(call), started + timeout)
    say(name, small[0].name, None)
    if not given:  # its first call may import something that draws, too
        with suppress(Exception, Undecidable):
            Trial(form, call, small[0], ALPHA, np.random.default_rng()).run(started + timeout)
    results = enumerated(name, form, call, small, started + timeout * FOR_BRANCHES)
    seed = np.random.SeedSequence().generate_state(1)[0].item() if seed is None else seed
    seed_generators(seed)
    rng = np.random.default_rng(seed)
    notes = refusals(form, cases, results)
    verdict, reason = decide(form, call, cases, results, given, started + timeout, rng)
    if verdict == "exact":
        notes += remarks(form, cases, results)
        notes += at_zero(form, call, cases, results, started + timeout)
    result = summary(name, verdict, reason, results, monotonic() - started)
    return result | dict(remarks=notes, seed=seed)


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


INNER = ("branches", "length", "symbolic", "meets_zero")  # of a case, which no result shows


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
    name: str, form: Form, call: Callable, cases: list[Case], deadline: float
) -> list[dict[str, Any]]:
    """Take every branch of each case. Returns an entry for each, with branches, length and symbolic
    of `examine`.
    """
    results: list[dict[str, Any]] = []
    left = MOST_IN_ALL
    for case in shown(cases, "cases"):
        say(name, case.name, None)
        run = lambda branch, case=case: form(call, case, branch)
        found = examine(run, case.p, case.n_tokens, case.end, left, deadline)
        left -= found.pop("choices")
        if found["first_wrong"] or found["problem"]:  # the others are to show where
            left = min(left, AFTER_FAILURE)
        if found["problem"] == TOO_LONG:
            deadline = 0.0
        results.append(entry(case) | found)
        say(name, case.name, results[-1])
    return results


def entry(case: Case) -> dict[str, Any]:
    """The entry of a case of which nothing is known yet."""
    found: dict[str, Any] = dict(name=case.name, p=case.p(()).tolist(), q=case.q(()).tolist())
    found |= dict(K=case.K, distance=None, kept=None, first_wrong=None, problem="", left_out=0.0)
    found |= dict(measured=None, branches=0, length=0, symbolic=False, meets_zero=False)
    chain = not case.parents and not case.is_large
    for key, block in (("kept_by_verify", False), ("kept_at_most", True)):
        found[key] = drafts_kept(case, block) if chain else None
    return found


def refusals(form: Form, cases: list[Case], results: list[dict[str, Any]]) -> list[str]:
    """Take from both lists the cases that a loop may refuse: K = 0, if it raises an error there and
    not everywhere. Returns a remark on each.
    """
    notes = []
    for case, result in [*zip(cases, results)]:
        refused = form is loop_text and case.K == 0 and result["problem"].startswith("it raised")
        if refused and any(other["distance"] is not None for other in results):
            cases.remove(case)
            results.remove(result)
            notes.append(f"for K = 0 {result['problem']}")
    return notes


def decide(
    form: Form,
    call: Callable,
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
    trials: list[tuple[Trial, dict[str, Any], int]] = []
    for case, result, n_runs in to_try([*zip(cases, results)], own):
        trials.append((Trial(form, call, case, ALPHA / len(cases), rng), result, n_runs))
    failure = try_in_turn(trials, deadline)
    for trial, result, _ in trials:
        if trial.bet.runs or trial.event:
            result["measured"] = trial.found()
    return after_real_runs(trials, results, failure)


def forgive_empty_drafts(results: list[dict[str, Any]]) -> None:
    """An error for an empty draft is no fault of a function that raises one in every case."""
    if not any(result["distance"] is not None for result in results):
        for result in results:
            if "empty draft" in (result["first_wrong"] or {}).get("event", ""):
                result |= dict(problem=result["first_wrong"]["event"], first_wrong=None)


def problems_of(results: list[dict[str, Any]]) -> list[str]:
    return [result["problem"] for result in results if result["problem"]]


def without_real_runs(results: list[dict[str, Any]], own: bool) -> tuple[str, str | None] | None:
    """The verdict and its reason, if every branch tells it; None if real runs are needed.

    own: whether the function has random numbers of its own
    """
    problems, is_wrong = problems_of(results), any(result["first_wrong"] for result in results)
    if TUPLES in problems:
        return "undecidable", TUPLES
    if TOO_LONG in problems or not own and {*problems} - {STATE, TOO_MANY, NO_TIME}:
        return ("wrong", None) if is_wrong and not own else ("undecidable", problems[0])
    if not own and is_wrong and STATE not in problems:
        return "wrong", None
    return None


def to_try(
    pairs: list[tuple[Case, dict[str, Any]]], own: bool
) -> Iterator[tuple[Case, dict[str, Any], int]]:
    """Yield (case, its result, how many real runs of it are needed)."""
    problems = problems_of([result for _, result in pairs])
    if STATE in problems:  # what was enumerated is not what it does
        for _, result in pairs:
            result |= dict(first_wrong=None)
    if wrong := [pair for pair in pairs if pair[1]["first_wrong"]]:
        distance = lambda pair: pair[1]["distance"] or 1.0
        clearly = [pair for pair in wrong if distance(pair) > CLEAR]
        yield *(clearly[0] if clearly else max(wrong, key=distance)), ACCUSE
        return
    for case, result in pairs:
        if case.is_large:
            yield case, result, WIDE_RUNS
        elif own or problems:
            yield case, result, MEASURE if problems else CONFIRM


def after_real_runs(
    trials: list[tuple[Trial, dict[str, Any], int]], results: list[dict[str, Any]], failure: str
) -> tuple[str, str | None]:
    """The verdict and its reason. failure: what made an end of the real runs, or ""."""
    problems = problems_of(results)
    for trial, result, _ in trials:
        if trial.is_wrong:
            shown = {key: result["measured"][key] for key in ("text", "yours", "right", "event")}
            result["first_wrong"] = result["first_wrong"] or shown | dict(draws=None)
    if any(trial.is_wrong for trial, *_ in trials):
        return "wrong", None
    if failure:
        return "undecidable", next((p for p in problems if p.startswith("it raised")), failure)
    if wrong := [result for result in results if result["first_wrong"]]:
        figures = (
            f"{wrong[0]['first_wrong']['yours']:.4f} for {wrong[0]['first_wrong']['right']:.4f}"
        )
        n_runs = sum(trial.bet.runs for trial, *_ in trials)
        few = f"{figures} is too little to be seen in {n_runs:,} real runs, or not followed rightly"
        return "undecidable", few
    if not problems:
        return "exact", None
    shows = all(trial.bet.would_show() < 0.5 for trial, *_ in trials)
    return "not told apart" if shows else "undecidable", problems[0]


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
    for sign, key, than, amount in (
        (-1, "kept_by_verify", "fewer tokens than verify", "few, lose the bonus"),
        (1, "kept_at_most", "more tokens than block verification", "many"),
    ):
        gains = [(sign * (r["kept"] - r[key]), r) for r in known if r[key] is not None]
        excess, worst = max(gains, key=itemgetter(0), default=(0.0, {}))
        if excess > TOLERANCE:
            why = (
                f"; does it draft too {amount}, take the wrong row of q, or use a stale cache?"
                * (form is loop_text)
            )
            figures = f"{max(worst['kept'], 0):.4f} for {worst[key]:.4f}"
            yield f"it gains {than}, {figures} ({worst['name']}){why}"


def at_zero(
    form: Form, call: Callable, cases: list[Case], results: list[dict[str, Any]], deadline: float
) -> Iterator[str]:
    """Yield in words what an exact function writes that the target never does, where a random
    number is exactly 0.
    """
    for case, result in zip(cases, results):
        if not result["meets_zero"]:
            continue

        def run(branch: Branch, case: Case = case) -> tuple[Text, int]:
            branch.takes_zero = True
            return form(call, case, branch)

        tally, _ = walk(run, case.n_tokens, AFTER_FAILURE, deadline)
        law = case.law()
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
    with tqdm(items, unit, leave=False, disable=None) as bar:
        for item in bar:
            bar.set_postfix_str(getattr(item, "name", ""), refresh=True)
            yield item
