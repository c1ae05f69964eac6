"""Loops: one right one, and parts to put in its place that are wrong. Data of test_prove.py."""

from types import SimpleNamespace

import numpy as np
from wrong_samplers import never_checks_rare_drafts, rule, wrong_where

from exercises import solutions

right_rule = rule()


def loop(verify=right_rule, keep=lambda draft, n, token: [*draft[:n], token], clip=min):
    """A loop with its accept/reject rule, what it adds to the text after it, and clip(K, n), how
    many it drafts where n more are of use.
    """

    def speculative(target, draft_model, ids, n_tokens, K, sample, accept, end):
        text = []
        while len(text) < n_tokens:
            draft, q = [], []
            for _ in range(clip(K, n_tokens - len(text) - 1)):
                q.append(draft_model(ids + text + draft)[-1])
                draft.append(sample(q[-1]))
            p = target(ids + text + draft)[-len(draft) - 1 :]
            for token in keep(draft, *verify(draft, p, np.array(q), sample, accept)):
                if len(text) < n_tokens:
                    text.append(token)
                if token == end:
                    return text
        return text

    return speculative


def ignores_the_end(target, draft_model, ids, n_tokens, K, sample, accept, end):
    return loop()(target, draft_model, ids, n_tokens, K, sample, accept, None)


def cached(forget, feed_the_last=False):
    """solutions.cached_6 with another way to forget what was rejected: forget(target's cache,
    draft's cache, how many ids are certain, whether a draft was rejected).

    feed_the_last: the target is fed the last token and the draft, whatever its cache holds
    """

    def speculative(target, draft_model, ids, n_tokens, K, sample, accept, end):
        caches = SimpleNamespace(ids=[]), SimpleNamespace(ids=[])
        text, rejected = [], False
        while len(text) < n_tokens:
            forget(*caches, len(ids + text) - 1, rejected)
            draft, q = [], []
            for _ in range(min(K, n_tokens - len(text) - 1)):
                unread = (ids + text + draft)[len(caches[1].ids) :] or (ids + text + draft)[-1:]
                q.append(draft_model(unread, caches[1])[-1])
                draft.append(sample(q[-1]))
            n_known = len(ids + text) - 1 if feed_the_last and text else len(caches[0].ids)
            p = target((ids + text + draft)[n_known:], caches[0])[-len(draft) - 1 :]
            n, token = solutions.verify_4(draft, p, np.array(q), sample, accept)
            rejected = n < len(draft)
            for x in [*draft[:n], token]:
                text.append(x)
                if x == end:
                    return text
        return text

    return speculative


def right(target_cache, draft_cache, n_certain, rejected):
    del target_cache.ids[n_certain:], draft_cache.ids[n_certain:]


def target_keeps_all(target_cache, draft_cache, n_certain, rejected):
    del draft_cache.ids[n_certain:]


def target_drops_one(target_cache, draft_cache, n_certain, rejected):
    del draft_cache.ids[n_certain:]
    if rejected:
        del target_cache.ids[-1:]


def draft_drops_one(target_cache, draft_cache, n_certain, rejected):
    del target_cache.ids[n_certain:]
    if rejected:
        del draft_cache.ids[-1:]


RIGHT = {"loop": loop(), "cached": cached(right)}


def accepts_if(condition):
    """A loop that accepts every draft in texts of which condition(ids, n_tokens, K) holds."""

    def speculative(target, draft_model, ids, n_tokens, K, sample, accept, end):
        always = (lambda r: True) if condition(ids, n_tokens, K) else accept
        return loop()(target, draft_model, ids, n_tokens, K, sample, always, end)

    return speculative


AFTER_A_LONG_PROMPT = accepts_if(lambda ids, n_tokens, K: len(ids) > 12)


def all_after_ten_tokens(target, draft_model, ids, n_tokens, K, sample, accept, end):
    read = []
    watched = lambda text: read.append(len(text)) or target(text)
    lenient = lambda r: read[-1] > len(ids) + 10 or accept(r)
    return loop()(watched, draft_model, ids, n_tokens, K, sample, lenient, end)


def greedy_without_drafts(target, draft_model, ids, n_tokens, K, sample, accept, end):
    sample = sample if K else lambda row: int(np.argmax(row))
    return loop()(target, draft_model, ids, n_tokens, K, sample, accept, end)


OVERDRAFT = loop(clip=lambda K, n: K)  # trims at the end


def two_passes_a_round(target, draft_model, ids, n_tokens, K, sample, accept, end):
    def twice(ids):
        target(ids)
        return target(ids)

    return loop()(twice, draft_model, ids, n_tokens, K, sample, accept, end)


WASTEFUL = {  # exact: (part of the remark on it, loop)
    # of a stale draft model q is still what the drafts were sampled from, but few are kept
    "a stale cache of the draft": (
        "fewer tokens than verify, 1.0347 for 1.5972", cached(draft_drops_one)
    ),
    "no drafts": ("fewer tokens than verify, 0.0000 for 2.6398", loop(clip=lambda K, n: 0)),
    "two passes a round": ("more passes of the target than tokens", two_passes_a_round),
}  # fmt: skip
WRONG = {
    "a text goes on after its end": ignores_the_end,
    "a rejection discards the accepted tokens, too": loop(
        keep=lambda draft, n, token: [*draft[:n], token] if n == len(draft) else [token]
    ),
    "no correction after a partial acceptance": loop(
        keep=lambda draft, n, token: draft[:n] if 0 < n < len(draft) else [*draft[:n], token]
    ),
    "the rejected token is replaced in place": loop(
        keep=lambda draft, n, token: [*draft[:n], token, *draft[n + 1 :]]
    ),
    "the fifth draft is not verified": loop(wrong_where(lambda draft, i, p: i > 3)),
    "the bonus is left out": loop(keep=lambda draft, n, token: draft[:n] or [token]),
    "after a prompt of two tokens all is accepted": accepts_if(lambda ids, n, K: ids == [2, 1]),
    "if K is more than the text takes all is accepted": accepts_if(lambda ids, n, K: K > n + 1),
    "without drafts it is greedy": greedy_without_drafts,
    "rare drafts are not checked": loop(never_checks_rare_drafts),
    "the target's cache keeps what was rejected": cached(target_keeps_all, feed_the_last=True),
    "the target's cache drops one token": cached(target_drops_one, feed_the_last=True),
}
