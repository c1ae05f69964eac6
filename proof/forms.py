"""The forms that `prove` knows: what a function is called with, and how its result is read.

    rule   (draft, p, q)                                a round, after one text
    batch  (drafts, p, q)                               a round, after each of several texts
    tree   (tokens, parents, p, q)                      a round with several candidates for a place
    loop   (target, draft_model, ids, n_tokens, K)      a text

A form is a function (call, case, branch) -> (text, number of passes of the target). It makes what
the sampler is called with, calls it once or several times, and reads the result. What no right
sampler returns, such as a token outside the vocabulary, raises Impossible; what is no list of
tokens at all raises Undecidable.
"""

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from .cases import LONG_LOOP, Case, Model, Text
from .enumerate import Branch, Impossible, RealBranch, Undecidable, describe_error, in_time
from .sources import NUMPY, Source

Stop = Callable[..., NoReturn]  # Branch.stop: raises Undecidable, or another kind
MOST_CALLS = 1_000  # of a model, in one run
EMPTY_DRAFT = "for an empty draft"
TUPLES = "it returns a tuple that is not (how many are accepted, the next token): return a list"


# ---------------------------------------------------------------- a round after one text


def rule_text(call: Callable, case: Case, branch: Branch) -> tuple[Text, int]:
    """Run a rule in each round of a case. Returns (text, number of rounds).

    call: (draft [K], p [K + 1, n_vocab], q [K, n_vocab]) -> (number accepted, next token), or the
        tokens of the round
    """
    text: list[int] = []
    for _ in range(case.rounds or 1):
        draft, p, q = drafted(case, text, branch)
        result = call_round(call, branch, [*draft], p, q)  # a rule may use up its draft
        text += round_of(result, draft, case.n_vocab, branch.stop)
    return tuple(text), case.rounds or 1


def drafted(case: Case, text: Sequence[int], branch: Branch) -> tuple[list, np.ndarray, np.ndarray]:
    """Draft after a text. Returns (draft, p, q) as a rule is given them."""
    draft: list[int] = []
    for _ in range(case.K):
        draft.append(branch.choose(case.q((*text, *draft)), "drafted"))
    p = [case.target((*text, *draft[:n])) for n in range(case.K + 1)]
    q = [case.draft_model((*text, *draft[:n])) for n in range(case.K)]
    return draft, rows_of(p, case), rows_of(q, case)


def rows_of(rows: list[np.ndarray], case: Case) -> np.ndarray:  # -> [len(rows), n_vocab]
    return np.array(rows, case.dtype).reshape(len(rows), case.n_vocab)


def call_round(call: Callable, branch: Branch, draft: list[int], *others: Any) -> Any:
    """What a rule returns for a draft and the others of its arguments. An error of the rule passes
    as it is; but if the draft is empty, as at the end of a text, it becomes Impossible.
    """
    is_empty = not draft  # before the call, which may use up the draft
    try:
        return call(draft, *others, branch=branch)
    except Exception as error:
        if not is_empty:
            raise
        branch.stop(f"{EMPTY_DRAFT} it raised {describe_error(error)}", Impossible)


def round_of(result: Any, draft: list[int], n_vocab: int, stop: Stop) -> list[int]:
    """The tokens of a round, from what a rule returned. Stops the branch for anything but (how many
    are accepted, the next token) or 1 to len(draft) + 1 tokens.
    """
    if isinstance(result, tuple):
        if len(result) != 2:
            stop(TUPLES)
        (n_accepted,) = tokens_of(result[:1], len(draft) + 1, stop, "it accepts")
        return draft[:n_accepted] + tokens_of(result[1:], n_vocab, stop, "its next token is")
    tokens = tokens_of(result, n_vocab, stop)
    if not 1 <= len(tokens) <= len(draft) + 1:
        stop(f"it returns {tokens}: expected 1 to {len(draft) + 1} tokens", Impossible)
    return tokens


def tokens_of(result: Any, limit: int, stop: Stop, event: str = "it returns") -> list[int]:
    """Convert tokens, nodes or counts of any integer type to a list of ints; at most MOST_CALLS are
    read. Stops the branch, which says `event` and what it was: Undecidable if they are no integers,
    Impossible if one of them is not in 0 ... limit - 1.
    """
    found: list[Any] = [None]  # which is none
    if isinstance(result, Iterable):
        found = list(islice(result, MOST_CALLS))
    shown = result[0] if isinstance(result, tuple) and len(result) == 1 else result
    try:
        tokens = [operator.index(t.item() if hasattr(t, "item") else t) for t in found]
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: torch, of a row
        why = "; does a branch end without return?" if result is None else ""
        stop(f"{event} {shown!r}: expected tokens below {limit}{why}")
    if not all(0 <= token < limit for token in tokens):
        stop(f"{event} {shown!r}: expected tokens below {limit}", Impossible)
    return tokens


# ---------------------------------------------------------------- a round of a batch


