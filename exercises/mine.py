"""Nine exercises. Your answers go here; docs/exercises.md says how to begin, and gives hints.

    python -m pytest exercises                       # all
    python -m pytest exercises -k residual_2         # one
    python main.py prove exercises/mine.py:verify_4  # a rule or loop before the referee

They are numbered in the order in which they build on each other. p is the target's distribution and
q the draft model's, both arrays [n_vocab] that sum to 1. Make every random choice with `sample(p)`,
which returns a token sampled from p, or `accept(r)`, which is True with probability r (always, for
r of 1 and above). You are given both, by these names; bring no randomness of your own. Leave all
arguments but caches as they are. The checks take every branch, and so know the exact distribution
of what you return.
"""

import numpy as np  # noqa: F401


def temperature_1(logits, temperature):
    """The distribution of logits [n_vocab] at a temperature: softmax(logits / temperature). At 0
    the largest logit has probability 1; of several, the first.

    Logits of 1e4 must not overflow. Leave `logits` as they are.
    """
    raise NotImplementedError


def residual_2(p, q):
    """The distribution, [n_vocab], of the token that replaces a rejected one. Each token x comes
    out as an accepted draft with probability min(p(x), q(x)), and together with the replacements
    with probability p(x). If p = q, nothing is ever rejected; return p.
    """
    raise NotImplementedError


def one_token_3(p, q, sample, accept):
    """Sample a draft from q, and keep it or replace it. Return (token, whether it is the draft).

    p, q: [n_vocab]. sample(p) returns a token; accept(r) is True with probability r. The token has
    the distribution p, and the draft is kept as often as any rule can keep it.
    """
    raise NotImplementedError


def verify_4(draft, p, q, sample, accept):
    """Verify k drafted tokens. Return (how many of them are accepted, the token that follows).

    draft: k tokens, perhaps none. q: [k, n_vocab]; draft[i] was sampled from q[i]. p: [k + 1,
    n_vocab]; p[i] is the target's distribution after draft[:i]. sample(p[i]) returns a token;
    accept(r) is True with probability r. The accepted tokens and the token that follows have the
    target's distribution. At each place, drafts are kept as often as any rule for one token can
    keep them (exercise 3).
    """
    raise NotImplementedError


def speculative_5(target, draft_model, ids, n_tokens, K, sample, accept, end):
    """Continue ids by speculative decoding. Return the new tokens, a list: n_tokens (1 or more), or
    fewer if the token `end` (None: there is none) comes; it is then the last.

    target(ids) and draft_model(ids) return an array [len(ids), n_vocab]: row i is the distribution
    of the token after ids[: i + 1]. Each round, also the first, drafts K tokens (0 or more), or as
    many as there is room for beside a token of the target's own (a draft may stop after `end`).
    Then it calls the target once. No round begins after `end` has come. Leave `ids` as they are.
    sample(p) -> token, accept(r) -> bool. The text has the target's distribution.
    """
    raise NotImplementedError


def cached_6(target, draft_model, ids, n_tokens, K, sample, accept, end):
    """speculative_5 with a cache for each model: no model reads a token of the text twice.

    target(new_ids, cache) and draft_model(new_ids, cache) append new_ids (one or more) to
    cache.ids, and return a row for each of them, the last row for what follows them all. cache.ids
    is a list of what the model has read. Cut rejected tokens off its end, and feed only what it
    lacks. The target after a first round with one new token, which replaced a rejected one:

        text                 [5, 6, 7, 9]
        cache.ids before     [5, 6, 7, 8, 8]     8, 8 was drafted, and 9 replaced the first 8
        shortened            [5, 6, 7]
        new_ids              [9]                 and then the next draft

    An empty cache is types.SimpleNamespace(ids=[]). The other arguments, and the list of new tokens
    to return, are those of speculative_5.
    """
    raise NotImplementedError


def speedup_7(a, K, c, v):
    """The speed of speculation divided by that of plain decoding, if K tokens, 0 or more, are
    drafted, and each that the rule looks at is accepted with probability a, whatever happened.

    A pass of the target over one token takes the time 1, and over K + 1 tokens v. A pass of the
    draft model, which drafts one token, takes c.
    """
    raise NotImplementedError


def two_drafts_8(p, q, sample, accept):  # sample(p) -> token, accept(r) -> bool
    """Sample two drafts for one place from q, independently. Return (token, whether it is one of
    the drafts).

    The token has the distribution p. If the first draft is rejected, try the second before you
    replace it. (A rule that keeps a draft more often is right, too.)
    """
    raise NotImplementedError


def block_9(draft, p, q, sample, accept):
    """Verify k drafted tokens as a block; read docs/block.md first. Return (how many of them are
    accepted, the token that follows). The arguments are those of verify_4: draft [k], p [k + 1,
    n_vocab], q [k, n_vocab], sample(p) -> token, accept(r) -> bool.

    The text has the same distribution, and on average at least as many drafted tokens are
    accepted. With w[0] = 1 and w[i + 1] = min(1, w[i] * p[i][draft[i]] / q[i][draft[i]]), their
    mean number is the mean of w[1] + ... + w[k]. (The page counts the rows of p and q from 1.)
    """
    raise NotImplementedError
