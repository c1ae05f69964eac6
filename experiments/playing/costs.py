"""What drafting and verifying cost on this machine, for the view that asks when it pays."""

import time

import numpy as np

from experiments.decoding.decoders import NGRAM
from experiments.decoding.recorder import TimedModel
from sampling import NGramDrafter

MOST_K = 8  # drafts before a pass of the target
REPEATS = 12


class Drafting:
    """Drafting as a round does it, one pass after the other, without a look at what comes out."""

    def __init__(self, session):
        self.model = None
        if session.draft == NGRAM:
            self.drafter = NGramDrafter(session.target.config.n_vocab)
        else:
            self.model = TimedModel(session.draft)
            self.cache = session.draft.new_cache()

    def seconds(self, ids, k):
        """Of each of k drafted tokens."""
        if self.model:
            for i in range(k):
                self.model.read(ids + ids[:i], self.cache)
            return self.model.take()
        begin = time.perf_counter()
        self.drafter.propose(ids, k)
        return [(time.perf_counter() - begin) / max(k, 1)] * k


def undisturbed(seconds):
    """A typical time: a disturbed pass is slow, and none is too fast."""
    return float(np.quantile(seconds, 0.25))


def costs(session, request, check):
    """{"c": cost of drafting a token, "v": [cost of a pass over 1, 2, ... rows]}, both in passes of
    the target over one row, and the seconds of such a pass.

    Draft and target take turns as in a text, so that each finds its weights where it would there.
    check() is called after every turn.
    """
    prompt = session.prompt(request.prompt)
    n_ctx = session.target.config.n_ctx
    if session.draft != NGRAM:
        n_ctx = min(n_ctx, session.draft.config.n_ctx)
    ids = (prompt.ids * n_ctx)[: n_ctx // 2]
    target, drafting = TimedModel(session.target), Drafting(session)
    cache = target.new_cache()
    drafts, passes = [], {k: [] for k in range(1 + min(MOST_K, n_ctx - len(ids) - 1))}
    for repeat in range(1 + REPEATS):
        for k in passes:
            seconds = drafting.seconds(ids, k)
            target.read(ids + ids[:k], cache, n_last=k + 1)
            taken = target.take()
            check()
            if repeat > 0:  # the first time around the prompt is read, and memory is new
                drafts += seconds
                passes[k] += taken
    one = undisturbed(passes[0])
    return {
        "c": undisturbed(drafts) / one,
        "v": [undisturbed(seconds) / one for seconds in passes.values()],
        "target_seconds": one,
    }
