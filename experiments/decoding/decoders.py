"""Which loop decodes a text, and what drafts for it."""

import numpy as np

from sampling import NeuralDrafter, NGramDrafter, autoregressive, never, speculative

# In place of a draft model: drafts are looked up in the text itself.
NGRAM = "ngram"


def drafter_of(target, draft, filter, rng, confidence=0.0):
    """The drafter for a target. draft is a Model, or NGRAM."""
    if draft is None:
        raise ValueError("speculative decoding needs a draft: expected a model or NGRAM")
    if draft == NGRAM:
        return NGramDrafter(target.config.n_vocab)
    return NeuralDrafter(draft, filter, rng, confidence)


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
    wrap=None,
):
    """The rounds of one decoder, "autoregressive" or "speculative".

    draft is a Model or NGRAM; the autoregressive loop does not look at it. wrap(drafter, filter)
    returns the drafter and filter that the loop uses in their place, a clock around them for
    example.
    """
    rng = np.random.default_rng(seed)
    if decoder == "autoregressive":
        return autoregressive(target, ids, n_tokens, filter, rng, ended)
    drafter = drafter_of(target, draft, filter, rng, confidence)
    if wrap:
        drafter, filter = wrap(drafter, filter)
    return speculative(target, drafter, ids, n_tokens, K, filter, rng, ended)
