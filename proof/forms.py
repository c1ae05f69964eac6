"""The forms that `prove` knows: what a function is called with, and how its result is read.

    rule   (draft, p, q)                                a round, after one text
    batch  (drafts, p, q)                               a round, after each of several texts
    tree   (tokens, parents, p, q)                      a round with several candidates for a place
    loop   (target, draft_model, ids, n_tokens, K)      a text

A form is a function (call, case, branch) -> (text, number of passes of the target). It makes what
the sampler is called with, calls it once or several times, and reads the result. What no right
sampler returns, such as a token outside the vocabulary, raises Impossible; what is no list of
tokens at all raises Undecidable.

An example of a rule's round: the case has K = 1; the branch chooses the draft [2]; the rule is
called with [2], p and q, and tosses the branch's coins; it returns (0, 1), none accepted and token
1 in its place; the text is (1,), for which the target was called once.
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
from .sources import NUMPY, FollowedGenerator

Stop = Callable[..., NoReturn]  # Branch.stop: raises Undecidable, or another kind
MOST_CALLS = 1_000  # of a model, in one run; and tokens that are read of one result
EMPTY_DRAFT = "for an empty draft"
TUPLES = "it returns a tuple that is not (how many are accepted, the next token): return a list"


# ---------------------------------------------------------------- a round after one text


def rule_text(call: Callable, case: Case, branch: Branch) -> tuple[Text, int]:
    """Write a text with a rule: in each of case.rounds rounds, draft case.K tokens by the draft
    model of the case, and call the rule with them. Returns (text, number of rounds); one round is
    one pass of the target. Raises Undecidable for a result that no rule returns.

    branch: makes the random choices, those of the drafts here, and is handed to the rule
    call: (draft [K], p [K + 1, n_vocab], q [K, n_vocab], branch=) -> (number accepted, next token),
        or the tokens of the round
    """
    text: list[int] = []
    n_rounds = case.rounds or 1  # a caller's own case may have None
    for _ in range(n_rounds):
        draft, p, q = drafted(case, text, branch)
        result = call_round(call, branch, [*draft], p, q)  # a rule may use up its draft
        text += round_of(result, draft, case.n_vocab, branch.stop)
    return tuple(text), n_rounds


def drafted(case: Case, text: Sequence[int], branch: Branch) -> tuple[list, np.ndarray, np.ndarray]:
    """Draft case.K tokens after a text, each by branch.choose. Returns what a rule is given:
    (the draft, a list of K tokens; p, the target's rows after 0 ... K of them, [K + 1, n_vocab]; q,
    the draft model's rows for them, [K, n_vocab]).
    """
    draft: list[int] = []
    for _ in range(case.K):
        draft.append(branch.choose(case.q((*text, *draft)), "drafted"))
    # raw rows, unlike case.q: the rule does to them what case.to_probs does
    p = [case.target((*text, *draft[:n])) for n in range(case.K + 1)]
    q = [case.draft_model((*text, *draft[:n])) for n in range(case.K)]
    return draft, rows_of(p, case), rows_of(q, case)


def rows_of(rows: list[np.ndarray], case: Case) -> np.ndarray:  # -> [len(rows), n_vocab]
    """Rows of probabilities, perhaps none, as one array of the case's dtype."""
    return np.array(rows, case.dtype).reshape(len(rows), case.n_vocab)


def call_round(call: Callable, branch: Branch, draft: list[int], *others: Any) -> Any:
    """What call(draft, *others, branch=branch) returns, for a rule and its arguments. An error that
    the rule raises passes as it is; but if the draft is empty, it becomes an Impossible, as a right
    rule takes an empty draft, too.
    """
    is_empty = not draft  # before the call, which may use up the draft
    try:
        return call(draft, *others, branch=branch)
    except Exception as error:
        if is_empty:
            raise branch.stop(f"{EMPTY_DRAFT} it raised {describe_error(error)}", Impossible)
        raise


def round_of(result: Any, draft: list[int], n_vocab: int, stop: Stop) -> list[int]:
    """The tokens of a round, from what a rule returned: a tuple (how many of the draft are
    accepted, the next token), or a list, an array or the like of 1 to len(draft) + 1 tokens. For
    the draft [5, 6], (1, 7) and [5, 7] are the same round. A token is one of 0 ... n_vocab - 1.

    stop: called with what is wrong; it raises that: Undecidable for what is no such result,
        Impossible for numbers out of these bounds
    """
    if isinstance(result, tuple):
        if len(result) != 2:
            raise stop(TUPLES)
        accepted, following = result
        n_accepted = token_of(
            accepted, len(draft) + 1, stop, "it accepts", f"a whole number from 0 to {len(draft)}"
        )
        next_token = token_of(following, n_vocab, stop, "its next token is")
        return [*draft[:n_accepted], next_token]
    tokens = tokens_of(result, n_vocab, stop)
    if not 1 <= len(tokens) <= len(draft) + 1:
        raise stop(f"it returns {tokens}: expected 1 to {len(draft) + 1} tokens", Impossible)
    return tokens


def tokens_of(
    result: Any, limit: int, stop: Stop, event: str = "it returns", expected: str = ""
) -> list[int]:
    """Convert tokens, nodes or counts of any integer type (Python's, NumPy's, torch's) to a list of
    ints, which must be in 0 ... limit - 1. The first MOST_CALLS (1,000) are read and returned: what
    follows them, as in a generator that never ends, is not looked at.

    stop: Branch.stop, which raises Undecidable for what is no integers, and Impossible for integers
        out of these bounds
    event, expected: words of the message, "it returns [7]: expected tokens below 3"; the latter
        are these if empty. A tuple of one is shown as its element, "it accepts 7: ..."
    """

    def problem() -> str:
        is_one = isinstance(result, tuple) and len(result) == 1
        shown = words_of(result[0] if is_one else result)
        return f"{event} {shown}: expected {expected or f'tokens below {limit}'}"

    if result is None:
        raise stop(f"{problem()} (does a branch end without return?)")
    if not isinstance(result, Iterable):
        raise stop(problem())
    elements = list(islice(result, MOST_CALLS))  # a generator may raise its own error
    try:
        tokens = [as_int(element) for element in elements]
    except (TypeError, ValueError, RuntimeError):
        raise stop(problem())
    if any(not 0 <= token < limit for token in tokens):
        raise stop(problem(), Impossible)
    return tokens


def words_of(result: Any) -> str:
    """What a sampler returned, as repr writes it; of a list or tuple the first 100 elements."""
    if isinstance(result, (list, tuple)):
        result = result[:100]
    try:
        return repr(result)
    except Exception:  # such as of a whole number of more than 4,300 digits
        return "(what cannot be shown)"


def token_of(result: Any, limit: int, stop: Stop, event: str, expected: str = "") -> int:
    """One token, node or count as an int, by tokens_of, which says what is raised."""
    return tokens_of((result,), limit, stop, event, expected)[0]


def as_int(x: Any) -> int:
    """An integer of Python, NumPy or torch, also in an array of one element, as Python's. Raises
    TypeError for 1.5, and TypeError, ValueError or RuntimeError (torch) for a row of several.
    """
    if hasattr(x, "item"):
        x = x.item()
    return operator.index(x)


# ---------------------------------------------------------------- a round of a batch


def batch_text(call: Callable, case: Case, branch: Branch) -> tuple[Text, int]:
    """Draft, and call a rule for batches: of one row, in each round of the case, or of all rows of
    case.rows, in one round. Returns (text, number of passes of the target). The text of several
    rows is that of each, one after the other, where each is completed to its n_tokens by its
    target, which takes a pass for each token more. Raises Undecidable for a result that no such
    rule returns.

    call: (drafts [batch, K], p [batch, K + 1, n_vocab], q [batch, K, n_vocab], branch=) -> tokens
        [batch, K + 1], each row padded with -1, or (tokens, how many count in each row)
    """
    if case.rows:
        return text_of_rows(call, case, branch)

    def call_one(draft: list[int], p: np.ndarray, q: np.ndarray, branch: Branch) -> list[int]:
        """The rule for batches, as a rule for one text: a batch of one row."""
        drafts = np.array([draft], int)
        result = call(drafts, p[np.newaxis], q[np.newaxis], branch=branch)
        (its_round,) = rounds_of(result, 1, branch)
        return its_round

    return rule_text(call_one, case, branch)


def text_of_rows(call: Callable, case: Case, branch: Branch) -> tuple[Text, int]:
    """Draft for each row of case.rows, and call a rule for batches once, with all of them. A row
    whose round is shorter than its n_tokens is completed by its target, which takes a pass for each
    token. Returns (the texts of the rows, one after the other; number of passes of the target, the
    sum over rows). Raises Undecidable for a result that no such rule returns.

    call: (drafts [batch, K], p [batch, K + 1, n_vocab], q [batch, K, n_vocab], branch=) -> rows of
        tokens, as rounds_of reads them; branch: makes the random choices
    """
    empty_text = ()
    drafts, ps, qs = [], [], []
    for row in case.rows:
        draft, p, q = drafted(row, empty_text, branch)
        drafts.append(draft)
        ps.append(p)
        qs.append(q)
    result = call(np.array(drafts), np.array(ps), np.array(qs), branch=branch)
    rounds = rounds_of(result, len(drafts), branch)
    text: list[int] = []
    n_passes = 0
    for row, draft, its_round in zip(case.rows, drafts, rounds):
        tokens = round_of(its_round, draft, case.n_vocab, branch.stop)  # row.n_tokens at most
        n_passes += 1
        while len(tokens) < row.n_tokens:
            tokens.append(branch.choose(row.p(tuple(tokens)), "completed"))
            n_passes += 1
        text += tokens
    return tuple(text), n_passes


def rounds_of(result: Any, n_rows: int, branch: Branch) -> list[list[int]]:
    """The tokens of each row, from what a rule for batches returned: rows padded with -1 at the
    end, or (rows, how many count in each); arrays or lists. [[4, 5], [6, -1]] and ([[4, 5], [6,
    7]], [2, 1]) are both the tokens [[4, 5], [6]]. Raises Undecidable for anything else; Impossible
    unless there are n_rows rows, for a count that a row does not have, and for a token after -1.
    """
    try:
        if isinstance(result, tuple) and len(result) == 2:
            tokens, counts = result
            rows = as_rows(tokens)
            lengths = [operator.index(n) for n in as_list(counts)]
        else:
            rows = as_rows(result)
            lengths = [length_of(row, branch.stop) for row in rows]
    except TypeError:
        raise branch.stop(f"it returns {result!r}: expected rows of tokens, or (rows, counts)")
    if not len(rows) == len(lengths) == n_rows:
        raise branch.stop(f"it returns {len(rows)} rows: expected {n_rows}", Impossible)
    for row, n in zip(rows, lengths):
        if not 0 <= n <= len(row):
            raise branch.stop(f"it returns {row}, of which {n} count", Impossible)
    return [row[:n] for row, n in zip(rows, lengths)]


def as_rows(x: Any) -> list[list[int]]:
    """Rows of whole numbers, lists, arrays or a tensor, as lists of ints. Raises TypeError for
    anything else.
    """
    return [[operator.index(number) for number in row] for row in as_list(x)]


def length_of(row: list[int], stop: Stop) -> int:
    """How many tokens a row has before its padding, the -1 at its end. Raises Impossible, by `stop`
    (Branch.stop), if a token follows a -1.
    """
    n = row.index(-1) if -1 in row else len(row)
    if any(token != -1 for token in row[n:]):
        raise stop(f"it returns {row}, of which {n} count", Impossible)
    return n


def as_list(x: Any) -> Any:
    """An array or tensor as a list, of lists if it has several axes; anything else as it is."""
    return x.tolist() if hasattr(x, "tolist") else x


# ---------------------------------------------------------------- a round of a tree


def tree_text(call: Callable, case: Case, branch: Branch) -> tuple[Text, int]:
    """Draft a tree of n nodes, the shape of which is case.parents, and call a rule for trees once.
    Returns (text, 1): one pass of the target. Raises Undecidable for a result that no such rule
    returns.

    call: (tokens [n], parents [n], p [n + 1, n_vocab], q [n, n_vocab], branch=) -> (the accepted
        nodes, from the root down, the next token), or the tokens of the round. parents has the
        index of each node's parent, an earlier one, or -1 for the end of the text; p[0] follows the
        text, and p[i + 1] node i; q[i] is what node i was sampled from, given its elder siblings
    """
    tokens: list[int] = []
    paths: list[Text] = []  # of each node, the tokens from the root down to it
    q = []
    for i, parent in enumerate(case.parents):
        before = paths[parent] if parent >= 0 else ()
        elders = [tokens[j] for j in range(i) if case.parents[j] == parent]
        row = case.q_beside(before, elders)
        token = branch.choose(row, "drafted")
        q.append(row)
        tokens.append(token)
        paths.append((*before, token))
    p = rows_of([case.target(path) for path in ((), *paths)], case)
    result = call_round(call, branch, [*tokens], [*case.parents], p, rows_of(q, case))
    return tuple(path_of(result, tokens, case, branch)), 1


def path_of(result: Any, tokens: list[int], case: Case, branch: Branch) -> list[int]:
    """The tokens of a round, from what a rule for trees returned: (the accepted nodes, the next
    token), or 1 to case.n_tokens tokens. Raises Undecidable for anything else, and Impossible
    unless the nodes, indices into case.parents, are a path from the root.

    tokens: that were drafted, of each node
    """
    stop, n_most = branch.stop, case.n_tokens
    if not is_pair(result):
        found = tokens_of(result, case.n_vocab, stop)
        if not 1 <= len(found) <= n_most:
            raise stop(f"it returns {found}: expected 1 to {n_most} tokens", Impossible)
        return found
    accepted, following = result
    n_nodes = len(tokens)
    nodes = tokens_of(accepted, n_nodes, stop, "its accepted nodes are")
    expected_parent = -1  # the root
    for node in nodes:
        if case.parents[node] != expected_parent:
            raise stop(f"it accepts the nodes {nodes}: expected a path from the root", Impossible)
        expected_parent = node
    next_token = token_of(following, case.n_vocab, stop, "its next token is")
    return [tokens[node] for node in nodes] + [next_token]


def is_pair(result: Any) -> bool:
    """Whether a result is a tuple (several things, one more), such as (accepted nodes, token)."""
    return isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Iterable)


