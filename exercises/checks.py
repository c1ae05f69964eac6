"""The checks of the exercises: CHECKS[name](answer) raises Wrong, which says what is wrong, or
returns what there is to know of a right answer.

No check is statistical: a function that makes random choices is run through every branch of them
(proving/verdict.py).
"""

import copy
import inspect
import itertools
from collections import defaultdict
from functools import lru_cache
from types import SimpleNamespace

import numpy as np

from exercises import solutions
from proving.enumeration import every_branch, total_variation
from proving.verdict import (
    Choices,
    Wrong,
    can_be_kept,
    completed,
    first_wrong,
    one_round,
    shown,
    whole_numbers,
)
from sampling import Filter, residual

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
    if not right:
        raise Wrong(problem)


def same(found, expected, what):
    require(found == expected, f"{what}: {found}, expected {expected}")


def close(found, expected, what):
    """The same numbers but for rounding."""
    same(np.shape(found), np.shape(expected), f"the shape of {what}")
    off = np.max(abs(np.subtract(found, expected)))
    yours, right = (f"{one:.4g}" if np.ndim(one) == 0 else shown(one) for one in (found, expected))
    nearly = f", which differs by {off:.1g}" if yours == right else ""
    require(off <= 1e-12, f"{what}: {yours}, expected {right}{nearly}")


def returns(answer, expected, *arguments):
    """What a function without chance returns; its arguments stay as they are."""
    names = inspect.signature(answer).parameters
    with np.printoptions(precision=10):
        values = ", ".join(f"{name}={value!r}" for name, value in zip(names, arguments))
    what = f"{answer.__name__}({values})"
    given = copy.deepcopy(arguments)
    close(answer(*given), expected, what)
    same(repr(given), repr(arguments), f"{what} changes its arguments. Afterwards they are")


def same_texts(texts, target, n_tokens, what, end=None, kept=""):
    """Whether texts, {text: probability}, have the target's distribution once it has completed
    them, up to n_tokens or the end token. target(text): the distribution of the token after it.
    kept: what else there is to say of wrong ones
    """
    texts = completed(texts, target, n_tokens, end)
    right = completed({(): 1.0}, target, n_tokens, end)  # by the chain rule
    if place := first_wrong(texts, right):
        far = total_variation(texts, right)
        raise Wrong(f"{what}: a total variation distance of {far:.4f}{kept}; {place}")


def enough_kept(kept, expected, what, figures):
    require(kept >= expected - 1e-9, f"{what}: the distribution is right{figures}; expected more")


def outcomes_of(answer, *arguments):
    """{what the answer returns, as a tuple: probability}, by every branch of its choices."""

    def run(branches):
        chance = Choices(branches)
        result = answer(*arguments, chance.sample, chance.toss)
        return tuple(whole_numbers(result, "whole numbers"))

    return every_branch(run)


# ---------------------------------------------------------------- models


def table(seed):
    """A model of three tokens: a distribution for every text."""

    @lru_cache(None)
    def of(ids):
        return np.random.default_rng([seed, *ids]).dirichlet(np.ones(3))

    return lambda ids: of(tuple(ids))


def constant(*rows):
    """A model whose distribution depends on how long the text is, and on nothing else."""
    return lambda ids: np.array(rows[len(ids)])


def counting(ids):
    """A model that is sure of its next token: 0, 1, 2, 0, ..."""
    return np.eye(3)[len(ids) % 3]


def rows_of(model):
    """The model as the exercises have it: ids -> a row for each, of the token that follows it."""
    return lambda ids: np.array([model(ids[: n + 1]) for n in range(len(ids))])


# ---------------------------------------------------------------- without chance


def check_temperature_2(answer):
    for logits in ([0.0, 1.0, -2.0], [1e4, 0.0, 1e4 + 1.0], [-3.0, -3.0]):
        for temperature in (0.5, 1.0, 3.0):
            expected = Filter(temperature)(np.array([logits]))[0]
            returns(answer, expected, np.array(logits), temperature)
    for temperature in (0.0, 1e-9):
        returns(answer, [0, 1, 0], np.array([0.0, 2.0, 1.0]), temperature)
        returns(answer, [0, 0, 1], np.array([1e4, 0.0, 1e4 + 1.0]), temperature)
    returns(answer, [0, 1, 0], np.array([0.0, 2.0, 2.0]), 0.0)  # of equals, the first


def check_acceptance_1(answer):
    for p, q in PAIRS:
        returns(answer, 1 - abs(p - q).sum() / 2, p, q)


def check_residual_3(answer):
    returns(answer, [1, 0, 0], P, Q)
    returns(answer, [0.75, 0.25, 0], np.array([0.5, 0.4, 0.1]), np.array([0.2, 0.3, 0.5]))
    returns(answer, P, P, P)
    # nearly the same is not the same
    p, q = np.array([0.5, 0.25, 0.25]), np.array([0.5, 0.25 + 2.0**-30, 0.25 - 2.0**-30])
    returns(answer, [0, 0, 1], p, q)


