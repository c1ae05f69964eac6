"""The referee: does a rule or a loop of speculative sampling keep the target's distribution?

`prove` calls the function in small cases (cases.py), takes every branch of its random choices
(enumerate.py), and compares the texts that come out with the target's own, by the chain rule.
"""

import inspect
import operator
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
from tqdm import tqdm

from proof.cases import LOOP_CASES, RULE_CASES, Case, Model, Text, complete, drafts_kept
from proof.enumerate import (
    STATE,
    Branch,
    Choice,
    RealBranch,
    Undecidable,
    branches,
    describe_error,
    format_row,
    total_variation,
)
from proof.follow import followed, untouched
from proof.noise import NUMPY, Source

TOLERANCE = 1e-5  # of a distance: what the rounding of float32 comes to
MOST_IN_ALL = 200_000  # random choices, of all branches of all cases
AFTER_FAILURE = 20_000  # choices at most, once a case is wrong or cannot be decided
MOST_CALLS = 1_000  # of a model, in one run
N_RUNS = 20_000  # with real random numbers, before a black box is called wrong
A_FEW = (200, 2_000)  # such runs, the least and the most, before it is called exact
TUPLES = "it returns a tuple that is not (how many are accepted, the next token): return a list"
UNFOLLOWED = "it keeps state, has a fixed seed, or was not followed rightly"


# ---------------------------------------------------------------- one case


def examine(
    run: Callable[[Branch], tuple[Iterable[int], int]],
    target: Model,
    n_tokens: int,
    end: int | None = None,
    file: str | None = None,
    most: int = MOST_IN_ALL,
) -> dict[str, Any]:
    """Compare the texts of a run with the target's. Returns a dict:

        distance: the total variation distance; None if undecidable
        kept: what a text gains: its tokens beyond one for each pass of the target, on average; they
            are the drafts that it keeps, if each pass gives a token of its own. None likewise
        first_wrong: None if exact, or a dict: text, the shortest beginning that comes too often;
            yours and right, its probabilities; draws, how it comes about, in words
        problem: what stands in the way of a verdict, or ""
        branches, choices: how many there are
        symbolic: whether it draws random numbers that were not handed to it

    run: makes its random choices with the Branch. Returns (text, number of passes of the target).
        Of a text only n_tokens count; a shorter one, without `end`, is completed by the target
    file: whose steps are counted, so that an endless loop ends
    most: choices, before it gives up
    """
    result: dict[str, Any] = dict(distance=None, kept=None, first_wrong=None, problem="")
    result |= dict(branches=0, choices=0, symbolic=False)
    texts: dict[Text, float] = defaultdict(float)
    # {text: a way to it}: the likeliest of those that leave the draft, if any do, or of all
    ways: dict[Text, tuple[bool, float, list[Choice]]] = {}
    kept = 0.0
    try:
        with untouched(), followed():
            for outcome, branch in branches(run, file, most):
                result["branches"] += 1
                result["choices"] += len(branch.choices)
                result["symbolic"] |= branch.symbolic
                if outcome is not None:
                    text = tuple(outcome[0])[:n_tokens]
                    texts[text] += branch.probability
                    kept += branch.probability * (len(text) - outcome[1])
                    drafted = tuple(c.index for c in branch.choices if c.label == "drafted")
                    # a loop does not tell what it drafts: its first coin says no
                    refused = [c.index for c in branch.choices if c.label == "coin"][:1] == [1]
                    leaves_draft = refused or text[: len(drafted)] != drafted
                    way = leaves_draft, branch.probability, branch.choices
                    ways[text] = max(ways.get(text, way), way, key=itemgetter(0, 1))
    except Undecidable as problem:
        return result | dict(problem=str(problem))
    if (lost := 1 - sum(texts.values())) > TOLERANCE:
        return result | dict(problem=f"it raised in rare branches, of probability {lost:.0e}")
    yours = complete(texts, target, n_tokens, end)
    right = complete({(): 1.0}, target, n_tokens, end)
    result |= dict(distance=total_variation(yours, right), kept=kept)
    if result["distance"] > TOLERANCE:
        beginning, *probabilities = first_error(yours, right, n_tokens)

        def fit(text: Text) -> tuple[bool, bool, float]:
            """How much of the beginning comes in this way; first if it is not the target that
            completes it, and if it leaves the draft.
            """
            leaves_draft, chance, _ = ways[text]
            # a round can be shorter than the beginning: the target has completed it
            whole = complete({text: chance}, target, len(beginning), end)
            share = sum(p for text, p in whole.items() if text[: len(beginning)] == beginning)
            own = share > TOLERANCE and len(text) >= len(beginning)
            return own, leaves_draft and share > TOLERANCE, share

        choices = ways[max(ways, key=fit)][2]
        result["first_wrong"] = dict(
            text=list(beginning),
            yours=probabilities[0],
            right=probabilities[1],
            draws=[describe_choice(choice) for choice in choices if choice.is_open],
        )
    return result


