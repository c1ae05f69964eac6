"""The checks of the exercises: check_NAME(answer) fails with an assertion that says what is wrong.

No check is statistical: a function that makes random choices is run through every branch of them
(experiments/proving/enumeration.py).
"""

import itertools
from collections import defaultdict
from types import SimpleNamespace

import numpy as np

from exercises import solutions
from experiments.proving.enumeration import every_branch, total_variation
from sampling import Filter, residual

RNG = np.random.default_rng(0)
PAIRS = [(RNG.dirichlet(np.ones(n)), RNG.dirichlet(np.ones(n))) for n in (2, 3, 5)]
PAIRS += [
    (np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.25, 0.75])),
    (np.array([0.0, 1.0]), np.array([1.0, 0.0])),
]
PAIRS += [(p, p) for p, _ in PAIRS[:1]]

# ---------------------------------------------------------------- found and expected


def same(found, expected, what):
    assert found == expected, f"{what}: {found}, expected {expected}"


def close(found, expected, what):
    """The same numbers but for rounding."""
    same(np.shape(found), np.shape(expected), f"the shape of {what}")
    assert np.allclose(found, expected, rtol=0, atol=1e-12), f"{what}: {found}, expected {expected}"


def returns(answer, expected, *arguments):
    """What a function without chance returns."""
    what = f"{answer.__name__}({', '.join(map(repr, arguments))})"
    close(answer(*arguments), expected, what)


def same_distribution(found, expected, what):
    distance = total_variation(found, expected)
    yours = {outcome: round(float(mass), 4) for outcome, mass in found.items()}
    assert distance < 1e-12, (
        f"{what}: at a total variation distance of {distance:.3g} from the right distribution; "
        f"yours is {yours}"
    )


def outcomes_of(answer, *arguments):
    """{what the answer returns, as a tuple: probability}, by every branch of its choices."""
    return every_branch(lambda choices: tuple(answer(*arguments, choices.sample, choices.toss)))


def same_texts(texts, target, n_tokens, what, end=None):
    """Whether texts, {text: probability}, have the target's distribution once it has completed
    them, up to n_tokens or the end token. target(text): the distribution of the token after it
    """
    right = completed({(): 1.0}, target, n_tokens, end)  # by the chain rule
    same_distribution(completed(texts, target, n_tokens, end), right, what)


def completed(texts, target, n_tokens, end):
    """{text: probability} of texts that the target goes on with."""
    found, todo = defaultdict(float), list(texts.items())
    while todo:
        text, mass = todo.pop()
        if len(text) >= n_tokens or end in text:
            found[text] += mass
        else:
            todo += [((*text, token), mass * p) for token, p in enumerate(target(text))]
    return found


# ---------------------------------------------------------------- without chance


def check_acceptance_1(answer):
    for p, q in PAIRS:
        returns(answer, 1 - abs(p - q).sum() / 2, p, q)


def check_temperature_2(answer):
    for logits in ([0.0, 1.0, -2.0], [1e4, 0.0, 1e4 + 1.0], [-3.0, -3.0]):
        for temperature in (0.5, 1.0, 3.0):
            expected = Filter(temperature)(np.array([logits]))[0]
            returns(answer, expected, np.array(logits), temperature)
    returns(answer, [0, 1, 0], np.array([0.0, 2.0, 1.0]), 0.0)


def check_residual_3(answer):
    returns(answer, [1, 0, 0], np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.4, 0.4]))
    returns(answer, [0.75, 0.25, 0], np.array([0.5, 0.4, 0.1]), np.array([0.2, 0.3, 0.5]))
    returns(answer, [0.5, 0.5], np.array([0.5, 0.5]), np.array([0.5, 0.5]))


def check_nucleus_4(answer):
    p = np.array([0.1, 0.4, 0.3, 0.2])
    for top_p, kept in ((0.3, [1]), (0.65, [1, 2]), (0.75, [1, 2, 3]), (1.0, [0, 1, 2, 3])):
        expected = np.where(np.isin(np.arange(4), kept), p, 0)
        returns(answer, expected / expected.sum(), p.copy(), top_p)


def check_speedup_5(answer):
    settings = (0.0, 0.3, 0.8, 1.0), (1, 2, 5), (0.0, 0.1, 0.5), (1.0, 1.5, 3.0)
    for a, K, c, v in itertools.product(*settings):
        # n accepted, then one more token
        tokens = sum((n + 1) * a**n * (1 - a) for n in range(K)) + (K + 1) * a**K
        returns(answer, tokens / (K * c + v), a, K, c, v)