def batch_text(call: Callable, case: Case, branch: Branch) -> tuple[Text, int]:
    """Run a rule for batches, of one row or of case.rows. Returns (text, number of passes of the
    target). The text of several rows is that of each, one after the other, completed by its target,
    which takes a pass for each token more.

    call: (drafts [batch, K], p [batch, K + 1, n_vocab], q [batch, K, n_vocab]) -> tokens
        [batch, K + 1], each row padded with -1, or (tokens, how many count in each row)
    """

    def call_one(draft, p, q, branch):
        result = call(np.array([draft], int), p[None], q[None], branch=branch)
        return rounds_of(result, 1, branch)[0]

    if not case.rows:
        return rule_text(call_one, case, branch)
    rounds = [drafted(row, (), branch) for row in case.rows]
    drafts, p, q = (np.array(each) for each in zip(*rounds))
    results = rounds_of(call(drafts, p, q, branch=branch), len(case.rows), branch)
    text: list[int] = []
    n_gained = 0
    for row, draft, tokens in zip(case.rows, drafts.tolist(), results):
        tokens = round_of(tokens, draft, case.n_vocab, branch.stop)
        n_gained += len(tokens) - 1
        while len(tokens) < row.n_tokens:
            tokens.append(branch.choose(row.p(tuple(tokens)), "completed"))
        text += tokens
    return tuple(text), len(text) - n_gained


def rounds_of(result: Any, n_rows: int, branch: Branch) -> list[list[int]]:
    """The tokens of each row, from what a rule for batches returned. Stops the branch for anything
    but one row for each text, padded with -1 at its end, or with a count that it reaches.
    """
    pair = isinstance(result, tuple) and len(result) == 2
    parts = result if pair else (result, [])
    tokens, counts = (x.tolist() if hasattr(x, "tolist") else x for x in parts)
    try:
        rows = [[operator.index(token) for token in row] for row in tokens]
        n_of_row = [operator.index(n) for n in counts]
    except TypeError:
        branch.stop(f"it returns {result!r}: expected rows of tokens, or (rows, counts)")
    if not pair:
        n_of_row = [row.index(-1) if -1 in row else len(row) for row in rows]
    if not len(rows) == len(n_of_row) == n_rows:
        branch.stop(f"it returns {len(rows)} rows: expected {n_rows}", Impossible)
    for row, n in zip(rows, n_of_row):
        if not 0 <= n <= len(row) or (not pair and set(row[n:]) - {-1}):
            branch.stop(f"it returns {row}, of which {n} count", Impossible)
    return [row[:n] for row, n in zip(rows, n_of_row)]


# ---------------------------------------------------------------- a round of a tree


def tree_text(call: Callable, case: Case, branch: Branch) -> tuple[Text, int]:
    """Draft a tree, and run a rule for trees. Returns (text, 1).

    call: (tokens [n], parents [n], p [n + 1, n_vocab], q [n, n_vocab]) -> (the accepted nodes, from
        the root down, the next token), or the tokens of the round. parents has the index of each
        node's parent, an earlier one, or -1 for the end of the text; p[0] follows the text, and
        p[i + 1] node i; q[i] is what node i was sampled from, given its elder siblings
    """
    tokens: list[int] = []
    paths: list[Text] = []
    q = []
    for i, parent in enumerate(case.parents):
        before = paths[parent] if parent >= 0 else ()
        elders = [tokens[j] for j in range(i) if case.parents[j] == parent]
        q.append(case.q_beside(before, elders))
        tokens.append(branch.choose(q[-1], "drafted"))
        paths.append((*before, tokens[-1]))
    p = rows_of([case.target(path) for path in ((), *paths)], case)
    result = call_round(call, branch, [*tokens], [*case.parents], p, rows_of(q, case))
    return tuple(path_of(result, tokens, case, branch)), 1


def path_of(result: Any, tokens: list[int], case: Case, branch: Branch) -> list[int]:
    """The tokens of a round, from what a rule for trees returned. Stops the branch for anything but
    (nodes that are a path from the root, the next token) or 1 to case.n_tokens tokens.
    """
    nested = isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Iterable)
    if not nested:
        found = tokens_of(result, case.n_vocab, branch.stop)
        if not 1 <= len(found) <= case.n_tokens:
            branch.stop(f"it returns {found}: expected 1 to {case.n_tokens} tokens", Impossible)
        return found
    nodes = tokens_of(result[0], len(tokens), branch.stop, "its accepted nodes are")
    if [case.parents[node] for node in nodes] != [-1, *nodes][: len(nodes)]:
        branch.stop(f"it accepts the nodes {nodes}: expected a path from the root", Impossible)
    following = tokens_of(result[1:], case.n_vocab, branch.stop, "its next token is")
    return [*(tokens[node] for node in nodes), *following]


# ---------------------------------------------------------------- a text