def describe_choice(choice: Choice) -> str:
    """A choice in words, with its probability: "coin of 0.75: no (0.25)"."""
    probability = f"({choice.weights[choice.index]:.2f})"
    if choice.label == "coin":
        return f"coin of {choice.weights[0]:.4g}: {('yes', 'no')[choice.index]} {probability}"
    row = "" if choice.label == "drafted" else f" from {format_row(choice.weights)}"
    return f"{choice.label} {choice.index}{row} {probability}"


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


# ---------------------------------------------------------------- what the function is given


class TableModel:
    """The model that a loop calls: ids -> [len(ids), n_vocab], row i for the token after
    ids[: i + 1]. With a cache, any object with a list `ids`, it reads new ids after those in
    there, and appends them.

    passes: calls that gave a row for the first new token or a later one
    """

    def __init__(
        self, model: Model, prompt: Text, stop: Callable[[str], NoReturn], dtype: type = float
    ):
        self.model, self.prompt, self.stop, self.dtype = model, prompt, stop, dtype
        self.n_vocab, self.n_calls, self.passes = len(model(())), 0, 0
        self.n_read = 0  # tokens, of all calls
        self.read: dict[int, list[int]] = {}  # {id of a cache: the ids that were read into it}

    def __call__(self, ids: Sequence[int], cache: Any = None) -> np.ndarray:  # -> [n_ids, n_vocab]
        new_ids = tokens_of(
            np.asarray(ids).ravel(), self.n_vocab, self.stop, "a model is called with"
        )
        self.n_calls += 1
        if not new_ids or self.n_calls > MOST_CALLS:
            self.stop("a model is called without ids" if not new_ids else "a loop does not end")
        cache = SimpleNamespace(ids=[]) if cache is None else cache
        read = self.read.get(id(cache), [])
        if cache.ids != read[: len(cache.ids)]:
            self.stop(f"a cache holds ids {cache.ids}, of which this model has read {read}")
        cache.ids += new_ids
        text, n_prompt = list(cache.ids), len(self.prompt)
        self.read[id(cache)] = text
        self.n_read += len(new_ids)
        self.passes += len(text) >= n_prompt
        ends = range(len(text) - len(new_ids) + 1, len(text) + 1)
        prompt_row = np.full(self.n_vocab, 1 / self.n_vocab)
        rows = [
            self.model(tuple(text[n_prompt:end])) if end >= n_prompt else prompt_row for end in ends
        ]
        return np.array(rows, self.dtype)


def tokens_of(
    result: Any, n_vocab: int, stop: Callable[[str], NoReturn], event="it returns"
) -> list[int]:
    """Convert tokens of any integer type to a list of ints."""
    found: list[Any] = [None]
    if isinstance(result, Iterable):
        found = list(islice(result, MOST_CALLS))
    try:
        tokens = [operator.index(t.item() if hasattr(t, "item") else t) for t in found]
        if all(0 <= token < n_vocab for token in tokens):
            return tokens
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: torch, of a row
        pass
    shown = result[0] if isinstance(result, tuple) and len(result) == 1 else result
    why = "; does a branch end without return?" if result is None else ""
    stop(f"{event} {shown!r}: expected tokens below {n_vocab}{why}")


def round_of(
    result: Any, draft: list[int], n_vocab: int, stop: Callable[[str], NoReturn]
) -> list[int]:
    """The tokens of a round, from what a rule returned: a tuple (number accepted, next token), or
    the tokens themselves.
    """
    if isinstance(result, tuple):
        if len(result) != 2:
            stop(TUPLES)
        (n_accepted,) = tokens_of(result[:1], len(draft) + 1, stop, "it accepts")
        return draft[:n_accepted] + tokens_of(result[1:], n_vocab, stop, "its next token is")
    tokens = tokens_of(result, n_vocab, stop)
    if not 1 <= len(tokens) <= len(draft) + 1:
        stop(f"it returns {tokens}, expected 1 to {len(draft) + 1} tokens")
    return tokens


