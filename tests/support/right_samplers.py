"""Exact rules, written in many ways. Data of test_prove.py: each must be "exact"."""

import math
import random

import numpy as np

RNG = np.random.default_rng(0)


def rest_of(p, q):
    return np.maximum(p - q, 0)


def ending(draft, p, q, i, pick):
    rest = p[i] if i == len(draft) else rest_of(p[i], q[i])
    return i, pick(rest / rest.sum())


def first_rejection(draft, p, q, is_rejected):
    return next((i for i, x in enumerate(draft) if is_rejected(p[i, x], q[i, x])), len(draft))


# ---------------------------------------------------------------- sample and accept are handed over


def recursive(draft, p, q, sample, accept):
    if not draft:
        return [sample(p[0])]
    x = draft[0]
    if not accept(p[0, x] / q[0, x]):
        rest = rest_of(p[0], q[0])
        return [sample(rest / rest.sum())]
    return [x, *recursive(draft[1:], p[1:], q[1:], sample, accept)]


def generator(draft, p, q, sample, accept):
    for x, row, other in zip(draft, p, q):
        if not accept(row[x] / other[x]):
            rest = rest_of(row, other)
            yield sample(rest / rest.sum())
            return
        yield x
    yield sample(p[-1])


def numpy_integers(draft, p, q, sample, accept):
    n, n_accepted = len(draft), np.int64(0)
    while n_accepted < n and accept(
        p[n_accepted, draft[n_accepted]] / q[n_accepted, draft[n_accepted]]
    ):
        n_accepted += 1
    rest = rest_of(p[n_accepted], q[n_accepted]) if n_accepted < n else p[n]
    return np.array([*draft[:n_accepted], np.int32(sample(rest / rest.sum()))])


def float32_inside(draft, p, q, sample, accept):
    p, q = p.astype(np.float32), q.astype(np.float32)
    is_rejected = lambda a, b: not accept(np.float32(1) if b < a else a / b)
    return ending(draft, p, q, first_rejection(draft, p, q, is_rejected), sample)


def replacement_by_rejection(draft, p, q, sample, accept):
    """Samples the residual by sampling p until a coin agrees: a loop, which ends."""
    for i, x in enumerate(draft):
        if not accept(p[i, x] / q[i, x]):
            surplus = np.where(p[i] > 0, rest_of(p[i], q[i]) / np.maximum(p[i], 1e-300), 0)
            for token in np.flatnonzero(surplus):
                total = rest_of(p[i], q[i])[token:].sum()
                if accept(rest_of(p[i], q[i])[token] / total):
                    return i, token
    return len(draft), sample(p[-1])


def coins_by_sample(draft, p, q, sample, accept):
    is_rejected = lambda a, b: sample([min(1.0, a / b), max(0.0, 1 - a / b)])
    return ending(draft, p, q, first_rejection(draft, p, q, is_rejected), sample)


def keeps_nothing(draft, p, q, sample, accept):
    return 0, sample(p[0])


def with_a_rng(draft, p, q, rng):
    n = first_rejection(draft, p, q, lambda a, b: rng.random() >= a / b)
    return ending(draft, p, q, n, lambda w: rng.choice(len(w), p=w))


def a_generator_of_numpy(draft, p, q, rng):
    assert isinstance(rng, np.random.Generator)
    return with_a_rng(draft, p, q, np.random.default_rng(rng))


# ---------------------------------------------------------------- randomness of their own


def legacy_numpy(draft, p, q):
    n = first_rejection(draft, p, q, lambda a, b: np.random.rand() > a / b)
    return ending(draft, p, q, n, lambda w: np.random.choice(len(w), p=w))


def vectors_of_coins(draft, p, q):
    k = np.arange(len(draft))
    accepted = RNG.random(len(draft)) < np.minimum(1, p[k, draft] / q[k, draft])
    n = int(accepted.cumprod().sum())
    return ending(draft, p, q, n, lambda w: RNG.choice(len(w), p=w))


def gumbel_race(draft, p, q):
    n = first_rejection(draft, p, q, lambda a, b: np.log(RNG.uniform()) > np.log(a) - np.log(b))
    return ending(draft, p, q, n, lambda w: np.argmax(np.log(w) + RNG.gumbel(size=len(w))))


def gumbel_by_hand(draft, p, q):
    n = first_rejection(draft, p, q, lambda a, b: b * random.random() > a)
    key = lambda w, i: (math.log(w[i]) - math.log(-math.log(random.random()))) if w[i] else -1e9
    return ending(draft, p, q, n, lambda w: max(range(len(w)), key=lambda i: key(w, i)))


def exponential_race(draft, p, q):
    n = first_rejection(draft, p, q, lambda a, b: RNG.exponential() < -np.log(min(1, a / b)))
    return ending(draft, p, q, n, lambda w: (w / RNG.exponential(size=len(w))).argmax())


def smallest_exponential(draft, p, q):
    n = first_rejection(draft, p, q, lambda a, b: b * random.random() > a)
    return ending(draft, p, q, n, lambda w: np.argmin(RNG.exponential(size=len(w)) / w))


def inverted_cumulative(draft, p, q):
    n = first_rejection(draft, p, q, lambda a, b: np.random.random() >= a / b)
    return ending(
        draft, p, q, n, lambda w: np.searchsorted(w.cumsum(), np.random.random() * w.sum())
    )


def own_generator(draft, p, q):
    rng = np.random.default_rng()
    n = first_rejection(draft, p, q, lambda a, b: rng.random() > a / b)
    return ending(draft, p, q, n, lambda w: (rng.random() < w.cumsum()).argmax())


def one_coin_reused_rightly(draft, p, q):
    """The coin that rejected is uniform above the ratio, and chooses the replacement."""
    for i, x in enumerate(draft):
        u, r = random.random(), min(1, p[i, x] / q[i, x])
        if u >= r:
            v, rest = (u - r) / (1 - r), rest_of(p[i], q[i])
            return i, np.searchsorted(rest.cumsum() / rest.sum(), v)
    return ending(draft, p, q, len(draft), lambda w: random.choices(range(len(w)), w)[0])


def block_with_numpy(draft, p, q):
    P = [1.0]
    for i, x in enumerate(draft):
        P.append(min(1.0, P[-1] * p[i, x] / q[i, x]))
    for t in range(len(draft), -1, -1):
        rest = np.maximum(P[t] * p[t] - (q[t] if t < len(draft) else 0), 0)
        S = rest.sum()
        if P[t] == 1 or np.random.random() < S / (S + 1 - P[t]):
            w = rest / S if S > 0 else p[t]
            return t, np.random.choice(len(w), p=w)