# ---------------------------------------------------------------- a text


def loop_text(call: Callable, case: Case, branch: Branch) -> tuple[Text, int]:
    """Call a loop once, with the two models of the case. Returns (its new tokens, number of passes
    of the target, as the TableModel counts them). Raises Undecidable if they are no tokens, or
    fewer than case.n_tokens without case.end; more are returned as they are. After case.n_tokens
    tokens both models are certain of token 0, so that drafts beyond the text add no branches.

    call: (target, draft_model, ids, n_tokens, K, branch=, end=) -> the new tokens, or (these,
        number of passes, which is not used). ids is the prompt, a list; a model is called with ids,
        perhaps with a cache, and returns a row of probabilities for each (TableModel)
    """
    certain_of_0 = np.eye(case.n_vocab)[0]

    def table(model: Model) -> TableModel:
        limited = lambda text: model(text) if len(text) < case.n_tokens else certain_of_0
        return TableModel(limited, case.prompt, branch.stop, case.dtype)

    target, draft_model = table(case.target), table(case.draft_model)
    ids = list(case.prompt)
    result = call(target, draft_model, ids, case.n_tokens, case.K, branch=branch, end=case.end)
    text = tokens_of(text_of(result), case.n_vocab, branch.stop)
    if len(text) < case.n_tokens and case.end not in text:
        raise branch.stop(f"it returns {len(text)} tokens, expected {case.n_tokens}", Impossible)
    return tuple(text), target.passes


