"""The checks of the exercises: CHECKS[name](answer) raises WrongAnswer, which says what is
wrong. For a right answer it returns a sentence about that answer, or None.

No check is statistical: a function that makes random choices is run through every branch of these
choices (proving/verdict.py).
"""

import copy
import inspect
import itertools
from collections import defaultdict
from functools import lru_cache
from types import SimpleNamespace

import numpy as np

from exercises import solutions
from proving.enumeration import WrongAnswer, enumerate_branches, total_variation
from proving.limits import with_limits
from proving.verdict import (
    CheckedRng,
    complete_texts,
    describe_first_error,
    enumerate_round,
    expected_kept,
    format_distance,
    format_probs,
    to_array,
    to_whole_numbers,
)
from sampling import SamplingParams, residual

P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.4, 0.4])
RNG = np.random.default_rng(0)
PAIRS = [(P, Q), (P, P)]
PAIRS += [(RNG.dirichlet(np.ones(n)), RNG.dirichlet(np.ones(n))) for n in (2, 3, 5)]
PAIRS += [
    (np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.25, 0.75])),
    (np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.75, 0.0])),  # the last token is never sampled
    (np.array([0.0, 1.0]), np.array([1.0, 0.0])),
]

# ---------------------------------------------------------------- found and expected


def require(right, problem):
    """Raise WrongAnswer(problem) unless `right` is true."""
    if not right:
        raise WrongAnswer(problem)


def require_same(found, expected, what):
    """Raise WrongAnswer, with both values, unless they are equal. what: the name of the value."""
    require(found == expected, f"{what}: {found}, expected {expected}")


def require_close(found, expected, what):
    """Raise WrongAnswer unless the numbers are equal up to 1e-12, and of the same shape.

    found: what the answer gave, of any type. expected: a number or an array
    """
    found = to_array(found, f"{what}: {found!r}, expected numbers")
    require_same(np.shape(found), np.shape(expected), f"the shape of {what}")
    off = np.max(abs(np.subtract(found, expected)))
    yours, right = (
        f"{one:.4g}" if np.ndim(one) == 0 else format_probs(one) for one in (found, expected)
    )
    nearly = f", which differs by {off:.1g}" if yours == right else ""
    require(off <= 1e-12, f"{what}: {yours}, expected {right}{nearly}")


def require_result(answer, expected, *arguments):
    """Raise WrongAnswer unless answer(*arguments) is `expected`, up to rounding, and leaves its
    arguments unchanged.
    """
    names = inspect.signature(answer).parameters
    with np.printoptions(precision=10, suppress=True, linewidth=1000):
        values = ", ".join(f"{name}={value!r}" for name, value in zip(names, arguments))
    what = f"{answer.__name__}({values})"
    given = copy.deepcopy(arguments)
    require_close(answer(*given), expected, what)
    require_same(repr(given), repr(arguments), f"{what} changes its arguments. Afterwards they are")


def require_same_texts(texts, target, n_tokens, what, end=None, kept=""):
    """Raise WrongAnswer unless the texts have the target's distribution once the target has
    completed them, up to n_tokens or the end token.

    texts: {text, a tuple of tokens: probability}
    target: a function from a text to the distribution of its next token, [n_vocab]
    what: the case that is checked; the message begins with it
    kept: words on the drafts kept, added to the message
    """
    texts = complete_texts(texts, target, n_tokens, end)
    right = complete_texts({(): 1.0}, target, n_tokens, end)  # by the chain rule
    if place := describe_first_error(texts, right):
        far = total_variation(texts, right)
        far = format_distance(far)
        raise WrongAnswer(f"{what}: a total variation distance of {far}{kept}; {place}")


def require_kept(kept, expected, what, figures):
    """Raise WrongAnswer if fewer drafts are kept than expected, both a mean number. figures: both
    in words.
    """
    require(kept >= expected - 1e-9, f"{what}: the distribution is right{figures}; expected more")


def outcomes_of(answer, *arguments):
    """The exact distribution of answer(*arguments, sample, accept), which returns whole numbers:
    {these numbers, a tuple: probability}.
    """

    def run(branches):
        rng = CheckedRng(branches)
        result = answer(*copy.deepcopy(arguments), rng.sample, rng.accept)
        return tuple(to_whole_numbers(result, "whole numbers"))

    return enumerate_branches(run)