def rule_text(call: Callable, case: Case, branch: Branch) -> tuple[Text, int]:
    """Run a rule in each round of a case. Returns (text, number of rounds)."""
    text: list[int] = []
    for _ in range(case.rounds or 1):
        draft: list[int] = []
        q = []
        for _ in range(case.K):
            q.append(case.draft_model((*text, *draft)))
            draft.append(branch.choose(q[-1], "drafted"))
        p = [case.target((*text, *draft[:n])) for n in range(case.K + 1)]
        result = call(list(draft), np.array(p, case.dtype), np.array(q, case.dtype), branch=branch)
        text += round_of(result, draft, case.n_vocab, branch.stop)
    return tuple(text), case.rounds or 1


def loop_text(call: Callable, case: Case, branch: Branch) -> tuple[Text, int]:
    """Run a loop. Returns (its new tokens, number of passes of the target). Stops the branch if
    they are fewer than n_tokens without an end.
    """
    beyond = np.eye(case.n_vocab)[0]  # without chance: a loop may draft more than the text takes

    def limited(model: Model) -> Model:
        return lambda text: model(text) if len(text) < case.n_tokens else beyond

    target, draft_model = (
        TableModel(limited(model), case.prompt, branch.stop, case.dtype)
        for model in (case.target, case.draft_model)
    )
    result = call(
        target, draft_model, list(case.prompt), case.n_tokens, case.K, branch=branch, end=case.end
    )
    text = tokens_of(result, case.n_vocab, branch.stop)
    if len(text) < case.n_tokens and case.end not in text:
        branch.stop(f"it returns {len(text)} tokens, expected {case.n_tokens}")
    return tuple(text), target.passes


# ---------------------------------------------------------------- the verdict


def prove(
    function: Callable,
    cases: Sequence[Case] | None = None,
    name: str | None = None,
    to_probs: Callable[[np.ndarray], np.ndarray] = lambda p: p,
) -> dict[str, Any]:
    """Judge a rule or a loop. Returns a dict, what `python main.py prove --json` prints:

        name
        verdict: "exact", "wrong" or "undecidable"
        reason: what stands in the way of a verdict; None unless it is undecidable
        remarks: what an exact function does besides, such as to gain fewer tokens than verify
        distance: the largest of all cases
        cases: a list of dicts: name, p and q (for the first new token), K, distance, kept,
            kept_by_verify, kept_at_most (what verify gains, and block verification), first_wrong,
            problem; distance, kept, first_wrong and problem are those of `examine`
        branches, seconds: of all cases

    function: a rule (draft, p, q) or a loop (target, draft_model, ids, n_tokens, K). Parameters
        sample, accept, rng and end are given to it by name; any others need defaults. A rule
        returns a tuple (number accepted, next token), or the tokens of the round; a loop returns
        the new tokens
    cases: those of proof/cases.py if None; of them, without a parameter end, those without an end
    to_probs: what the function does with each row of a model before it samples, such as top-k
    Raises ValueError for a function of another form.
    """
    started = time.perf_counter()
    form, call = caller(function)
    if cases is None:
        cases = RULE_CASES if form is rule_text else LOOP_CASES
    if "end" not in names_of(function):  # it has not been told of one
        cases = [case for case in cases if case.end is None]
    if not cases:
        raise ValueError("expected a parameter end, or a case without an end")
    file = getattr(getattr(inspect.unwrap(function), "__code__", None), "co_filename", None)
    results, left = [], MOST_IN_ALL
    for case in tqdm(cases, "cases", leave=False, disable=None):
        results.append(judge(form, call, case, to_probs, file, left))
        left -= results[-1].pop("choices")
        if results[-1]["first_wrong"] or results[-1]["problem"]:  # the others are to show where
            left = min(left, AFTER_FAILURE)
    n_branches = sum(result.pop("branches") for result in results)
    symbolic = any([result.pop("symbolic") for result in results])
    lengths = [result.pop("length") for result in results]
    problems = [result["problem"] for result in results if result["problem"]]
    misread = {STATE, TUPLES} & {*problems}
    wrong = not misread and any(result["first_wrong"] for result in results)
    try:
        if wrong and (symbolic or not names_of(function) & {"sample", "accept", "rng"}):
            confirm_wrong(form, call, cases, results, to_probs)
        elif symbolic and not wrong and not problems:
            confirm_exact(form, call, cases, results, to_probs, n_branches)
    except Undecidable as doubt:
        wrong, problems = False, [str(doubt), *problems]
    verdict = "wrong" if wrong else "undecidable" if problems else "exact"
    return dict(
        name=name or getattr(function, "__name__", "it"),
        verdict=verdict,
        reason=problems[0] if problems and not wrong else None,
        remarks=[*remarks(form, cases, lengths, results)] if verdict == "exact" else [],
        distance=max((r["distance"] for r in results if not r["problem"]), default=None),
        cases=results,
        branches=n_branches,
        seconds=time.perf_counter() - started,
    )


