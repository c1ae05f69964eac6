"""The referee: does a rule or a loop of speculative sampling keep the target's distribution?

`prove` calls the function in small cases (cases.py), takes every branch of its random choices
(enumerate.py), and compares the texts that come out with the target's own, by the chain rule
(examine.py). What draws its own random numbers runs with real ones, too (trial.py), and so does
what cannot be enumerated: a bet (bet.py) says whether the texts can be the target's.

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
    is_large: whether it is too large to enumerate
    kept_by_verify, kept_at_most: what verify gains, and block verification; None for trees
    distance: the total variation distance of the texts; None if undecidable
    kept: what a text gains: its tokens beyond one for each pass of the target, on average; they are
        the drafts that it keeps, if each pass gives a token of its own. None likewise
    first_wrong: None if exact, or a dict: text, the shortest beginning that comes too often; yours
        and right, its probabilities; draws, how it comes about, in words, None if real runs show
        it; event, what no right run gives, if it is that: then text is empty; else ""
    problem: what stands in the way of a verdict, or ""
    left_out: the probability of branches that were not taken to their end
    branches: how many were taken
    length: tokens of the longest text
    symbolic: whether it draws random numbers that were not handed to it
    meets_zero: whether it decides something else where one of them is 0 exactly
    measured: None, or the real runs of this case, a dict: runs; log10_odds against an exact sampler
        (None: what came can never come); would_show; the text that speaks most against it: text,
        its frequency yours, its probability right; event, what a run gave that no right one gives,
        or ""
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from time import monotonic
from typing import Any

import numpy as np

from . import cases as known
from . import forms
from .cases import Case, Text, ToProbs
from .enumerate import NO_TIME, STATE, TOO_LONG, TOO_MANY, Branch, Undecidable, undisturbed
from .examine import TOLERANCE, examine, walk
from .follow import seed_generators
from .trial import ALPHA, Trial

TIMEOUT = 300.0  # seconds for a function, if a caller sets none; alone.py sets it for adapters
FOR_BRANCHES = 0.7  # of the time, for every branch; the rest is for real runs
MOST_IN_ALL = 200_000  # random choices, of all branches of all cases
AFTER_FAILURE = 20_000  # choices at most, once a case is wrong or cannot be decided
CONFIRM = 300  # real runs of each case, if all of them were enumerated and are exact
MEASURE = 5_000  # real runs of each case, if they were not
ACCUSE = 100_000  # real runs at most, in the first case with a distance that is CLEAR
CLEAR = 0.05
WIDE_RUNS = 4_000  # real runs of a case that is too large to enumerate
SHOWS = 0.5  # a distance: where that would not have shown, real runs say nothing
AT_ONCE = 50  # real runs, before the next case has its turn

CASES: dict[forms.Form, list[Case]] = {
    forms.rule_text: [*known.RULE_CASES, known.WIDE],
    forms.batch_text: [*known.RULE_CASES, *known.BATCH_CASES, known.WIDE, known.MANY_ROWS],
    forms.tree_text: known.TREE_CASES,
    forms.loop_text: [*known.LOOP_CASES, known.WIDE_LOOP, known.LONG_LOOP],
}


@undisturbed()
def prove(
    function: Callable,
    cases: Sequence[Case] | None = None,
    name: str | None = None,
    to_probs: ToProbs = np.asarray,
    *,
    batch: bool = False,
    timeout: float | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """Judge a sampler: a rule (draft, p, q), a rule for trees (tokens, parents, p, q) or a loop
    (target, draft_model, ids, n_tokens, K), as forms.py describes them. Returns a result, a dict
    with "name", "verdict" ("exact", "wrong", "not told apart" or "undecidable"), "reason", "cases"
    and more, which the top of prove.py lists. It seeds the global generators of random,
    numpy.random and torch, and leaves them so.

    function: parameters sample, accept, rng and end are given to it by name; other parameters
        beyond those of its form need defaults
    cases: those of its form in cases.py if None. A function without a parameter `end` is not
        judged in those that have one
    to_probs: what the function does with each row of a model before it samples, such as top-k
    batch: whether it is a rule for batches
    timeout: seconds for all of it; 300 (TIMEOUT) if None
    seed: of real runs; None for another each time
    Raises ValueError for a function of another form, or without a case to judge it in.
    """
    started = monotonic()
    timeout = TIMEOUT if timeout is None else timeout
    deadline = started + timeout
    if not name:
        name = forms.name_of(function)
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    form = forms.form_of(function, batch)
    is_loop = form is forms.loop_text
    chosen = cases_for(form, function, cases, to_probs)
    call = forms.caller(function, seed)
    if is_loop:
        call = forms.without_prompt(call, deadline)
    # not the numbers of the rng that the function is given (forms.caller), which has this seed, too
    rng = np.random.default_rng([seed, 1])
    alpha = ALPHA / len(chosen)
    trials = [Trial(partial(form, call), case, alpha, rng) for case in chosen]
    large = [trial for trial in trials if trial.case.is_large]
    small = [trial for trial in trials if not trial.case.is_large]

    # whether random numbers are handed to it; if not, or if it draws others, too, it has its own
    is_given = bool(forms.names_of(function) & {"sample", "accept", "rng"})
    say(name, f"in the case {small[0].case.name}", [])  # cases_for gives one at least
    if not is_given:  # its first call may import something that draws, and is followed later
        warm_up(small[0], deadline)
    take_every_branch(name, small, started + timeout * FOR_BRANCHES)
    seed_generators(seed)  # for real runs: enumeration has seeded them by chance
    # a loop may refuse K = 0; what runs in no case is not wrong, but cannot be judged
    refused = refused_cases(small) if is_loop else []
    small = [trial for trial in small if trial not in refused]
    forgive_empty_drafts(small)

    has_own = not is_given or any(trial.entry["symbolic"] for trial in small)
    judged = small
    verdict_and_reason = by_enumeration(small, has_own)
    if verdict_and_reason is None:  # real runs are needed, of the large cases, too
        judged = [*small, *large]
        verdict_and_reason = by_real_runs(judged, has_own, deadline)
    verdict, reason = verdict_and_reason
    entries = [trial.entry for trial in judged]
    result = summary(name, verdict, reason, entries, monotonic() - started) | dict(seed=seed)
    if verdict == "exact":
        problems = [f"for K = 0 {problem}" for problem in problems_of(refused)]
        result["remarks"] = problems + remarks_on(small, is_loop, deadline)
    return result


def cases_for(
    form: forms.Form, function: Callable, cases: Sequence[Case] | None, to_probs: ToProbs
) -> list[Case]:
    """Choose the cases, pairs of small models, in which a function is judged: the given ones, or if
    None those of its form. Returns copies, in which p and q are what to_probs makes of the models'
    rows. Raises ValueError if none is left, or only those that are too large to enumerate.

    form: a key of CASES, how the function is called, such as rule_text
    function: if it has no parameter `end`, cases with a token that ends a text are left out
    cases: None for those of the form. If to_probs is not np.asarray, which changes nothing, these
        get two more with long rows, of which it makes some tokens impossible, and uneven models
    to_probs: what the function does with each row before it samples, such as top-k
    """
    if cases is None:
        cases = CASES[form]
        if to_probs is not np.asarray:  # it changes rows
            of_one_draft = next(case for case in cases if case.K == 1)
            with_long_rows = [*cases, *known.cut_cases(of_one_draft, to_probs)]
            # no probability lies on the cut of a top-k or top-p, where right samplers differ
            cases = [case.uneven() for case in with_long_rows]
    if "end" not in forms.names_of(function):
        cases = [case for case in cases if case.end is None]
    n_small = sum(not case.is_large for case in cases)
    if n_small == 0:
        expected = "a small one; without an end, if the function has no parameter end"
        raise ValueError(f"no case is left to enumerate: expected {expected}")
    return [case.under(to_probs) for case in cases]


def summary(
    name: str, verdict: str, reason: str | None, entries: list[dict[str, Any]], seconds: float
) -> dict[str, Any]:
    """A result of `prove`: a dict with name, verdict, reason, seconds, and entries as "cases". Over
    all entries, "distance" and "would_show" are the largest (None if no entry has one), "branches"
    and "runs" the sums. "remarks" is [], and "seed" None: whoever has them sets them.

    reason: None for "exact" and "wrong"
    entries: one for each case, dicts with "distance" (None if it was not enumerated), "branches",
        and "measured" (None, or a dict with "runs" and "would_show")
    """
    distances = [entry["distance"] for entry in entries if entry["distance"] is not None]
    measured = [entry["measured"] for entry in entries if entry["measured"]]
    return dict(
        name=name, verdict=verdict, reason=reason, remarks=[],
        distance=max(distances, default=None),
        would_show=max((measurement["would_show"] for measurement in measured), default=None),
        cases=entries, branches=sum(entry["branches"] for entry in entries),
        runs=sum(measurement["runs"] for measurement in measured), seconds=seconds, seed=None,
    )  # fmt: skip


# ---------------------------------------------------------------- every branch


def warm_up(trial: Trial, deadline: float, most: int = 1) -> None:
    """Run a sampler with real random numbers until one run ends without an error, `most` times at
    most, and drop all that comes of it, errors, too. The trial is not changed. No run begins, or
    goes on, after the deadline, a time of time.monotonic.
    """
    for _ in range(most):
        another = Trial(trial.sampler, trial.case, ALPHA, np.random.default_rng())
        try:
            another.run(deadline)  # at the deadline it raises OutOfTime, an Undecidable
            return
        except (Exception, Undecidable, SystemExit):
            pass  # it is run again, if there is a run left


def take_every_branch(name: str, trials: list[Trial], deadline: float) -> None:
    """Run a sampler in each case once for every way in which its random choices can fall (a
    branch), and write what `examine` returns of that into trial.entry: where not every branch was
    taken, "problem" says why. All cases together may make 200,000 random choices (MOST_IN_ALL);
    after the first that is wrong or has a problem, the rest may make 20,000 at most. After a run
    that does not end, the problem of all other cases is that their time is up.

    name: of the function, for `say`, which is told of each case before it begins. A bar, too, shows
        the progress
    deadline: a time of time.monotonic, after which no more branches are taken
    """
    entries = [trial.entry for trial in trials]  # the same dicts: they are filled below
    choices_left = MOST_IN_ALL
    for n, trial in enumerate(shown(trials, "cases")):
        case = trial.case
        say(name, f"in the case {case.name}", entries[:n])
        run = partial(trial.sampler, case)
        found = examine(run, case.p, case.n_tokens, case.end, choices_left, deadline)
        choices_left -= found.pop("choices")
        trial.entry |= found
        if found["first_wrong"] or found["problem"]:
            choices_left = min(choices_left, AFTER_FAILURE)
        if found["problem"] == TOO_LONG:
            deadline = monotonic()  # now: no other case is tried, it would not end there, either
    say(name, "in real runs", entries)


def refused_cases(trials: list[Trial]) -> list[Trial]:
    """Which of the trials of a loop, one for each case, are not to count against it: those with K =
    0, where nothing is drafted, in which it raised an error. A loop may refuse that. Returns [] if
    it could be judged in no case: such a loop does not run at all. Changes nothing.
    """
    if not any_judged(trials):
        return []
    without_drafts = [trial for trial in trials if trial.case.K == 0]
    return [trial for trial in without_drafts if is_error(trial.entry["problem"])]


def forgive_empty_drafts(trials: list[Trial]) -> None:
    """If in no case every branch could be taken, the function does not run at all. Then an error
    that it raised for an empty draft does not make it wrong, but is a reason why it cannot be
    judged: change the entry from "first_wrong" to "problem". Else change nothing.
    """
    if any_judged(trials):
        return
    for trial in trials:
        wrong = trial.entry["first_wrong"]
        if wrong and wrong["event"].startswith(forms.EMPTY_DRAFT):
            trial.entry |= dict(problem=wrong["event"], first_wrong=None)


def any_judged(trials: list[Trial]) -> bool:
    """Whether every branch was taken of one of the cases at least."""
    return any(trial.entry["distance"] is not None for trial in trials)


def is_error(problem: str) -> bool:
    """Whether a problem is an error that the function raised: "it raised TypeError: ..."."""
    return problem.startswith("it raised")


# ---------------------------------------------------------------- the verdict

Verdict = tuple[str, str | None]  # and its reason


def problems_of(trials: list[Trial]) -> list[str]:
    """The problems of the cases that have one."""
    return [trial.entry["problem"] for trial in trials if trial.entry["problem"]]


def wrong_of(trials: list[Trial]) -> list[Trial]:
    """Those with a `first_wrong`."""
    return [trial for trial in trials if trial.entry["first_wrong"]]


def by_enumeration(trials: list[Trial], has_own: bool) -> Verdict | None:
    """(verdict, reason) if what enumeration wrote into trial.entry of each case tells it, else
    None: then real runs are needed. The first that fits:

        "undecidable"  the function returns tuples that are no rounds
        "wrong"        a case is wrong, and none did something else when it ran again; not has_own
        "undecidable"  a run does not end
        "undecidable"  a case has any other problem, such as an error, but for the three about which
                       real runs tell more: STATE, TOO_MANY and NO_TIME; not has_own

    has_own: whether the function has random numbers of its own: then real runs may tell more
    """
    problems = problems_of(trials)
    if forms.TUPLES in problems:
        return "undecidable", forms.TUPLES
    if not has_own and wrong_of(trials) and STATE not in problems:
        return "wrong", None
    if TOO_LONG in problems:
        return "undecidable", TOO_LONG
    for problem in problems:
        if not has_own and problem not in (STATE, TOO_MANY, NO_TIME):
            return "undecidable", problem
    return None


def by_real_runs(trials: list[Trial], has_own: bool, deadline: float) -> Verdict:
    """Make the real runs that a verdict needs, until the deadline, a time of time.monotonic, and
    return it. The entry of each trial with runs gets what they show as its "measured", and if that
    is an error its "first_wrong". An entry loses its "first_wrong" if some case did something else
    when it ran again: then what was enumerated is not what the function does.

    trials: one for each case, all enumerated but those that are too large
    has_own: whether the function has random numbers of its own
    """
    if STATE in problems_of(trials):  # it did something else when it ran again
        for trial in trials:
            trial.entry["first_wrong"] = None
        # it may have kept symbolic numbers for later: real runs fail until these are used up
        warm_up(trials[0], deadline, most=MEASURE)
    wanted = runs_wanted(trials, has_own)
    failure = run_in_turn(wanted, deadline)
    tried = [trial for trial, _ in wanted]
    for trial in tried:
        trial.conclude()
    return after_real_runs(tried, trials, failure)


def runs_wanted(trials: list[Trial], has_own: bool) -> list[tuple[Trial, int]]:
    """[(trial, number of real runs)] of the trials that need real runs.

    If enumeration found wrong cases, only one of these needs them, 100,000 (ACCUSE): the first that
    is clearly wrong, or else the one with the largest distance. Clearly wrong is a distance above
    0.05 (CLEAR), and a run that gave what no right one gives. If no case is wrong, each that is too
    large to enumerate gets 4,000; each other one gets 5,000 if some case has a problem; if none
    has, 300 with has_own, and none without.

    has_own: whether the function has random numbers of its own
    """
    wrong = wrong_of(trials)
    if wrong:
        accused = next((trial for trial in wrong if wrongness(trial) > CLEAR), None)
        return [(accused or max(wrong, key=wrongness), ACCUSE)]
    large = [(trial, WIDE_RUNS) for trial in trials if trial.case.is_large]
    if problems_of(trials):
        n_runs = MEASURE
    elif has_own:
        n_runs = CONFIRM
    else:
        return large
    return [(trial, n_runs) for trial in trials if not trial.case.is_large] + large


def wrongness(trial: Trial) -> float:
    """The distance of a wrong case; 1 if it has none, as a run gave what no right one gives."""
    distance = trial.entry["distance"]
    return 1.0 if distance is None else distance


def run_in_turn(wanted: list[tuple[Trial, int]], deadline: float) -> str:
    """Run each of the trials, [(trial, number of real runs)], so many times, 50 (AT_ONCE) before
    the next has its turn, until one is wrong. Returns "", or what made an end before, in words: an
    error of a run, a run that did not end, or the deadline, a time of time.monotonic (NO_TIME). A
    bar shows the progress.
    """
    turns = range(0, max((n_runs for _, n_runs in wanted), default=0), AT_ONCE)
    try:
        for n_done in shown(turns, "real runs"):  # of each trial
            for trial, n_runs in wanted:
                n_left = n_runs - n_done  # 0 or less: none
                for _ in range(min(AT_ONCE, n_left)):
                    trial.run(deadline)
                    if trial.is_wrong:
                        return ""
    except Undecidable as problem:
        return str(problem)
    return ""


def after_real_runs(tried: list[Trial], trials: list[Trial], failure: str) -> Verdict:
    """(verdict, its reason, None for "wrong" and "exact") after real runs, the first that fits:

        "wrong"           the real runs of a case show that
        "undecidable"     a real run raised an error or did not end; the reason is the first error
                          that enumeration met, if there is one
        "undecidable"     enumeration found an error in a case, and the real runs do not show it
        "exact"           every branch of every case was taken, and every real run was made
        "not told apart"  of each case the real runs would have shown a distance of 0.5 (SHOWS)
        "undecidable"     they were too few for that

    tried: the trials that had real runs; trials: those of all cases
    failure: what made an end of the real runs before all were made, NO_TIME or an error, or ""
    """
    if any(trial.is_wrong for trial in tried):
        return "wrong", None
    problems = problems_of(trials)
    if failure not in ("", NO_TIME):
        errors = [problem for problem in problems if is_error(problem)]
        return "undecidable", errors[0] if errors else failure
    wrong_by_enumeration = wrong_of(trials)
    if wrong_by_enumeration:
        shown = wrong_by_enumeration[0].entry["first_wrong"]
        figures = f"{shown['yours']:.4f} for {shown['right']:.4f}"
        n_runs = sum(trial.bet.runs for trial in tried)
        few = f"{figures} is too little to be seen in {n_runs:,} real runs, or not followed rightly"
        return "undecidable", few
    if not problems and not failure:
        return "exact", None
    reason = problems[0] if problems else failure
    are_enough = all(trial.bet.would_show() < SHOWS for trial in tried)
    verdict = "not told apart" if are_enough else "undecidable"
    return verdict, reason


# ---------------------------------------------------------------- remarks on an exact function


def remarks_on(trials: list[Trial], is_loop: bool, deadline: float) -> list[str]:
    """A sentence for each thing that an exact function does besides, such as to gain fewer tokens
    than verify; [] if there is none.

    trials: in the cases that were enumerated; is_loop: whether it is a loop, which gets hints
    deadline: a time of time.monotonic, until which the cases may be enumerated again
    """
    remarks = [*on_cuts(trials), *on_length(trials), *on_gain(trials, is_loop)]
    return [*remarks, *at_zero(trials, deadline)]


def on_cuts(trials: list[Trial]) -> Iterator[str]:
    """Yield a remark if to_probs cuts rows of 1,000 tokens, but of no case the target's first row,
    that after the empty text.
    """
    to_probs = trials[0].case.to_probs  # that of all
    first_rows = [trial.case.target(()) for trial in trials]
    cuts_one = any(known.is_cut(row, to_probs) for row in first_rows)
    if not cuts_one and known.is_cut(known.sloping(1_000), to_probs):
        yield "top_k, top_p or to_probs cuts no row of the enumerated cases"


def on_length(trials: list[Trial]) -> Iterator[str]:
    """Yield a remark if a function returns more tokens than it was asked for; on the case in which
    it is the most.
    """
    worst = max(trials, key=lambda trial: trial.entry["length"] - trial.case.n_tokens)
    length, asked = worst.entry["length"], worst.case.n_tokens
    if length > asked:
        yield f"it returns up to {length} tokens for n_tokens = {asked}; the first n_tokens count"


def on_gain(trials: list[Trial], is_loop: bool) -> Iterator[str]:
    """Yield a remark if a function makes more passes of the target than tokens; else one if it
    gains fewer tokens than verify, and one if it gains more than block verification. Each names the
    case in which the difference is the largest. What it gains in a case is "kept" of the entry:
    tokens beyond one for each pass, on average. is_loop: whether remarks hint at a likely fault of
    a loop
    """
    entries = [trial.entry for trial in trials]
    least = min(entries, key=itemgetter("kept"))
    n_more = -least["kept"]
    if n_more > TOLERANCE:
        yield f"it makes {n_more:.2f} more passes of the target than tokens ({least['name']})"
        return  # of course it gains less than verify, too
    chains = [trial for trial in trials if trial.entry["kept_by_verify"] is not None]  # no trees
    if not chains:
        return
    lacks = lambda trial: trial.entry["kept_by_verify"] - trial.entry["kept"]
    exceeds = lambda trial: trial.entry["kept"] - trial.entry["kept_at_most"]
    fewest, most = max(chains, key=lacks), max(chains, key=exceeds)
    if lacks(fewest) > TOLERANCE:
        entry = fewest.entry
        figures = f"{max(entry['kept'], 0):.4f} for {entry['kept_by_verify']:.4f}"
        hint = "; does it draft too few, lose the bonus, take the wrong row of q, "
        if fewest.case.end is None:
            hint += "or use a stale cache?"
        else:
            hint += "use a stale cache, or go on after the end?"
        remark = f"it gains fewer tokens than verify, {figures} ({entry['name']})"
        yield remark + hint if is_loop else remark
    if exceeds(most) > TOLERANCE:
        entry = most.entry
        figures = f"{entry['kept']:.4f} for {entry['kept_at_most']:.4f}"
        hint = "; does it draft too many, take the wrong row of q, or use a stale cache?"
        remark = f"it gains more tokens than block verification, {figures} ({entry['name']})"
        yield remark + hint if is_loop else remark


def at_zero(trials: list[Trial], deadline: float) -> Iterator[str]:
    """Yield a remark if a function writes what the target never does where a random number is
    exactly 0; on the first case in which it does, until the deadline, a time of time.monotonic.
    """
    for trial in trials:
        if not trial.entry["meets_zero"]:
            continue
        never = written_at_zero(trial, deadline)
        if never:
            text = " ".join(map(str, min(never)))
            what = f'it writes "{text}", of probability 0 ({trial.case.name})'
            question = "does it accept by <=, where < is meant?"
            yield f"where a random number is exactly 0, {what}: {question}"
            return


def written_at_zero(trial: Trial, deadline: float) -> list[Text]:
    """The texts, cut to the length that was asked for, that a function writes but the target never
    does, if one random number is exactly 0, of those where that changes a decision. The case
    of the trial is enumerated again for it, until the deadline, a time of time.monotonic, or until
    20,000 random choices were made (AFTER_FAILURE): then these are the texts found so far.
    """

    def run(branch: Branch) -> tuple[Text, int]:
        branch.takes_zero = True
        return trial.sampler(trial.case, branch)

    taken, _ = walk(run, AFTER_FAILURE, deadline)
    texts = [one.text[: trial.case.n_tokens] for one in taken if one.ended]
    right_texts = trial.case.laws()[0]  # a case that is enumerated has one law
    # a text may be cut: it is right as far as it goes if a right one begins so
    begins_a_right_one = lambda text: any(right[: len(text)] == text for right in right_texts)
    return [text for text in texts if not begins_a_right_one(text)]


def more_by_block(entry: dict[str, Any]) -> float:
    """How many more drafts block verification keeps in a case than the token rule, on average.

    entry: of the case, a dict with "kept_at_most", what block verification keeps, and
        "kept_by_verify", what the token rule keeps; both are None for trees, which gives 0
    """
    return (entry["kept_at_most"] or 0.0) - (entry["kept_by_verify"] or 0.0)


# ---------------------------------------------------------------- while it runs


def say(name: str, where: str, entries: list[dict[str, Any]]) -> None:
    """Tell whoever waits for the function of this name where it is, "in the case K = 1", and what
    was found until then. Here it does nothing; alone.py, a process that may be stopped at any time,
    replaces it.
    """


def shown(items: Sequence, what: str) -> Iterable[Any]:
    """The items, to be passed through once: a bar on stderr counts them, if tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    # a program may close sys.stderr; disable=None: no bar where nobody looks, such as in a file
    return tqdm(items, what, file=sys.__stderr__, leave=False, disable=None)
