"""Answers to the exercises: WRONG is {exercise: {the slip: (what its verdict says, answer)}}, RIGHT
is {exercise: {what is unusual: answer}}.
"""

import random  # noqa: F401, edited answers use it
from types import FunctionType, SimpleNamespace

import numpy as np

from exercises import solutions as right
from proof.mistakes import edited as edited_source


def edited(answer, *pieces):
    """The answer with pieces of its source exchanged: pairs (right piece, wrong piece)."""
    code = edited_source(answer, *pieces)[2]
    return FunctionType(code, globals() | vars(right), answer.__name__)


# ---------------------------------------------------------------- rules


def compare_each(draft, p, q, sample, accept):
    for i, x in enumerate(draft):
        y = sample(p[i])
        if y != x:
            return i, y
    return len(draft), sample(p[len(draft)])


def one_coin(draft, p, q, sample, accept):
    if accept(np.prod([p[i][x] / q[i][x] for i, x in enumerate(draft)])):
        return len(draft), sample(p[-1])
    return 0, sample(right.residual_3(p[0], q[0]))


def counting_goes_on(draft, p, q, sample, accept):
    n = sum(accept(p[i][x] / q[i][x]) for i, x in enumerate(draft))
    return n, sample(right.residual_3(p[n], q[n]) if n < len(draft) else p[n])


def replaced_in_place(draft, p, q, sample, accept):
    for i, x in enumerate(draft):
        if not accept(p[i][x] / q[i][x]):
            draft[i] = sample(right.residual_3(p[i], q[i]))
    return [*draft, sample(p[-1])]


def waits_for_a_larger_p(draft, p, q, sample, accept):
    i = 0
    while i < len(draft):
        if p[i][draft[i]] > q[i][draft[i]]:
            i += 1
    return i, sample(p[i])


RULE = right.verify_7
REPLACEMENT = "sample(residual_3(p[i], q[i]))"
discards_what_was_accepted = edited(RULE, (f"i, {REPLACEMENT}", "0, sample(p[0])"))
only_the_first = edited(RULE, ("if not", "if i == 0 and not"))
residual_of_place_0 = edited(RULE, ("residual_3(p[i], q[i])", "residual_3(p[0], q[0])"))
drops_the_correction = edited(
    RULE, (f"return i, {REPLACEMENT}", f"return (i - 1, draft[i - 1]) if i else (0, {REPLACEMENT})")
)
at_most_one = edited(RULE, (f"i, {REPLACEMENT}", f"(i, {REPLACEMENT}) if i < 2 else (1, draft[1])"))
not_the_third = edited(RULE, ("if not", "if i < 2 and not"))
not_the_fourth = edited(RULE, ("if not", "if i < 3 and not"))
from_p = edited(RULE, ("residual_3(p[i], q[i])", "p[i]"))
WRONG_RULES = {  # in a loop of three or four tokens, too
    "any rejection discards what was accepted": discards_what_was_accepted,
    "only the first draft is checked": only_the_first,
    "the residual of place 0": residual_of_place_0,
    "one coin for all": one_coin,
    "no correction after a partial accept": drops_the_correction,
    "counting goes on after a rejection": counting_goes_on,
    "at most one is kept on a rejection": at_most_one,
    "the third draft is not verified": not_the_third,
    "the fourth draft is not verified": not_the_fourth,
    "replaced from p": from_p,
}

# ---------------------------------------------------------------- loops


def in_place(p, q, sample, accept):
    x = sample(q)
    if accept(p[x] / q[x]):
        return [x, np.True_]
    p -= q
    p[p < 0] = 0
    p /= p.sum()
    return [np.int64(sample(p.tolist())), 0]


def coins_first(draft, p, q, sample, accept):
    k = len(draft)
    ratios = p[np.arange(k), draft] / q[np.arange(k), draft] if k else []
    heads = [accept(ratio) for ratio in ratios]
    n = np.int64([*heads, False].index(False))
    rest = np.clip(p[n] - q[n], 0, None) if n < k else p[n]
    return n, sample(rest / rest.sum())


def recursive(draft, p, q, sample, accept):
    if not draft:
        return 0, sample(p[0])
    if not accept(p[0][draft[0]] / q[0][draft[0]]):
        return 0, sample(right.residual_3(p[0], q[0]))
    n, token = recursive(draft[1:], p[1:], q[1:], sample, accept)
    return n + 1, token