# ---------------------------------------------------------------- models


def table(seed, n_vocab=3):
    """A random model: a function from a text to the distribution of its next token, [n_vocab].
    The same seed and text give the same distribution.
    """

    @lru_cache(None)
    def of(ids):
        # a list [seed, *ids] would not do: NumPy pads it with zeros, as if with token 0
        seeds = np.random.SeedSequence(seed, spawn_key=ids)
        return np.random.default_rng(seeds).dirichlet(np.ones(n_vocab))

    return lambda ids: of(tuple(ids))


class ByLength:
    """A model whose distribution depends on the length of the text only: after n ids it is
    rows[n].
    """

    def __init__(self, *rows):
        self.rows = rows

    def __call__(self, ids):
        return np.array(self.rows[len(ids)])


def counting(ids):
    """A model that gives its next token probability 1. The tokens are 0, 1, 2, 0, ..."""
    return np.eye(3)[len(ids) % 3]


def rows_of(model):
    """The model in the form of the exercises: a function ids -> [len(ids), n_vocab]. Row i is the
    distribution of the token after ids[: i + 1].
    """

    def rows(ids):
        ids = to_whole_numbers(ids, "a list of ids", "a model is fed")
        return np.array([model(ids[: n + 1]) for n in range(len(ids))])

    return rows


# ---------------------------------------------------------------- without chance


def check_temperature_2(answer):
    for logits in ([0.0, 1.0, -2.0], [1e4, 0.0, 1e4 + 1.0], [-3.0, -3.0]):
        for temperature in (0.5, 1.0, 3.0):
            expected = SamplingParams(temperature)(np.array([logits]))[0]
            require_result(answer, expected, np.array(logits), temperature)
    for temperature in (0.0, 1e-9):
        require_result(answer, [0, 1, 0], np.array([0.0, 2.0, 1.0]), temperature)
        require_result(answer, [0, 0, 1], np.array([1e4, 0.0, 1e4 + 1.0]), temperature)
    require_result(answer, [0, 1, 0], np.array([0.0, 2.0, 2.0]), 0.0)  # of equals, the first


def check_acceptance_1(answer):
    for p, q in PAIRS:
        require_result(answer, 1 - abs(p - q).sum() / 2, p, q)


def check_residual_3(answer):
    require_result(answer, [1, 0, 0], P, Q)
    require_result(answer, [0.75, 0.25, 0], np.array([0.5, 0.4, 0.1]), np.array([0.2, 0.3, 0.5]))
    require_result(answer, P, P, P)
    for p, q in PAIRS[2:5]:
        missing = np.maximum(p - q, 0)
        require_result(answer, missing / missing.sum(), p, q)
    # nearly the same is not the same
    p, q = np.array([0.5, 0.25, 0.25]), np.array([0.5, 0.25 + 2.0**-30, 0.25 - 2.0**-30])
    require_result(answer, [0, 0, 1], p, q)


def check_speedup_5(answer):
    settings = (0.0, 0.3, 0.8, 1.0), (1, 2, 9), (0.0, 0.1, 0.5), (1.0, 1.5, 3.0)
    for a, K, c, v in itertools.product(*settings):
        # n accepted, then one more token
        tokens = sum((n + 1) * a**n * (1 - a) for n in range(K)) + (K + 1) * a**K
        require_result(answer, tokens / (K * c + v), a, K, c, v)


def check_nucleus_4(answer):
    for p, top_p, kept in (
        ([0.1, 0.4, 0.3, 0.2], 0.3, [1]),
        ([0.1, 0.4, 0.3, 0.2], 0.65, [1, 2]),
        ([0.1, 0.4, 0.3, 0.2], 0.75, [1, 2, 3]),
        ([0.1, 0.4, 0.3, 0.2], 1.0, [0, 1, 2, 3]),
        ([0.25, 0.5, 0.25], 0.5, [1]),  # reached exactly
        ([0.25, 0.5, 0.25], 0.75, [0, 1]),
        ([0.25, 0.25, 0.25, 0.25], 0.5, [0, 1]),  # of equals, the lower ids
    ):
        expected = np.where(np.isin(np.arange(len(p)), kept), p, 0)
        require_result(answer, expected / expected.sum(), np.array(p), top_p)


