"""Drafts: a smaller model, a head of the target, or the look-up of n-grams (ngrams.py).

A Draft is loaded once. For each text it makes a new drafter, which proposes the tokens (such as
sampling.NeuralDrafter). Callers never ask for the class of a Draft: they use only the attributes
and methods of the base class.
"""

import math

from sampling import NeuralDrafter


class Draft:
    """The base class. A subclass defines `new_drafter`, and overrides what is different."""

    models = ()  # of Model: those it runs, each of which needs a cache
    n_ctx = math.inf  # how many tokens it can read
    max_draft_tokens = math.inf  # per round, whatever the context
    standalone_model = None  # a Model that can write texts without the target
    is_lookup = False  # whether it searches the text, and often drafts nothing

    def new_drafter(self, target, to_probs, rng, confidence=0.0):
        """Make a drafter for one text of `target`, a Model. to_probs: SamplingParams; rng: an Rng;
        confidence: a probability below which drafting stops (NeuralDrafter)
        """
        raise NotImplementedError

    def max_draft_length(self, target):
        """The largest number of tokens that a round with this target (a Model) can draft."""
        # after a prompt of one token; the last drafted token is never read by the draft
        return min(target.config.n_ctx - 1, self.n_ctx, self.max_draft_tokens)

    def map_models(self, function):
        """A copy of this draft that runs function(model) in place of its models; self if none."""
        return self


class ModelDraft(Draft):
    """A smaller model with the target's vocabulary."""

    def __init__(self, model):
        self.model, self.models, self.n_ctx = model, (model,), model.config.n_ctx
        self.standalone_model = model

    def new_drafter(self, target, to_probs, rng, confidence=0.0):
        """Make a NeuralDrafter of the model. to_probs: SamplingParams; rng: an Rng"""
        return NeuralDrafter(self.model, to_probs, rng, confidence)

    def map_models(self, function):
        """A copy of this draft that runs function(model) in place of its model."""
        return type(self)(function(self.model))


class HeadDraft(ModelDraft):
    """Drafts with a head (an Eagle or a Medusa) of one target. The head reads the target's last
    hidden states, so it cannot write a text without the target.
    """

    def __init__(self, head):
        super().__init__(head)
        self.standalone_model, self.max_draft_tokens = None, head.config.n_places

    def new_drafter(self, target, to_probs, rng, confidence=0.0):
        """Make a HeadDrafter of the head. to_probs: SamplingParams; rng: an Rng"""
        return HeadDrafter(self.model, to_probs, rng, confidence)


class HeadDrafter(NeuralDrafter):
    """Drafts with a head as with any model, after the head's cache has copied the target's last
    hidden states. The target's cache (gpt2.KVCache) keeps these for every position.

    When a draft is proposed, the target has read all of the text except its last token.
    """

    def prefill(self, ids, target_cache):
        """Begin a text: let the head read ids, the prompt without its last token. target_cache: the
        target's KVCache, which has read these ids; `propose` reads it too.
        """
        self.target_cache = target_cache
        self.cache.length = 0  # nothing of an earlier text stays
        if ids:  # none if the prompt has one token: then there is nothing to read yet
            self.cache.update_from_target(target_cache.hidden, len(ids))
            super().prefill(ids, target_cache)

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        """As NeuralDrafter.propose, from the target's hidden states; at most n_places tokens."""
        self.cache.update_from_target(self.target_cache.hidden, len(ids))
        return super().propose(ids, min(k, self.model.config.n_places))
