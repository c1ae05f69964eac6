"""Answers to the exercises that are wrong: {exercise: {the slip: (what its verdict says, answer)}};
and others that are right.
"""

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


def compared(p, q, sample, toss):
    """The first idea of many: sample from p, and keep the draft if it is the same."""
    x, y = sample(q), sample(p)
    return y, y == x


def flag_tied_to_no_draft(p, q, sample, toss):
    x = sample(q)
    return (x, True) if toss(p[x] / q[x]) else (sample(p), True)


def toss_of_the_overlap(p, q, sample, toss):
    sample(q)
    return sample(p), toss(np.minimum(p, q).sum())


def rule(replacement=right.residual_3, bonus=lambda q, p, n: p[n]):
    """verify_7 with another residual or another row for the bonus."""

    def verify(draft, q, p, sample, toss):
        for i, x in enumerate(draft):
            if not toss(p[i][x] / q[i][x]):
                return i, sample(replacement(p[i], q[i]))
        return len(draft), sample(bonus(q, p, len(draft)))

    return verify


def third_unverified(draft, q, p, sample, toss):
    for i, x in enumerate(draft):
        if i < 2 and not toss(p[i][x] / q[i][x]):
            return i, sample(right.residual_3(p[i], q[i]))
    return len(draft), sample(p[len(draft)])


def first_unverified(draft, q, p, sample, toss):
    for i, x in enumerate(draft):
        if i and not toss(p[i][x] / q[i][x]):
            return i, sample(right.residual_3(p[i], q[i]))
    return len(draft), sample(p[len(draft)])


def compare_each(draft, q, p, sample, toss):
    for i, x in enumerate(draft):
        y = sample(p[i])
        if y != x:
            return i, y
    return len(draft), sample(p[len(draft)])


def where_p_is_1(draft, q, p, sample, toss):
    for i, x in enumerate(draft):
        if p[i][x] < 1:
            return i, sample(p[i])
    return len(draft), sample(p[len(draft)])


def half_of_the_overlap(draft, q, p, sample, toss):
    for i, x in enumerate(draft):
        if p[i][x] < 1 and not toss(min(1, p[i][x] / q[i][x]) / 2):
            rest = p[i] - np.minimum(p[i], q[i]) / 2
            return i, sample(rest / rest.sum())
    return len(draft), sample(p[len(draft)])


def plain(draft, q, p, sample, toss):
    return 0, sample(p[0])


def half_a_number(draft, q, p, sample, toss):
    n, token = right.verify_7(draft, q, p, sample, toss)
    return n if n == len(draft) else n + 0.5, token


def previous_ratio_only(draft, q, p, sample, toss):
    """P_i = min(1, min(1, r_{i-1}) r_i)."""
    ratios = [p[i][x] / q[i][x] for i, x in enumerate(draft)]
    P = [1.0] + [min(1, r * min(1, ratios[i - 1] if i else 1)) for i, r in enumerate(ratios)]
    for t in range(len(draft), -1, -1):
        q_next = q[t] if t < len(draft) else np.zeros_like(p[t])
        lacking = np.maximum(P[t] * p[t] - q_next, 0)
        S = lacking.sum()
        if P[t] == 1 or toss(S / (S + 1 - P[t])):
            return t, sample(lacking / S if S > 0 else p[t])


def block_with_the_residual_of_tokens(draft, q, p, sample, toss):
    n, token = right.block_11(draft, q, p, sample, toss)
    return n, sample(right.residual_3(p[n], q[n])) if n < len(draft) else token


def drafts(n, replacement=True):
    """Exercise 10 with n drafts, or without replacing them."""

    def answer(p, q, sample, toss):
        for _ in range(n):
            x = sample(q)
            if toss(p[x] / q[x]):
                return x, True
            p = right.residual_3(p, q)
            if not replacement:
                q = np.where(np.arange(len(q)) == x, 0, q)
                if not q.any():
                    break
                q = q / q.sum()
        return sample(p), False

    return answer


def k_sequential(p, q, sample, toss):
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
        if toss(p[x] / (high * q[x])):
            return x, True
    passed = np.minimum(q, p / high) * ((1 - (1 - b) ** 2) / b) if b else 0
    return sample(right.residual_3(p, passed)), False


