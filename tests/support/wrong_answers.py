"""Answers to the exercises that are wrong: {exercise: {the slip: (what its verdict says, answer)}};
and others that are right.
"""

import functools
import random
from types import FunctionType, SimpleNamespace

import numpy as np

from exercises import solutions as right
from proving.patching import patch_source


def edited(answer, *pieces):
    """The answer with pieces of its source exchanged: pairs (right piece, wrong piece)."""
    _, _, code = patch_source(answer, *pieces)
    return FunctionType(code, globals() | vars(right), answer.__name__)


# ---------------------------------------------------------------- rules


def compared(p, q, sample, accept):
    """The first idea of many: sample from p, and keep the draft if it is the same."""
    x, y = sample(q), sample(p)
    return y, y == x


def toss_of_the_overlap(p, q, sample, accept):
    sample(q)
    return sample(p), accept(np.minimum(p, q).sum())


def compare_each(draft, p, q, sample, accept):
    for i, x in enumerate(draft):
        y = sample(p[i])
        if y != x:
            return i, y
    return len(draft), sample(p[len(draft)])


replaced_from_p = edited(right.verify_7, ("residual_3(p[i], q[i])", "p[i]"))
where_p_is_1 = edited(
    right.verify_7,
    ("not accept(p[i][x] / q[i][x])", "p[i][x] < 1"),
    ("residual_3(p[i], q[i])", "p[i]"),
)
previous_ratio_only = edited(  # P_i = min(1, min(1, r_{i-1}) r_i)
    right.block_11,
    ("P = [1.0]", "P, r = [1.0], [1.0] + [p[i][x] / q[i][x] for i, x in enumerate(draft)]"),
    ("P[-1] * p[i][x] / q[i][x]", "min(1.0, r[i]) * r[i + 1]"),
)


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


# ---------------------------------------------------------------- loops


def sampled_again(draft, p, q, sample, accept):
    for i in range(len(draft)):
        token, kept = right.one_token_6(p[i], q[i], sample, accept)
        if not kept:
            return i, token
    return len(draft), sample(p[len(draft)])


def on_after_a_rejection(draft, p, q, sample, accept):
    accepted = [i for i, x in enumerate(draft) if accept(p[i][x] / q[i][x])]
    if len(accepted) == len(draft):
        return len(draft), sample(p[len(draft)])
    first = next(i for i in range(len(draft)) if i not in accepted)
    if len(accepted) > first:  # a later one was accepted: keep all up to it
        return accepted[-1] + 1, sample(p[accepted[-1] + 1])
    return first, sample(right.residual_3(p[first], q[first]))


def no_drafting(target, draft_model, ids, n_tokens, K, sample, accept, end):
    text = []
    while len(text) < n_tokens and end not in text:
        draft_model(ids + text)
        text.append(sample(target(ids + text)[-1]))
    return text


def prefill(target, draft_model, ids, target_cache, draft_cache):
    """Read all ids but the last. Returns a text without tokens, []."""
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


# ---------------------------------------------------------------- drafters


def drafter(propose, prefill=None):
    """An answer to 13: a drafter with this propose(n_vocab, sample, ids, k)."""

    def answer(n_vocab, sample):
        return SimpleNamespace(
            n_vocab=n_vocab,
            prefill=prefill or (lambda ids, target_cache: None),
            propose=lambda ids, k: propose(n_vocab, sample, ids, k),
        )

    return answer


def uniform(n_vocab, n):
    return np.full((n, n_vocab), 1 / n_vocab)


def one_hot(n_vocab, n, token=1):
    return np.eye(n_vocab)[[token] * n]


def constant(tokens=lambda k: [1] * k, q=one_hot):
    """A drafter of the same tokens always: tokens(k), and q(n_vocab, k)."""
    return drafter(lambda n_vocab, sample, ids, k: (tokens(k), q(n_vocab, k)))


def changes_its_ids(n_vocab, sample, ids, k):
    ids += [0] * k
    return ids[-k:] if k else [], np.eye(n_vocab)[[0] * k]