def check_catch_up_8(answer):
    text = [5, 6, 7, 8, 9]
    for read, n_last, n_fed in (
        ([], 1, 5),  # nothing read yet
        ([5, 6, 7, 8], 1, 1),  # plain decoding
        ([5, 6], 2, 3),  # behind
        ([5, 6, 7, 8, 1, 1], 1, 1),  # a rejected draft of two is forgotten
        ([5, 6, 7, 1], 2, 2),  # so is one within the rows asked for
        ([5, 6, 7, 8, 9], 1, 1),  # the last row is read again
    ):
        calls = []
        row = lambda ids: ids + [0] * (10 - len(ids))

        def forward(new, cache):
            calls.append(len(new))
            cache.ids += new
            ends = range(len(cache.ids) - len(new) + 1, len(cache.ids) + 1)
            return np.array([row(cache.ids[:end]) for end in ends])

        cache = SimpleNamespace(ids=list(read))
        rows = answer(list(text), cache, n_last, forward)
        what = f"with {read} in the cache and n_last = {n_last}"
        same(cache.ids, text, f"{what}: in the cache in the end")
        same(calls, [n_fed], f"{what}: how many ids each call of forward is fed")
        expected = [row(text[:end]) for end in range(6 - n_last, 6)]
        same(np.array(rows).tolist(), expected, f"{what}: the rows of the last {n_last} ids")


# ---------------------------------------------------------------- one round


def often_kept(answer, p, q):
    """How often a draft is kept, after a check of the distribution of the token."""
    token_distribution, kept = defaultdict(float), 0.0
    for (token, is_draft), probability in outcomes_of(answer, p, q).items():
        token_distribution[token] += probability
        kept += probability * bool(is_draft)
    same_distribution(token_distribution, dict(enumerate(p)), f"the token of {p = }, {q = }")
    return kept


def check_one_token_6(answer):
    for p, q in PAIRS:
        kept = often_kept(answer, p, q)
        close(kept, np.minimum(p, q).sum(), f"how often the draft is kept, {p = }, {q = }")


def check_two_drafts_10(answer):
    for p, q in PAIRS:
        once = np.minimum(p, q).sum()
        second = np.minimum(residual(p, q), q).sum() if once < 1 else 0.0
        least = once + (1 - once) * second
        kept = often_kept(answer, p, q)
        assert kept >= least - 1e-9, (
            f"a draft is kept for {p = }, {q = }: {kept}, expected at least {least}"
        )


def two_drafts_of_three_tokens():
    """Pairs (q, p) of two and three rows."""
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(3), 2)
    yield q, p
    # some tokens have no probability
    p, q = p.copy(), q.copy()
    p[0], q[1] = [0, 0.5, 0.5], [0.5, 0.5, 0]
    yield q, p
    # two tokens replace a rejected one, in proportions that depend on the token before
    q = np.array([[0.55, 0.3, 0.15], [0.2, 0.2, 0.6]])
    yield q, np.array([[0.5, 0.3, 0.2], [0.5, 0.4, 0.1], [0.2, 0.3, 0.5]])


def drafts_of(q):
    """(two drafts, their probability) of all that can be sampled from the rows of q."""
    for x, y in itertools.product(*map(np.flatnonzero, q)):
        yield [int(x), int(y)], q[0, x] * q[1, y]


def mean_kept(answer, q, p):
    """The mean number kept of two drafts, after a check of the distribution.

    Rows of p that an outcome does not reach are sampled from by a later round.
    """
    texts, n_kept = defaultdict(float), 0.0
    for draft, drafted in drafts_of(q):
        for (n, token), probability in outcomes_of(answer, draft, q, p).items():
            n_kept += drafted * probability * n
            texts[(*draft[:n], token)] += drafted * probability
    same_texts(texts, lambda text: p[len(text)], 3, "two drafts and the token after them")
    return n_kept


def at_the_edges(answer):
    sure = np.eye(3)
    found = outcomes_of(answer, [0, 1], sure[:2], sure)
    same(found, {(2, 2): 1.0}, "(number kept, token) of two drafts that are certain and right")
    found = outcomes_of(answer, [], sure[:0], sure[1:2])
    same(found, {(0, 1): 1.0}, "(number kept, token) without a draft")


def check_verify_7(answer):
    for q, p in two_drafts_of_three_tokens():
        mean_kept(answer, q, p)
    at_the_edges(answer)


def check_block_11(answer):
    for q, p in two_drafts_of_three_tokens():
        expected = 0.0  # the mean of P_1 + P_2
        for (x, y), drafted in drafts_of(q):
            P_1 = min(1, p[0, x] / q[0, x])
            expected += drafted * (P_1 + min(1, P_1 * p[1, y] / q[1, y]))
        close(mean_kept(answer, q, p), expected, "the mean number of drafts kept")
    at_the_edges(answer)


# ---------------------------------------------------------------- models and texts


def table(seed):
    """A model of three tokens: a distribution for every prefix."""
    return lambda ids: np.random.default_rng([seed, *ids]).dirichlet(np.ones(3))