def check_speedup_5(answer):
    settings = (0.0, 0.3, 0.8, 1.0), (1, 2, 5), (0.0, 0.1, 0.5), (1.0, 1.5, 3.0)
    for a, K, c, v in itertools.product(*settings):
        # n accepted, then one more token
        tokens = sum((n + 1) * a**n * (1 - a) for n in range(K)) + (K + 1) * a**K
        returns(answer, tokens / (K * c + v), a, K, c, v)


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
        returns(answer, expected / expected.sum(), np.array(p), top_p)


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
            calls.append(len(new))
            cache.ids += new
            ends = range(len(cache.ids) - len(new) + 1, len(cache.ids) + 1)
            return np.array([row(cache.ids[:end]) for end in ends])

        cache, ids = SimpleNamespace(ids=list(read)), list(text)
        rows = answer(ids, cache, n_last, forward)
        what = f"with {read} in the cache and n_last = {n_last}"
        same(ids, text, f"{what}: the ids afterwards")
        same(cache.ids, text, f"{what}: in the cache in the end")
        same(calls, [n_fed], f"{what}: how many ids each call of forward is fed")
        expected = [row(text[:end]) for end in range(6 - n_last, 6)]
        same(np.array(rows).tolist(), expected, f"{what}: the rows of the last {n_last} ids")


# ---------------------------------------------------------------- one place


def result_of(result, n_vocab):
    """(the token, whether it is a draft)"""
    expected = f"(a token below {n_vocab}, whether it is a draft)"
    pair = isinstance(result, (tuple, list)) and len(result) == 2
    require(pair, f"it returns {result!r}, expected {expected}")
    token, is_draft = result
    require(np.ndim(token) == 0, f"it returns {result!r}, expected {expected}: sample one")
    (token,) = whole_numbers([token], expected)
    require(0 <= token < n_vocab, f"it returns {result!r}, expected {expected}")
    return token, bool(is_draft)


def one_place(answer, p, q, n_drafts=1):
    """({(token,): probability}, how often it is a draft), of a function that samples n_drafts from
    q at most. A draft is what was sampled from q.
    """

    def run(branches):
        chance = Choices(branches)
        token, is_draft = result_of(answer(p.copy(), q.copy(), chance.sample, chance.toss), len(p))
        require(chance.samples, "`sample` is never called, expected a draft from `sample(q)`")
        drafts = [x for row, x in chance.samples if np.array_equal(row, q)]
        # what replaces them may be sampled from the same numbers
        last = [row for row, _ in chance.samples[-1:]]
        most = n_drafts + (not is_draft and any(np.array_equal(row, q) for row in last))
        require(
            len(drafts) <= most, f"{len(drafts)} drafts are sampled from q, expected {n_drafts}"
        )
        found = f"what `sample(q)` returned: {drafts}" if drafts else "a call of `sample(q)` before"
        require(
            not is_draft or token in drafts,
            f"token {token} is said to be the draft, expected {found}",
        )
        return token, is_draft

    outcomes = every_branch(run)
    kept = sum(mass for (_, is_draft), mass in outcomes.items() if is_draft)
    texts = {(x,): outcomes.get((x, True), 0) + outcomes.get((x, False), 0) for x, _ in outcomes}
    return texts, kept


def kept_at(answer, p, q, least, why, n_drafts=1):
    """Whether the token is right, and a draft kept often enough."""
    what = f"p = {shown(p)}, q = {shown(q)}"
    try:
        texts, kept = one_place(answer, p, q, n_drafts)
    except Wrong as wrong:
        raise Wrong(f"{what}: {wrong}") from None
    figures = f"; {kept:.4f} of the drafts are kept, {least:.4f} {why}"
    same_texts(texts, lambda text: p, 1, what, kept=figures)
    enough_kept(kept, least, what, figures)


def check_one_token_6(answer):
    for p, q in PAIRS:
        most = np.minimum(p, q).sum()
        kept_at(answer, p, q, most, "can be, the sum of min(p, q)")
    most = np.minimum(P, Q).sum()
    return f"for p = {shown(P)}, q = {shown(Q)} it keeps {most:.2f} of the drafts, and no rule more"


def check_two_drafts_10(answer):
    for p, q in PAIRS:
        once = np.minimum(p, q).sum()
        second = np.minimum(residual(p, q), q).sum() if once < 1 else 0.0
        kept_at(answer, p, q, once + (1 - once) * second, "are by two tries in turn", 2)


# ---------------------------------------------------------------- one round