def solved(n_vocab, sample, ids, k):
    return right.drafter_13(n_vocab, sample).propose(ids, k)


def drops_a_token(n_vocab, sample, ids, k):
    """After a longer text, token 1 is dropped once it is sampled."""
    draft, q = solved(n_vocab, sample, ids, k)
    if len(ids) > 6 and 1 in draft:
        n = draft.index(1)
        return draft[:n], q[:n]
    return draft, q


def one_hot_where_unseen(n_vocab, sample, ids, k):
    draft, q = solved(n_vocab, sample, ids, k)
    if k and not draft and len(ids) > 1:
        draft = [sample(uniform(n_vocab, 1)[0])]
        q = np.eye(n_vocab)[draft]
    return draft, q


def remembers_the_first_text(n_vocab, sample):
    first = []

    def propose(ids, k):
        first[:] = first or ids
        return solved(n_vocab, sample, list(first), k)

    return SimpleNamespace(n_vocab=n_vocab, prefill=lambda ids, target_cache: None, propose=propose)


# ---------------------------------------------------------------- in the style of students

RUNS = []  # state of one's own


def three_tokens(p, q):
    rest = np.array([max(p[x] - q[x], 0) for x in range(min(3, len(p)))])
    return rest / rest.sum() if rest.any() else p


def again_and_again(p, q, sample, accept):
    while True:
        try:
            accept(0.5)
        except Exception:
            pass


def waits_for_heads(draft, p, q, sample, accept):
    i = 0
    while i < len(draft):
        if accept(p[i][draft[i]] / q[i][draft[i]]):
            i += 1
    return i, sample(p[i])


def waits_for_a_larger_p(draft, p, q, sample, accept):
    i = 0
    while i < len(draft):
        if p[i][draft[i]] > q[i][draft[i]]:
            i += 1
    return i, sample(p[i])


def one_coin(draft, p, q, sample, accept):
    if accept(np.prod([p[i][x] / q[i][x] for i, x in enumerate(draft)])):
        return len(draft), sample(p[-1])
    return 0, sample(right.residual_3(p[0], q[0]))


def all_coins_counted(draft, p, q, sample, accept):
    n = sum(accept(p[i][x] / q[i][x]) for i, x in enumerate(draft))
    return n, sample(right.residual_3(p[n], q[n]) if n < len(draft) else p[n])


def generated(*arguments):
    yield from right.speculative_9(*arguments)


def with_models(loop, wrapped):
    """The loop, but with wrapped(model) for each of its models."""
    return lambda target, draft, *rest: loop(wrapped(target), wrapped(draft), *rest)


def first_three(model):
    def rows(ids):
        first = model(ids)[:, :3]
        return first / first.sum(axis=1, keepdims=True)

    return rows


def as_arrays(model):
    return lambda ids, *cache: model(np.array(ids), *cache)


class FirstOfAll:
    """A drafter with state that all texts share."""

    read = []

    def __init__(self, n_vocab, sample):
        self.n_vocab = n_vocab

    def prefill(self, ids, target_cache):
        self.read.extend(ids)

    def propose(self, ids, k):
        tokens = self.read[:1] * k
        return tokens, np.eye(self.n_vocab)[tokens]


# and right ones


def one_place_in_place(p, q, sample, accept):
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


def popped(draft, p, q, sample, accept):
    n = 0
    while draft:
        x = draft.pop(0)
        if not accept(p[n][x] / q[n][x]):
            p[n] = np.maximum(p[n] - q[n], 0)
            return [n, sample(p[n] / p[n].sum())]
        n += 1
    return [n, sample(p[n])]


def recursive(draft, p, q, sample, accept):
    if not draft:
        return 0, sample(p[0])
    if not accept(p[0][draft[0]] / q[0][draft[0]]):
        return 0, sample(right.residual_3(p[0], q[0]))
    n, token = recursive(draft[1:], p[1:], q[1:], sample, accept)
    return n + 1, token


def texts_of_numpy(*arguments):
    return [np.int64(token) for token in right.speculative_9(*arguments)]


