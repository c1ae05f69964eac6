"""Answers to the exercises that are wrong: {exercise: {the slip: (what its verdict says, answer)}};
and others that are right.
"""

import functools
import random
from types import SimpleNamespace

import numpy as np
import pytest

from exercises import solutions as right


def replaced(answer, **others):
    """The answer, but where it calls another solution by name, it calls these."""

    def wrong(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            for name, other in others.items():
                patch.setattr(right, name, other)
            return answer(*arguments)

    wrong.__name__ = answer.__name__
    return wrong


def softmax(x):
    weights = np.exp(x - x.max())
    return weights / weights.sum()


# ---------------------------------------------------------------- without chance


def overflowing(logits, temperature):
    weights = np.exp(logits / (temperature or 1))
    return weights / weights.sum()


def logits_in_place(logits, temperature):
    if temperature == 0:
        return right.temperature_2(logits, temperature)
    logits -= logits.max()
    return softmax(logits / temperature)


def p_in_place(p, q):
    rest = np.maximum(p - q, 0)
    if rest.sum() == 0:
        return p
    p -= q
    return rest / rest.sum()


def tied_at_the_threshold(p, top_p):
    """Everything as likely as the last token of the nucleus stays."""
    least = p[right.nucleus_4(p, top_p) > 0].min()
    kept = np.where(p >= least, p, 0)
    return kept / kept.sum()


def nucleus_above(p, top_p):
    order = np.argsort(-p, kind="stable")
    n_kept = 1 + np.count_nonzero(p[order].cumsum()[:-1] <= top_p)
    kept = np.where(np.isin(np.arange(len(p)), order[:n_kept]), p, 0)
    return kept / kept.sum()


def whole_text(ids, cache, n_last, forward):
    cache.ids.clear()
    return forward(ids, cache)[-n_last:]


def two_rows_at_most(ids, cache, n_last, forward):
    n_last = min(n_last, 2)
    return right.catch_up_8(ids, cache, n_last, forward)


def ids_cleared(ids, cache, n_last, forward):
    rows = right.catch_up_8(list(ids), cache, n_last, forward)
    ids.clear()
    return rows


# ---------------------------------------------------------------- rules


def compared(p, q, sample, accept):
    """The first idea of many: sample from p, and keep the draft if it is the same."""
    x, y = sample(q), sample(p)
    return y, y == x


def flag_tied_to_no_draft(p, q, sample, accept):
    x = sample(q)
    return (x, True) if accept(p[x] / q[x]) else (sample(p), True)


def toss_of_the_overlap(p, q, sample, accept):
    sample(q)
    return sample(p), accept(np.minimum(p, q).sum())


def rule(
    replacement=right.residual_3,
    bonus=lambda p, q, n: p[n],
    ratio=lambda p, q: p / q,
    verified=lambda i: True,
):
    """verify_7 with another residual, bonus row or ratio, or with drafts that no coin decides."""

    def verify(draft, p, q, sample, accept):
        for i, x in enumerate(draft):
            if verified(i) and not accept(ratio(p[i][x], q[i][x])):
                return i, sample(replacement(p[i], q[i]))
        return len(draft), sample(bonus(p, q, len(draft)))

    return verify


def compare_each(draft, p, q, sample, accept):
    for i, x in enumerate(draft):
        y = sample(p[i])
        if y != x:
            return i, y
    return len(draft), sample(p[len(draft)])


def where_p_is_1(draft, p, q, sample, accept):
    for i, x in enumerate(draft):
        if p[i][x] < 1:
            return i, sample(p[i])
    return len(draft), sample(p[len(draft)])


def half_of_the_overlap(draft, p, q, sample, accept):
    for i, x in enumerate(draft):
        if p[i][x] < 1 and not accept(min(1, p[i][x] / q[i][x]) / 2):
            rest = p[i] - np.minimum(p[i], q[i]) / 2
            return i, sample(rest / rest.sum())
    return len(draft), sample(p[len(draft)])


def plain(draft, p, q, sample, accept):
    return 0, sample(p[0])


def a_small_number_less(draft, p, q, sample, accept):
    return right.verify_7(draft, p, q, sample, lambda ratio: accept(ratio * (1 - 1e-10)))


def half_a_number(draft, p, q, sample, accept):
    n, token = right.verify_7(draft, p, q, sample, accept)
    return n if n == len(draft) else n + 0.5, token


def previous_ratio_only(draft, p, q, sample, accept):
    """P_i = min(1, min(1, r_{i-1}) r_i)."""
    ratios = [p[i][x] / q[i][x] for i, x in enumerate(draft)]
    P = [1.0] + [min(1, r * min(1, ratios[i - 1] if i else 1)) for i, r in enumerate(ratios)]
    for t in range(len(draft), -1, -1):
        q_next = q[t] if t < len(draft) else np.zeros_like(p[t])
        lacking = np.maximum(P[t] * p[t] - q_next, 0)
        S = lacking.sum()
        if P[t] == 1 or accept(S / (S + 1 - P[t])):
            return t, sample(lacking / S if S > 0 else p[t])


def block_with_the_residual_of_tokens(draft, p, q, sample, accept):
    n, token = right.block_11(draft, p, q, sample, accept)
    return n, sample(right.residual_3(p[n], q[n])) if n < len(draft) else token


def drafts(n, replacement=True):
    """Exercise 10 with n drafts, or without replacing them."""

    def answer(p, q, sample, accept):
        for _ in range(n):
            x = sample(q)
            if accept(p[x] / q[x]):
                return x, True
            p = right.residual_3(p, q)
            if not replacement:
                q = np.where(np.arange(len(q)) == x, 0, q)
                if not q.any():
                    break
                q = q / q.sum()
        return sample(p), False

    return answer


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


def ids_grow(target, draft_model, ids, n_tokens, K, sample, accept, end):
    text = right.speculative_9(target, draft_model, ids, n_tokens, K, sample, accept, end)
    ids += text
    return text


def siblings_grow(target, draft_model, ids, *rest):
    ids += right.siblings_12(target, draft_model, list(ids), *rest)
    return ids[1:]


def loop(verify=right.verify_7, drafted=lambda K, room: min(K, room - 1), stops=None, asks=1):
    """speculative_9 with another rule, number of drafts or end, or which asks for q again."""

    def answer(target, draft_model, ids, n_tokens, K, sample, accept, end):
        text, end = [], stops(end) if stops else end
        while len(text) < n_tokens:
            draft, q = [], []
            for _ in range(drafted(K, n_tokens - len(text))):
                q += [draft_model(ids + text + draft)[-1] for _ in range(asks)][:1]
                draft.append(sample(q[-1]))
            p = target(ids + text + draft)[-len(draft) - 1 :]
            n_accepted, token = verify(draft, p, q, sample, accept)
            for x in draft[:n_accepted] + [token]:
                text.append(x)
                if x == end:
                    return text
        return text

    return answer


def cut_later(target, draft_model, ids, n_tokens, K, sample, accept, end):
    """Always K drafts; what is too long is cut."""
    decode = loop(drafted=lambda K, room: K)
    text = decode(target, draft_model, ids, n_tokens, K, sample, accept, end)
    return text[:n_tokens]


def too_long(target, draft_model, ids, n_tokens, *rest):
    return right.speculative_9(target, draft_model, ids, n_tokens + 1, *rest)


def no_drafting(target, draft_model, ids, n_tokens, K, sample, accept, end):
    text = []
    while len(text) < n_tokens and end not in text:
        draft_model(ids + text)
        text.append(sample(target(ids + text)[-1]))
    return text


def nothing_after_an_end(target, draft_model, ids, n_tokens, K, sample, accept, end):
    if end in ids:
        return []
    return right.speculative_9(target, draft_model, ids, n_tokens, K, sample, accept, end)


def a_pass_for_each_place(target, *rest):
    def one_by_one(ids):
        return np.array([target(ids[: n + 1])[-1] for n in range(len(ids))])

    return right.speculative_9(one_by_one, *rest)


def rows_of_q_at_the_end(target, draft_model, ids, n_tokens, K, sample, accept, end):
    """Another right loop: it asks for all rows of q in one more pass of the draft model."""
    text = []
    while len(text) < n_tokens and end not in text:
        draft = []
        for _ in range(min(K, n_tokens - len(text) - 1)):
            draft.append(sample(draft_model(ids + text + draft)[-1]))
        n = len(ids + text)
        q = draft_model(ids + text + draft)[n - 1 : -1]
        n_accepted, token = right.verify_7(
            draft, target(ids + text + draft)[n - 1 :], q, sample, accept
        )
        text += draft[:n_accepted] + [token]
    return text[: text.index(end) + 1] if end in text else text


def reads_all_again(target, draft_model, *rest):
    afresh = lambda forward: lambda ids: forward(list(ids), SimpleNamespace(ids=[]))
    return right.speculative_9(afresh(target), afresh(draft_model), *rest)


def by_catching_up(target, draft_model, ids, n_tokens, K, sample, accept, end):
    def with_cache(forward, n_last):
        cache = SimpleNamespace(ids=[])
        return lambda ids: right.catch_up_8(ids, cache, min(n_last, len(ids)), forward)

    models = with_cache(target, K + 1), with_cache(draft_model, 1)
    return right.speculative_9(*models, ids, n_tokens, K, sample, accept, end)


def not_rolled_back(ids, cache, n_last, forward):
    return forward(ids[-n_last:] if cache.ids else ids, cache)[-n_last:]


def sure_of_a_second_sibling(target, draft_model, ids, sample, accept):
    """siblings_12, but a draft model that is sure of one token is asked for another: 0 / 0."""
    p, q = target(ids)[-1], draft_model(ids)[-1]
    for _ in range(2):
        x = sample(q)
        if accept(p[x] / q[x]):
            p, q = target(ids + [x])[-1], draft_model(ids + [x])[-1]
            child, accepted = right.one_token_6(p, q, sample, accept)
            return [x, child] + ([sample(target(ids + [x, child])[-1])] if accepted else [])
        p, q = right.residual_3(p, q), np.where(np.arange(len(q)) == x, 0, q)
        q = q / q.sum()
    return [sample(p)]


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


def one_token(toss_ratio=lambda p, q: p / q, replacement=right.residual_3):
    """one_token_6 with another ratio or another residual."""

    def answer(p, q, sample, accept):
        x = sample(q)
        if accept(toss_ratio(p, q)[x]):
            return x, True
        return sample(replacement(p, q)), False

    return answer


def own_coin(p, q, sample, accept):
    x = sample(q)
    accepted = random.random() < p[x] / q[x]
    return (x, True) if accepted else (sample(right.residual_3(p, q)), False)


def every_second_run(p, q, sample, accept):
    x = sample(q)
    RUNS.append(x)
    if len(RUNS) % 2 and accept(p[x] / q[x]):
        return x, True
    return sample(right.residual_3(p, q)), False


def no_return(p, q, sample, accept):
    x = sample(q)
    if accept(p[x] / q[x]):
        return x, True
    sample(right.residual_3(p, q)), False


def toss_of_all_ratios(p, q, sample, accept):
    x = sample(q)
    return (x, True) if accept(p / q) else (sample(right.residual_3(p, q)), False)


def flags_of_all_tokens(p, q, sample, accept):
    return sample(q), p / q > 1


def changed_before_the_toss(p, q, sample, accept):
    x = sample(q)
    p -= q
    return (x, True) if accept(p[x] / q[x]) else (sample(np.maximum(p, 0)), False)


def again_and_again(p, q, sample, accept):
    while True:
        try:
            accept(0.5)
        except Exception:
            pass


def leaves(p, q, sample, accept):
    exit()


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


def rows_one_further(draft, p, q, sample, accept):
    for i, x in enumerate(draft):
        if not accept(p[i + 1][x] / q[i][x]):
            return i, sample(right.residual_3(p[i + 1], q[i]))
    return len(draft), sample(p[-1])


def counts_the_rejected(draft, p, q, sample, accept):
    n, token = right.verify_7(draft, p, q, sample, accept)
    return min(n + 1, len(draft)), token


def returns_after_the_first(draft, p, q, sample, accept):
    for i, x in enumerate(draft):
        if accept(p[i][x] / q[i][x]):
            return i + 1, sample(p[i + 1])
        return i, sample(right.residual_3(p[i], q[i]))
    return 0, sample(p[0])


def one_coin(draft, p, q, sample, accept):
    if accept(np.prod([p[i][x] / q[i][x] for i, x in enumerate(draft)])):
        return len(draft), sample(p[-1])
    return 0, sample(right.residual_3(p[0], q[0]))


def all_coins_counted(draft, p, q, sample, accept):
    n = sum(accept(p[i][x] / q[i][x]) for i, x in enumerate(draft))
    return n, sample(right.residual_3(p[n], q[n]) if n < len(draft) else p[n])


def waits_for_room(target, draft_model, ids, n_tokens, K, sample, accept, end):
    text = []
    while len(text) < n_tokens:
        if not min(K, n_tokens - len(text) - 1):
            continue
        return right.speculative_9(target, draft_model, ids, n_tokens, K, sample, accept, end)


def without_its_end(target, draft_model, ids, n_tokens, K, sample, accept, end):
    text = right.speculative_9(target, draft_model, ids, n_tokens, K, sample, accept, end)
    return text[: text.index(end)] if end in text else text


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


def one_cache(target, draft_model, ids, n_tokens, K, sample, accept, end):
    cache = SimpleNamespace(ids=[])

    def cached(forward, n_last):
        return lambda ids: right.catch_up_8(ids, cache, min(n_last, len(ids)), forward)

    models = cached(target, K + 1), cached(draft_model, 1)
    return right.speculative_9(*models, ids, n_tokens, K, sample, accept, end)


def one_residual_for_both(p, q, sample, accept):
    for _ in range(2):
        x = sample(q)
        if accept(p[x] / q[x]):
            return x, True
    return sample(right.residual_3(p, q)), False


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


def replacement_first(p, q, sample, accept):
    replacement, x = sample(right.residual_3(p, q)), sample(q)
    return (x, True) if accept(p[x] / q[x]) else (replacement, False)


def coin_by_sample(p, q, sample, accept):
    x = sample(q)
    a = min(1, p[x] / q[x])
    return (x, True) if sample([1 - a, a]) else (sample(right.residual_3(p, q)), False)


def one_place_in_place(p, q, sample, accept):
    x = sample(q)
    if accept(p[x] / q[x]):
        return [x, np.True_]
    p -= q
    p[p < 0] = 0
    p /= p.sum()
    return [np.int64(sample(p.tolist())), 0]


def replacements_first(draft, p, q, sample, accept):
    for i, x in enumerate(draft):
        replacement = sample(right.residual_3(p[i], q[i]))
        if not accept(p[i][x] / q[i][x]):
            return i, replacement
    return len(draft), sample(p[len(draft)])


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


def with_a_prefill(target, draft_model, ids, n_tokens, K, sample, accept, end):
    caches, text = [SimpleNamespace(ids=[]), SimpleNamespace(ids=[])], list(ids)
    for model, cache in zip((target, draft_model), caches):
        if ids[:-1]:
            model(ids[:-1], cache)
    while len(text) < len(ids) + n_tokens:
        for cache in caches:
            del cache.ids[len(text) - 1 :]
        draft, q = [], []
        for _ in range(min(K, len(ids) + n_tokens - len(text) - 1)):
            q.append(draft_model((text + draft)[len(caches[1].ids) :], caches[1])[-1])
            draft.append(sample(q[-1]))
        p = target((text + draft)[len(caches[0].ids) :], caches[0])
        n_accepted, token = right.verify_7(draft, p, q, sample, accept)
        for x in [*draft[:n_accepted], token]:
            text.append(x)
            if x == end:
                return text[len(ids) :]
    return text[len(ids) :]


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

WRONG = {
    "temperature_2": {
        "overflows": ("nan", overflowing),
        "the temperature is ignored": ("expected", lambda x, t: right.temperature_2(x, 1.0)),
        "ties share at temperature 0": (
            "0.0): [0, 0.5, 0.5, 0], expected [0, 1, 0, 0]",
            lambda x, t: softmax(x / max(t, 1e-6)),
        ),
        "1e-9 is taken for 1": (
            "1e-09)",
            lambda x, t: right.temperature_2(x, t if t > 1e-6 or not t else 1),
        ),
        "in place": ("changes its arguments", logits_in_place),
        "no return": ("it returns None", lambda logits, T: None),
        "times the temperature": (
            "expected [0.1189",
            lambda x, T: softmax(x * T) if T else right.temperature_2(x, 0),
        ),
        "a small number more": ("differs by", lambda x, T: softmax(x / (T + 1e-8))),
        "float32": (
            "differs by",
            lambda x, T: right.temperature_2(x.astype(np.float32), T),
        ),
        "text": ("expected numbers", lambda logits, T: "softmax"),
        "three tokens": ("(4,)", lambda x, T: right.temperature_2(x if T else x[:3], T)),
    },
    "acceptance_1": {
        "the other part": ("expected", lambda p, q: abs(p - q).sum() / 2),
        "0 / 0": ("nan", lambda p, q: (q * np.minimum(1, p / q)).sum()),
        "not added up": ("the shape of", lambda p, q: np.minimum(p, q)),
        "a small number more": (
            "differs by 1e-08",
            lambda p, q: (q * np.minimum(1, p / (q + 1e-8))).sum(),
        ),
    },
    "residual_3": {
        "not scaled": ("[0.3, 0, 0], expected [1, 0, 0]", lambda p, q: np.maximum(p - q, 0)),
        "0 / 0": ("nan", lambda p, q: np.maximum(p - q, 0) / np.maximum(p - q, 0).sum()),
        "nearly the same": (
            "expected [0, 0, 1]",
            lambda p, q: p if np.allclose(p, q) else right.residual_3(p, q),
        ),
        "in place": ("changes its arguments", p_in_place),
        "swapped": ("[0, 0.3333, 0.6667], expected [1, 0, 0]", lambda p, q: right.residual_3(q, p)),
        "argmax": (
            "[1, 0, 0], expected [0.75, 0.25, 0]",
            lambda p, q: np.eye(len(p))[(p - q).argmax()],
        ),
        "three tokens": ("the shape of", three_tokens),
        "a small number more": (
            "which differs by 3e-10",
            lambda p, q: np.maximum(p - q, 0) / (np.maximum(p - q, 0).sum() + 1e-10),
        ),
        "no function": ("expected a function", np.array([1, 0, 0])),
    },
    "nucleus_4": {
        "a threshold": ("expected", lambda p, top_p: np.where(p >= 1 - top_p, p, 0)),
        "one more where it is reached exactly": ("0.5): ", nucleus_above),
        "ties are all kept": ("0.75): [0.25, 0.5, 0.25], expected", tied_at_the_threshold),
        "sorted": (
            "[1, 0, 0, 0], expected [0, 1, 0, 0]",
            lambda p, top_p: np.sort(right.nucleus_4(p, top_p))[::-1],
        ),
        "not scaled": ("0.4", lambda p, top_p: np.where(right.nucleus_4(p, top_p) > 0, p, 0)),
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
        "v is ignored": ("expected", lambda a, K, c, v: right.speedup_5(a, K, c, 1)),
        "five drafts": (
            "K=9",
            lambda a, K, c, v: sum(a**n for n in range(min(K, 5) + 1)) / (K * c + v),
        ),
        "no bonus": (
            "1, expected 1.3",
            lambda a, K, c, v: sum(a**n for n in range(K)) / (K * c + v),
        ),
    },
    "catch_up_8": {
        "everything again": ("fed: [5], expected [1]", whole_text),
        "nothing forgotten": (
            "in the cache in the end",
            lambda ids, cache, n, forward: forward(ids[-n:], cache),
        ),
        "two rows at most": ("the rows of the last 3 ids", two_rows_at_most),
        "ids are emptied": ("the ids afterwards: []", ids_cleared),
        "the cache is another": (
            "in the cache in the end: []",
            lambda ids, cache, n, forward: forward(ids, SimpleNamespace(ids=[]))[-n:],
        ),
    },
    "one_token_6": {
        "sample(p), True": ("said to be the draft", lambda p, q, sample, accept: (sample(p), True)),
        "replaced from p": (
            "yours [0.35, 0.39, 0.26], right [0.5, 0.3, 0.2]",
            replaced(right.one_token_6, residual_3=lambda p, q: p),
        ),
        "the residual is not scaled": (
            "sample([0.3, 0, 0])",
            replaced(right.one_token_6, residual_3=lambda p, q: np.maximum(p - q, 0)),
        ),
        "compare": ("0.3000 of the drafts are kept, 0.7000 can be", compared),
        "a flag of its own": ("said to be the draft", toss_of_the_overlap),
        "a flag without a draft": (
            "said to be the draft",
            lambda p, q, sample, accept: (sample(p), accept(np.minimum(p, q).sum())),
        ),
        "a replacement called draft": ("said to be the draft", flag_tied_to_no_draft),
        "unverified": ("right [0.5, 0.3, 0.2]", lambda p, q, sample, accept: (sample(q), True)),
        "the residual itself": (
            "it returns (array(",
            lambda p, q, sample, accept: (right.residual_3(p, q), False),
        ),
        "chance of its own": (
            "`sample` is never called",
            lambda p, q, sample, accept: (int(q.argmax()), True),
        ),
        "swapped": ("0.8800 of the drafts", one_token(lambda p, q: q / p)),
        "argmax": (
            "right [0.1928, 0.5711, 0.236]",
            one_token(replacement=lambda p, q: np.eye(len(p))[(p - q).argmax()]),
        ),
        "a small number more": (
            "distance of 1e-08; 0.7000 of the drafts are kept, 0.7000 can be, the sum of "
            "min(p, q); the first token: yours [0.5, 0.3, 0.2], right [0.5, 0.3, 0.2], which "
            "differ by 1e-08",
            one_token(lambda p, q: p / (q + 1e-8)),
        ),
        "a coin of its own": ("no randomness or state of your own", own_coin),
        "state of its own": ("no randomness or state of your own", every_second_run),
        "three tokens": ("right [0.4354, 0.0001706, 0.3006", one_token(replacement=three_tokens)),
        "no return": ("it returns None", no_return),
        "all ratios": ("accept(array(", toss_of_all_ratios),
        "all flags": ("whether it is a draft", flags_of_all_tokens),
        "changed before the toss": ("accept(", changed_before_the_toss),
        "without end": ("it does not end within", again_and_again),
        "exit": ("it ends the program", leaves),
    },
    "verify_7": {
        "the draft is sampled again": ("it samples from q = [0.2, 0.4, 0.4]", sampled_again),
        "on after a rejection": (
            "K = 2, p = [0, 0.5, 0.5], [0.2, 0.3, 0.5], q = [0.2, 0.4, 0.4], [0.5, 0.5, 0]",
            on_after_a_rejection,
        ),
        "replaced from p": (
            "the first token: yours [0.35, 0.39, 0.26], right [0.5, 0.3, 0.2]",
            rule(replacement=lambda p, q: p),
        ),
        "replaced from q": (
            "it samples from q = [0.2, 0.4, 0.4], expected the draft that came from there",
            rule(replacement=lambda p, q: q),
        ),
        "replaced from |p - q|": (
            "the first token: yours [0.35, 0.35, 0.3], right [0.5, 0.3, 0.2]",
            rule(replacement=lambda p, q: abs(p - q) / (abs(p - q).sum() or 1)),
        ),
        "the bonus from the row before": (
            "after (1,): yours [0.5, 0.3, 0.2], right [0.2, 0.3, 0.5]",
            rule(bonus=lambda p, q, n: p[max(n - 1, 0)]),
        ),
        "the first draft is not verified": (
            "the first token: yours [0.2, 0.4, 0.4]",
            rule(verified=lambda i: i > 0),
        ),
        "the third draft is not verified": (
            "K = 5: a total variation distance",
            rule(verified=lambda i: i < 2),
        ),
        "compare": ("on average 0.3000 drafts are kept, by the right rule 0.7000", compare_each),
        "only where p is 1": ("0.0000 drafts are kept", where_p_is_1),
        "half of min(p, q)": ("0.3500 drafts are kept", half_of_the_overlap),
        "plain decoding": ("0.0000 drafts are kept", plain),
        "half a number": ("0.5", half_a_number),
        "a small number less": ("which differ by 5e-11", a_small_number_less),
        "a list of tokens": (
            "expected two whole numbers",
            lambda draft, p, q, sample, accept: [*draft, sample(p[-1]), 0],
        ),
        "heads at last": ("it does not end", waits_for_heads),
        "a larger p at last": ("it does not end within", waits_for_a_larger_p),
        "rows one further": ("the first token: yours", rows_one_further),
        "the rejected is counted": ("the first token: yours", counts_the_rejected),
        "the first decides": ("0.8000 drafts are kept", returns_after_the_first),
        "one coin": ("after (1,): yours [0.3, 0.45, 0.25]", one_coin),
        "all coins are counted": ("the first token: yours", all_coins_counted),
        "three tokens": ("K = 2: a total", rule(replacement=three_tokens)),
        "the fourth draft is not verified": ("K = 5: a total", rule(verified=lambda i: i < 3)),
        "three drafts": (
            "K = 5: the distribution is right",
            lambda draft, p, q, sample, accept: right.verify_7(draft[:3], p, q, sample, accept),
        ),
    },
    "block_11": {
        "the token rule": ("by block verification", right.verify_7),
        "the residual of tokens": ("total variation distance", block_with_the_residual_of_tokens),
        "the ratio before only": ("K = 5: a total variation distance", previous_ratio_only),
        "three drafts": (
            "K = 5: the distribution is right",
            lambda draft, p, q, *rest: right.block_11(draft[:3], p, q[:3], *rest),
        ),
    },
    "two_drafts_10": {
        "one draft": ("are by two tries in turn; expected more", right.one_token_6),
        "residual of p": (
            "total variation distance",
            replaced(right.two_drafts_10, residual_3=lambda p, q: p),
        ),
        "sample(p), True": ("said to be the draft", lambda p, q, sample, accept: (sample(p), True)),
        "without replacement": ("said to be the draft", drafts(2, replacement=False)),
        "three": ("3 drafts are sampled from q, expected 2", drafts(3)),
        "one residual for both": ("total variation distance", one_residual_for_both),
    },
    "speculative_9": {
        "plain decoding, and a useless draft": ("passes of the target", no_drafting),
        "no end": ("right [0, 0, 0] and P(end) 1", loop(stops=lambda end: None)),
        "token 0 is no end": ("the end token 0: ", loop(stops=lambda end: end or None)),
        "an end in the prompt": ("expected 2", nothing_after_an_end),
        "one token more": ("expected 1", too_long),
        "another rule": ("right [", loop(rule(replacement=lambda p, q: p))),
        "K is ignored: 1": ("passes of the target", loop(drafted=lambda K, room: min(1, room - 1))),
        "K is ignored: 2": ("passes of the target", loop(drafted=lambda K, room: min(2, room - 1))),
        "K is ignored: 4": ("passes of the target", loop(drafted=lambda K, room: min(4, room - 1))),
        "K + 1 drafts": (
            "passes of the target",
            loop(drafted=lambda K, room: min(K + 1, room - 1)),
        ),
        "compare": ("passes of the target on average", loop(compare_each)),
        "only where p is 1": ("passes of the target on average", loop(where_p_is_1)),
        "all rows are sampled from": (
            "shape (1, 3)",
            lambda target, draft, ids, n, K, sample, accept, end: [sample(target(ids))],
        ),
        "a pass for each place": ("or fewer: one a round", a_pass_for_each_place),
        "ids grow": ("the ids that it was given, afterwards", ids_grow),
        "room at last": ("it does not end within", waits_for_room),
        "a generator": ("expected a list of tokens", generated),
        "an array": ("expected a list", lambda *how: np.array(right.speculative_9(*how))),
        "the end is left out": ("expected 2", without_its_end),
        "three drafts": (
            "13 tokens with K = 6",
            lambda target, draft, ids, n, K, *rest: right.speculative_9(
                target, draft, ids, n, min(K, 3), *rest
            ),
        ),
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
        "all is read again": ("reads 25 tokens, expected 12 at most", reads_all_again),
        "a rejected draft stays": ("", replaced(by_catching_up, catch_up_8=not_rolled_back)),
        "another rule": (
            "right [",
            replaced(right.cached_14, verify_7=rule(replacement=lambda p, q: p)),
        ),
        "one cache for both": ("a cache of its own for each model", one_cache),
    },
    "siblings_12": {
        "ids grow": ("the ids that it was given, afterwards", siblings_grow),
        "token -1": ("each below 3", lambda *how: [-1]),
        "a sure draft model": ("sample([nan, nan, nan])", sure_of_a_second_sibling),
        "residual of p": (
            "total variation distance",
            replaced(right.siblings_12, residual_3=lambda p, q: p),
        ),
        "plain decoding": (
            "the mean number of tokens",
            lambda target, draft, ids, sample, accept: [sample(target(ids)[-1])],
        ),
        "three tokens": ("0, 0], right [", with_models(right.siblings_12, first_three)),
        "no bonus": (
            "the mean number of tokens",
            lambda *how: right.siblings_12(*how)[:2],
        ),
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
        "the replacement first": replacement_first,
        "arguments by name": lambda p, q, sample, accept: right.one_token_6(
            p, q, lambda p: sample(p=p), lambda ratio: accept(ratio=ratio)
        ),
        "a coin by sample": coin_by_sample,
        "in place": one_place_in_place,
        "with the overlap": one_token(lambda p, q: np.minimum(p, q) / q),
    },
    "verify_7": {
        "block verification keeps more": right.block_11,
        "replacements first": replacements_first,
        "all coins first": coins_first,
        "popped, in place": popped,
        "recursive": recursive,
    },
    "catch_up_8": {"a common beginning, and arrays": common_beginning},
    "cached_14": {
        "NumPy ids": with_models(right.cached_14, as_arrays),
        "with a prefill": with_a_prefill,
        "by catch_up_8": by_catching_up,
    },
    "siblings_12": {"NumPy ids": with_models(right.siblings_12, as_arrays)},
    "two_drafts_10": {"K-SEQ": k_sequential, "both first": both_first},
    "speculative_9": {
        "always K drafts, cut later": cut_later,
        "block verification": loop(right.block_11),
        "asks for q again": loop(asks=2),
        "all rows of q at the end": rows_of_q_at_the_end,
        "NumPy ids": with_models(right.speculative_9, as_arrays),
        "NumPy tokens": texts_of_numpy,
    },
    "drafter_13": {
        "a constant": constant(),
        "frequent tokens": Frequent,
    },
}