def check_catch_up_8(answer):
    text = [5, 6, 7, 8, 9]
    for read, n_last, n_fed in (
        ([], 1, 5),  # nothing read yet
        ([5, 6, 7, 8], 1, 1),  # plain decoding
        ([5, 6], 2, 3),  # behind
        ([5, 6], 3, 3),
        ([], 5, 5),
        ([5, 6, 7, 8, 1, 1], 1, 1),  # a rejected draft of two is forgotten
        ([5, 6, 7, 1], 2, 2),  # so is one within the rows asked for
        ([5, 1, 1, 1], 4, 4),
        ([5, 6, 7, 8, 9], 1, 1),  # the last row is read again
        ([5, 6, 7, 8, 9], 3, 3),
    ):
        calls = []
        row = lambda ids: ids + [0] * (10 - len(ids))

        def forward(new, cache):
            new = to_whole_numbers(new, "a list of ids", "forward is fed")
            calls.append(len(new))
            cache.ids += new
            ends = range(len(cache.ids) - len(new) + 1, len(cache.ids) + 1)
            return np.array([row(cache.ids[:end]) for end in ends])

        cache, ids = SimpleNamespace(ids=list(read)), list(text)
        rows = answer(ids, cache, n_last, forward)
        what = f"with {read} in the cache and n_last = {n_last}"
        require_same(ids, text, f"{what}: the ids afterwards")
        require_same(cache.ids, text, f"{what}: in the cache in the end")
        require_same(calls, [n_fed], f"{what}: how many ids each call of forward is fed")
        expected = [row(text[:end]) for end in range(6 - n_last, 6)]
        require_same(
            np.array(rows).tolist(), expected, f"{what}: the rows of the last {n_last} ids"
        )


# ---------------------------------------------------------------- one place


def require_token_and_flag(result, n_vocab):
    """The result of an answer for one token, (token, is_draft), as an int and a bool. Raises
    WrongAnswer if it has another form.
    """
    expected = f"(a token below {n_vocab}, whether it is a draft)"
    pair = isinstance(result, (tuple, list)) and len(result) == 2
    require(pair, f"it returns {result!r}, expected {expected}")
    token, is_draft = result
    require(np.ndim(token) == 0, f"it returns {result!r}, expected {expected}: sample one")
    require(np.ndim(is_draft) == 0, f"it returns {result!r}, expected {expected}")
    (token,) = to_whole_numbers([token], expected)
    require(0 <= token < n_vocab, f"it returns {result!r}, expected {expected}")
    return token, bool(is_draft)


def one_place(answer, p, q, n_drafts=1):
    """Enumerate every outcome of an answer that chooses one token, such as one_token_6. A draft is
    a token that was sampled from q.

    answer: called as answer(p, q, sample, accept), returns (token, whether it is a draft)
    p, q: [n_vocab], distributions of the target and of the draft model
    Returns ({(token,): probability}, the probability that the token is a draft).

    Raises WrongAnswer if the answer samples more than n_drafts from q, or calls a token a draft
    that was not sampled from q.
    """

    def run(branches):
        rng = CheckedRng(branches)
        token, is_draft = require_token_and_flag(
            answer(p.copy(), q.copy(), rng.sample, rng.accept), len(p)
        )
        require(rng.samples, "`sample` is never called, expected a draft from `sample(q)`")
        drafts = [x for row, x in rng.samples if np.array_equal(row, q)]
        # drafts can be counted only if nothing else is sampled from the numbers in q: a replacement
        # would be if q is p or the residual, and a coin could be if q has two numbers
        clear = len(p) > 2 and not any(np.array_equal(row, q) for row in (p, residual(p, q)))
        require(
            len(drafts) <= n_drafts or not clear,
            f"{len(drafts)} drafts are sampled from q, expected {n_drafts}",
        )
        found = f"what `sample(q)` returned: {drafts}" if drafts else "a call of `sample(q)` before"
        require(
            not is_draft or token in drafts,
            f"token {token} is said to be the draft, expected {found}",
        )
        return token, is_draft

    outcomes = enumerate_branches(run)
    kept = sum(mass for (_, is_draft), mass in outcomes.items() if is_draft)
    texts = {(x,): outcomes.get((x, True), 0) + outcomes.get((x, False), 0) for x, _ in outcomes}
    return texts, kept