def check_speculative_9(answer):
    def texts_of(target, draft, n_tokens, K, end=None):
        arguments = target, draft, [0], n_tokens, K
        return outcomes_of(lambda sample, toss: answer(*arguments, sample, toss, end))

    target, draft = table(1), table(2)
    for n_tokens, K, end in ((1, 2, None), (3, 1, None), (3, 2, None), (3, 4, 2), (4, 2, 2)):
        texts = texts_of(target, draft, n_tokens, K, end)
        lengths = {len(text) for text in texts if end not in text}
        assert lengths <= {n_tokens}, f"with K = {K}, expected {n_tokens} tokens, not {lengths}"
        what = f"{n_tokens} tokens with K = {K} and the end {end}"
        same_texts(texts, lambda text: target([0, *text]), n_tokens, what, end)

    asked = {"target": 0, "draft model": 0}

    def counting(name):
        def model(ids):
            asked[name] += 1
            return np.eye(3)[len(ids) % 3]

        return model

    texts = texts_of(counting("target"), counting("draft model"), 6, 2)
    same(texts, {(1, 2, 0, 1, 2, 0): 1.0}, "the text of a model that counts")
    # two rounds of two drafts, each verified at three positions; the draft model may be asked again
    assert asked["target"] == 6 and asked["draft model"] >= 4, (
        f"6 tokens with K = 2, every draft right: the target was asked {asked['target']} times, "
        f"expected 6, and the draft model {asked['draft model']} times, expected 4"
    )


def expected_tree(target, draft_model):
    """The mean number of tokens of a round with two siblings and a child below each."""
    p, q = target([0]), draft_model([0])
    accepted = np.minimum(p, q)
    rest = residual(p, q)
    for x in np.flatnonzero(q > p):
        # x was the first sibling and was rejected
        without_x = np.where(np.arange(3) == x, 0, q)
        accepted += (q[x] - p[x]) * np.minimum(rest, without_x / without_x.sum())
    below = [np.minimum(target([0, x]), draft_model([0, x])).sum() for x in range(3)]
    return 1 + sum(accepted * (1 + np.array(below)))


def check_siblings_12(answer):
    for seed in (1, 2, 3):
        target, draft_model = table(seed), table(seed + 10)
        texts = outcomes_of(answer, target, draft_model, [0])
        same_texts(texts, lambda text: target([0, *text]), 3, "a round and what follows")
        n_tokens = sum(mass * len(text) for text, mass in texts.items())
        close(n_tokens, expected_tree(target, draft_model), "the mean number of tokens")


def check_drafter_13(answer):
    n_vocab = 4
    for ids, k in (([0], 2), ([1, 2, 1], 1), ([0, 1, 2, 0, 3, 0], 3), ([3, 3, 3], 0), ([2, 2], 3)):

        def propose(sample, toss):
            drafter = answer(n_vocab, sample)
            same(drafter.n_vocab, n_vocab, "n_vocab")
            drafter.prefill(ids[:-1])
            text = list(ids)
            draft, q = drafter.propose(text, k)
            same(text, ids, "the ids after propose")
            same(np.shape(q), (len(draft), n_vocab), "the shape of q")
            return tuple(draft), tuple(map(tuple, np.asarray(q).tolist()))

        for (draft, q), probability in outcomes_of(propose).items():
            what = f"drafting {draft} after {ids} with k = {k}"
            assert len(draft) <= k, f"{what}: expected at most k tokens"
            for row in q:
                right = min(row) >= 0 and abs(sum(row) - 1) < 1e-9
                assert right, f"{what}: a row of q is {row}, expected probabilities that sum to 1"
            # q has to be what the tokens were sampled from: one-hot where nothing was
            drafted = np.prod([row[token] for token, row in zip(draft, q)])
            assert drafted > 0, f"{what}: expected q > 0 for the drafted tokens, not {q}"
            assert abs(probability - drafted) < 1e-9, (
                f"{what}: that happens with probability {probability:.3g}, expected {drafted:.3g}, "
                "which is what q says"
            )


NAMES = [name for name in globals() if name.startswith("check_")]
NAMES.sort(key=lambda name: int(name.rsplit("_", 1)[1]))
CHECKS = {name.removeprefix("check_"): globals()[name] for name in NAMES}


def checked(answer):
    """The function itself if it is right, exactly; an AssertionError says what is wrong. While it
    is still to be written, the solution of the same name, so that docs/walkthrough.ipynb goes on.
    """
    name = answer.__name__
    try:
        CHECKS[name](answer)
    except NotImplementedError:
        print(f"{name}: STILL TO BE WRITTEN. Until then, the answer below its task stands in.")
        return getattr(solutions, name)
    print(f"{name}: right, over every branch")
    return answer