def common_beginning(ids, cache, n_last, forward):
    n = 0
    while n < min(len(cache.ids), len(ids) - n_last) and cache.ids[n] == ids[n]:
        n += 1
    cache.ids = cache.ids[:n]
    return [*forward(np.array(ids[n:]), cache)][-n_last:]


def both_first(p, q, sample, accept):
    x, y = sample(q), sample(q)
    if accept(p[x] / q[x]):
        return x, True
    p = right.residual_3(p, q)
    return (y, True) if accept(p[y] / q[y]) else (sample(right.residual_3(p, q)), False)


class Frequent:
    """A drafter that samples from all tokens, by how often they occur."""

    def __init__(self, n_vocab, sample):
        self.n_vocab, self.sample = n_vocab, sample

    def prefill(self, ids, target_cache):
        pass

    def propose(self, ids, k):
        q = np.bincount(ids, minlength=self.n_vocab) + 1.0
        k = min(k, 2)
        return [self.sample(q / q.sum()) for _ in range(k)], np.tile(q / q.sum(), (k, 1))


# ---------------------------------------------------------------- all of them

EDITS = {  # {exercise: {the slip: (what its verdict says, (piece of the solution, in its place))}}
    "temperature_2": {
        "overflows": ("nan", ("(logits - logits.max())", "logits")),
        "the temperature is ignored": ("expected", (" / temperature)", ")")),
        "ties share at temperature 0": (
            "0.0): [0, 0.5, 0.5, 0], expected [0, 1, 0, 0]",
            ("temperature == 0", "False"),
            ("/ temperature", "/ max(temperature, 1e-6)"),
        ),
        "1e-9 is taken for 1": (
            "1e-09)",
            ("/ temperature", "/ (temperature if temperature > 1e-6 else 1)"),
        ),
        "in place": (
            "changes its arguments",
            (
                "    weights = np.exp((logits - logits.max())",
                "    logits -= logits.max()\n    weights = np.exp((logits)",
            ),
        ),
        "times the temperature": ("expected [0.1189", ("/ temperature", "* temperature")),
        "a small number more": ("differs by", ("/ temperature", "/ (temperature + 1e-8)")),
        "float32": (
            "differs by",
            ("(logits - logits.max())", "(logits - logits.max()).astype(np.float32)"),
        ),
    },
    "acceptance_1": {
        "not added up": ("the shape of", (".sum()", "")),
    },
    "residual_3": {
        "not scaled": ("[0.3, 0, 0], expected [1, 0, 0]", ("lacking / lacking.sum()", "lacking")),
        "0 / 0": ("nan", ("lacking.sum() == 0", "False")),
        "nearly the same": ("expected [0, 0, 1]", ("lacking.sum() == 0", "np.allclose(p, q)")),
        "in place": (
            "changes its arguments",
            ("    return lacking", "    p -= q\n    return lacking"),
        ),
        "swapped": ("[0, 0.3333, 0.6667], expected [1, 0, 0]", ("p - q, 0", "q - p, 0")),
        "argmax": (
            "[1, 0, 0], expected [0.75, 0.25, 0]",
            ("lacking / lacking.sum()", "np.eye(len(p))[lacking.argmax()]"),
        ),
        "a small number more": (
            "which differs by 3e-10",
            ("/ lacking.sum()", "/ (lacking.sum() + 1e-10)"),
        ),
    },
    "nucleus_4": {
        "one more where it is reached exactly": ("0.5): ", ("< top_p", "<= top_p")),
        "ties are all kept": (
            "0.75): [0.25, 0.5, 0.25], expected",
            ("likeliest_first[:n_kept]", "p >= p[likeliest_first[n_kept - 1]]"),
        ),
        "sorted": (
            "[1, 0, 0, 0], expected [0, 1, 0, 0]",
            ("nucleus / nucleus.sum()", "np.sort(nucleus / nucleus.sum())[::-1]"),
        ),
        "not scaled": ("0.4", ("nucleus / nucleus.sum()", "nucleus")),
    },
    "speedup_5": {
        "v is ignored": ("expected", ("+ v)", "+ 1)")),
        "five drafts": ("K=9", ("range(K + 1)", "range(min(K, 5) + 1)")),
        "no bonus": ("1, expected 1.3", ("range(K + 1)", "range(K)")),
    },
    "catch_up_8": {
        "everything again": (
            "fed: [5], expected [1]",
            ("min(len(cache.ids), len(ids) - n_last)", "0"),
        ),
        "nothing forgotten": ("in the cache in the end", ("    del cache.ids[n_kept:]\n", "")),
        "two rows at most": (
            "the rows of the last 3 ids",
            ("    n_kept =", "    n_last = min(n_last, 2)\n    n_kept ="),
        ),
        "ids are emptied": (
            "the ids afterwards: []",
            (
                "    return forward(ids[n_kept:]",
                "    new = ids[n_kept:]\n    ids.clear()\n    return forward(new",
            ),
        ),
    },
    "one_token_6": {
        "replaced from p": (
            "yours [0.35, 0.39, 0.26], right [0.5, 0.3, 0.2]",
            ("residual_3(p, q)", "p"),
        ),
        "the residual is not scaled": (
            "sample([0.3, 0, 0])",
            ("residual_3(p, q)", "np.maximum(p - q, 0)"),
        ),
        "a replacement called draft": ("said to be the draft", ("), False", "), True")),
        "swapped": ("0.8800 of the drafts", ("p[x] / q[x]", "q[x] / p[x]")),
        "argmax": (
            "right [0.1928, 0.5711, 0.236]",
            ("residual_3(p, q)", "np.eye(len(p))[(p - q).argmax()]"),
        ),
        "a small number more": (
            "distance of 1e-08; 0.7000 of the drafts are kept, 0.7000 can be, the sum of "
            "min(p, q); the first token: yours [0.5, 0.3, 0.2], right [0.5, 0.3, 0.2], which "
            "differ by 1e-08",
            ("q[x])", "(q[x] + 1e-8))"),
        ),
        "a coin of its own": (
            "no randomness or state of your own",
            ("accept(p[x] / q[x])", "random.random() < p[x] / q[x]"),
        ),
        "state of its own": (
            "no randomness or state of your own",
            ("    if accept", "    RUNS.append(x)\n    if len(RUNS) % 2 and accept"),
        ),
        "three tokens": ("right [0.4354, 0.0001706, 0.3006", ("residual_3", "three_tokens")),
        "no return": ("it returns None", ("return sample(", "sample(")),
        "all ratios": ("accept(array(", ("p[x] / q[x]", "p / q")),
        "changed before the toss": ("accept(", ("    if accept", "    p -= q\n    if accept")),
    },
    "verify_7": {
        "replaced from p": (
            "the first token: yours [0.35, 0.39, 0.26], right [0.5, 0.3, 0.2]",
            ("residual_3(p[i], q[i])", "p[i]"),
        ),
        "replaced from q": (
            "it samples from q = [0.2, 0.4, 0.4], expected the draft that came from there",
            ("residual_3(p[i], q[i])", "q[i]"),
        ),
        "replaced from |p - q|": (
            "the first token: yours [0.35, 0.35, 0.3], right [0.5, 0.3, 0.2]",
            ("residual_3(p[i], q[i])", "(d := abs(p[i] - q[i])) / (d.sum() or 1)"),
        ),
        "the bonus from the row before": (
            "after (1,): yours [0.5, 0.3, 0.2], right [0.2, 0.3, 0.5]",
            ("p[len(draft)]", "p[max(len(draft) - 1, 0)]"),
        ),
        "the first draft is not verified": (
            "the first token: yours [0.2, 0.4, 0.4]",
            ("if not", "if i > 0 and not"),
        ),
        "the third draft is not verified": (
            "K = 5: a total variation distance",
            ("if not", "if i < 2 and not"),
        ),
        "the fourth draft is not verified": ("K = 5: a total", ("if not", "if i < 3 and not")),
        "half of min(p, q)": (
            "0.3500 drafts are kept",
            (
                "not accept(p[i][x] / q[i][x])",
                "p[i][x] < 1 and not accept(min(1, p[i][x] / q[i][x]) / 2)",
            ),
            ("q[i]))", "np.minimum(p[i], q[i]) / 2))"),
        ),
        "half a number": ("0.5", ("return i,", "return i + 0.5,")),
        "a small number less": ("which differ by 5e-11", ("q[i][x])", "q[i][x] * (1 - 1e-10))")),
        "rows one further": (
            "the first token: yours",
            ("accept(p[i]", "accept(p[i + 1]"),
            ("residual_3(p[i]", "residual_3(p[i + 1]"),
        ),
        "the rejected is counted": ("the first token: yours", ("return i,", "return i + 1,")),
        "the first decides": (
            "0.8000 drafts are kept",
            (
                "    return len(draft)",
                "        return i + 1, sample(p[i + 1])\n    return len(draft)",
            ),
        ),
        "three tokens": ("K = 2: a total", ("residual_3", "three_tokens")),
        "three drafts": (
            "K = 5: the distribution is right",
            ("    for i", "    draft = draft[:3]\n    for i"),
        ),
    },
    "block_11": {
        "the residual of tokens": (
            "total variation distance",
            ("lacking / S if S > 0 else p[t]", "residual_3(p[t], q_next)"),
        ),
        "three drafts": (
            "K = 5: the distribution is right",
            ("    P = [1.0]", "    draft = draft[:3]\n    P = [1.0]"),
        ),
    },
    "two_drafts_10": {
        "residual of p": ("total variation distance", ("residual_3(p, q)", "p")),
        "without replacement": (
            "said to be the draft",
            (
                "p = residual_3(p, q)",
                "p, q = residual_3(p, q), np.where(np.arange(len(q)) == x, 0, q) / (1 - q[x])",
            ),
        ),
        "three": ("3 drafts are sampled from q, expected 2", ("range(2)", "range(3)")),
        "one residual for both": (
            "total variation distance",
            ("p = residual_3(p, q)", "pass"),
            ("sample(p)", "sample(residual_3(p, q))"),
        ),
    },
    "speculative_9": {
        "no end": ("right [0, 0, 0] and P(end) 1", ("x == end", "False")),
        "token 0 is no end": ("the end token 0: ", ("x == end", "x == (end or None)")),
        "an end in the prompt": (
            "expected 2",
            ("    text = []\n", "    text = []\n    if end in ids:\n        return text\n"),
        ),
        "one token more": ("expected 1", ("< n_tokens", "<= n_tokens")),
        "another rule": ("right [", ("verify_7", "replaced_from_p")),
        "K is ignored: 1": ("passes of the target", ("min(K,", "min(1,")),
        "K is ignored: 2": ("passes of the target", ("min(K,", "min(2,")),
        "K is ignored: 4": ("passes of the target", ("min(K,", "min(4,")),
        "K + 1 drafts": ("passes of the target", ("min(K,", "min(K + 1,")),
        "three drafts": ("13 tokens with K = 6", ("min(K,", "min(K, 3,")),
        "compare": ("passes of the target on average", ("verify_7", "compare_each")),
        "only where p is 1": ("passes of the target on average", ("verify_7", "where_p_is_1")),
        "ids grow": (
            "the ids that it was given, afterwards",
            ("\n    return text", "\n    ids += text\n    return text"),
        ),
        "a pass for each place": (
            "or fewer: one a round",
            ("        # 2.", "        target(ids)\n        # 2."),
        ),
        "room at last": (
            "it does not end within",
            ("        # 2.", "        if not draft:\n            continue\n        # 2."),
        ),
        "the end is left out": (
            "expected 2",
            ("            text.append(x)\n", ""),
            ("return text\n    return", "return text\n            text.append(x)\n    return"),
        ),
    },
    "cached_14": {
        "all is read again": ("expected 12 at most", ("len(ids + text) - 1", "0")),
        "a rejected draft stays": (
            "a model is fed no ids",
            ("        del target_cache.ids[n_certain:], draft_cache.ids[n_certain:]\n", ""),
        ),
        "another rule": ("right [", ("verify_7", "replaced_from_p")),
        "one cache for both": (
            "a cache of its own for each model",
            ("SimpleNamespace(ids=[]), SimpleNamespace(ids=[])", "[SimpleNamespace(ids=[])] * 2"),
        ),
    },
    "siblings_12": {
        "ids grow": (
            "the ids that it was given, afterwards",
            ("    for _", "    ids.append(0)\n    for _"),
        ),
        "a sure draft model": (
            "sample([nan, nan, nan])",
            ("        if not q.any():\n            break\n", ""),
        ),
        "residual of p": ("total variation distance", ("p = residual_3(p, q)", "pass")),
        "no bonus": ("the mean number of tokens", (", *bonus", "")),
    },
}