def check_one_place(answer, p, q, least, why, n_drafts=1):
    """Raise WrongAnswer unless the token has the distribution p, and a draft is kept with
    probability `least` or more. why: what `least` is, for the message
    """
    what = f"p = {format_probs(p)}, q = {format_probs(q)}"
    try:
        texts, kept = one_place(answer, p, q, n_drafts)
    except WrongAnswer as wrong:
        raise WrongAnswer(f"{what}: {wrong}") from None
    figures = f"; {kept:.4f} of the drafts are kept, {least:.4f} {why}"
    require_same_texts(texts, lambda text: p, 1, what, kept=figures)
    require_kept(kept, least, what, figures)


def check_one_token_6(answer):
    for p, q in PAIRS:
        most = np.minimum(p, q).sum()
        check_one_place(answer, p, q, most, "can be, the sum of min(p, q)")
    most = np.minimum(P, Q).sum()
    example = f"for p = {format_probs(P)}, q = {format_probs(Q)}"
    return f"{example} it keeps {most:.2f} of the drafts, and no rule more"


def check_two_drafts_10(answer):
    for p, q in PAIRS:
        once = np.minimum(p, q).sum()
        second = np.minimum(residual(p, q), q).sum() if once < 1 else 0.0
        check_one_place(answer, p, q, once + (1 - once) * second, "are by two tries in turn", 2)


# ---------------------------------------------------------------- one round


def rounds_to_check():
    """Yield (target, draft model, K) of the rounds that check a rule, easy rounds first. A model is
    a function from a text to the distribution of its next token.
    """
    bonus = np.array([0.2, 0.3, 0.5])
    yield ByLength(P, bonus), ByLength(Q), 1
    yield ByLength(P, bonus), ByLength(P), 1
    yield ByLength(P), ByLength(), 0
    # some tokens have no probability
    yield ByLength([0, 0.5, 0.5], bonus, P), ByLength(Q, [0.5, 0.5, 0]), 2
    # two tokens replace a rejected one, in proportions that depend on the token before
    yield ByLength(P, [0.5, 0.4, 0.1], bonus), ByLength([0.55, 0.3, 0.15], [0.2, 0.2, 0.6]), 2
    # certain, and right
    yield counting, counting, 2
    # more tokens, and more drafts
    yield table(3, 5), table(4, 5), 2
    yield table(5, 2), table(6, 2), 5
    yield table(1), table(2), 3


def check_rule(answer, block):
    """Check a rule for k drafted tokens: its distribution, and how many drafts it keeps. Returns a
    sentence with the number of drafts kept.

    block: whether it has to keep as many as block verification
    """
    right_rule = "block verification" if block else "the right rule"

    def rule(draft, p, q, rng):
        # copies, because a rule may change what it is given
        result = answer(list(draft), p.copy(), q.copy(), rng.sample, rng.accept)
        for row, _ in rng.samples[len(draft) :]:
            is_in = lambda rows: any(np.array_equal(row, one) for one in rows)
            require(
                is_in(p) or not is_in(q),
                f"it samples from q = {format_probs(row)}, expected the draft that came from "
                "there, or a replacement from elsewhere",
            )
        return result

    for target, draft_model, K in rounds_to_check():
        expected = expected_kept(target, draft_model, K, block)
        texts, kept = enumerate_round(rule, target, draft_model, K)
        what = f"K = {K}" if K else "an empty draft"
        if K and isinstance(target, ByLength):
            for name, model in (("p", target), ("q", draft_model)):
                what += f", {name} = " + ", ".join(format_probs(row) for row in model.rows[:K])
        figures = f"; on average {kept:.4f} drafts are kept, by {right_rule} {expected:.4f}"
        require_same_texts(texts, target, K + 1, what, kept=figures)
        require_kept(kept, expected, what, figures)
    most = expected_kept(target, draft_model, K, block=True)
    keeps = f"of {K} drafts it keeps {kept:.2f} on average"
    return f"{keeps}; the most that an exact round can keep is {most:.2f}"