class TableModel:
    """The model that a loop calls: ids -> [len(ids), n_vocab], row i for the token after
    ids[: i + 1]. With a cache, any object with a list `ids`, it reads new ids after those in
    there, and appends them. Rows inside the prompt are uniform: nobody needs them. After another
    prompt the rows are others: those of the model, with the tokens in reverse order.

    model: the new text, without the prompt -> [n_vocab]
    prompt: the ids before the new text
    stop: Branch.stop, which is called, with what is wrong, for a call that no right loop makes: it
        raises Undecidable
    dtype: of the rows
    passes: calls that gave a row for the first new token or a later one; n_calls: all calls
    """

    def __init__(self, model: Model, prompt: Text, stop: Stop, dtype: type = float):
        self.model, self.prompt, self.stop, self.dtype = model, prompt, stop, dtype
        self.n_vocab, self.n_calls, self.passes = len(model(())), 0, 0
        # {id(cache): the ids that were read into it}. A new cache may get the id of a dead one: it
        # starts without ids, which is a beginning of any
        self.ids_read: dict[int, list[int]] = {}

    def __call__(self, ids: Sequence[int], cache: Any = None) -> np.ndarray:  # -> [n_ids, n_vocab]
        """Read ids after those in cache.ids, to which they are appended; without a cache, from the
        beginning. Returns a row for each, of probabilities of the next token. The caller may have
        cut the cache, to a beginning of what was read into it. n_calls and perhaps passes grow.
        Raises Undecidable, by self.stop, for ids that are no tokens, after more than 1,000 calls
        (MOST_CALLS), and for a cache that holds anything else than what this model has read into
        it.
        """
        given = np.asarray(ids).ravel().tolist()  # [[5, 6]], a batch of one, stands for [5, 6]
        new_ids = tokens_of(given, self.n_vocab, self.stop, "a model is called with")
        self.n_calls += 1
        if self.n_calls > MOST_CALLS:
            raise self.stop("a loop does not end")
        if cache is None:
            cache = SimpleNamespace(ids=[])
        read = self.ids_read.get(id(cache), [])
        if cache.ids != read[: len(cache.ids)]:
            found = f"a cache holds ids {cache.ids}, of which this model has read {read}"
            raise self.stop(f"{found}: keep one cache for each model, and shorten its ids")
        cache.ids += new_ids  # the caller's own list grows
        self.ids_read[id(cache)] = list(cache.ids)
        if len(cache.ids) >= len(self.prompt):
            self.passes += 1
        return self.last_rows(cache.ids, len(new_ids))

    def last_rows(self, ids: list[int], n: int) -> np.ndarray:  # -> [n, n_vocab]
        """A row, the distribution of the next token, after each of the last n of the ids. Inside
        the prompt it is uniform; then what self.model gives for the tokens after the prompt. If the
        ids do not begin with self.prompt, such a row is reversed, so that it is another one.
        """
        n_prompt = len(self.prompt)
        is_own_prompt = ids[:n_prompt] == list(self.prompt)
        rows: np.ndarray = np.full((n, self.n_vocab), 1 / self.n_vocab, self.dtype)
        for i in range(n):
            n_read = len(ids) - n + i + 1  # this row comes after so many ids
            if n_read >= n_prompt:
                row = self.model(tuple(ids[n_prompt:n_read]))
                rows[i] = row if is_own_prompt else row[::-1]
        return rows