# ---------------------------------------------------------------- loops


def sampled_again(draft, q, p, sample, toss):
    for i in range(len(draft)):
        token, kept = right.one_token_6(p[i], q[i], sample, toss)
        if not kept:
            return i, token
    return len(draft), sample(p[len(draft)])


def on_after_a_rejection(draft, q, p, sample, toss):
    accepted = [i for i, x in enumerate(draft) if toss(p[i][x] / q[i][x])]
    if len(accepted) == len(draft):
        return len(draft), sample(p[len(draft)])
    first = next(i for i in range(len(draft)) if i not in accepted)
    if len(accepted) > first:  # a later one was accepted: keep all up to it
        return accepted[-1] + 1, sample(p[accepted[-1] + 1])
    return first, sample(right.residual_3(p[first], q[first]))


def ids_grow(target, draft_model, ids, n_tokens, K, sample, toss, end):
    text = right.speculative_9(target, draft_model, ids, n_tokens, K, sample, toss, end)
    ids += text
    return text


def loop(verify=right.verify_7, drafted=lambda K, room: min(K, room - 1), stops=None, asks=1):
    """speculative_9 with another rule, number of drafts or end, or which asks for q again."""

    def answer(target, draft_model, ids, n_tokens, K, sample, toss, end):
        text, end = [], stops(end) if stops else end
        while len(text) < n_tokens:
            draft, q = [], []
            for _ in range(drafted(K, n_tokens - len(text))):
                q += [draft_model(ids + text + draft)[-1] for _ in range(asks)][:1]
                draft.append(sample(q[-1]))
            p = target(ids + text + draft)[-len(draft) - 1 :]
            n_accepted, token = verify(draft, q, p, sample, toss)
            for x in draft[:n_accepted] + [token]:
                text.append(x)
                if x == end:
                    return text
        return text

    return answer


def cut_later(target, draft_model, ids, n_tokens, K, sample, toss, end):
    """Always K drafts; what is too long is cut."""
    text = loop(drafted=lambda K, room: K)(target, draft_model, ids, n_tokens, K, sample, toss, end)
    return text[:n_tokens]


def too_long(target, draft_model, ids, n_tokens, *rest):
    return right.speculative_9(target, draft_model, ids, n_tokens + 1, *rest)


def no_drafting(target, draft_model, ids, n_tokens, K, sample, toss, end):
    text = []
    while len(text) < n_tokens and end not in text:
        draft_model(ids + text)
        text.append(sample(target(ids + text)[-1]))
    return text


def nothing_after_an_end(target, draft_model, ids, n_tokens, K, sample, toss, end):
    if end in ids:
        return []
    return right.speculative_9(target, draft_model, ids, n_tokens, K, sample, toss, end)


def a_pass_for_each_place(target, *rest):
    def one_by_one(ids):
        return np.array([target(ids[: n + 1])[-1] for n in range(len(ids))])

    return right.speculative_9(one_by_one, *rest)


def rows_of_q_at_the_end(target, draft_model, ids, n_tokens, K, sample, toss, end):
    """Another right loop: it asks for all rows of q in one more pass of the draft model."""
    text = []
    while len(text) < n_tokens and end not in text:
        draft = []
        for _ in range(min(K, n_tokens - len(text) - 1)):
            draft.append(sample(draft_model(ids + text + draft)[-1]))
        n = len(ids + text)
        q = draft_model(ids + text + draft)[n - 1 : -1]
        n_accepted, token = right.verify_7(
            draft, q, target(ids + text + draft)[n - 1 :], sample, toss
        )
        text += draft[:n_accepted] + [token]
    return text[: text.index(end) + 1] if end in text else text


def reads_all_again(target, draft_model, *rest):
    afresh = lambda forward: lambda ids: forward(list(ids), SimpleNamespace(ids=[]))
    return right.speculative_9(afresh(target), afresh(draft_model), *rest)


def not_rolled_back(ids, cache, n_last, forward):
    return forward(ids[-n_last:] if cache.ids else ids, cache)[-n_last:]