WRONG = {
    "temperature_2": {
        "no return": ("it returns None", lambda logits, T: None),
        "text": ("expected numbers", lambda logits, T: "softmax"),
        "three tokens": ("(4,)", lambda x, T: right.temperature_2(x if T else x[:3], T)),
    },
    "acceptance_1": {
        "the other part": ("expected", lambda p, q: abs(p - q).sum() / 2),
        "0 / 0": ("nan", lambda p, q: (q * np.minimum(1, p / q)).sum()),
        "a small number more": (
            "differs by 1e-08",
            lambda p, q: (q * np.minimum(1, p / (q + 1e-8))).sum(),
        ),
    },
    "residual_3": {
        "three tokens": ("the shape of", three_tokens),
        "no function": ("expected a function", np.array([1, 0, 0])),
    },
    "nucleus_4": {
        "a threshold": ("expected", lambda p, top_p: np.where(p >= 1 - top_p, p, 0)),
        "four tokens": ("the shape of", lambda p, top_p: right.nucleus_4(p[:4], top_p)),
    },
    "speedup_5": {
        "0 at a = 1": (
            "expected",
            lambda a, K, c, v: (1 - a ** (K + 1)) / (1 - a) / (K * c + v) if a < 1 else 0.0,
        ),
        "drafts do not depend on those before": (
            "expected",
            lambda a, K, c, v: (1 + a * K) / (K * c + v),
        ),
    },
    "catch_up_8": {
        "the cache is another": (
            "in the cache in the end: []",
            lambda ids, cache, n, forward: forward(ids, SimpleNamespace(ids=[]))[-n:],
        ),
    },
    "one_token_6": {
        "sample(p), True": ("said to be the draft", lambda p, q, sample, accept: (sample(p), True)),
        "compare": ("0.3000 of the drafts are kept, 0.7000 can be", compared),
        "a flag of its own": ("said to be the draft", toss_of_the_overlap),
        "a flag without a draft": (
            "said to be the draft",
            lambda p, q, sample, accept: (sample(p), accept(np.minimum(p, q).sum())),
        ),
        "unverified": ("right [0.5, 0.3, 0.2]", lambda p, q, sample, accept: (sample(q), True)),
        "the residual itself": (
            "it returns (array(",
            lambda p, q, sample, accept: (right.residual_3(p, q), False),
        ),
        "chance of its own": (
            "`sample` is never called",
            lambda p, q, sample, accept: (int(q.argmax()), True),
        ),
        "all flags": ("whether it is a draft", lambda p, q, sample, accept: (sample(q), p / q > 1)),
        "without end": ("it does not end within", again_and_again),
        "exit": ("it ends the program", lambda *how: exit()),
    },
    "verify_7": {
        "the draft is sampled again": ("it samples from q = [0.2, 0.4, 0.4]", sampled_again),
        "on after a rejection": (
            "K = 2, p = [0, 0.5, 0.5], [0.2, 0.3, 0.5], q = [0.2, 0.4, 0.4], [0.5, 0.5, 0]",
            on_after_a_rejection,
        ),
        "compare": ("on average 0.3000 drafts are kept, by the right rule 0.7000", compare_each),
        "only where p is 1": ("0.0000 drafts are kept", where_p_is_1),
        "plain decoding": (
            "0.0000 drafts are kept",
            lambda draft, p, q, sample, *rest: (0, sample(p[0])),
        ),
        "a list of tokens": (
            "expected two whole numbers",
            lambda draft, p, q, sample, accept: [*draft, sample(p[-1]), 0],
        ),
        "heads at last": ("it does not end", waits_for_heads),
        "a larger p at last": ("it does not end within", waits_for_a_larger_p),
        "one coin": ("after (1,): yours [0.3, 0.45, 0.25]", one_coin),
        "all coins are counted": ("the first token: yours", all_coins_counted),
    },
    "block_11": {
        "the token rule": ("by block verification", right.verify_7),
        "the ratio before only": ("K = 5: a total variation distance", previous_ratio_only),
    },
    "two_drafts_10": {
        "one draft": ("are by two tries in turn; expected more", right.one_token_6),
        "sample(p), True": ("said to be the draft", lambda p, q, sample, accept: (sample(p), True)),
    },
    "speculative_9": {
        "plain decoding, and a useless draft": ("passes of the target", no_drafting),
        "all rows are sampled from": (
            "shape (1, 3)",
            lambda target, draft, ids, n, K, sample, accept, end: [sample(target(ids))],
        ),
        "a generator": ("expected a list of tokens", generated),
        "an array": ("expected a list", lambda *how: np.array(right.speculative_9(*how))),
        "three tokens": ("0, 0], right [", with_models(right.speculative_9, first_three)),
        "a batch of one": (
            "expected a list of ids",
            with_models(right.speculative_9, lambda model: lambda ids: model([ids])[0]),
        ),
    },
    "cached_14": {
        "no cache": (
            "the cache None, expected one whose ids is a list",
            with_models(right.speculative_9, lambda model: lambda ids: model(ids, None)),
        ),
    },
    "siblings_12": {
        "token -1": ("each below 3", lambda *how: [-1]),
        "plain decoding": (
            "the mean number of tokens",
            lambda target, draft, ids, sample, accept: [sample(target(ids)[-1])],
        ),
        "three tokens": ("0, 0], right [", with_models(right.siblings_12, first_three)),
    },
    "drafter_13": {
        "never": ("it never drafts", drafter(lambda n, sample, ids, k: ([], np.empty((0, n))))),
        "q is not what it was sampled from": ("q says", constant(q=uniform)),
        "q of None": ("sum to 1", constant(q=lambda n, k: np.full((k, n), None))),
        "q does not sum to 1": ("sum to 1", constant(q=lambda n, k: np.ones((k, n)))),
        "one-hot at another token": ("q says 0", constant(q=lambda n, k: one_hot(n, k, 2))),
        "more than k": (
            "tokens at most",
            constant(lambda k: [1] * 4, lambda n, k: one_hot(n, 4)),
        ),
        "another vocabulary": ("the shape of q", constant(q=lambda n, k: one_hot(n + 1, k))),
        "changes ids": ("the ids afterwards", drafter(changes_its_ids)),
        "the first text for ever": ("another text", remembers_the_first_text),
        "drops a token for what it is": ("q says", drafter(drops_a_token)),
        "one-hot where nothing was seen": ("q says 1", drafter(one_hot_where_unseen)),
        "token -1": (
            "expected whole numbers from 0 to 3",
            constant(lambda k: [-1] * k, lambda n, k: one_hot(n, k, -1)),
        ),
        "an array of tokens": ("returns ndarray", constant(lambda k: np.ones(k, int))),
        "a tuple of tokens": ("returns tuple", constant(lambda k: (1,) * k)),
        "a list of rows": ("and list", constant(q=lambda n, k: one_hot(n, k).tolist())),
        "nothing": ("it returns None", lambda n, sample: None),
        "a list": ("an object with n_vocab", lambda n, sample: [1, 2]),
        "no prefill": (
            "an object with n_vocab, prefill(ids, target_cache)",
            lambda n, sample: SimpleNamespace(n_vocab=n, propose=solved),
        ),
        "no return": ("it returns None", drafter(lambda *how: None)),
        "no q": ("expected a list of tokens and an array", drafter(lambda n, s, i, k: [1] * k)),
        "four tokens": (
            "the shape of q: (1, 4), expected (1, 6)",
            constant(q=lambda n, k: one_hot(4, k)),
        ),
        "wrong from the fourth on": (
            "with k = 6",
            constant(q=lambda n, k: one_hot(n, k) if k <= 3 else uniform(n, k)),
        ),
        "wrong in long texts": (
            "q says 0.1667",
            drafter(
                lambda n, sample, ids, k: (
                    [1] * k,
                    one_hot(n, k) if len(ids) <= 18 else uniform(n, k),
                )
            ),
        ),
        "a choice of its own": (
            "no randomness or state of your own",
            drafter(lambda n, sample, ids, k: ([random.randrange(n)] * k, uniform(n, k))),
        ),
        "state of all texts": ("another text", FirstOfAll),
        "no whole numbers": (
            "expected whole numbers",
            constant(lambda k: [0.0] * k, lambda n, k: one_hot(n, k, 0)),
        ),
    },
}
for exercise, slips in EDITS.items():
    for slip, (said, *pieces) in slips.items():
        assert slip not in WRONG[exercise]
        WRONG[exercise][slip] = said, edited(getattr(right, exercise), *pieces)