# ---------------------------------------------------------------- which form it is

Form = Callable[[Callable, Case, Branch], tuple[Text, int]]
FORMS: dict[int, Form] = {3: rule_text, 4: tree_text, 5: loop_text}  # {parameters: form}
SHAPES = "(draft, p, q), (tokens, parents, p, q), or (target, draft_model, ids, n_tokens, K)"
OFFERED = {"sample", "accept", "rng", "end"}  # parameters that are given by name


def form_of(function: Callable, batch: bool = False) -> Form:
    """The form of a sampler: rule_text for a function with 3 parameters that need a value, such as
    (draft, p, q); tree_text for 4, loop_text for 5. With `batch`, which says that it is a rule for
    batches, batch_text. Parameters sample, accept, rng and end do not count. Raises ValueError for
    other functions and what is none, and for a keyword-only parameter without a default.
    """
    if not callable(function):
        raise ValueError(f"{function!r:.80}: expected a function")
    forms, shapes = FORMS, SHAPES
    if batch:
        forms, shapes = {3: batch_text}, "(drafts, p, q)"
    required = required_by(function)
    keyword_only = [p.name for p in required if p.kind is p.KEYWORD_ONLY]
    signature = f"{name_of(function)}({', '.join(parameters_of(function))})"
    if keyword_only:
        raise ValueError(f"{signature}: expected a default for {' and '.join(keyword_only)}")
    if len(required) not in forms:
        expected = f"{shapes}, and sample, accept, rng or end"
        raise ValueError(f"{signature}: expected {expected} after these")
    return forms[len(required)]


