"""The checks of the exercises: CHECKS[name](answer) raises WrongAnswer, which says what is wrong.
For a right answer it returns a sentence about it, or None. An answer is the reader's function of
that name, as exercises/mine.py describes it.

No check is statistical: rules and loops are judged by the referee (proof/prove.py), which takes
every branch of their random choices, in its own cases and in those of RULES and LOOPS below.
"""

import itertools
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial, wraps
from numbers import Real
from typing import Any

import numpy as np

from exercises import solutions
from proof import cases as known
from proof import enumerate as enumeration
from proof.cases import LOOP_CASES, RULE_CASES, Case, random_model, rows, rule_case
from proof.enumerate import Undecidable, branches, format_row, in_line, take, to_row
from proof.follow import followed, untouched
from proof.forms import tokens_of
from proof.prove import TOLERANCE, more_by_block, prove
from proof.words import MOST_SHOWN, describe, figure
from sampling import SamplingParams

MOST_FOR_A_TOKEN = 12  # random choices
CLOSE = 1e-6  # numbers that differ by more are not equal
UNWRITTEN = "it raised NotImplementedError"  # by what is not written yet
OWN = "it draws random numbers of its own, not by sample and accept"

# 30 tokens, down to one in a million. The referee, which also follows random numbers of one's own,
# has no such case: a race of 30 has too many branches. Here `sample` chooses.
TAIL_Q = 0.65 ** np.arange(30)
TAIL_P = TAIL_Q * np.resize([0.5, 0.9, 2.0], 30)  # less than q, nearly q, more
TAIL = rows(TAIL_P / TAIL_P.sum(), np.eye(30)[25]), rows(TAIL_Q / TAIL_Q.sum())
SURE = [[0, 1, 0]] * 5
SURE_P, SURE_Q = rows(*SURE, known.P, known.P2, known.BONUS), rows(*SURE, known.Q1, known.Q2)
NOTEBOOK = rows(known.P, known.BONUS), rows([0.2, 0.2, 0.6])  # p and q of docs/walkthrough.ipynb
RULES = [
    rule_case("the notebook's", *NOTEBOOK, 1),
    *RULE_CASES,
    rule_case("the first two change places", rows(known.P, known.BONUS), rows([0.3, 0.5, 0.2]), 1),
    rule_case("the last two change places", rows(known.P, known.BONUS), rows([0.5, 0.2, 0.3]), 1),
    rule_case("30 tokens", *TAIL, 1),
    rule_case("30 tokens, K = 0", *TAIL, 0),
    rule_case("twelve equal tokens", rows([1 / 12] * 12), rows([0.5, 0.5, *[0] * 10]), 1),
    rule_case("a small difference", rows([0.5, 0.5]), rows([0.49998, 0.50002]), 1),
    rule_case("p is nearly sure", rows([3e-4, 4e-4, 0.9993]), rows([0.5, 0, 0.5]), 1),
    rule_case("a likely draft", rows([0.85, 0.15]), rows([0.95, 0.05]), 1),
    rule_case("a nearly sure draft", rows([0.9993, 0.0007]), rows([0.9999, 0.0001]), 1),
    rule_case("four tokens, K = 3", random_model(3, 4, 1), random_model(4, 4, 1), 3),
    rule_case("seven tokens", random_model(21, 7), random_model(22, 7, 3), 2),
    rule_case("K = 7", SURE_P, SURE_Q, 7),
]
LOOPS = [
    *LOOP_CASES,
    Case("30 tokens", *TAIL, 1, 2),
    Case("a prompt of 101 tokens", *NOTEBOOK, 1, 2, (0, *(1, 2) * 50)),
]
# p and q of one token: those with which the cases begin
PAIRS = [(case.target(()), case.draft_model(())) for case in RULES]


class WrongAnswer(AssertionError):
    """Says in a line what an answer does wrong."""