def with_guard(p, q):
    return p if np.allclose(p, q) else right.residual_3(p, q)


def in_float32(draft, p, q, sample, accept):
    return right.verify_7(draft, p, np.float32(q), sample, accept)


def k_sequential(p, q, sample, accept):
    """SpecTr's rule for two independent drafts, which may keep one of them more often."""
    overlap = lambda rho: np.minimum(q, p / rho).sum()
    low, high = 1.0, 2.0
    for _ in range(60):
        rho = (low + high) / 2
        if 1 - (1 - overlap(rho)) ** 2 <= rho * overlap(rho):
            high = rho
        else:
            low = rho
    b = overlap(high)
    for _ in range(2):
        x = sample(q)
        if accept(p[x] / (high * q[x])):
            return x, True
    passed = np.minimum(q, p / high) * ((1 - (1 - b) ** 2) / b) if b else 0
    return sample(right.residual_3(p, passed)), False


def prefill(target, draft_model, ids, target_cache, draft_cache):
    if ids[:-1]:
        target(ids[:-1], target_cache)
        draft_model(ids[:-1], draft_cache)
    return []


def by_catching_up(target, draft_model, ids, n_tokens, K, sample, accept, end):
    def with_cache(forward, n_last):
        cache = SimpleNamespace(ids=[])
        return lambda ids: right.catch_up_8(ids, cache, min(n_last, len(ids)), forward)

    models = with_cache(target, K + 1), with_cache(draft_model, 1)
    return right.speculative_9(*models, ids, n_tokens, K, sample, accept, end)


def trusting(ids, cache, n_last, forward):
    """catch_up_8 as of a cache that can only end in rejected tokens."""
    del cache.ids[len(ids) - n_last :]
    return forward(np.array(ids[len(cache.ids) :]), cache)[-n_last:]


# ---------------------------------------------------------------- drafters


def drafter(propose):
    """An answer to 13: a drafter with this propose(n_vocab, sample, ids, k)."""

    def answer(n_vocab, sample):
        return SimpleNamespace(
            n_vocab=n_vocab,
            prefill=lambda ids, target_cache: None,
            propose=lambda ids, k: propose(n_vocab, sample, ids, k),
        )

    return answer


def always_1(q):
    return drafter(lambda n, sample, ids, k: ([1] * k, q(n, k)))


def one_hot(n, k):
    return np.eye(n)[[1] * k]


def drops_a_token(n, sample, ids, k):
    draft, q = right.drafter_13(n, sample).propose(ids, k)
    n_kept = draft.index(1) if 1 in draft else len(draft)
    return draft[:n_kept], q[:n_kept]


def by_frequency(n, sample, ids, k):
    q = (np.bincount(ids, minlength=n) + 1.0) / (len(ids) + n)
    return [sample(q) for _ in range(k)], np.tile(q, (k, 1))


# ---------------------------------------------------------------- all of them

RUNS = []  # state of one's own

