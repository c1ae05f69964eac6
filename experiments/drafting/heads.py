"""Drafting with a head that has grown on the target: it reads the target's last hidden state.

The loop in sampling.py hands a drafter the text and nothing else. So the drafter is given the
target as well, in a wrapper that remembers the cache the loop made: gpt2.KVCache keeps the last
hidden state of every position that was read.
"""

from sampling import NeuralDrafter


class SeenTarget:
    """Stands in for the target of one text and remembers its cache. For the loops it is a model."""

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

    def __init__(self, head, target, filter, rng, confidence=0.0):
        super().__init__(head, filter, rng, confidence)
        self.target = target

    def prefill(self, ids):
        if not ids:  # a text of one token, of which the target has read nothing
            return
        self.cache.look(self.target.cache.hidden, len(ids))
        super().prefill(ids)

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        self.cache.look(self.target.cache.hidden, len(ids))
        return super().propose(ids, min(k, self.model.config.n_places))