def check_verify_7(answer):
    return check_rule(answer, block=False)


def check_block_11(answer):
    return check_rule(answer, block=True)


# ---------------------------------------------------------------- loops


class Counted:
    """A model that counts its passes (n_passes) and the ids that it reads (n_read). `rows` and
    `forward` are the two forms in which the exercises call a model.

    n_prompt: the length of the prompt. A pass that ends before the prompt's last id is prefill, and
        not counted.
    """

    def __init__(self, model, n_prompt=1):
        self.model, self.n_prompt, self.n_passes, self.n_read = model, n_prompt, 0, 0
        self.caches = []  # each cache that it was given, and the ids that it has read into it

    def rows(self, ids):
        """Read a whole text. Returns [len(ids), n_vocab]: row i is the distribution of the token
        after ids[: i + 1]. Raises WrongAnswer if ids is empty or no list of whole numbers.
        """
        return self.forward(ids, SimpleNamespace(ids=[]))  # an empty cache

    def forward(self, new_ids, cache):
        """Read new ids after those of the cache, and append them to cache.ids: new_ids ->
        [len(new_ids), n_vocab]. Raises WrongAnswer for a cache that this model has not filled.
        """
        new_ids = to_whole_numbers(new_ids, "a list of ids", "a model is fed")
        require(new_ids, "a model is fed no ids, expected at least one")
        self.n_read += len(new_ids)
        require(isinstance(cache.ids, list), f"cache.ids is {cache.ids!r}, expected a list")
        n_known = len(cache.ids)
        require(
            cache.ids == self.read_into(cache)[:n_known],
            f"a model is given a cache with the ids {cache.ids}, of which it has read "
            f"{self.read_into(cache)}: expected a cache of its own for each model",
        )
        cache.ids += new_ids
        self.read_into(cache)[:] = cache.ids
        self.n_passes += len(cache.ids) >= self.n_prompt
        return np.array([self.model(cache.ids[: n + 1]) for n in range(n_known, len(cache.ids))])

    def read_into(self, cache):
        """The ids that this model has read into a cache, a list."""
        for known_cache, ids in self.caches:
            if known_cache is cache:
                return ids
        self.caches.append((cache, []))
        return self.caches[-1][1]


def texts_of(answer, form, models, ids, n_tokens, K, end=None):
    """Enumerate a loop, as speculative_9: ({text, a tuple: probability}, the mean number of passes
    of the target).

    form: a function from a Counted to what the answer gets as a model
    models: (target, draft model), functions from a text to the distribution of its next token
    """
    texts, n_passes = defaultdict(float), 0.0

    def run(branches):
        target, draft_model = (Counted(model, len(ids)) for model in models)
        rng = CheckedRng(branches)
        given = list(ids)
        how = given, n_tokens, K, rng.sample, rng.accept, end
        result = answer(form(target), form(draft_model), *how)
        require(isinstance(result, list), f"it returns {result!r}, expected a list of tokens")
        text = to_whole_numbers(result, "a list of tokens")
        require_same(given, list(ids), "the ids that it was given, afterwards")
        return tuple(text), target.n_passes

    for (text, passes), mass in enumerate_branches(run).items():
        texts[text] += mass
        n_passes += mass * passes
    return texts, n_passes