def required_by(function: Callable) -> list[inspect.Parameter]:
    """The parameters of a function that need a value, in their order, without sample, accept, rng
    and end (OFFERED).
    """
    starred = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD  # *args, **kwargs
    given = [p for p in parameters_of(function).values() if p.kind not in starred]
    return [p for p in given if p.default is p.empty and p.name not in OFFERED]


def parameters_of(function: Callable) -> Any:
    """{name: inspect.Parameter} of a function; of a torch.nn.Module those of its `forward`."""
    return inspect.signature(getattr(function, "forward", function)).parameters


def names_of(function: Callable) -> set[str]:
    """Which of sample, accept, rng and end a function has among its parameters."""
    return OFFERED & parameters_of(function).keys()


def name_of(function: Callable) -> str:
    """The name of a function; of an object without one that of its class."""
    return getattr(function, "__name__", type(function).__name__)


def caller(function: Callable, seed: int) -> Callable:
    """A function call(*arguments, branch=, end=) that calls a sampler with the arguments, and gives
    it by name whichever of these it has parameters for: sample and accept, the methods of the
    branch; end, the token that ends a text, or None; rng, a generator of NumPy with methods sample
    and accept. `call` returns what the sampler returns.

    seed: of rng, which is the same object in all calls: it gives symbolic numbers while a run is
        enumerated, else real ones
    """
    names_wanted = names_of(function)
    generator: Any = FollowedGenerator(np.random.default_rng(seed), NUMPY)

    def call(*arguments: Any, branch: Branch, end: int | None = None) -> Any:
        generator.sample, generator.accept = branch.sample, branch.accept  # of this call's branch
        offered = dict(sample=branch.sample, accept=branch.accept, rng=generator, end=end)
        wanted = {name: offered[name] for name in names_wanted}
        return function(*arguments, **wanted)

    return call