def check(name: str, answer: Any) -> tuple[bool, str]:
    """Check an answer. Returns whether it is right, and a verdict of one line."""
    try:
        require(callable(answer), "expected a function of this name")
        note = CHECKS[name](answer)
        return True, f"{name}: right" + (f"; {note}" if note else "")
    except (WrongAnswer, Undecidable, ValueError) as problem:
        reason = in_line(str(problem))
        if reason.startswith(UNWRITTEN):
            return False, f"{name}: STILL TO BE WRITTEN"
        return False, f"{name}: WRONG: {reason}"


def require(condition: Any, problem: str) -> None:
    """Raise WrongAnswer(problem) unless the condition is true."""
    if not condition:
        raise WrongAnswer(problem)


# ---------------------------------------------------------------- without chance


def compare(answer: Callable, expected: Any, *arguments: Any) -> None:
    """Raise WrongAnswer unless answer(*arguments) is `expected`, a number or an array, up to the
    rounding of float32, and leaves its arguments as they are.
    """
    own = deepcopy(arguments)
    found, _ = take(lambda _branch: answer(*own))  # `take` reports its errors, and endless loops
    *shown_arguments, shown, right = in_words(*arguments, found, expected)
    call = f"{getattr(answer, '__name__', 'it')}({', '.join(shown_arguments)})"
    require(is_close(found, expected), f"{call} gives {shown}, expected {right}")
    require(repr(own) == repr(arguments), f"{call} changes its arguments")


def in_words(*values: Any) -> list[str]:
    """Numbers, and rows of numbers, in four digits, or in more if two of them that differ by more
    than CLOSE would look the same; anything else as Python prints it.
    """
    table = [to_row([value] if isinstance(value, Real) else value) for value in values]
    numbers = [x for row in table if row is not None for x in row.tolist()]
    n_digits = next(n for n in range(4, 18) if are_told_apart(numbers, n))

    def word(value, row):
        if row is None:
            return repr(value)
        digits = ", ".join(f"{x:.{n_digits}g}" for x in row)
        return digits if isinstance(value, Real) else f"[{digits}]"

    return [word(value, row) for value, row in zip(values, table)]


def are_told_apart(numbers: list[float], n_digits: int) -> bool:
    """Whether numbers that differ by more than CLOSE look different when written with n_digits
    digits. With 17 they always do.
    """
    alike: dict[str, list[float]] = {}
    for x in numbers:
        alike.setdefault(f"{x:.{n_digits}g}", []).append(x)
    return not any(max(same) - min(same) > CLOSE for same in alike.values())


def is_close(found: Any, expected: Any) -> bool:
    """Whether what was found is a number or array of the expected shape, and differs from the
    expected one by CLOSE at most. False for anything else.
    """
    try:
        return np.shape(found) == np.shape(expected) and np.allclose(found, expected, 0, CLOSE)
    except (TypeError, ValueError):
        return False


def check_temperature_1(answer: Callable) -> None:
    """Raise WrongAnswer unless answer(logits, temperature) is the softmax: also of large logits,
    whose exp overflows; and at 0 or nearly 0 all on the largest, the first of equal ones.
    """
    small = [0.0, 1.0, -2.0], [0.0, -4.0, -8.0, -12.0], [-3.0, -3.0]
    large = [1e4, 0.0, 1e4 + 1.0], [-1e4, -1e4 - 1.0], [0.0] * 7 + [800.0]
    for temperature in (0.5, 1.0, 1.5, 3.0, 0.05, 1e-4, 1e-5, 50.0):
        for logits in ([0.0, temperature, -2 * temperature], *small, *large):
            expected = SamplingParams(temperature)(np.array([logits]))[0]
            compare(answer, expected, np.array(logits), temperature)
    for temperature in (0.0, 1e-9):
        compare(answer, [0, 1, 0], np.array([0.0, 2.0, 1.0]), temperature)
        compare(answer, [0, 0, 1], np.array([1e4, 0.0, 1e4 + 1.0]), temperature)
    compare(answer, [0, 1, 0, 0], np.array([0.0, 2.0, 2.0, 1.0]), 0.0)  # of equals, the first
    for low, high in ((-3, -1), (0.2, 0.9), (-100, -99.999), (100, 100.001)):
        compare(answer, [0, 1], np.array([low, high]), 0.0)
        compare(answer, [1, 0], np.array([high, low]), 0.0)