def sure_of_a_second_sibling(target, draft_model, ids, sample, toss):
    """siblings_12, but a draft model that is sure of one token is asked for another: 0 / 0."""
    p, q = target(ids)[-1], draft_model(ids)[-1]
    for _ in range(2):
        x = sample(q)
        if toss(p[x] / q[x]):
            p, q = target(ids + [x])[-1], draft_model(ids + [x])[-1]
            child, accepted = right.one_token_6(p, q, sample, toss)
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
            prefill=prefill or (lambda ids: None),
            propose=lambda ids, k: propose(n_vocab, sample, ids, k),
        )

    return answer


def uniform(n_vocab, n):
    return np.full((n, n_vocab), 1 / n_vocab)


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

    return SimpleNamespace(n_vocab=n_vocab, prefill=lambda ids: None, propose=propose)


# ---------------------------------------------------------------- all of them

WRONG = {
    "temperature_2": {
        "overflows": ("nan", overflowing),
        "the temperature is ignored": ("expected", lambda x, t: right.temperature_2(x, 1.0)),
        "ties share at temperature 0": (
            "0.0): [0, 0.5, 0.5], expected [0, 1, 0]",
            lambda x, t: softmax(x / max(t, 1e-6)),
        ),
        "1e-9 is taken for 1": (
            "1e-09)",
            lambda x, t: right.temperature_2(x, t if t > 1e-6 or not t else 1),
        ),
        "in place": ("changes its arguments", logits_in_place),
    },
    "acceptance_1": {
        "the other part": ("expected", lambda p, q: abs(p - q).sum() / 2),
        "0 / 0": ("nan", lambda p, q: (q * np.minimum(1, p / q)).sum()),
    },
    "residual_3": {
        "not scaled": ("[0.3, 0, 0], expected [1, 0, 0]", lambda p, q: np.maximum(p - q, 0)),
        "0 / 0": ("nan", lambda p, q: np.maximum(p - q, 0) / np.maximum(p - q, 0).sum()),
        "nearly the same": (
            "expected [0, 0, 1]",
            lambda p, q: p if np.allclose(p, q) else right.residual_3(p, q),
        ),
        "in place": ("changes its arguments", p_in_place),
    },
    "nucleus_4": {
        "a threshold": ("expected", lambda p, top_p: np.where(p >= 1 - top_p, p, 0)),
        "one more where it is reached exactly": ("0.5): ", nucleus_above),
        "ties are all kept": ("0.75): [0.25, 0.5, 0.25], expected", tied_at_the_threshold),
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
    },
    "catch_up_8": {
        "everything again": ("fed: [5], expected [1]", whole_text),
        "nothing forgotten": (
            "in the cache in the end",
            lambda ids, cache, n, forward: forward(ids[-n:], cache),
        ),
        "two rows at most": ("the rows of the last 3 ids", two_rows_at_most),
        "ids are emptied": ("the ids afterwards: []", ids_cleared),
    },
    "one_token_6": {
        "sample(p), True": ("said to be the draft", lambda p, q, sample, toss: (sample(p), True)),
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
            lambda p, q, sample, toss: (sample(p), toss(np.minimum(p, q).sum())),
        ),
        "a replacement called draft": ("said to be the draft", flag_tied_to_no_draft),
        "unverified": ("right [0.5, 0.3, 0.2]", lambda p, q, sample, toss: (sample(q), True)),
        "the residual itself": (
            "it returns (array(",
            lambda p, q, sample, toss: (right.residual_3(p, q), False),
        ),
        "chance of its own": (
            "`sample` is never called",
            lambda p, q, sample, toss: (int(q.argmax()), True),
        ),
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
            rule(bonus=lambda q, p, n: p[max(n - 1, 0)]),
        ),
        "the first draft is not verified": (
            "the first token: yours [0.2, 0.4, 0.4]",
            first_unverified,
        ),
        "the third draft is not verified": ("K = 3: a total variation distance", third_unverified),
        "compare": ("on average 0.3000 drafts are kept, by the right rule 0.7000", compare_each),
        "only where p is 1": ("0.0000 drafts are kept", where_p_is_1),
        "half of min(p, q)": ("0.3500 drafts are kept", half_of_the_overlap),
        "plain decoding": ("0.0000 drafts are kept", plain),
        "half a number": ("0.5", half_a_number),
        "a list of tokens": (
            "expected two whole numbers",
            lambda draft, q, p, sample, toss: [*draft, sample(p[-1]), 0],
        ),
    },
    "block_11": {
        "the token rule": ("by block verification", right.verify_7),
        "the residual of tokens": ("total variation distance", block_with_the_residual_of_tokens),
        "the ratio before only": ("K = 3: a total variation distance", previous_ratio_only),
    },
    "two_drafts_10": {
        "one draft": ("are by two tries in turn; expected more", right.one_token_6),
        "residual of p": (
            "total variation distance",
            replaced(right.two_drafts_10, residual_3=lambda p, q: p),
        ),
        "sample(p), True": ("said to be the draft", lambda p, q, sample, toss: (sample(p), True)),
        "without replacement": ("said to be the draft", drafts(2, replacement=False)),
        "three": ("3 drafts are sampled from q, expected 2", drafts(3)),
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
            lambda target, draft, ids, n, K, sample, toss, end: [sample(target(ids))],
        ),
        "a pass for each place": ("or fewer: one a round", a_pass_for_each_place),
        "ids grow": ("the ids that it was given, afterwards", ids_grow),
    },
    "cached_14": {
        "all is read again": ("reads 25 tokens, expected 12 at most", reads_all_again),
        "a rejected draft stays": ("", replaced(right.cached_14, catch_up_8=not_rolled_back)),
        "another rule": (
            "right [",
            replaced(right.cached_14, verify_7=rule(replacement=lambda p, q: p)),
        ),
    },
    "siblings_12": {
        "a sure draft model": ("sample([nan, nan, nan])", sure_of_a_second_sibling),
        "residual of p": (
            "total variation distance",
            replaced(right.siblings_12, residual_3=lambda p, q: p),
        ),
        "plain decoding": (
            "the mean number of tokens",
            lambda target, draft, ids, sample, toss: [sample(target(ids)[-1])],
        ),
    },
    "drafter_13": {
        "never": ("it never drafts", drafter(lambda n, sample, ids, k: ([], np.empty((0, n))))),
        "q is not what it was sampled from": (
            "q says",
            drafter(lambda n, sample, ids, k: ([1] * k, uniform(n, k))),
        ),
        "q does not sum to 1": (
            "sum to 1",
            drafter(lambda n, sample, ids, k: ([1] * k, np.ones((k, n)))),
        ),
        "one-hot at another token": (
            "q says 0",
            drafter(lambda n, sample, ids, k: ([1] * k, np.eye(n)[[2] * k])),
        ),
        "more than k": (
            "tokens at most",
            drafter(lambda n, sample, ids, k: ([1] * 4, np.eye(n)[[1] * 4])),
        ),
        "another vocabulary": (
            "the shape of q",
            drafter(lambda n, sample, ids, k: ([1] * k, np.eye(n + 1)[[1] * k])),
        ),
        "changes ids": ("the ids afterwards", drafter(changes_its_ids)),
        "the first text for ever": ("another text", remembers_the_first_text),
        "drops a token for what it is": ("q says", drafter(drops_a_token)),
        "one-hot where nothing was seen": ("q says 1", drafter(one_hot_where_unseen)),
        "token -1": (
            "expected tokens from 0",
            drafter(lambda n, sample, ids, k: ([-1] * k, np.eye(n)[[-1] * k])),
        ),
        "an array of tokens": (
            "returns ndarray",
            drafter(lambda n, sample, ids, k: (np.ones(k, int), np.eye(n)[[1] * k])),
        ),
        "a tuple of tokens": (
            "returns tuple",
            drafter(lambda n, sample, ids, k: ((1,) * k, np.eye(n)[[1] * k])),
        ),
        "a list of rows": (
            "and list",
            drafter(lambda n, sample, ids, k: ([1] * k, np.eye(n)[[1] * k].tolist())),
        ),
    },
}

RIGHT = {
    "verify_7": {"block verification keeps more": right.block_11},
    "two_drafts_10": {"K-SEQ": k_sequential},
    "speculative_9": {
        "always K drafts, cut later": cut_later,
        "block verification": loop(right.block_11),
        "asks for q again": loop(asks=2),
        "all rows of q at the end": rows_of_q_at_the_end,
    },
    "drafter_13": {
        "a constant": drafter(lambda n, sample, ids, k: ([1] * k, np.eye(n)[[1] * k])),
    },
}