def loop_text(call: Callable, case: Case, branch: Branch) -> tuple[Text, int]:
    """Run a loop. Returns (its new tokens, number of passes of the target). Stops the branch if
    they are fewer than n_tokens without an end.

    call: (target, draft_model, ids, n_tokens, K) -> the new tokens
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
        branch.stop(f"it returns {len(text)} tokens, expected {case.n_tokens}", Impossible)
    return tuple(text), target.passes


class TableModel:
    """The model that a loop calls: ids -> [len(ids), n_vocab], row i for the token after
    ids[: i + 1]. With a cache, any object with a list `ids`, it reads new ids after those in
    there, and appends them. Rows inside the prompt are uniform: nobody needs them.

    passes: calls that gave a row for the first new token or a later one

    It stops the branch if it is called without ids, with ids that are no tokens, more than
    MOST_CALLS times, or with a cache that holds what it has not read there.
    """

    def __init__(self, model: Model, prompt: Text, stop: Stop, dtype: type = float):
        self.model, self.prompt, self.stop, self.dtype = model, prompt, stop, dtype
        self.n_vocab, self.n_calls, self.passes = len(model(())), 0, 0
        self.read: dict[int, list[int]] = {}  # {id(cache): the ids that were read into it}

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
        self.passes += len(text) >= n_prompt
        shape = len(new_ids), self.n_vocab
        rows: np.ndarray = np.full(shape, 1 / self.n_vocab, self.dtype)
        first = len(text) - len(new_ids) + 1
        for end in range(max(first, n_prompt), len(text) + 1):
            rows[end - first] = self.model(tuple(text[n_prompt:end]))
        return rows


# ---------------------------------------------------------------- which form it is

Form = Callable[[Callable, Case, Branch], tuple[Text, int]]
FORMS: dict[int, Form] = {3: rule_text, 4: tree_text, 5: loop_text}  # {parameters: form}
SHAPES = "(draft, p, q), (tokens, parents, p, q), or (target, draft_model, ids, n_tokens, K)"
OFFERED = {"sample", "accept", "rng", "end"}  # parameters that are given by name


def form_of(function: Callable, batch: bool = False) -> Form:
    """The form of a function, by the number of parameters that need a value; a rule for batches
    looks like another rule, and `batch` says that it is one. Raises ValueError for other functions.
    """
    parameters = parameters_of(function).values()
    more = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD  # *args, **kwargs
    given = [p for p in parameters if p.kind not in more and p.name not in OFFERED]
    n_required = sum(p.default is p.empty for p in given)
    if n_required not in FORMS or (batch and n_required != 3):
        name, signature = name_of(function), ", ".join(p.name for p in parameters)
        expected = "(drafts, p, q)" if batch else SHAPES
        raise ValueError(
            f"{name}({signature}): expected {expected}, and sample, accept, rng or end after these"
        )
    return batch_text if batch else FORMS[n_required]


def parameters_of(function: Callable) -> Any:
    """{name: parameter}; of a torch.nn.Module those of `forward`."""
    return inspect.signature(getattr(function, "forward", function)).parameters


def names_of(function: Callable) -> set[str]:
    """Which of sample, accept, rng and end a function has among its parameters."""
    return OFFERED & parameters_of(function).keys()


def name_of(function: Callable) -> str:
    return getattr(function, "__name__", type(function).__name__)


def caller(function: Callable, seed: int) -> Callable:
    """A function that calls another with the positional arguments of its form, branch=, and end=,
    and gives it what it has parameters for.

    seed: of the real numbers of the generator `rng` that it gives
    """
    names = names_of(function)
    generator: Any = Source(np.random.default_rng(seed), NUMPY)

    def call(*arguments: Any, branch: Branch, end: int | None = None) -> Any:
        offered: dict[str, Any] = dict(sample=branch.sample, accept=branch.accept, end=end)
        offered["rng"] = generator  # a sampling.Rng, and a generator of NumPy
        generator.sample, generator.accept = branch.sample, branch.accept
        return function(*arguments, **{name: offered[name] for name in names})

    return call


def only_text(call: Callable) -> Callable:
    """A function that calls a loop, and returns its text, also of a tuple (text, passes)."""

    def call_loop(*arguments: Any, **named: Any) -> Any:
        result = call(*arguments, **named)
        pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Iterable)
        return result[0] if pair else result

    return call_loop


def without_prompt(call: Callable, deadline: float) -> Callable:
    """A function that calls a loop, and returns its new tokens only: of a loop that returns the
    prompt before them, as a real run with a prompt of 30 tokens shows, the prompt is cut off.

    deadline: a time of time.monotonic, at which that run is given up
    """
    case = replace(LONG_LOOP, n_tokens=1)
    try:
        text, _ = in_time(partial(loop_text, call, case), RealBranch(), deadline)
    except (Exception, Undecidable, SystemExit):  # the enumeration says it
        return call
    if text[: len(case.prompt)] != case.prompt:
        return call
    return lambda target, draft_model, ids, *arguments, **named: call(
        target, draft_model, list(ids), *arguments, **named
    )[len(ids) :]
