"""Which loop decodes a text, and what drafts for it."""

import numpy as np

from experiments.drafting.heads import HeadDrafter, SeenTarget
from experiments.drafting.pairs import NGRAM
from experiments.drafting.stored import is_head
from sampling import (
    NeuralDrafter,
    NGramDrafter,
    autoregressive,
    never,
    speculative,
    verify,
    verify_block,
)

# The accept/reject rules, by the names that --verification gives them.
RULES = {"token": verify, "block": verify_block}


def with_drafter(target, draft, filter, rng, confidence=0.0):
    """(target, drafter) for the loop. draft is a Model, a head of the target (experiments/drafting)
    or NGRAM. A head reads the target's hidden states: the loop must use the target returned here.
    """
    if draft is None:
        raise ValueError("speculative decoding needs a draft: expected a model or NGRAM")
    if draft == NGRAM:
        return target, NGramDrafter(target.config.n_vocab)
    if is_head(draft):
        target = SeenTarget(target)
        return target, HeadDrafter(draft, target, filter, rng, confidence)
    return target, NeuralDrafter(draft, filter, rng, confidence)


def longest_draft(target, draft):
    """The most tokens that a round can draft. draft is as for with_drafter."""
    n_ctx = target.config.n_ctx
    if draft == NGRAM:
        return max(0, n_ctx - 2)  # after two tokens, the first of which is found
    if is_head(draft):
        return min(n_ctx - 1, draft.config.n_places)
    return min(n_ctx - 1, draft.config.n_ctx)  # the last draft is never read by the draft


def decode(
    decoder,
    target,
    draft,
    ids,
    n_tokens,
    *,
    K,
    filter,
    seed,
    ended=never,
    confidence=0.0,
    verification="token",
    wrap=None,
):
    """The rounds of one decoder, "autoregressive" or "speculative".

    draft is as for with_drafter; the autoregressive loop does not look at it. verification names
    one of the RULES. wrap(drafter, filter) returns the drafter and filter that the loop uses in
    their place, a clock around them for example.
    """
    rng = np.random.default_rng(seed)
    if decoder == "autoregressive":
        return autoregressive(target, ids, n_tokens, filter, rng, ended)
    target, drafter = with_drafter(target, draft, filter, rng, confidence)
    if wrap:
        drafter, filter = wrap(drafter, filter)
    rule = RULES[verification]
    return speculative(target, drafter, ids, n_tokens, K, filter, rng, ended, rule=rule)
