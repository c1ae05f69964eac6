"""What drafting and verifying cost on this machine, for the view that asks when it pays."""

import time

import numpy as np

from experiments.decoding.decoders import NGRAM, with_drafter
from experiments.decoding.recorder import TimedModel
from sampling import Filter

MOST_K = 8  # drafts before a pass of the target
REPEATS = 12
GREEDY = Filter(0.0)  # drafts without random numbers


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
    timed = TimedModel(session.target)
    target, drafter = with_drafter(timed, session.draft, GREEDY, rng=None)
    cache = target.new_cache()
    target.read(ids[:-1], cache, n_last=0)
    drafter.prefill(ids[:-1])
    drafts, passes = [], {k: [] for k in range(1 + min(MOST_K, n_ctx - len(ids) - 1))}
    for repeat in range(1 + REPEATS):
        for k in passes:
            begin = time.perf_counter()
            draft, _ = drafter.propose(ids, k)
            drafting = time.perf_counter() - begin
            timed.take()
            target.read(ids + ids[:k], cache, n_last=k + 1)
            taken = timed.take()
            check()
            if repeat == 0:  # memory is new
                continue
            passes[k] += taken
            if draft:
                drafts.append(drafting / len(draft))
    one = undisturbed(passes[0])
    return {
        "c": undisturbed(drafts or [0.0]) / one,
        "v": [undisturbed(seconds) / one for seconds in passes.values()],
        "target_seconds": one,
    }