def rounds_to_check():
    """(target, draft model, K), easy ones first."""
    bonus = np.array([0.2, 0.3, 0.5])
    yield constant(P, bonus), constant(Q), 1
    yield constant(P, bonus), constant(P), 1
    yield constant(P), constant(), 0
    # some tokens have no probability
    yield constant([0, 0.5, 0.5], bonus, P), constant(Q, [0.5, 0.5, 0]), 2
    # two tokens replace a rejected one, in proportions that depend on the token before
    yield constant(P, [0.5, 0.4, 0.1], bonus), constant([0.55, 0.3, 0.15], [0.2, 0.2, 0.6]), 2
    # certain, and right
    yield counting, counting, 2
    yield table(1), table(2), 3


def check_rule(answer, block):
    """Its distribution, and how many drafts it keeps."""
    name = "block verification" if block else "the right rule"

    def rule(draft, q, p, chance):
        result = answer(draft, q, p, chance.sample, chance.toss)
        for row, _ in chance.samples[len(draft) :]:
            is_in = lambda rows: any(np.array_equal(row, one) for one in rows)
            require(
                is_in(p) or not is_in(q),
                f"it samples from q = {shown(row)}, expected the draft that came from there, or a "
                "replacement from elsewhere",
            )
        return result

    for target, draft_model, K in rounds_to_check():
        expected = can_be_kept(target, draft_model, K, block)
        texts, kept = one_round(rule, target, draft_model, K)
        what = f"K = {K}" if K else "an empty draft"
        if 1 <= K <= 2:  # these models know no text, only its length
            for row, model in (("p", target), ("q", draft_model)):
                what += f", {row} = " + ", ".join(shown(model((0,) * i)) for i in range(K))
        figures = f"; on average {kept:.4f} drafts are kept, by {name} {expected:.4f}"
        same_texts(texts, target, K + 1, what, kept=figures)
        enough_kept(kept, expected, what, figures)
    most = can_be_kept(target, draft_model, K, block=True)
    keeps = f"of {K} drafts it keeps {kept:.2f} on average"
    return f"{keeps}; the most that an exact round can keep is {most:.2f}"


def check_verify_7(answer):
    return check_rule(answer, block=False)


def check_block_11(answer):
    return check_rule(answer, block=True)


# ---------------------------------------------------------------- loops


class Counted:
    """A model in both forms that the exercises use, and what it had to do."""

    def __init__(self, model):
        self.model, self.n_passes, self.n_read = model, 0, 0

    def rows(self, ids):
        """A row for each of the ids."""
        return self.forward(ids, SimpleNamespace(ids=[]))

    def forward(self, new_ids, cache):
        """A row for each new id."""
        require(len(new_ids), "a model is fed no ids, expected at least one")
        self.n_passes += 1
        self.n_read += len(new_ids)
        n_known = len(cache.ids)
        cache.ids += new_ids
        return np.array([self.model(cache.ids[: n + 1]) for n in range(n_known, len(cache.ids))])


def texts_of(answer, form, models, ids, n_tokens, K, end=None):
    """({text: probability}, the mean number of passes of the target) of a loop."""
    texts, n_passes = defaultdict(float), 0.0

    def run(branches):
        target, draft_model = map(Counted, models)
        chance = Choices(branches)
        given = list(ids)
        how = given, n_tokens, K, chance.sample, chance.toss, end
        text = whole_numbers(answer(form(target), form(draft_model), *how), "a list of tokens")
        same(given, list(ids), "the ids that it was given, afterwards")
        return tuple(text), target.n_passes

    for (text, passes), mass in every_branch(run).items():
        texts[text] += mass
        n_passes += mass * passes
    return texts, n_passes


