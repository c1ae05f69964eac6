"""One way to write each exercise. Try it yourself first: docs/exercises.md has hints.

p is the target's distribution and q the draft's, both [n_vocab]; sample(p) returns a token, and
accept(r) is True with probability r. As in docs/one_file.py, nothing here is fast, and no package
but NumPy is needed.
"""

from types import SimpleNamespace

import numpy as np


def temperature_1(logits, temperature):
    """The distribution, [n_vocab], of logits [n_vocab] at a temperature; one-hot at 0."""
    if temperature == 0:
        return np.where(np.arange(len(logits)) == logits.argmax(), 1.0, 0.0)
    # The largest exponent is 0, so nothing overflows; the factor cancels in the division.
    weights = np.exp((logits - logits.max()) / temperature)
    return weights / weights.sum()


def residual_2(p, q):
    """The distribution of the token that replaces a rejected one: norm(max(0, p - q)), or p if
    p = q.
    """
    lacking = np.maximum(p - q, 0)
    if lacking.sum() == 0:  # p = q: nothing is ever rejected
        return p
    return lacking / lacking.sum()


def one_token_3(p, q, sample, accept):  # sample(p) -> token, accept(r) -> bool
    """Sample a draft from q, and keep or replace it. Returns (token, whether it is the draft)."""
    x = sample(q)
    if accept(p[x] / q[x]):
        return x, True
    return sample(residual_2(p, q)), False


def verify_4(draft, p, q, sample, accept):
    """Accept draft tokens up to a rejection. Returns (number accepted, token that follows).

    draft: k tokens; draft[i] was sampled from q[i]. q: [k, n_vocab], p: [k + 1, n_vocab]
    """
    for i, x in enumerate(draft):
        if not accept(p[i][x] / q[i][x]):
            return i, sample(residual_2(p[i], q[i]))  # the drafts after it are discarded
    return len(draft), sample(p[len(draft)])  # the bonus


def speculative_5(target, draft_model, ids, n_tokens, K, sample, accept, end):
    """Decode speculatively, without a cache, K drafts a round at most. Returns the new tokens, a
    list: n_tokens of them, or fewer if the token `end` comes.

    target, draft_model: functions, ids -> [len(ids), n_vocab]
    sample, accept: functions, sample(p) -> token, accept(r) -> bool
    """
    text = []
    while len(text) < n_tokens:
        # 1. Draft, and leave a place for the target's own token.
        draft, q = [], []
        for _ in range(min(K, n_tokens - len(text) - 1)):
            q.append(draft_model(ids + text + draft)[-1])
            draft.append(sample(q[-1]))
        # 2. One pass of the target: a row for each draft token, and one for what follows them.
        p = target(ids + text + draft)[-len(draft) - 1 :]
        # 3. Accept some, add one token, and stop where the text ends.
        n_accepted, token = verify_4(draft, p, np.array(q).reshape(-1, p.shape[1]), sample, accept)
        for x in draft[:n_accepted] + [token]:
            text.append(x)
            if x == end:
                return text
    return text


def cached_6(target, draft_model, ids, n_tokens, K, sample, accept, end):
    """Decode as speculative_5, with a cache for each model. Returns the new tokens, a list:
    n_tokens of them, or fewer if the token `end` comes.

    target, draft_model: functions, (new_ids, cache) -> [len(new_ids), n_vocab], which append
    new_ids to cache.ids. sample(p) -> token, accept(r) -> bool
    """
    target_cache, draft_cache = SimpleNamespace(ids=[]), SimpleNamespace(ids=[])
    text = []
    while len(text) < n_tokens:
        # One rule for both caches: keep at most the text without its last token.
        n_certain = len(ids + text) - 1
        del target_cache.ids[n_certain:], draft_cache.ids[n_certain:]
        # Then each pass reads what its cache lacks.
        draft, q = [], []
        for _ in range(min(K, n_tokens - len(text) - 1)):
            unread = (ids + text + draft)[len(draft_cache.ids) :]
            q.append(draft_model(unread, draft_cache)[-1])
            draft.append(sample(q[-1]))
        unread = (ids + text + draft)[len(target_cache.ids) :]
        p = target(unread, target_cache)[-len(draft) - 1 :]
        n_accepted, token = verify_4(draft, p, np.array(q).reshape(-1, p.shape[1]), sample, accept)
        for x in draft[:n_accepted] + [token]:
            text.append(x)
            if x == end:
                return text
    return text


def speedup_7(a, K, c, v):
    """The mean number of tokens of a round, divided by the round's time in passes of the target
    over one token. a: acceptance rate. c: time of one draft. v: time of a pass over K + 1 tokens
    """
    # The mean of a count is the sum of the probabilities that each place is filled. Place n + 1
    # is filled if the n drafts before it are accepted: 1 + a + ... + a^K.
    tokens = sum(a**n for n in range(K + 1))
    return tokens / (K * c + v)


def two_drafts_8(p, q, sample, accept):  # sample and accept as in one_token_3
    """Try two drafts for one place in turn; if both are rejected, sample a replacement. Returns
    (token, whether it is one of the drafts). The token has the distribution p.
    """
    for _ in range(2):
        x = sample(q)
        if accept(p[x] / q[x]):
            return x, True
        # After a rejection the token has to come from what p lacks.
        p = residual_2(p, q)
    return sample(p), False


def block_9(draft, p, q, sample, accept):  # [k], [k + 1, n_vocab], [k, n_vocab]
    """Verify draft tokens as a block. Returns (number accepted, token that follows). The
    arguments are those of verify_4; sample(p) -> token, accept(r) -> bool
    """
    # w[t]: given the first t drafts, the probability that at least t are accepted
    w = [1.0]
    for i, x in enumerate(draft):
        w.append(min(1.0, w[-1] * p[i][x] / q[i][x]))
    # The longest block first. After all drafts nothing is drafted, as if q were 0 there.
    for t in range(len(draft), -1, -1):
        q_next = q[t] if t < len(draft) else np.zeros_like(p[t])
        lacking = np.maximum(w[t] * p[t] - q_next, 0)
        S = lacking.sum()
        # Sun et al. 2024; sampling.verify_block proves that this coin accepts t or more with w[t].
        if w[t] == 1 or accept(S / (S + 1 - w[t])):
            # S is 0 only if w[t] = 1 and p = q. Then w[t + 1] is 1, too, and the loop has ended
            # there, unless rounding has left it below 1.
            return t, sample(lacking / S if S > 0 else p[t])