def check_loop(answer, form, right):
    """Check the texts of a loop and its passes of the target.

    form: a function from a Counted to its method `rows` or `forward`
    right: the solution, which says how many passes are needed
    """
    three, five = (table(1), table(2)), (table(3, 5), table(4, 5))
    # the prompt may hold the end, and the end may be token 0
    for models, ids, n_tokens, K, end in (
        (three, [0], 1, 2, None),
        (three, [0], 3, 1, None),
        (three, [2, 0], 2, 3, 2),
        (three, [0], 2, 2, 0),
        (five, [4, 3, 4], 2, 2, 4),
    ):
        what = f"{n_tokens} tokens after {ids} with K = {K} and the end token {end}"
        texts, n_passes = texts_of(answer, form, models, ids, n_tokens, K, end)
        lengths = {len(text) for text in texts if end not in text}
        require(lengths <= {n_tokens}, f"{what}: of {lengths} tokens, expected {n_tokens}")
        require_same_texts(texts, lambda text: models[0]([*ids, *text]), n_tokens, what, end)
        _, most = texts_of(right, form, models, ids, n_tokens, K, end)
        few = f"expected {most:.4f} or fewer: one a round, with K drafts where there is room"
        require(
            n_passes <= most + 1e-9,
            f"{what}: {n_passes:.4f} passes of the target on average, {few}",
        )
    for n_tokens, K in ((4, 1), (7, 2), (8, 3), (13, 6)):
        texts, n_passes = texts_of(answer, form, (counting, counting), [0], n_tokens, K)
        what = f"{n_tokens} tokens with K = {K}, where the draft model is the target"
        require_same(
            texts, {tuple(n % 3 for n in range(1, n_tokens + 1)): 1.0}, f"{what}: the text"
        )
        require_same(n_passes, -(-n_tokens // (K + 1)), f"{what}: passes of the target")


def check_speculative_9(answer):
    check_loop(answer, lambda model: model.rows, solutions.speculative_9)


def check_cached_14(answer):
    check_loop(answer, lambda model: model.forward, solutions.cached_14)
    ids, n_tokens, K = [0, 1, 2, 0], 7, 2
    for what, model in (("right", counting), ("wrong", lambda ids: counting([*ids, 0]))):
        target, draft_model = Counted(counting, len(ids)), Counted(model)
        how = ids, n_tokens, K, lambda p: int(p.argmax()), lambda ratio: ratio >= 1, None
        answer(target.forward, draft_model.forward, *how)
        later = (target.n_passes - 1) * (K + 1)  # in each round after the first
        for role, one, most in (
            ("target", target, len(ids) + K + later),
            ("draft model", draft_model, len(ids) + K - 1 + later),
        ):
            require(
                one.n_read <= most,
                f"{n_tokens} tokens with K = {K}, every draft {what}: the {role} reads "
                f"{one.n_read} tokens, expected {most} at most",
            )


def expected_tree(target, draft_model):
    """The mean number of tokens of a round with two siblings and a child below each."""
    p, q = target([0]), draft_model([0])
    tokens = range(len(p))
    accepted = np.minimum(p, q)
    rest = residual(p, q)
    for x in np.flatnonzero(q > p):
        # x was the first sibling and was rejected
        without_x = np.where(np.arange(len(q)) == x, 0, q)
        if without_x.any():
            accepted += (q[x] - p[x]) * np.minimum(rest, without_x / without_x.sum())
    below = [np.minimum(target([0, x]), draft_model([0, x])).sum() for x in tokens]
    return 1 + sum(accepted * (1 + np.array(below)))


def check_siblings_12(answer):
    pairs = [(table(seed), table(seed + 10)) for seed in (1, 2, 3)]
    # a draft model that is sure has no second sibling
    pairs += [(table(1), counting), (counting, table(1)), (counting, counting)]
    pairs += [(table(3, 5), table(4, 5))]
    for target, draft_model in pairs:
        texts = outcomes_of(answer, rows_of(target), rows_of(draft_model), [0])
        require_same_texts(texts, lambda text: target([0, *text]), 3, "a round and what follows")
        n_tokens = sum(mass * len(text) for text, mass in texts.items())
        require_close(n_tokens, expected_tree(target, draft_model), "the mean number of tokens")


# ---------------------------------------------------------------- a drafter


def propose_checked(drafter, ids, k, what):
    """Call the drafter's prefill and propose, and check the form of what it proposes: (tokens, rows
    of q), both tuples.
    """
    n_vocab, text = drafter.n_vocab, list(ids)
    with_limits(drafter.prefill, returns=False)(text[:-1], None)  # no target, and so no cache
    result = with_limits(drafter.propose)(text, k)
    require_same(text, ids, f"{what}: the ids afterwards")
    form = "expected a list of tokens and an array"
    is_pair = isinstance(result, (tuple, list)) and len(result) == 2
    require(is_pair, f"{what}: it returns {result!r}, {form}")
    draft, q = result
    require(
        isinstance(draft, list) and isinstance(q, np.ndarray),
        f"{what}: it returns {type(draft).__name__} and {type(q).__name__}, {form}",
    )
    draft = to_whole_numbers(draft, "whole numbers")
    require(
        all(0 <= token < n_vocab for token in draft),
        f"{what}: it drafts {draft}, expected tokens from 0 to {n_vocab - 1}",
    )
    require(len(draft) <= k, f"{what}: it drafts {draft}, expected {k} tokens at most")
    require_same(q.shape, (len(draft), n_vocab), f"{what}: the shape of q")
    for row in q:
        right = min(row) >= 0 and abs(sum(row) - 1) < 1e-9
        require(
            right,
            f"{what}: a row of q is {format_probs(row)}, expected probabilities that sum to 1",
        )
    return tuple(draft), tuple(map(tuple, q.tolist()))


def texts_to_draft_after():
    """Yield (n_vocab, ids, values of k) of the calls that check a drafter."""
    for n in (1, 2, 3):
        for ids in itertools.product(range(3), repeat=n):
            yield 4, list(ids), (0, 1, 3)
    for ids in (
        [0, 1, 2, 0, 3, 0],
        [0, 1, 1, 2, 1, 0, 1],
        [3, 0, 1] * 4,
        [2, 0, 2, 1, 2, 3] * 3,
        [0, 1, 2] * 3 + [3],
    ):
        yield 4, ids, (0, 1, 3)
    # more tokens, longer texts, and longer drafts
    yield 6, [5, 4, 0, 5, 3, 5, 4] * 4, (1, 2)
    yield 2, [0, 1, 1, 0, 1, 0, 0] * 5, (6,)


def check_drafter_13(answer):
    ever = False
    for n_vocab, ids, ks in texts_to_draft_after():
        for k in ks:
            what = f"{n_vocab} tokens, after {ids} with k = {k}"

            def propose(branches, *texts_before):
                drafter = answer(n_vocab, CheckedRng(branches).sample)
                for part in ("n_vocab", "prefill", "propose"):
                    require(
                        hasattr(drafter, part),
                        f"it returns {drafter!r}, expected an object with n_vocab, prefill(ids, "
                        "target_cache) and propose(ids, k)",
                    )
                require_same(drafter.n_vocab, n_vocab, "n_vocab")
                for text in texts_before:
                    propose_checked(drafter, text, k, what)
                return propose_checked(drafter, ids, k, what)

            outcomes = enumerate_branches(propose)
            for (draft, q), probability in outcomes.items():
                ever = ever or draft
                # q has to be what the tokens were sampled from: one-hot where nothing was
                says = np.prod([row[token] for token, row in zip(draft, q)])
                require(
                    abs(probability - says) < 1e-9,
                    f"{what}: it drafts {list(draft)} with probability {probability:.4g}, and q "
                    f"says {says:.4g}; expected the same",
                )
            if k == 1:
                # prefill begins a text: of one before nothing is left
                before = [2, 1, 0, 2, 0, 1, 2]
                again = enumerate_branches(lambda branches: propose(branches, before))
                require(
                    total_variation(again, outcomes) < 1e-9,
                    f"{what}: it drafts something else once it has read another text, expected "
                    "the same, because prefill begins a new text",
                )
    require(ever, "it never drafts anything, expected drafts after some texts")


# ---------------------------------------------------------------- all of them, in their order

NAMES = """
temperature_2 acceptance_1 residual_3 one_token_6 verify_7 speedup_5 speculative_9 catch_up_8
cached_14 two_drafts_10 siblings_12 block_11 drafter_13 nucleus_4
"""


def limited_check(name):
    """The check of an exercise, with limits on the answer's calls and seconds: it raises
    WrongAnswer for an answer that does not end.
    """
    check = globals()[f"check_{name}"]
    return lambda answer: check(with_limits(answer, name))


CHECKS = {name: limited_check(name) for name in NAMES.split()}