RIGHT = {
    "residual_3": {
        "a partial": functools.partial(right.residual_3),
        "a list": lambda target, draft: right.residual_3(target, draft).tolist(),
    },
    "acceptance_1": {
        "from the distance": lambda p, q: 1 - abs(p - q).sum() / 2,
        "a Python number": lambda p, q: float(sum(map(min, p, q))),
    },
    "one_token_6": {
        "the replacement first": edited(
            right.one_token_6,
            ("x = sample(q)", "replacement, x = sample(residual_3(p, q)), sample(q)"),
            ("return sample(residual_3(p, q))", "return replacement"),
        ),
        "arguments by name": lambda p, q, sample, accept: right.one_token_6(
            p, q, lambda p: sample(p=p), lambda ratio: accept(ratio=ratio)
        ),
        "a coin by sample": edited(
            right.one_token_6,
            ("accept(p[x] / q[x])", "sample([1 - (a := min(1, p[x] / q[x])), a])"),
        ),
        "in place": one_place_in_place,
        "with the overlap": edited(right.one_token_6, ("p[x] / q", "min(p[x], q[x]) / q")),
    },
    "verify_7": {
        "block verification keeps more": right.block_11,
        "replacements first": edited(
            right.verify_7,
            (
                "        if not",
                "        replacement = sample(residual_3(p[i], q[i]))\n        if not",
            ),
            ("return i, sample(residual_3(p[i], q[i]))", "return i, replacement"),
        ),
        "all coins first": coins_first,
        "popped, in place": popped,
        "recursive": recursive,
    },
    "catch_up_8": {"a common beginning, and arrays": common_beginning},
    "cached_14": {
        "NumPy ids": with_models(right.cached_14, as_arrays),
        "with a prefill": edited(
            right.cached_14,
            ("text = []", "text = prefill(target, draft_model, ids, target_cache, draft_cache)"),
        ),
        "by catch_up_8": by_catching_up,
    },
    "siblings_12": {"NumPy ids": with_models(right.siblings_12, as_arrays)},
    "two_drafts_10": {"K-SEQ": k_sequential, "both first": both_first},
    "speculative_9": {
        "always K drafts, cut later": edited(
            right.speculative_9,
            ("min(K, n_tokens - len(text) - 1)", "K"),
            ("x == end", "x == end or len(text) == n_tokens"),
        ),
        "block verification": edited(right.speculative_9, ("verify_7", "block_11")),
        "asks for q again": edited(
            right.speculative_9, ("q.append(", "draft_model(ids), q.append(")
        ),
        "all rows of q at the end": edited(
            right.speculative_9,
            ("np.array(q)", "draft_model(ids + text + draft)[-len(draft) - 1 : -1]"),
        ),
        "NumPy ids": with_models(right.speculative_9, as_arrays),
        "NumPy tokens": texts_of_numpy,
    },
    "drafter_13": {
        "a constant": constant(),
        "frequent tokens": Frequent,
    },
}