def check_residual_2(answer: Callable) -> None:
    """Raise WrongAnswer unless answer(p, q) is what p has more of than q, normalized; p itself if
    that is nothing.
    """
    for p, q in PAIRS:
        lacking = np.maximum(p - q, 0)
        compare(answer, lacking / lacking.sum() if lacking.any() else p, p, q)


def check_speedup_7(answer: Callable) -> None:
    """Raise WrongAnswer unless answer(a, K, c, v) is the expected speedup, computed here from the
    probabilities of all numbers of accepted drafts.
    """
    Ks, rates = (1, 2, 4, 7, 40, 0), (0.0, 0.3, 0.8125, 0.9999, 1.0)
    draft_costs, verify_costs = (0.0, 0.1, 0.5125), (1.0, 1.5125, 3.0)
    for K, a, c, v in itertools.product(Ks, rates, draft_costs, verify_costs):
        v = v if K else 1.0  # a pass over one token takes 1
        # n drafts are accepted, then one more token comes
        n_tokens = sum((n + 1) * a**n * (1 - a) for n in range(K)) + (K + 1) * a**K
        compare(answer, n_tokens / (K * c + v), a, K, c, v)


# ---------------------------------------------------------------- one token


def keeping(answer: Callable, stop: Callable) -> Callable:
    """The answer, but it calls stop(problem) if it changes an argument that is given by position
    and is a list or an array.
    """

    @wraps(answer)  # with its parameters
    def call(*arguments, **given):
        rows = [argument for argument in arguments if isinstance(argument, (list, np.ndarray))]
        before = deepcopy(rows)
        result = answer(*arguments, **given)
        for was, row in zip(before, rows):
            if not np.array_equal(was, row):
                stop(f"it changes its arguments, {was} to {row}")
        return result

    return call


