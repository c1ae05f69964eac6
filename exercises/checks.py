"""The checks of the exercises: CHECKS[name](answer) raises WrongAnswer, which says what is
wrong. For a right answer it returns a sentence about that answer, or None. An answer is the
reader's function of that name, called with the arguments that exercises/mine.py gives it.

No check is statistical: a function that makes random choices is run through every branch of these
choices (proving/enumeration.py). In the checks a model is a function from a text, a sequence of
tokens, to the distribution of its next token, [n_vocab].
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
    to_tokens,
    to_whole_numbers,
)
from sampling import SamplingParams, residual

P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.4, 0.4])
RNG = np.random.default_rng(0)
RANDOM_PAIRS = [(RNG.dirichlet(np.ones(n)), RNG.dirichlet(np.ones(n))) for n in (2, 3, 6)]
PAIRS = [
    (P, Q),
    (P, P),
    *RANDOM_PAIRS,
    (np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.25, 0.75])),
    (np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.75, 0.0])),  # the last token is never sampled
    (np.array([0.0, 1.0]), np.array([1.0, 0.0])),
]

# ---------------------------------------------------------------- found and expected


def require(condition, problem):
    """Raise WrongAnswer(problem) unless the condition is true."""
    if not condition:
        raise WrongAnswer(problem)


def require_same(found, expected, label):
    """Raise WrongAnswer, which names both values, unless the two are equal. label: what the values
    are, in words
    """
    require(found == expected, f"{label}: {found}, expected {expected}")


def require_close(found, expected, label):
    """Raise WrongAnswer unless `found` has the numbers of `expected`, up to 1e-12, and its shape.

    found: what the answer returned, of any type. expected: a number or an array
    label: what the numbers are, in words
    """
    found = to_array(found, f"{label}: {found!r}, expected numbers")
    require_same(np.shape(found), np.shape(expected), f"the shape of {label}")
    error = np.max(abs(np.subtract(found, expected)))
    yours, right = format_numbers(found), format_numbers(expected)
    hidden_error = f", which differs by {error:.1g}" if yours == right else ""
    require(error <= 1e-12, f"{label}: {yours}, expected {right}{hidden_error}")


def format_numbers(numbers):
    """Format a number or an array with four digits: "0.3333" or "[0.5, 0.3333]"."""
    return f"{numbers:.4g}" if np.ndim(numbers) == 0 else format_probs(numbers)


def require_result(answer, expected, *arguments):
    """Call answer(*arguments). Raises WrongAnswer unless the result is `expected` (a number or an
    array) up to rounding, and the arguments are unchanged afterwards.
    """
    names = inspect.signature(answer).parameters
    with np.printoptions(precision=10, suppress=True, linewidth=1000):
        values = ", ".join(f"{name}={value!r}" for name, value in zip(names, arguments))
    call = f"{answer.__name__}({values})"
    own_arguments = copy.deepcopy(arguments)
    require_close(answer(*own_arguments), expected, call)
    label = f"{call} changes its arguments. Afterwards they are"
    require_same(repr(own_arguments), repr(arguments), label)


def require_same_texts(texts, target, n_tokens, case, end=None, figures=""):
    """Let the target complete the texts up to n_tokens tokens or the end token. Raises WrongAnswer
    unless the complete texts have the target's distribution.

    texts: {text, a tuple of tokens: probability}
    target: a model, text -> [n_vocab]
    end: the token that ends a text, or None
    case: what is checked, in words; the message begins with it
    figures: how many drafts are kept, in words; added to the message
    """
    texts = complete_texts(texts, target, n_tokens, end)
    right = complete_texts({(): 1.0}, target, n_tokens, end)  # by the chain rule
    first_error = describe_first_error(texts, right)
    if first_error:
        distance = format_distance(total_variation(texts, right))
        raise WrongAnswer(
            f"{case}: a total variation distance of {distance}{figures}; {first_error}"
        )


def require_kept(n_kept, expected, case, figures):
    """Raise WrongAnswer if fewer drafts are kept than expected. n_kept, expected: mean numbers

    case, figures: what is checked, and how many drafts are kept, in words for the message; figures
        begins with the punctuation that joins it to what stands before
    """
    problem = f"{case}: the distribution is right{figures}; expected more"
    require(n_kept >= expected - 1e-9, problem)


# ---------------------------------------------------------------- models


def random_model(seed, n_vocab=3):
    """Make a model with random distributions: a function, sequence of ids -> [n_vocab]. The same
    seed and ids give the same distribution.
    """

    @lru_cache(None)
    def distribution_after(ids):  # a tuple -> [n_vocab]
        # a list [seed, *ids] would not do: NumPy pads it with zeros, as if with token 0
        seeds = np.random.SeedSequence(seed, spawn_key=ids)
        return np.random.default_rng(seeds).dirichlet(np.ones(n_vocab))

    return lambda ids: distribution_after(tuple(ids))


class ModelByLength:
    """A model whose distribution depends on the length of the text only: after n ids it is
    rows[n].
    """

    def __init__(self, *rows):
        self.rows = rows

    def __call__(self, ids):
        return np.array(self.rows[len(ids)])


def counting_model(ids):
    """A model that gives one token probability 1: after n tokens, token n % 3."""
    return np.eye(3)[len(ids) % 3]


class ModelArgument:
    """The model that an answer is given. It calls `rows` with a whole text, or `forward` with new
    ids and a cache.

    model: the model, a function, ids -> [n_vocab]
    n_prompt: the length of the prompt; a pass that ends before its last id is prefill
    n_passes: the number of passes, without prefill
    n_fed: a list, the number of ids in each call
    """

    def __init__(self, model, n_prompt=1):
        self.model, self.n_prompt, self.n_passes, self.n_fed = model, n_prompt, 0, []
        self.caches = []  # (cache, list of the ids that this model has read into it)

    def rows(self, ids):
        """Read a whole text. Returns [len(ids), n_vocab]: row i is the distribution of the token
        after ids[: i + 1]. Raises WrongAnswer if ids is empty or no list of whole numbers.
        """
        return self.forward(ids, SimpleNamespace(ids=[]))  # an empty cache

    def forward(self, new_ids, cache):
        """Read new ids after those of the cache, and append them to cache.ids. Returns
        [len(new_ids), n_vocab], the distribution after each new id. Records the call in n_fed and
        n_passes. Raises WrongAnswer if new_ids is empty or no list of whole numbers, and for a
        cache that this model has not filled.
        """
        new_ids = to_whole_numbers(new_ids, "a list of ids", "a model is fed")
        require(new_ids, "a model is fed no ids, expected at least one")
        self.n_fed.append(len(new_ids))
        is_cache = isinstance(getattr(cache, "ids", None), list)
        require(is_cache, f"a model is given the cache {cache!r}, expected one whose ids is a list")
        n_known = len(cache.ids)
        ids_read = self.ids_read_into(cache)
        require(
            cache.ids == ids_read[:n_known],
            f"a model is given a cache with the ids {cache.ids}, of which it has read "
            f"{ids_read}: expected a cache of its own for each model",
        )
        cache.ids += new_ids
        ids_read[:] = cache.ids
        if len(cache.ids) >= self.n_prompt:  # reading less than the prompt is free
            self.n_passes += 1
        lengths = range(n_known + 1, len(cache.ids) + 1)
        return np.array([self.model(cache.ids[:length]) for length in lengths])

    def ids_read_into(self, cache):
        """The list of the ids that this model has read into a cache: empty for a new cache. It is
        the record itself, no copy: `forward` updates it in place.
        """
        for known_cache, ids in self.caches:
            if known_cache is cache:
                return ids
        self.caches.append((cache, []))
        return self.caches[-1][1]


# ---------------------------------------------------------------- without chance


def check_temperature_2(answer):
    """Raise WrongAnswer unless temperature_2 is right: also for ties, logits of 1e4, and 0."""
    for logits in ([0.0, 1.0, -2.0], [1e4, 0.0, 1e4 + 1.0], [-3.0, -3.0]):
        for temperature in (0.5, 1.0, 3.0):
            expected = SamplingParams(temperature)(np.array([logits]))[0]
            require_result(answer, expected, np.array(logits), temperature)
    for temperature in (0.0, 1e-9):
        require_result(answer, [0, 1, 0], np.array([0.0, 2.0, 1.0]), temperature)
        require_result(answer, [0, 0, 1], np.array([1e4, 0.0, 1e4 + 1.0]), temperature)
    # of equals, the first; and more tokens
    require_result(answer, [0, 1, 0, 0], np.array([0.0, 2.0, 2.0, 1.0]), 0.0)


def check_acceptance_1(answer):
    """Raise WrongAnswer unless acceptance_1 is the overlap of p and q for all PAIRS."""
    for p, q in PAIRS:
        require_result(answer, 1 - abs(p - q).sum() / 2, p, q)


def check_residual_3(answer):
    """Raise WrongAnswer unless residual_3 is right: also for p = q, and for p nearly q."""
    require_result(answer, [1, 0, 0], P, Q)  # only token 0 has p > q
    require_result(answer, [0.75, 0.25, 0], np.array([0.5, 0.4, 0.1]), np.array([0.2, 0.3, 0.5]))
    require_result(answer, P, P, P)
    for p, q in RANDOM_PAIRS:
        lacking = np.maximum(p - q, 0)
        require_result(answer, lacking / lacking.sum(), p, q)
    # nearly the same is not the same
    p, q = np.array([0.5, 0.25, 0.25]), np.array([0.5, 0.25 + 2.0**-30, 0.25 - 2.0**-30])
    require_result(answer, [0, 0, 1], p, q)


def check_speedup_5(answer):
    """Raise WrongAnswer unless speedup_5 is right: also for a = 1, and for a free draft model."""
    for a, K, c, v in itertools.product(
        (0.0, 0.3, 0.8, 1.0), (1, 2, 9), (0.0, 0.1, 0.5), (1.0, 1.5, 3.0)
    ):
        # n drafts are accepted, then one more token comes
        n_tokens = sum((n + 1) * a**n * (1 - a) for n in range(K)) + (K + 1) * a**K
        require_result(answer, n_tokens / (K * c + v), a, K, c, v)


def check_nucleus_4(answer):
    """Raise WrongAnswer unless nucleus_4 is right: also for ties, and a sum of exactly top_p."""
    for p, top_p, nucleus in (
        ([0.1, 0.4, 0.3, 0.2], 0.3, [1]),
        ([0.1, 0.4, 0.3, 0.2], 0.65, [1, 2]),
        ([0.1, 0.4, 0.3, 0.2], 0.75, [1, 2, 3]),
        ([0.1, 0.4, 0.3, 0.2], 1.0, [0, 1, 2, 3]),
        ([0.25, 0.5, 0.25], 0.5, [1]),  # reached exactly
        ([0.25, 0.5, 0.25], 0.75, [0, 1]),
        ([0.25, 0.25, 0.25, 0.25], 0.5, [0, 1]),  # of equals, the lower ids
        ([0.1, 0.1, 0.1, 0.1, 0.2, 0.4], 0.85, [0, 1, 2, 4, 5]),
    ):
        kept = np.where(np.isin(np.arange(len(p)), nucleus), p, 0)
        require_result(answer, kept / kept.sum(), np.array(p), top_p)


def check_catch_up_8(answer):
    """Raise WrongAnswer unless catch_up_8 is right, whatever the cache holds before the call."""
    text = [5, 6, 7, 8, 9]
    for ids_in_cache, n_last, n_new in (
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
        case = f"with {ids_in_cache} in the cache and n_last = {n_last}"
        check_catch_up(answer, text, ids_in_cache, n_last, n_new, case)


def check_catch_up(answer, text, ids_in_cache, n_last, n_new, case):
    """Call catch_up_8 once. Raises WrongAnswer unless the text and the cache are right afterwards,
    and so are the calls of `forward` and the rows that it returns.

    text: the ids of a whole text. ids_in_cache: those that the cache holds before the call
    n_last: how many rows are asked for. n_new: how many ids `forward` has to be fed
    case: what is checked, in words for the message
    """

    def row_after(ids):
        """A row that shows which ids were read."""
        return ids + [0] * (10 - len(ids))  # rows of one length, above that of any text here

    model, cache, ids = ModelArgument(row_after), SimpleNamespace(ids=[]), list(text)
    if ids_in_cache:
        model.forward(ids_in_cache, cache)
    n_fed = model.n_fed = []  # forget the call that filled the cache
    rows = answer(ids, cache, n_last, model.forward)
    require_same(ids, text, f"{case}: the ids afterwards")
    require_same(cache.ids, text, f"{case}: in the cache in the end")
    require_same(n_fed, [n_new], f"{case}: how many ids each call of forward is fed")
    lengths = range(len(text) - n_last + 1, len(text) + 1)
    expected = [row_after(text[:length]) for length in lengths]
    require_same(np.array(rows).tolist(), expected, f"{case}: the rows of the last {n_last} ids")


# ---------------------------------------------------------------- a single token


def require_token_and_flag(result, n_vocab):
    """Convert what an answer for one token returned to (token, is_draft), an int and a bool. Raises
    WrongAnswer if the result is no such pair, or the token is not below n_vocab.
    """
    expected = f"(a token below {n_vocab}, whether it is a draft)"
    problem = f"it returns {result!r}, expected {expected}"
    require(isinstance(result, (tuple, list)) and len(result) == 2, problem)
    token, is_draft = result
    require(np.ndim(token) == 0, f"{problem}: sample one")
    require(np.ndim(is_draft) == 0, problem)
    (token,) = to_tokens([token], n_vocab, expected)
    return token, bool(is_draft)


def enumerate_single_token(answer, p, q, n_drafts=1):
    """Run an answer that chooses one token, such as one_token_6, through all its random choices.
    Returns (kept, replaced), [n_vocab] both: the probability that each token comes out as a draft
    (a token sampled from q), and that it comes out otherwise.

    answer: a function (p, q, sample, accept) -> (token, whether it is a draft)
    p, q: [n_vocab], distributions of the target and of the draft model
    Raises WrongAnswer if the answer never samples, if it calls a token a draft that was not sampled
    from q, or, for p and q with which drafts can be counted, if it samples more than n_drafts.
    """
    # Not every call of sample(q) need draw a draft: it may draw a replacement, if q is p or the
    # residual, or decide a coin, sample([r, 1 - r]), if q has two tokens. Then none are counted.
    q_is_used_twice = any(np.array_equal(row, q) for row in (p, residual(p, q)))
    only_drafts_come_from_q = len(p) > 2 and not q_is_used_twice

    def run(branches):
        """Call the answer with the choices of one branch, an Rng. Returns (token, is_draft)."""
        rng = CheckedRng(branches)
        result = answer(p.copy(), q.copy(), rng.sample, rng.accept)
        token, is_draft = require_token_and_flag(result, len(p))
        require(rng.samples, "`sample` is never called, expected a draft from `sample(q)`")
        drafts = [sampled for row, sampled in rng.samples if np.array_equal(row, q)]
        if only_drafts_come_from_q:
            problem = f"{len(drafts)} drafts are sampled from q, expected {n_drafts}"
            require(len(drafts) <= n_drafts, problem)
        if is_draft:
            expected = "a call of `sample(q)` before"
            if drafts:
                expected = f"what `sample(q)` returned: {drafts}"
            problem = f"token {token} is said to be the draft, expected {expected}"
            require(token in drafts, problem)
        return token, is_draft

    kept, replaced = np.zeros(len(p)), np.zeros(len(p))
    for (token, is_draft), probability in enumerate_branches(run).items():
        if is_draft:
            kept[token] += probability
        else:
            replaced[token] += probability
    return kept, replaced


def check_single_token(answer, p, q, min_kept, reason, n_drafts=1):
    """Raise WrongAnswer unless the token that an answer chooses has the distribution p, and is a
    draft, sampled from q, with probability min_kept or more. p, q: [n_vocab]

    answer: a function (p, q, sample, accept) -> (token, whether it is a draft)
    reason: why min_kept, in words that follow "0.7000 of the drafts are kept, 0.8000 " in a message
    n_drafts: how many tokens may be sampled from q
    """
    case = f"p = {format_probs(p)}, q = {format_probs(q)}"
    try:
        kept, replaced = enumerate_single_token(answer, p, q, n_drafts)
    except WrongAnswer as wrong:
        raise WrongAnswer(f"{case}: {wrong}") from None
    texts = {(token,): probability for token, probability in enumerate(kept + replaced)}
    figures = f"; {kept.sum():.4f} of the drafts are kept, {min_kept:.4f} {reason}"
    require_same_texts(texts, lambda text: p, 1, case, figures=figures)
    require_kept(kept.sum(), min_kept, case, figures)


def check_one_token_6(answer):
    """Raise WrongAnswer unless one_token_6 is exact, and keeps the draft with probability
    sum of min(p, q). Returns a sentence with an example.
    """
    for p, q in PAIRS:
        overlap = np.minimum(p, q).sum()
        check_single_token(answer, p, q, overlap, reason="can be, the sum of min(p, q)")
    overlap = np.minimum(P, Q).sum()
    example = f"for p = {format_probs(P)}, q = {format_probs(Q)}"
    return f"{example} it keeps {overlap:.2f} of the drafts, and no rule more"


def check_two_drafts_10(answer):
    """Raise WrongAnswer unless two_drafts_10 is exact, and keeps a draft as often as this rule
    does: verify the first draft against p; if it is rejected, the second against the residual.
    """
    for p, q in PAIRS:
        first = np.minimum(p, q).sum()
        second = np.minimum(residual(p, q), q).sum() if first < 1 else 0.0
        kept = first + (1 - first) * second
        check_single_token(answer, p, q, kept, reason="are by two tries in turn", n_drafts=2)


# ---------------------------------------------------------------- one round


def rounds_to_check():
    """Yield (target, draft model, K) of the rounds that check a rule, easy rounds first. The models
    are functions from a text, a sequence of ids, to a distribution [n_vocab].
    """
    bonus = np.array([0.2, 0.3, 0.5])
    # the rows of a ModelByLength: after no drafted token, after one, and so on
    yield ModelByLength(P, bonus), ModelByLength(Q), 1
    yield ModelByLength(P, bonus), ModelByLength(P), 1
    yield ModelByLength(P), ModelByLength(), 0
    # some tokens have no probability
    yield ModelByLength([0, 0.5, 0.5], bonus, P), ModelByLength(Q, [0.5, 0.5, 0]), 2
    # two tokens replace a rejected one; under the block rule their proportions depend on the first
    # drafted token
    target = ModelByLength(P, [0.5, 0.4, 0.1], bonus)
    yield target, ModelByLength([0.55, 0.3, 0.15], [0.2, 0.2, 0.6]), 2
    # certain, and right
    yield counting_model, counting_model, 2
    # more tokens, and more drafts
    yield random_model(3, n_vocab=5), random_model(4, n_vocab=5), 2
    yield random_model(5, n_vocab=2), random_model(6, n_vocab=2), 5
    yield random_model(1), random_model(2), 3


def describe_round(target, draft_model, K):
    """Describe a round in words (str), for a message: K, and the rows of p and q if they depend on
    the length of the text only. target, draft_model: functions of a text -> [n_vocab]
    """
    case = f"K = {K}" if K else "an empty draft"
    # without row K of p, that of the bonus
    if K and isinstance(target, ModelByLength):
        for name, model in (("p", target), ("q", draft_model)):
            case += f", {name} = " + ", ".join(format_probs(row) for row in model.rows[:K])
    return case


def is_row_of(rows, row):  # [n, n_vocab], [n_vocab] -> bool
    return any(np.array_equal(row, candidate) for candidate in rows)


def check_round(answer, block):
    """Raise WrongAnswer unless a rule for K drafted tokens is exact and keeps enough drafts.
    Returns a sentence with the number of drafts kept.

    answer: a function (draft, p, q, sample, accept) -> (how many are accepted, the next token)
    block: whether it has to keep as many drafts as block verification, or as the token rule
    """
    right_rule = "block verification" if block else "the right rule"

    def rule(draft, p, q, rng):
        """Call the answer as the loop calls sampling.verify. Returns (n_accepted, token). Raises
        WrongAnswer if the answer samples from q. rng: a CheckedRng, with `samples` of the round
        """
        # copies, because a rule may change what it is given
        result = answer(list(draft), p.copy(), q.copy(), rng.sample, rng.accept)
        # The draft was sampled first, one token from each row of q. The answer sampled the rest.
        for row, _ in rng.samples[len(draft) :]:
            require(
                is_row_of(p, row) or not is_row_of(q, row),
                f"it samples from q = {format_probs(row)}, expected the draft that came from "
                "there, or a replacement from elsewhere",
            )
        return result

    for target, draft_model, K in rounds_to_check():
        expected = expected_kept(target, draft_model, K, block)
        texts, n_kept = enumerate_round(rule, target, draft_model, K)
        case = describe_round(target, draft_model, K)
        figures = f"; on average {n_kept:.4f} drafts are kept, by {right_rule} {expected:.4f}"
        require_same_texts(texts, target, K + 1, case, figures=figures)
        require_kept(n_kept, expected, case, figures)
    # the sentence is about the last round: its target, draft model, K and n_kept
    max_kept = expected_kept(target, draft_model, K, block=True)
    keeps = f"of {K} drafts it keeps {n_kept:.2f} on average"
    return f"{keeps}; the most that an exact round can keep is {max_kept:.2f}"


def check_verify_7(answer):
    """Raise WrongAnswer unless verify_7 is exact and keeps as many drafts as the token rule."""
    return check_round(answer, block=False)


def check_block_11(answer):
    """Raise WrongAnswer unless block_11 is exact and keeps as many drafts as verify_block."""
    return check_round(answer, block=True)


# ---------------------------------------------------------------- loops


def enumerate_loop(answer, with_cache, models, ids, n_tokens, K, end=None):
    """Run a loop, such as speculative_9, through all its random choices. Returns
    ({text, a tuple of the new tokens: probability}, the mean number of passes of the target).

    answer: a function (target, draft model, ids, n_tokens, K, sample, accept, end) -> new tokens
    with_cache: whether the answer calls the models with a cache, as cached_14 does
    models: (target, draft model), functions of a text -> [n_vocab]
    Raises WrongAnswer if the answer changes ids, or returns no list of tokens.
    """

    def run(branches):
        """Run the loop with the choices of one branch, an Rng. Returns (text, target passes)."""
        arguments = [ModelArgument(model, len(ids)) for model in models]
        target, draft_model = [
            argument.forward if with_cache else argument.rows for argument in arguments
        ]
        rng, own_ids = CheckedRng(branches), list(ids)
        result = answer(target, draft_model, own_ids, n_tokens, K, rng.sample, rng.accept, end)
        require(isinstance(result, list), f"it returns {result!r}, expected a list of tokens")
        text = to_tokens(result, n_vocab, f"a list of tokens, each below {n_vocab}")
        require_same(own_ids, list(ids), "the ids that it was given, afterwards")
        return tuple(text), arguments[0].n_passes

    n_vocab, texts, mean_passes = len(models[0](ids)), defaultdict(float), 0.0
    for (text, n_passes), probability in enumerate_branches(run).items():
        texts[text] += probability
        mean_passes += probability * n_passes
    return texts, mean_passes


def check_loop(answer, with_cache):
    """Raise WrongAnswer unless the texts of a loop have the target's distribution, and the loop
    needs no more passes of the target than the solution.

    answer: speculative_9 or cached_14. with_cache: whether it calls the models with a cache
    """
    solution = solutions.cached_14 if with_cache else solutions.speculative_9
    three_tokens = random_model(1), random_model(2)
    five_tokens = random_model(3, 5), random_model(4, 5)
    # the prompt may hold the end, and the end may be token 0
    for models, ids, n_tokens, K, end in (
        (three_tokens, [0], 1, 2, None),
        (three_tokens, [0], 3, 1, None),
        (three_tokens, [2, 0], 2, 3, 2),
        (three_tokens, [0], 2, 2, 0),
        (five_tokens, [4, 3, 4], 2, 2, 4),
    ):
        case = f"{n_tokens} tokens after {ids} with K = {K} and the end token {end}"
        texts, n_passes = enumerate_loop(answer, with_cache, models, ids, n_tokens, K, end)
        lengths = {len(text) for text in texts if end not in text}
        require(lengths <= {n_tokens}, f"{case}: of {lengths} tokens, expected {n_tokens}")
        target = models[0]
        require_same_texts(texts, lambda text: target([*ids, *text]), n_tokens, case, end)
        _, max_passes = enumerate_loop(solution, with_cache, models, ids, n_tokens, K, end)
        require(
            n_passes <= max_passes + 1e-9,
            f"{case}: {n_passes:.4f} passes of the target on average, expected {max_passes:.4f} "
            "or fewer: one a round, with K drafts where there is room",
        )
    # every draft is accepted
    models = counting_model, counting_model
    for n_tokens, K in ((4, 1), (7, 2), (8, 3), (13, 6)):
        texts, n_passes = enumerate_loop(answer, with_cache, models, [0], n_tokens, K)
        case = f"{n_tokens} tokens with K = {K}, where the draft model is the target"
        text = tuple(n % 3 for n in range(1, n_tokens + 1))
        require_same(texts, {text: 1.0}, f"{case}: the text")
        n_rounds = -(-n_tokens // (K + 1))  # rounded up
        require_same(n_passes, n_rounds, f"{case}: passes of the target")


def check_speculative_9(answer):
    """Raise WrongAnswer unless speculative_9 is exact, with as few passes as the solution."""
    check_loop(answer, with_cache=False)


def check_cached_14(answer):
    """Raise WrongAnswer unless cached_14 is exact, with as few passes and tokens as needed."""
    check_loop(answer, with_cache=True)
    # counting_model depends on the length only: this is right one place later
    always_wrong = lambda ids: counting_model([*ids, 0])
    for drafts, model in (("right", counting_model), ("wrong", always_wrong)):
        check_n_read(answer, model, f"every draft {drafts}")


def check_n_read(answer, model, drafts):
    """Raise WrongAnswer if cached_14 lets a model read more tokens than a loop with caches needs.

    answer: the function cached_14, as in mine.py; model: the draft model, text -> [n_vocab]. The
        target is counting_model.
    drafts: how good the drafts are, in words for the message
    """
    ids, n_tokens, K = [0, 1, 2, 0], 7, 2
    target, draft_model = ModelArgument(counting_model, n_prompt=len(ids)), ModelArgument(model)
    # nothing is left to chance: the distributions are one-hot, and ratios 0 or 1
    sample, accept = lambda p: int(p.argmax()), lambda ratio: ratio >= 1
    answer(target.forward, draft_model.forward, ids, n_tokens, K, sample, accept, None)
    n_rounds = target.n_passes  # one pass each; prefill does not count
    for role, argument, first_round in (
        ("target", target, len(ids) + K),
        ("draft model", draft_model, len(ids) + K - 1),  # it does not read its last draft
    ):
        max_read = first_round + (n_rounds - 1) * (K + 1)
        require(
            sum(argument.n_fed) <= max_read,
            f"{n_tokens} tokens with K = {K}, {drafts}: the {role} reads "
            f"{sum(argument.n_fed)} tokens, expected {max_read} at most",
        )


def expected_tree_tokens(target, draft_model):
    """The mean number of tokens of a right round after the text [0], a float. The round drafts two
    siblings and a child below each. The models are functions of a text -> [n_vocab].
    """
    p, q = target([0]), draft_model([0])
    accepted = np.minimum(p, q)  # for each token, the probability that it is an accepted sibling
    for x in np.flatnonzero(q > p):
        # x was the first sibling and was rejected, with probability q(x) - p(x)
        without_x = np.where(np.arange(len(q)) == x, 0, q)
        if without_x.any():
            second = np.minimum(residual(p, q), without_x / without_x.sum())
            accepted += (q[x] - p[x]) * second
    n_tokens = 1.0  # the target's own
    for x, probability in enumerate(accepted):
        child = np.minimum(target([0, x]), draft_model([0, x])).sum()
        n_tokens += probability * (1 + child)
    return n_tokens


def enumerate_siblings(answer, target, draft_model):
    """Run one round of `answer`, a siblings_12, after the text [0] through all its random choices.
    Returns {the tokens of the round, a tuple: probability}.

    target, draft_model: functions of a text -> [n_vocab]
    """

    def run(branches):
        """Run the round with the choices of one branch, an Rng. Returns its tokens, a tuple."""
        rng, ids = CheckedRng(branches), [0]
        models = ModelArgument(target).rows, ModelArgument(draft_model).rows
        result = answer(*models, ids, rng.sample, rng.accept)
        require_same(ids, [0], "the ids that it was given, afterwards")
        return tuple(to_tokens(result, n_vocab, f"a list of tokens, each below {n_vocab}"))

    n_vocab = len(target([0]))
    return enumerate_branches(run)


def check_siblings_12(answer):
    """Raise WrongAnswer unless siblings_12 is exact, and its rounds have as many tokens on average
    as those of expected_tree_tokens.
    """
    for target, draft_model in (
        (random_model(1), random_model(11)),
        (random_model(2), random_model(12)),
        (random_model(3), random_model(13)),
        # a draft model that is sure has no second sibling
        (random_model(1), counting_model),
        (counting_model, random_model(1)),
        (counting_model, counting_model),
        (random_model(3, 5), random_model(4, 5)),
    ):
        texts = enumerate_siblings(answer, target, draft_model)
        after_prompt = lambda text: target([0, *text])
        # the longest round has three tokens
        require_same_texts(texts, after_prompt, n_tokens=3, case="a round and what follows")
        n_tokens = sum(probability * len(text) for text, probability in texts.items())
        expected = expected_tree_tokens(target, draft_model)
        require_close(n_tokens, expected, "the mean number of tokens")


# ---------------------------------------------------------------- a drafter


def propose_checked(drafter, ids, k, case):
    """Call prefill of a drafter, which drafter_13 returned, for a text, a list of ids, and propose
    for up to k tokens after it. Returns the proposal: (tokens, rows of q), both tuples.

    Raises WrongAnswer if the proposal has another form. case: what is checked, in words for the
    message
    """
    n_vocab, text = drafter.n_vocab, list(ids)
    # as in the loop, without the last token; the cache is None, because there is no target
    with_limits(drafter.prefill, must_return=False)(text[:-1], None)
    result = with_limits(drafter.propose)(text, k)
    require_same(text, ids, f"{case}: the ids afterwards")
    form = "expected a list of tokens and an array"
    is_pair = isinstance(result, (tuple, list)) and len(result) == 2
    require(is_pair, f"{case}: it returns {result!r}, {form}")
    draft, q = result
    require(
        isinstance(draft, list) and isinstance(q, np.ndarray),
        f"{case}: it returns {type(draft).__name__} and {type(q).__name__}, {form}",
    )
    draft = to_tokens(draft, n_vocab, f"whole numbers from 0 to {n_vocab - 1}")
    q = to_array(q, f"{case}: q is {q!r}, expected an array of numbers")
    require(len(draft) <= k, f"{case}: it drafts {draft}, expected {k} tokens at most")
    require_same(q.shape, (len(draft), n_vocab), f"{case}: the shape of q")
    for row in q:
        require(
            min(row) >= 0 and abs(sum(row) - 1) < 1e-9,
            f"{case}: a row of q is {format_probs(row)}, expected probabilities that sum to 1",
        )
    return tuple(draft), tuple(map(tuple, q.tolist()))


def texts_to_draft_after():
    """Yield (n_vocab, ids, a tuple of k) of the calls that check a drafter: after the text `ids`,
    it is asked for up to k tokens, once for each k.
    """
    for n_ids in (1, 2, 3):
        for ids in itertools.product(range(3), repeat=n_ids):
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


def enumerate_drafts(answer, n_vocab, texts, k, case):
    """Let a new drafter propose up to k tokens for each text in turn, through all its random
    choices. Returns what it proposes for the last text: {(draft, rows of q), both tuples:
    probability}.

    answer: drafter_13, a function (n_vocab, sample) -> drafter. texts: a list of lists of ids
    case: what is checked, in words for the message
    """

    def run(branches):
        """Draft with the choices of one branch, an Rng. Returns the last (draft, rows of q)."""
        drafter = answer(n_vocab, CheckedRng(branches).sample)
        for part in ("n_vocab", "prefill", "propose"):
            require(
                hasattr(drafter, part),
                f"it returns {drafter!r}, expected an object with n_vocab, prefill(ids, "
                "target_cache) and propose(ids, k)",
            )
        require_same(drafter.n_vocab, n_vocab, "n_vocab")
        for text in texts:
            proposal = propose_checked(drafter, text, k, case)
        return proposal

    return enumerate_branches(run)


def check_drafter_13(answer):
    """Raise WrongAnswer unless drafter_13 drafts after some text, q is what its tokens were sampled
    from, and prefill makes it forget the text before.
    """
    drafts_ever = False
    for n_vocab, ids, ks in texts_to_draft_after():
        for k in ks:
            case = f"{n_vocab} tokens, after {ids} with k = {k}"
            outcomes = enumerate_drafts(answer, n_vocab, [ids], k, case)
            for (draft, q), probability in outcomes.items():
                if draft:
                    drafts_ever = True
                # q has to be what a token was sampled from, and one-hot if it was not sampled
                stated = np.prod([row[token] for token, row in zip(draft, q)])
                require(
                    abs(probability - stated) < 1e-9,
                    f"{case}: it drafts {list(draft)} with probability {probability:.4g}, and q "
                    f"says {stated:.4g}; expected the same",
                )
            if k == 1:  # one k is enough
                # prefill begins a new text, so an earlier text must not matter
                text_before = [2, 1, 0, 2, 0, 1, 2]
                later_outcomes = enumerate_drafts(answer, n_vocab, [text_before, ids], k, case)
                require(
                    total_variation(later_outcomes, outcomes) < 1e-9,
                    f"{case}: it drafts something else once it has read another text, expected "
                    "the same, because prefill begins a new text",
                )
    require(drafts_ever, "it never drafts anything, expected drafts after some texts")


# ---------------------------------------------------------------- all of them, in their order


def limited_check(check):
    """Limit the calls and seconds of the answer in a check, a function of the answer. Returns a
    check that also raises WrongAnswer for an answer that does not end.
    """
    name = check.__name__.removeprefix("check_")
    return lambda answer: check(with_limits(answer, name))


CHECKS = {
    "temperature_2": limited_check(check_temperature_2),
    "acceptance_1": limited_check(check_acceptance_1),
    "residual_3": limited_check(check_residual_3),
    "one_token_6": limited_check(check_one_token_6),
    "verify_7": limited_check(check_verify_7),
    "speedup_5": limited_check(check_speedup_5),
    "speculative_9": limited_check(check_speculative_9),
    "catch_up_8": limited_check(check_catch_up_8),
    "cached_14": limited_check(check_cached_14),
    "two_drafts_10": limited_check(check_two_drafts_10),
    "siblings_12": limited_check(check_siblings_12),
    "block_11": limited_check(check_block_11),
    "drafter_13": limited_check(check_drafter_13),
    "nucleus_4": limited_check(check_nucleus_4),
}