def text_of(result: Any) -> Any:
    """The text in what a loop returned: all of it, or of (text, number of passes) the first. Two
    arrays of one element each are a text of two tokens.
    """
    shapes = {getattr(part, "shape", None) for part in result} if is_pair(result) else set()
    is_two_tokens = shapes in ({()}, {(1,)})
    return result[0] if shapes and not is_two_tokens else result


def without_prompt(call: Callable, deadline: float) -> Callable:
    """For `call`, a loop, a function with the same arguments that returns the new tokens only. To
    see whether the loop returns the prompt before them, it is called here, with real random numbers
    and the prompt of LONG_LOOP, 30 tokens. If it does, a function that cuts the prompt off is
    returned. If it does not, or fails, `call` itself is.

    deadline: a time of time.monotonic, at which the run is given up
    """
    case = replace(LONG_LOOP, n_tokens=1)
    try:
        text, _ = in_time(partial(loop_text, call, case), RealBranch(), deadline)
    except (Exception, Undecidable, SystemExit):  # the next run will tell how it fails
        return call
    if text[: len(case.prompt)] != case.prompt:
        return call

    def call_loop(target: Any, draft_model: Any, ids: Any, *sizes: Any, **named: Any) -> Any:
        result = call(target, draft_model, list(ids), *sizes, **named)  # a loop may append to ids
        return text_of(result)[len(ids) :]

    return call_loop