EDITS = {  # {exercise: {the slip: (what its verdict says, (piece of the solution, in its place))}}
    "temperature_2": {
        "overflows": ("nan", ("(logits - logits.max())", "logits")),
        "ties share at temperature 0": (
            "gives [0, 0.5, 0.5, 0], expected [0, 1, 0, 0]",
            ("temperature == 0", "False"),
            ("/ temperature", "/ max(temperature, 1e-6)"),
        ),
        "in place": (
            "changes its arguments",
            (
                "    weights = np.exp((logits - logits.max())",
                "    logits -= logits.max()\n    weights = np.exp((logits)",
            ),
        ),
        "times the temperature": ("expected [0.1189", ("/ temperature", "* temperature")),
        "no return": ("gives None", ("return weights / weights.sum()", "weights")),
    },
    "residual_3": {
        "not scaled": ("[0.3, 0, 0], expected [1, 0, 0]", ("lacking / lacking.sum()", "lacking")),
        "0 / 0": ("nan", ("lacking.sum() == 0", "False")),
        "in place": (
            "changes its arguments",
            ("    return lacking", "    p -= q\n    return lacking"),
        ),
        "swapped": ("expected [1, 0, 0]", ("p - q, 0", "q - p, 0")),
        "argmax": (
            "expected [0",
            ("lacking / lacking.sum()", "np.eye(len(p))[lacking.argmax()]"),
        ),
    },
    "speedup_5": {
        "v is ignored": ("expected", ("+ v)", "+ 1)")),
        "no bonus": ("gives 1, expected 1.3", ("range(K + 1)", "range(K)")),
        "0 / 0 at a = 1": (
            "ZeroDivisionError",
            ("sum(a**n for n in range(K + 1))", "(1 - a ** (K + 1)) / (1 - a)"),
        ),
    },
    "catch_up_8": {
        "everything again": (
            "reads 5 ids, expected 1",
            ("min(len(cache.ids), len(ids) - n_last)", "0"),
        ),
        "nothing forgotten": ("the cache holds", ("    del cache.ids[n_kept:]\n", "")),
        "one row": ("the rows of the last 2 ids", ("[-n_last:]", "[-1:]")),
        "a cache of its own": (
            "the cache holds []",
            (":], cache)", ":], SimpleNamespace(ids=[]))"),
        ),
    },
    "one_token_6": {
        "replaced from p": ("comes out is [0.35, 0.39, 0.26]", ("residual_3(p, q)", "p")),
        "the residual is not scaled": (
            "sample([0.3, 0, 0])",
            ("residual_3(p, q)", "np.maximum(p - q, 0)"),
        ),
        "a replacement called draft": ("said to be the draft", ("), False", "), True")),
        "swapped": ("of the drafts are kept", ("p[x] / q[x]", "q[x] / p[x]")),
        "a coin of its own": (
            "keeps state",
            ("accept(p[x] / q[x])", "random.random() < p[x] / q[x]"),
        ),
        "state of its own": (
            "keeps state",
            ("    if accept", "    RUNS.append(x)\n    if len(RUNS) % 2 and accept"),
        ),
        "no return": ("TypeError", ("return sample(", "sample(")),
        "compared": (
            "0.3000 of the drafts are kept, 0.7000 can be",
            ("if accept(p[x] / q[x])", "if (y := sample(p)) == x"),
            ("sample(residual_3(p, q))", "y"),
        ),
    },
    "verify_7": {
        "the bonus from the row before": (
            "Total variation distance",
            ("p[len(draft)]", "p[max(len(draft) - 1, 0)]"),
        ),
        "the rejected is counted": ('Text "', ("return i,", "return i + 1,")),
        "half a number": ("0.5", ("return i,", "return i + 0.5,")),
        "half of min(p, q)": (
            "draft tokens on average, expected",
            (
                "not accept(p[i][x] / q[i][x])",
                "p[i][x] < 1 and not accept(min(1, p[i][x] / q[i][x]) / 2)",
            ),
            ("q[i]))", "np.minimum(p[i], q[i]) / 2))"),
        ),
        "three drafts": ("expected", ("    for i", "    draft = draft[:3]\n    for i")),
        "an exception": ("IndexError", ("p[len(draft)]", "p[9]")),
    },
    "block_11": {
        "the residual of tokens": (
            "Total variation distance",
            ("lacking / S if S > 0 else p[t]", "residual_3(p[t], q_next)"),
        ),
    },
    "two_drafts_10": {
        "residual of p": ("comes out is", ("residual_3(p, q)", "p")),
        "one draft": ("can be", ("range(2)", "range(1)")),
    },
    "speculative_9": {
        "no end": ('Text "', ("x == end", "False")),
        "token 0 is no end": ('Text "', ("x == end", "x == (end or None)")),
        "one token fewer": ("expected 1", ("< n_tokens", "< n_tokens - 1")),
        "K is ignored": ("expected", ("min(K,", "min(1,")),
        "K + 1 drafts": ("expected at most", ("min(K,", "min(K + 1,")),
        "compared": ("expected", ("verify_7", "compare_each")),
        "a pass for each place": (
            "expected",
            ("        # 2.", "        target(ids)\n        # 2."),
        ),
        "no room at last": (
            "it does not end",
            ("        # 2.", "        if not draft:\n            continue\n        # 2."),
        ),
    },
    "cached_14": {
        "all is read again": ("tokens, not", ("len(ids + text) - 1", "0")),
        "a rejected draft stays": (
            "IndexError",
            ("        del target_cache.ids[n_certain:], draft_cache.ids[n_certain:]\n", ""),
        ),
        "what is discarded": ('Text "', ("verify_7", "discards_what_was_accepted")),
        "the draft's cache forgets one": (
            "without ids",
            (", draft_cache.ids[n_certain:]", "\n        del draft_cache.ids[-1:]"),
        ),
        "one cache for both": (
            "of which this model has read",
            ("SimpleNamespace(ids=[]), SimpleNamespace(ids=[])", "[SimpleNamespace(ids=[])] * 2"),
        ),
    },
}

