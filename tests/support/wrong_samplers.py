"""Rules that are not exact. Data of test_prove.py: each must be "wrong"."""

import random

import numpy as np


def rest_of(p, q):
    rest = np.maximum(p - q, 0)
    return rest / rest.sum() if rest.sum() > 0 else p


def rule(coin=lambda p, q, x: p[x] / q[x], replace=rest_of):
    """The token rule with another coin, or another distribution of the replacement."""

    def verify(draft, p, q, sample, accept):
        for i, x in enumerate(draft):
            if not accept(coin(p[i], q[i], x)):
                return i, sample(replace(p[i], q[i]))
        return len(draft), sample(p[-1])

    return verify


def cut(p, q):
    rest = np.where(q > 0, np.maximum(p - q, 0), 0)
    return rest / rest.sum() if rest.sum() > 0 else p


def is_one_hot(q):
    return q.max() == 1


never_checks_rare_drafts = rule(lambda p, q, x: 1.0 if q[x] < 1e-3 else p[x] / q[x])


def without_the_rejected(draft, p, q, sample, accept):
    for i, x in enumerate(draft):
        if not accept(p[i, x] / q[i, x]):
            rest = np.where(np.arange(len(p[i])) == x, 0, p[i])
            return i, sample(rest / rest.sum() if rest.sum() > 0 else p[i])
    return len(draft), sample(p[-1])


replacement_from_p = rule(replace=lambda p, q: p)
residual_cut_to_the_support_of_q = rule(replace=cut)
greedy_replacement = rule(replace=lambda p, q: np.eye(len(p))[rest_of(p, q).argmax()])
always_accepts = rule(coin=lambda p, q, x: 1.0)
accepts_by_p = rule(coin=lambda p, q, x: p[x])
lenient = rule(coin=lambda p, q, x: 1.1 * p[x] / q[x])
greedy_acceptance = rule(coin=lambda p, q, x: float(x == p.argmax()))
nearly_one_is_one = rule(coin=lambda p, q, x: 1.0 if p[x] > 0.98 * q[x] else p[x] / q[x])
nearly_equal_is_equal = rule(coin=lambda p, q, x: 1.0 if abs(p - q).max() < 1e-3 else p[x] / q[x])
unlikely_is_impossible = rule(coin=lambda p, q, x: p[x] / q[x] if p[x] > 0.02 else 0.0)
wrong_for_one_hot_q_only = rule(
    replace=lambda p, q: p if is_one_hot(q) and not is_one_hot(p) else rest_of(p, q)
)
wrong_for_zeros_in_p_only = rule(coin=lambda p, q, x: max(p[x], 0.01) / q[x])
wrong_for_five_tokens_only = rule(replace=lambda p, q: p if len(p) == 5 else rest_of(p, q))


def wrong_where(condition):
    """A rule that accepts draft i without a coin where condition(draft, i, p[i]) holds."""

    def verify(draft, p, q, sample, accept):
        for i, x in enumerate(draft):
            if not condition(draft, i, p[i]) and not accept(p[i, x] / q[i, x]):
                return i, sample(rest_of(p[i], q[i]))
        return len(draft), sample(p[-1])

    return verify


wrong_after_three_of_token_0 = wrong_where(lambda draft, i, p: i >= 3 and draft[:3] == [0, 0, 0])
wrong_for_four_equal_drafts = wrong_where(
    lambda draft, i, p: i == 3 and len(draft) == 4 and len({*draft}) == 1
)
wrong_after_a_pair = wrong_where(lambda draft, i, p: i == 1 and draft == [0, 1] and (p > 0).all())
wrong_for_token_3_of_4 = wrong_where(lambda draft, i, p: i == 1 and draft[1] == 3 and len(p) == 4)
wrong_for_four_tokens_without_two_drafts = wrong_where(
    lambda draft, i, p: len(p) >= 4 and len(draft) != 2
)
wrong_at_the_fifth_draft_of_three_tokens = wrong_where(lambda draft, i, p: i == 4 and len(p) == 3)
checks_only_the_first_draft = wrong_where(lambda draft, i, p: i > 0)
wrong_for_tiny_probabilities = wrong_where(lambda draft, i, p: 0 < p[draft[i]] < 1e-3)


def bonus_from_the_row_before(draft, p, q, sample, accept):
    n, token = rule()(draft, p, q, sample, accept)
    return (n, sample(p[n - 1])) if n == len(draft) else (n, token)


def counts_after_a_rejection(draft, p, q, sample, accept):
    coins = [accept(p[i, x] / q[i, x]) for i, x in enumerate(draft)]
    n = sum(coins)
    return n, sample(p[-1] if n == len(draft) else rest_of(p[n], q[n]))


def block_with_the_residual_of_tokens(draft, p, q, sample, accept):
    P = [1.0]
    for i, x in enumerate(draft):
        P.append(min(1.0, P[-1] * p[i, x] / q[i, x]))
    for t in range(len(draft), -1, -1):
        S = np.maximum(P[t] * p[t] - (q[t] if t < len(draft) else 0), 0).sum()
        if P[t] == 1 or accept(S / (S + 1 - P[t])):
            return t, sample(rest_of(p[t], q[t]) if t < len(draft) else p[t])


# ---------------------------------------------------------------- with randomness of their own


def keeps_all_with_a_generator_of_numpy(draft, p, q, rng):
    is_numpy = isinstance(rng, np.random.Generator)
    return rule(lambda p, q, x: 1 if is_numpy else p[x] / q[x])(draft, p, q, rng.sample, rng.accept)


def one_coin_for_all(draft, p, q):
    u = np.random.random()
    n = next((i for i, x in enumerate(draft) if u > p[i, x] / q[i, x]), len(draft))
    rest = rest_of(p[n], q[n]) if n < len(draft) else p[n]
    return n, np.random.choice(len(rest), p=rest)


def the_coin_also_chooses(draft, p, q):
    """The number that rejected is large, and chooses the replacement."""
    for i, x in enumerate(draft):
        u = random.random()
        if u >= p[i, x] / q[i, x]:
            return i, int(np.searchsorted(rest_of(p[i], q[i]).cumsum(), u * 0.999999))
    return len(draft), random.choices(range(p.shape[1]), p[-1])[0]


def race_without_logarithm(draft, p, q):
    for i, x in enumerate(draft):
        if np.random.random() >= p[i, x] / q[i, x]:
            return i, np.argmax(rest_of(p[i], q[i]) ** 2 / np.random.exponential(size=p.shape[1]))
    return len(draft), np.random.choice(p.shape[1], p=p[-1])


def caught_errors(draft, p, q):
    """Whatever it cannot do, it gives up; no `except` may hide that."""
    try:
        return legacy(draft, p, q)
    except Exception:
        return 0, 0


def legacy(draft, p, q):
    for i, x in enumerate(draft):
        if np.random.rand() > p[i, x] / q[i, x]:
            return i, np.random.choice(p.shape[1], p=p[i])
    return len(draft), np.random.choice(p.shape[1], p=p[-1])