def remarks(
    form: Callable, cases: Sequence[Case], lengths: Sequence[int], results: list[dict]
) -> Iterator[str]:
    """Yield in words where an exact function returns more tokens than it was asked for (lengths:
    the most in each case), and where it does not gain as many as it should.
    """
    case, n = max(zip(cases, lengths), key=lambda pair: pair[1] - pair[0].n_tokens)
    if n > case.n_tokens:
        asked = f"n_tokens = {case.n_tokens}"
        yield f"it returns up to {n} tokens for {asked}; the first n_tokens count"
    least = min(results, key=itemgetter("kept"))
    if (n_more := -least["kept"]) > TOLERANCE:
        yield f"it makes {n_more:.2f} more passes of the target than tokens ({least['name']})"
        return
    for sign, key, than, amount in (
        (-1, "kept_by_verify", "fewer tokens than verify", "few"),
        (1, "kept_at_most", "more tokens than block verification", "many"),
    ):
        excess, worst = max(((sign * (r["kept"] - r[key]), r) for r in results), key=itemgetter(0))
        if excess > TOLERANCE:
            why = f"; does it draft too {amount}, or from a stale cache?" * (form is loop_text)
            figures = f"{max(worst['kept'], 0):.4f} for {worst[key]:.4f}"
            yield f"it gains {than}, {figures} ({worst['name']}){why}"


def confirm_wrong(
    form: Callable, call: Callable, cases: Sequence[Case], results: list[dict], to_probs: Callable
) -> None:
    """Run a black box with real random numbers, and see whether a beginning is as frequent as the
    enumeration says, and not as it should be: it takes the first case in which that is easily seen.
    Adds "runs", "measured", "z_right" and "z_yours" to its first_wrong. Raises Undecidable, which
    says what speaks against the enumeration.
    """
    visible = lambda pair: z(pair[1]["yours"], pair[1]["right"], N_RUNS)
    found = [(case, r["first_wrong"]) for case, r in zip(cases, results) if r["first_wrong"]]
    easily = [pair for pair in found if visible(pair) > 15]
    case, wrong = easily[0] if easily else max(found, key=visible)
    yours, right, beginning = wrong["yours"], wrong["right"], tuple(wrong["text"])
    # the runs of a rule are short
    n_runs = 5 * N_RUNS if visible((case, wrong)) < 8 and form is rule_text else N_RUNS
    if z(yours, right, n_runs) < 8:
        few = f"{yours:.4f} for {right:.4f} is too little to be seen in {n_runs:,} real runs"
        raise Undecidable(few)
    n_hits, branch = 0, RealBranch()
    for text, _ in real_runs(form, call, case, n_runs):
        while len(text) < len(beginning) and text == beginning[: len(text)]:
            text = (*text, branch.choose(to_probs(case.target(text)), "sampled"))
        n_hits += text[: len(beginning)] == beginning
    measured = n_hits / n_runs
    z_right, z_yours = z(measured, right, n_runs), z(measured, yours, n_runs)
    wrong |= dict(runs=n_runs, measured=measured, z_right=z_right, z_yours=z_yours)
    if abs(z_right) < 5 or abs(z_yours) > 4:
        gave = f"{n_runs:,} real runs gave {measured:.4f}, the enumeration {yours:.4f}"
        raise Undecidable(f"{gave}: {UNFOLLOWED}")


def confirm_exact(
    form: Callable,
    call: Callable,
    cases: Sequence[Case],
    results: list[dict],
    to_probs: Callable,
    n_branches: int,
) -> None:
    """Run a black box that is exact with real random numbers: does it gain as many tokens, and
    begin as often with each token, as the enumeration says? As many runs as it had branches, within
    limits, in the case with the most to keep. Raises Undecidable, which says what differs.
    """
    case, result = max(zip(cases, results), key=lambda pair: more_by_block(pair[1]))
    n_runs = min(max(n_branches, A_FEW[0]), A_FEW[1])
    rows = [
        [min(len(text), case.n_tokens) - n_passes, *np.eye(case.n_vocab)[text[0]]]
        for text, n_passes in real_runs(form, call, case, n_runs)
    ]
    expected, measured = [result["kept"], *to_probs(case.target(()))], np.mean(rows, axis=0)
    errors = (np.maximum(np.var(rows, axis=0), 0.05) / n_runs) ** 0.5
    worst = np.argmax(abs(measured - expected) / errors)
    if abs(measured - expected)[worst] > 6 * errors[worst]:
        what = f"began with {worst - 1} at a rate of" if worst else "gained"
        figures = f"{measured[worst]:.4f}, the enumeration {expected[worst]:.4f}"
        raise Undecidable(f"{n_runs:,} real runs {what} {figures}: {UNFOLLOWED}")


