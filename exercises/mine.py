"""Thirteen exercises, from easy to hard. Your answers go here; docs/exercises.md says how to begin,
and gives hints.

    python -m pytest exercises                  # all
    python -m pytest exercises -k residual_3    # one
    python main.py --rule exercises.mine        # your rule at work, on real models

p is the target's distribution and q the draft's, both arrays [n_vocab] that sum to 1. Make every
random choice with `sample(p)`, which returns a token sampled from p, or `toss(r)`, which is True
with probability r (always, for r of 1 and above). You are given both; bring no randomness of your
own. The checks take every branch, and know the exact distribution of what you return.
"""

import numpy as np  # noqa: F401


def acceptance_1(p, q):
    """The probability that a token drawn from q is accepted, when x is accepted with probability
    min(1, p(x) / q(x)).
    """
    raise NotImplementedError


def temperature_2(logits, temperature):
    """The distribution of logits [n_vocab] at a temperature: softmax(logits / temperature); at 0
    all on the largest.

    Logits of 1e4 must not overflow.
    """
    raise NotImplementedError


def residual_3(p, q):
    """norm(max(0, p - q)); p where nothing is left of it."""
    raise NotImplementedError


def nucleus_4(p, top_p):
    """p cut down to its nucleus and rescaled: the fewest likeliest tokens that together reach
    top_p.
    """
    raise NotImplementedError


def speedup_5(a, K, c, v):
    """How much faster than plain decoding speculation is, if each draft is accepted with
    probability a on its own.

    c is the time of a draft pass, v that of the target's pass over K + 1 tokens; a target pass over
    one token takes 1.
    """
    raise NotImplementedError


def one_token_6(p, q, sample, toss):
    """Draw a draft from q, accept it or replace it: (the token, whether it is the draft). The
    token's distribution is p.
    """
    raise NotImplementedError


def verify_7(draft, q, p, sample, toss):
    """Verify k drafted tokens: (how many are accepted, the token after them). q: [k, n_vocab], p:
    [k + 1, n_vocab].

    draft[i] was drawn from q[i]. The accepted tokens and the one after them have the distribution
    of draws from the rows of p.
    """
    raise NotImplementedError


def catch_up_8(ids, cache, n_last, forward):
    """Logits after each of the last n_last ids, feeding the model only what it needs.

    cache.ids is what the model has read so far, a list: ids[:-n_last] may be in it only in part,
    and it may hold a rejected draft beyond. Cut it to what can stay, then call forward(new_ids,
    cache) once: it appends new_ids to cache.ids and returns one row for each. The rows of the last
    n_last ids must come from this call.
    """
    raise NotImplementedError


def speculative_9(target, draft_model, ids, n_tokens, K, sample, toss, end):
    """The text after ids, a list of n_tokens tokens, by speculative decoding; shorter where the
    token `end` comes first.

    target(ids) and draft_model(ids) return the distribution of the token after ids (no caches here:
    ask again). Draft at most K tokens a round. The distribution of the text is the target's own,
    and the end token is the last one kept.
    """
    raise NotImplementedError


def two_drafts_10(p, q, sample, toss):
    """Two drafts for one position, both drawn from q on their own: a second try before the
    replacement.

    Return (the token, whether it is one of the drafts). Its distribution is p, and it is one of the
    drafts at least as often as if the residual of the first were the p of the second.
    """
    raise NotImplementedError


def block_11(draft, q, p, sample, toss):
    """Verify k drafted tokens as a block: (how many are accepted, the token after them), arguments
    as in verify_7.

    The distribution of the text is the same, but more tokens are accepted. With P_0 = 1 and P_i =
    min(1, P_{i-1} p_i(x_i) / q_i(x_i)), their mean number is the mean of P_1 + ... + P_k.
    """
    raise NotImplementedError


def siblings_12(target, draft_model, ids, sample, toss):
    """The tokens of one round with a tree: two siblings for the first position, one child below
    each.

    target(ids) and draft_model(ids) return the distribution of the token after ids. The siblings
    are different tokens: the second is sampled from the draft's distribution without the first.
    Return a list: the accepted tokens of the tree, two at most, then one more token of the target's
    own. The distribution of the text is the target's, and the siblings are verified in turn.
    """
    raise NotImplementedError


def drafter_13(n_vocab, sample):
    """A drafter of your own design: an object with n_vocab, prefill(ids) and propose(ids, k).

    It guesses how a text goes on, from the text alone. prefill is called once, with all of the
    prompt but its last token. propose gets the whole text each time, ids, and returns up to k
    tokens and q, an array [number of tokens, n_vocab]: row i is the distribution that token i was
    sampled from. A guess without chance has a one-hot row. `python -m exercises.score` measures it.
    """
    raise NotImplementedError