def kept_and_replaced(answer: Callable, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """[2, n_vocab]: the probability that each token comes out as the draft, and as a replacement.
    Raises Undecidable for an answer that samples on and on, draws random numbers of its own,
    changes p or q, or returns something else.

    answer: chooses one token, (p, q, sample, accept) -> (token, whether it is the draft)
    """

    def run(rng):
        def sample(row):
            if len(rng.choices) > MOST_FOR_A_TOKEN:
                rng.stop("it samples again and again: does a loop retry until it accepts?")
            return rng.sample(row)

        result = keeping(answer, rng.stop)(p.copy(), q.copy(), sample, rng.accept)
        if rng.symbolic:  # it drew random numbers of its own, which are followed as symbols
            rng.stop(OWN)
        check_pair(result, rng.stop)
        token, is_draft = result
        return tokens_of((token,), len(p), rng.stop)[0], not is_draft

    found = np.zeros((2, len(p)))
    with untouched(), followed():
        for outcome, branch in branches(run):
            if outcome:  # else the branch was too unlikely to be taken to its end
                token, is_replacement = outcome
                found[int(is_replacement), token] += branch.probability
    return found


def check_pair(result: Any, stop: Callable) -> None:
    """Call stop(problem), which raises, unless a result has two elements, of which the first is no
    bool, as a token is none.
    """
    if not hasattr(result, "__len__") or len(result) != 2:
        stop(f"it returns {result!r}: return two values, the token and whether it is drafted")
    if isinstance(result[0], (bool, np.bool_)):
        stop(f"it returns {result!r}: return the token first, then whether it is drafted")


def most_kept(p: np.ndarray, q: np.ndarray, n_drafts: int) -> float:
    """The probability that one of n_drafts drafts from q is kept, if they are tried in turn. For
    one draft, no rule keeps more.
    """
    kept = 0.0
    lacking = p
    for _ in range(n_drafts):  # each is tried if those before it were rejected
        kept += (1 - kept) * np.minimum(lacking, q).sum()
        lacking = solutions.residual_2(lacking, q)
    return kept


def check_token(answer: Callable, p: np.ndarray, q: np.ndarray, n_drafts: int) -> None:
    """Raise WrongAnswer unless the token that the answer chooses has the distribution p, and is one
    of n_drafts drafts at least as often as if they were tried in turn; and unless what is said to
    be a draft was sampled from q.
    """
    runs: list[tuple[Any, list]] = []  # of each what it returned, and the tokens it sampled from q

    @wraps(answer)
    def noted(own_p, own_q, sample, accept):
        drafts = []

        def sample_and_note(row):
            token = sample(row)
            if np.shape(row) == q.shape and np.allclose(row, q):
                drafts.append(token)
            return token

        result = answer(own_p, own_q, sample_and_note, accept)
        runs.append((result, drafts))
        return result

    kept, replaced = kept_and_replaced(noted, p, q)
    check_figures(kept, replaced, p, q, n_drafts)
    case, _ = outcome_in_words(kept + replaced, p, q)
    for (token, is_draft), drafts in runs:
        wrong = f"token {token}, said to be the draft, is none that sample(q) returned"
        require(not is_draft or token in drafts, f"{case}: the distribution is right, but {wrong}")


def outcome_in_words(out: np.ndarray, p: np.ndarray, q: np.ndarray) -> tuple[str, str]:
    """Returns (what p and q are, what comes out in place of p), in words; of many tokens only the
    one that comes out too often by most. out, p, q: [n_vocab]
    """
    if len(p) > MOST_SHOWN:
        worst = (out - p).argmax()
        found, expected = in_words(out[worst], p[worst])
        comes = f"token {worst} comes out with {found}, p is {expected}"
        return f"p and q of {len(p)} tokens", comes
    shown, shown_p, shown_q = in_words(out, p, q)
    return f"p = {shown_p}, q = {shown_q}", f"what comes out is {shown}, expected p"


def check_figures(
    kept: np.ndarray, replaced: np.ndarray, p: np.ndarray, q: np.ndarray, n_drafts: int
) -> None:
    """Raise WrongAnswer unless an answer has the distribution p, and keeps a draft as often as can
    be (most_kept), but no token more often than it is drafted.

    kept, replaced: [n_vocab], the probability that a token comes out as a draft, as a replacement
    p, q: [n_vocab], of which q is the drafts'; n_drafts: 1 or 2, how many there are
    """
    out = kept + replaced
    case, comes = outcome_in_words(out, p, q)
    possible = most_kept(p, q, n_drafts)
    share, most = in_words(kept.sum(), possible)
    figures = f"a draft is kept with probability {share}, {most} is possible"
    if n_drafts == 2:
        figures = f"a draft comes out with probability {share}, trying both in turn gives {most}"
    distance = f"at a distance of {figure(abs(out - p).sum() / 2)}"
    require(is_close(out, p), f"{case}: {comes}, {distance}; {figures}")
    require(kept.sum() > possible - CLOSE, f"{case}: the distribution is right; {figures}")

    drafted = 1 - (1 - q) ** n_drafts  # the probability that a token is among the drafts
    token = (kept - drafted).argmax()  # which exceeds it by most
    how_often, at_most = in_words(kept[token], drafted[token])
    question = f"a sample of q is that token with {at_most} only: is the draft that sample?"
    if n_drafts == 2:
        samples = "are the drafts two independent samples of q?"
        question = f"two samples of q contain it with {at_most} only: {samples}"
    comes = f"token {token} comes out as a draft with probability {how_often}"
    require(kept[token] < drafted[token] + CLOSE, f"{case}: {comes}, but {question}")


def check_one_token_3(answer: Callable) -> str:
    """Raise WrongAnswer unless an answer chooses a token as check_token asks, for all PAIRS.
    Returns how many drafts it keeps, in words.
    """
    for p, q in PAIRS:
        check_token(answer, p, q, n_drafts=1)
    p, q = PAIRS[0]
    case, _ = outcome_in_words(out=p, p=p, q=q)
    return f"for {case} it keeps {np.minimum(p, q).sum():.2f} of the drafts, and no rule more"


def check_two_drafts_8(answer: Callable) -> None:
    for p, q in PAIRS:
        check_token(answer, p, q, n_drafts=2)


# ---------------------------------------------------------------- rules and loops


def referee(function: Callable, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Raise WrongAnswer unless a rule or loop is exact in all cases, draws no random numbers of its
    own, and gains as many tokens as verify. Returns what `prove` says of each case.
    """

    @wraps(function)  # with its parameters
    def watched(*arguments, **given):
        result = function(*arguments, **given)
        if enumeration.current and enumeration.current.symbolic:
            enumeration.current.stop(OWN)  # raises Undecidable
        return result

    results = []
    for case in cases:
        result = prove(watched, [case])
        if result["verdict"] == "wrong":
            distance, text, *_ = describe(result).splitlines()
            end = "" if case.end is None else f" Here end = {case.end}."
            raise WrongAnswer(distance.partition("WRONG. ")[2] + text + end)
        require(result["verdict"] == "exact", result["reason"] or result["verdict"])
        results.append(result)
    for result in results:
        remarks = "; ".join(result["remarks"])
        require(not remarks, f"the distribution is right, but {remarks}")
    return [result["cases"][0] for result in results]


def check_rule(answer: Callable) -> list[dict[str, Any]]:
    """Raise WrongAnswer unless a rule is exact, and leaves its arguments alone; it says so if the
    rule is right but for the order of its two values. Returns what `prove` says of each case.
    """

    def stop(problem):
        raise Undecidable(problem)

    @wraps(answer)  # with its parameters
    def rule(*arguments, **given):
        result = keeping(answer, stop)(*arguments, **given)
        if result is None:  # the referee has a better word for it
            return None
        if not np.iterable(result) or len(result) != 2:
            stop(f"it returns {result!r}: return two values, how many and the token that follows")
        return tuple(result)

    @wraps(answer)
    def swapped(*arguments, **given):
        return rule(*arguments, **given)[::-1]

    try:
        return referee(rule, RULES)
    except WrongAnswer as wrong:
        problem = wrong
    try:
        referee(swapped, RULES)
    except WrongAnswer:
        raise problem from None
    raise WrongAnswer("it is right if its two values change places: how many comes first")


def check_verify_4(answer: Callable) -> str:
    """Raise WrongAnswer unless a rule is right, see check_rule. Returns how many drafts it keeps,
    in words.
    """
    found = max(check_rule(answer), key=more_by_block)
    case = f'{found["K"]} draft tokens in the case "{found["name"]}"'
    return f"of {case} it keeps {found['kept']:.2f} on average"


def check_block_9(answer: Callable) -> str:
    """Raise WrongAnswer unless a rule is right, see check_rule, and keeps as many drafts as block
    verification. Returns how many it keeps, in words.
    """
    results = check_rule(answer)
    for found in results:
        kept, possible = found["kept"], found["kept_at_most"]  # tokens of a round, on average
        shown_kept, shown_possible = in_words(kept, possible)
        problem = f"it gains {shown_kept} tokens, expected {shown_possible} ({found['name']})"
        require(kept > possible - TOLERANCE, f"the distribution is right, but {problem}")
    found = max(results, key=more_by_block)
    case = f'{found["K"]} draft tokens in the case "{found["name"]}"'
    figures = f"{found['kept']:.2f} on average, the token rule {found['kept_by_verify']:.2f}"
    return f"of {case} it keeps {figures}"


class Supervised:
    """A model of a loop, which stops the loop where it reads what its docstring rules out.

    role: "target" or "draft model", for messages
    prompt: with which each text begins
    once: whether no text may be read twice
    longest: how many ids a text may have, of the target
    draft_model: of the target, the Supervised that drafts: the target must read what it drafted

    text: what was read last, until the target reads. before_draft: the same when a token was last
    sampled. seen: all texts that were read, each with its beginnings
    """

    def __init__(self, model, role, prompt, once, longest=None, draft_model=None):
        self.model, self.role, self.prompt, self.once = model, role, prompt, once
        self.longest, self.draft_model = longest, draft_model
        self.text, self.before_draft, self.seen = [], [], set()

    def __call__(self, new_ids, cache=None):
        """Read new ids, as the model does, and return its rows. Stops the loop, by model.stop, if
        there are none, if the text does not begin with the prompt, and by the other checks.
        """
        if not len(new_ids):
            self.stop("nothing: expected the ids that its cache lacks. Were rejected ones cut off?")
        rows = self.model(new_ids, cache)
        self.text = list(new_ids if cache is None else cache.ids)
        if not agree(self.text, self.prompt):
            self.stop(f"{format_row(self.text)}: expected ids, its argument, at the beginning")
        if self.draft_model:
            self.check_draft()
        if self.once:
            self.check_new(len(new_ids))
        return rows

    def check_draft(self):
        """Stop the loop if what was read last is not what the draft model drafted after, or is too
        long. Forget that it has drafted: it may draft nothing next time.
        """
        text, other = self.text, self.draft_model.before_draft
        self.draft_model.text, self.draft_model.before_draft = [], []
        if not agree(text, other):
            self.stop(f"{text}, and the draft model {other}: is there a hole, or a stale end?")
        if len(text) > self.longest:
            too_long = f"{len(text)} ids, where the finished text has {self.longest + 1}"
            room = "draft fewer, and leave room for the target's own token"
            self.stop(f"{text}, {too_long}: {room}")

    def check_new(self, n_new):
        """Stop the loop if one of the last n_new ids was read before, after the same ids. Adds them
        to what was seen.
        """
        n = len(self.text)
        beginnings = {tuple(self.text[:end]) for end in range(n - n_new + 1, n + 1)}
        again = beginnings & self.seen
        if again:
            expected = "that its cache keeps what is certain"
            expected += ", and that each round adds a token of the target's own"
            self.stop(f"{list(min(again))} again: expected {expected}")
        self.seen |= beginnings

    def stop(self, problem):
        self.model.stop(f"the {self.role} reads {problem}")


def agree(ids: Sequence[int], others: Sequence[int]) -> bool:
    """Whether two texts are the same, as far as the shorter one goes."""
    return all(a == b for a, b in zip(ids, others))


def check_loop(answer: Callable, once: bool = False) -> None:
    """Raise WrongAnswer unless a loop is exact, leaves the ids of its caller alone, and its models
    read what they should (Supervised; once: each token once).
    """

    @wraps(answer)  # with its parameters
    def supervised(target, draft_model, ids, n_tokens, K, **given):
        prompt = [*ids]
        longest = len(ids) + n_tokens - 1  # nothing has to read the last token
        own_draft = Supervised(draft_model, "draft model", prompt, once)
        own_target = Supervised(target, "target", prompt, once, longest, draft_model=own_draft)
        sample = given.get("sample")

        def sample_and_note(row):  # the draft model may have read this text to draft a token
            own_draft.before_draft = own_draft.text
            return sample(row)

        if sample:
            given["sample"] = sample_and_note
        if given.get("end") is not None:
            given["end"] = np.int64(given["end"])  # equal to a token, but another object
        text = answer(own_target, own_draft, ids, n_tokens, K, **given)
        if ids != prompt:
            target.stop(f"it changes its argument ids, from {prompt} to {ids}")
        if text and len(text) > n_tokens and [*text[: len(prompt)]] == prompt:
            target.stop("it returns the prompt, too: expected the new tokens only")
        if not isinstance(text, (list, type(None))):  # the referee has a better word for None
            target.stop(f"it returns {text!r}: expected a list")
        return text

    referee(supervised, LOOPS)


CHECKS: dict[str, Callable[[Callable], str | None]] = {
    "temperature_1": check_temperature_1,
    "residual_2": check_residual_2,
    "one_token_3": check_one_token_3,
    "verify_4": check_verify_4,
    "speculative_5": check_loop,
    "cached_6": partial(check_loop, once=True),
    "speedup_7": check_speedup_7,
    "two_drafts_8": check_two_drafts_8,
    "block_9": check_block_9,
}