def real_runs(
    form: Callable, call: Callable, case: Case, n_runs: int
) -> Iterator[tuple[Text, int]]:
    """Yield what runs with real random numbers give, as rule_text and loop_text do. Raises
    Undecidable if one raises an error, or returns what is no text.
    """
    for _ in tqdm(range(n_runs), "real runs", leave=False, disable=None):
        try:
            with np.errstate(all="ignore"):  # as in `followed`
                run = form(call, case, RealBranch())
        except KeyboardInterrupt:
            raise
        except Undecidable as problem:
            raise Undecidable(f"with real random numbers {problem}") from None
        except BaseException as error:
            raised = describe_error(error, None)
            raise Undecidable(f"with real random numbers it raised {raised}") from None
        yield run


def z(frequency: float, probability: float, n_runs: int) -> float:
    """The distance of a frequency from a probability, in standard errors."""
    variance = max(probability * (1 - probability), 1 / n_runs)
    return (frequency - probability) / (variance / n_runs) ** 0.5


def more_by_block(result: dict[str, Any]) -> float:
    """How many more drafts block verification keeps in a case than the token rule."""
    return result["kept_at_most"] - result["kept_by_verify"]


def names_of(function: Callable) -> set[str]:
    """Which of sample, accept, rng and end a function has among its parameters."""
    return {"sample", "accept", "rng", "end"} & inspect.signature(function).parameters.keys()


def caller(function: Callable) -> tuple[Callable, Callable]:
    """The form of a function, rule_text or loop_text, and a function that calls it with the
    positional arguments of this form, branch=, and end=.
    """
    parameters, names = inspect.signature(function).parameters.values(), names_of(function)
    more = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD  # *args, **kwargs
    given = [p for p in parameters if p.kind not in more and p.name not in names]
    required = [p for p in given if p.default is p.empty]
    forms = {3: rule_text, 5: loop_text}
    if len(required) not in forms:
        signature = ", ".join(p.name for p in parameters)
        name = getattr(function, "__name__", "it")
        raise ValueError(
            f"{name}({signature}): expected (draft, p, q), or (target, draft_model, ids, n_tokens, "
            "K), and sample, accept, rng or end after these"
        )

    generator: Any = Source(np.random.default_rng(), NUMPY)

    def call(*arguments, branch: Branch, end: int | None = None) -> Any:
        offered: dict[str, Any] = dict(sample=branch.sample, accept=branch.accept, end=end)
        offered["rng"] = generator  # a sampling.Rng, and a generator of NumPy
        generator.sample, generator.accept = branch.sample, branch.accept
        return function(*arguments, **{name: offered[name] for name in names})

    return forms[len(required)], call


def judge(
    form: Callable, call: Callable, case: Case, to_probs: Callable, file: str | None, most: int
) -> dict[str, Any]:
    """Examine one case. Returns its entry in the result of `prove`, its numbers of branches and
    choices, and the length of its longest text.
    """
    echoes, lengths = set(), {0}

    def run(branch: Branch) -> tuple[Text, int]:
        text, n_passes = form(call, case, branch)
        echoes.add(text[: len(case.prompt)] == case.prompt)
        lengths.add(len(text))
        return text, n_passes

    models = [lambda text, m=m: to_probs(m(text)) for m in (case.target, case.draft_model)]
    right = replace(case, target=models[0], draft_model=models[1])
    result = examine(run, right.target, case.n_tokens, case.end, file, most)
    if case.prompt and result["first_wrong"] and echoes == {True}:
        result |= dict(distance=None, first_wrong=None)
        result["problem"] = "each text begins with the prompt: expected only the new tokens"
    p, q = right.target(()), right.draft_model(())
    return dict(
        name=case.name,
        p=p.tolist(),
        q=q.tolist(),
        K=case.K,
        length=max(lengths),
        **result,
        kept_by_verify=drafts_kept(right, block=False),
        kept_at_most=drafts_kept(right, block=True),
    )
