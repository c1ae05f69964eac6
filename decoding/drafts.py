"""Drafts: anything that can make a drafter for a target.

A drafter proposes tokens for one text (sampling.NeuralDrafter, or a reader's own). A draft is what
stays the same from text to text: a smaller model, a head of the target, the look-up of n-grams
(ngrams.py). Callers never ask which kind it is; `Draft` says all they may rely on.
"""

import math

from sampling import NeuralDrafter


class Draft:
    """The least a draft can be. A subclass says how to make a drafter, and what else is so."""

    models = ()  # what runs on the backend, and needs caches
    n_ctx = math.inf  # tokens it can read
    most = math.inf  # tokens that a round can draft
    alone = None  # the Model that could write texts by itself
    looks_up = False  # drafts only where it finds something

    def drafter(self, target, filter, chance, confidence=0.0):
        """A drafter for one text. target remembers the cache of the text (SeenTarget)."""
        raise NotImplementedError

    def longest(self, target):
        """The most tokens that a round can draft."""
        # the last drafted token is never read by the draft
        return min(target.config.n_ctx - 1, self.n_ctx, self.most)

    def over(self, wrap):
        """The same draft with wrap(model) in place of its model, if it has one."""
        return self

    def wrapped(self, wrap):
        """The same draft with wrap(drafter) in place of its drafters."""
        return Wrapped(self, wrap)


class Wrapped:
    """A draft whose drafters are wrapped in something: a clock, an observer."""

    def __init__(self, draft, wrap):
        self.draft, self.wrap = draft, wrap

    def __getattr__(self, name):
        return getattr(self.draft, name)

    def drafter(self, target, filter, chance, confidence=0.0):
        return self.wrap(self.draft.drafter(target, filter, chance, confidence))

    def over(self, wrap):
        return Wrapped(self.draft.over(wrap), self.wrap)

    def wrapped(self, wrap):
        return Wrapped(self, wrap)


class ModelDraft(Draft):
    """A smaller model with the target's vocabulary."""

    def __init__(self, model):
        self.model, self.models, self.n_ctx = model, (model,), model.config.n_ctx
        self.alone = model

    def drafter(self, target, filter, chance, confidence=0.0):
        return NeuralDrafter(self.model, filter, chance, confidence)

    def over(self, wrap):
        return type(self)(wrap(self.model))


class HeadDraft(ModelDraft):
    """A head that was trained on the target, EAGLE's or Medusa's: it reads the target's last hidden
    states, and cannot write alone.
    """

    def __init__(self, head):
        super().__init__(head)
        self.alone, self.most = None, head.config.n_places

    def drafter(self, target, filter, chance, confidence=0.0):
        return HeadDrafter(self.model, target, filter, chance, confidence)


class SeenTarget:
    """Stands in for the target of one text and remembers its cache. For the loops it is a model.

    The loop in sampling.py hands a drafter the text and nothing else. A head also needs what the
    target has computed: gpt2.KVCache keeps the last hidden state of every position.
    """

    def __init__(self, model):
        self.model, self.config, self.read = model, model.config, model.read
        self.cache = None  # of the text that is being decoded

    def new_cache(self, n_positions=None):
        self.cache = self.model.new_cache(n_positions)
        return self.cache


class HeadDrafter(NeuralDrafter):
    """Drafts with a head as with any model, after it has looked at the target (a SeenTarget).

    When it is asked, the target has read the text but for its last token.
    """

    def __init__(self, head, target, filter, chance, confidence=0.0):
        super().__init__(head, filter, chance, confidence)
        self.target = target

    def prefill(self, ids):
        if not ids:  # a text of one token, of which the target has read nothing
            return
        self.cache.length = 0  # `look` must not keep what it knows of another text
        self.cache.look(self.target.cache.hidden, len(ids))
        super().prefill(ids)

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        self.cache.look(self.target.cache.hidden, len(ids))
        return super().propose(ids, min(k, self.model.config.n_places))