def check_loop(answer, form, right):
    """Texts and passes of a loop. form: Counted.rows or Counted.forward; right: another answer."""
    models = table(1), table(2)
    # the prompt may hold the end, and the end may be token 0
    for ids, n_tokens, K, end in (
        ([0], 1, 2, None),
        ([0], 3, 1, None),
        ([2, 0], 2, 3, 2),
        ([0], 2, 2, 0),
    ):
        what = f"{n_tokens} tokens after {ids} with K = {K} and the end token {end}"
        texts, n_passes = texts_of(answer, form, models, ids, n_tokens, K, end)
        lengths = {len(text) for text in texts if end not in text}
        require(lengths <= {n_tokens}, f"{what}: of {lengths} tokens, expected {n_tokens}")
        same_texts(texts, lambda text: models[0]([*ids, *text]), n_tokens, what, end)
        _, most = texts_of(right, form, models, ids, n_tokens, K, end)
        few = f"expected {most:.4f} or fewer: one a round, with K drafts where there is room"
        require(
            n_passes <= most + 1e-9,
            f"{what}: {n_passes:.4f} passes of the target on average, {few}",
        )
    for n_tokens, K in ((4, 1), (7, 2), (8, 3)):
        texts, n_passes = texts_of(answer, form, (counting, counting), [0], n_tokens, K)
        what = f"{n_tokens} tokens with K = {K}, where the draft model is the target"
        same(texts, {tuple(n % 3 for n in range(1, n_tokens + 1)): 1.0}, f"{what}: the text")
        same(n_passes, -(-n_tokens // (K + 1)), f"{what}: passes of the target")


def check_speculative_9(answer):
    check_loop(answer, lambda model: model.rows, solutions.speculative_9)


def check_cached_14(answer):
    check_loop(answer, lambda model: model.forward, solutions.cached_14)
    ids, n_tokens, K = [0, 1, 2, 0], 7, 2
    for what, model in (("right", counting), ("wrong", lambda ids: counting([*ids, 0]))):
        target, draft_model = Counted(counting), Counted(model)
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
    accepted = np.minimum(p, q)
    rest = residual(p, q)
    for x in np.flatnonzero(q > p):
        # x was the first sibling and was rejected
        without_x = np.where(np.arange(3) == x, 0, q)
        if without_x.any():
            accepted += (q[x] - p[x]) * np.minimum(rest, without_x / without_x.sum())
    below = [np.minimum(target([0, x]), draft_model([0, x])).sum() for x in range(3)]
    return 1 + sum(accepted * (1 + np.array(below)))


def check_siblings_12(answer):
    pairs = [(table(seed), table(seed + 10)) for seed in (1, 2, 3)]
    # a draft model that is sure has no second sibling
    pairs += [(table(1), counting), (counting, table(1)), (counting, counting)]
    for target, draft_model in pairs:
        texts = outcomes_of(answer, rows_of(target), rows_of(draft_model), [0])
        same_texts(texts, lambda text: target([0, *text]), 3, "a round and what follows")
        n_tokens = sum(mass * len(text) for text, mass in texts.items())
        close(n_tokens, expected_tree(target, draft_model), "the mean number of tokens")


# ---------------------------------------------------------------- a drafter


def proposed(drafter, ids, k, what):
    """What the drafter proposes after these ids, (tokens, rows of q), after a check of its form."""
    n_vocab, text = drafter.n_vocab, list(ids)
    drafter.prefill(text[:-1])
    draft, q = drafter.propose(text, k)
    same(text, ids, f"{what}: the ids afterwards")
    form = "expected a list of tokens and an array"
    require(
        isinstance(draft, list) and isinstance(q, np.ndarray),
        f"{what}: it returns {type(draft).__name__} and {type(q).__name__}, {form}",
    )
    draft = whole_numbers(draft, "whole numbers")
    require(
        all(0 <= token < n_vocab for token in draft),
        f"{what}: it drafts {draft}, expected tokens from 0 to {n_vocab - 1}",
    )
    require(len(draft) <= k, f"{what}: it drafts {draft}, expected {k} tokens at most")
    same(q.shape, (len(draft), n_vocab), f"{what}: the shape of q")
    for row in q:
        right = min(row) >= 0 and abs(sum(row) - 1) < 1e-9
        require(right, f"{what}: a row of q is {shown(row)}, expected probabilities that sum to 1")
    return tuple(draft), tuple(map(tuple, q.tolist()))


def check_drafter_13(answer):
    n_vocab, ever = 4, False
    short = [list(ids) for n in (1, 2, 3) for ids in itertools.product(range(3), repeat=n)]
    long = [
        [0, 1, 2, 0, 3, 0],
        [0, 1, 1, 2, 1, 0, 1],
        [3, 0, 1] * 4,
        [2, 0, 2, 1, 2, 3] * 3,
        [0, 1, 2] * 3 + [3],
    ]
    for ids in short + long:
        for k in (0, 1, 3):
            what = f"after {ids} with k = {k}"

            def propose(branches, *texts_before):
                drafter = answer(n_vocab, Choices(branches).sample)
                same(drafter.n_vocab, n_vocab, "n_vocab")
                for text in texts_before:
                    proposed(drafter, text, k, what)
                return proposed(drafter, ids, k, what)

            outcomes = every_branch(propose)
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
                again = every_branch(lambda branches: propose(branches, [2, 1, 0, 2, 0, 1, 2]))
                require(
                    total_variation(again, outcomes) < 1e-9,
                    f"{what}: it drafts something else once it has read another text, expected "
                    "the same, as prefill begins a new text",
                )
    require(ever, "it never drafts anything, expected drafts after some texts")


# ---------------------------------------------------------------- all of them, in their order

NAMES = """
temperature_2 acceptance_1 residual_3 one_token_6 verify_7 speedup_5 speculative_9 catch_up_8
cached_14 two_drafts_10 siblings_12 block_11 drafter_13 nucleus_4
"""
CHECKS = {name: globals()[f"check_{name}"] for name in NAMES.split()}