WRONG = {
    "one_token_6": {
        "unverified": ("comes out is", lambda p, q, sample, accept: (sample(q), True)),
        "sample(p), True": ("said to be the draft", lambda p, q, sample, accept: (sample(p), True)),
        "all flags": ("ValueError", lambda p, q, sample, accept: (sample(q), p / q > 1)),
        "exit": ("SystemExit", lambda *how: exit()),
        "no function": ("expected a function", 3),
    },
    "verify_7": {
        "compared": ("draft tokens on average, expected", compare_each),
        "the rejected token is replaced in place": ("expected at most", replaced_in_place),
        "a larger p at last": ("it does not end", waits_for_a_larger_p),
        "autoregressive": ("expected", lambda draft, p, q, sample, accept: (0, sample(p[0]))),
        **{slip: ("Total variation distance", rule) for slip, rule in WRONG_RULES.items()},
    },
    "block_11": {"the token rule": ("draft tokens on average, expected", right.verify_7)},
    "speculative_9": {
        slip: ("Total variation distance", edited(right.speculative_9, ("verify_7", rule)))
        for slip, rule in {
            "any rejection discards what was accepted": "discards_what_was_accepted",
            "only the first draft is checked": "only_the_first",
            "the residual of place 0": "residual_of_place_0",
            "one coin for all": "one_coin",
            "no correction after a partial accept": "drops_the_correction",
            "counting goes on after a rejection": "counting_goes_on",
            "at most one is kept on a rejection": "at_most_one",
            "the third draft is not verified": "not_the_third",
        }.items()
    },
    "drafter_13": {
        "never": ("it never drafts", drafter(lambda n, sample, ids, k: ([], np.empty((0, n))))),
        "q is not what it was sampled from": (
            "q is not",
            always_1(lambda n, k: np.full((k, n), 1 / n)),
        ),
        "more than k": ("expected at most", always_1(lambda n, k: one_hot(n, k + 1))),
        "drops a token for what it is": ("q is not", drafter(drops_a_token)),
        "no q": ("TypeError", always_1(lambda n, k: None)),
        "nothing": ("AttributeError", lambda n_vocab, sample: None),
    },
}
for exercise, slips in EDITS.items():
    for slip, (said, *pieces) in slips.items():
        answer = edited(getattr(right, exercise), *pieces)
        WRONG.setdefault(exercise, {})[slip] = said, answer

RIGHT = {
    "residual_3": {"a guard": with_guard, "a list": lambda p, q: right.residual_3(p, q).tolist()},
    "one_token_6": {
        "in place": in_place,
        "the replacement first": edited(
            right.one_token_6,
            ("x = sample(q)", "replacement, x = sample(residual_3(p, q)), sample(q)"),
            ("return sample(residual_3(p, q))", "return replacement"),
        ),
        "a coin by sample": edited(
            right.one_token_6,
            ("accept(p[x] / q[x])", "sample([1 - (a := min(1, p[x] / q[x])), a])"),
        ),
        "a guard": edited(right.one_token_6, ("residual_3", "with_guard")),
    },
    "verify_7": {
        "block verification keeps more": right.block_11,
        "all coins first": coins_first,
        "recursive": recursive,
        "q in float32": in_float32,
        "a guard": edited(right.verify_7, ("residual_3", "with_guard")),
    },
    "two_drafts_10": {"K-SEQ": k_sequential},
    "catch_up_8": {"trusts what stands before": trusting},
    "speculative_9": {
        "block verification": edited(right.speculative_9, ("verify_7", "block_11")),
    },
    "cached_14": {
        "with a prefill": edited(
            right.cached_14,
            ("text = []", "text = prefill(target, draft_model, ids, target_cache, draft_cache)"),
        ),
        "by catch_up_8": by_catching_up,
    },
    "drafter_13": {"a constant": always_1(one_hot), "frequent tokens": drafter(by_frequency)},
}
