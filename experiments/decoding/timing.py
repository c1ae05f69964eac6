"""Decoding loops and calls under a clock."""

import time
from collections import defaultdict

from tqdm import tqdm


class Clock:
    """Times calls by part; what a call inside another takes counts for the inner part only."""

    def __init__(self):
        self.seconds, self.inner = defaultdict(float), [0.0]

    def timed(self, part, function):
        """The function, with the seconds of its calls added to the part."""

        def call(*arguments, **named):
            self.inner.append(0.0)
            begin = time.perf_counter()
            result = function(*arguments, **named)
            elapsed = time.perf_counter() - begin
            self.seconds[part] += elapsed - self.inner.pop()
            self.inner[-1] += elapsed
            return result

        return call


def clocked(rounds, each=None, clock=time.perf_counter):
    """Consume a decoding loop: (its rounds, seconds of the prefill, seconds of all after it).

    each is called with every Round, if given.
    """
    done = []
    begin = clock()
    next(rounds)  # the prefill
    prefilled = clock()
    for one in rounds:
        done.append(one)
        if each:
            each(one)
    return done, prefilled - begin, clock() - prefilled


def timed_run(rounds, n_tokens, encoder, show=None, clock=time.perf_counter, progress=True):
    """Consume a decoding loop and time it: (its rounds, what the JSON object says of any decoder).

    show is called with every Round, and with None at the end; without it a progress bar appears on
    stderr when a text takes longer than a second, unless progress is False.
    """
    hidden = bool(show) or not progress
    bar = tqdm(total=n_tokens, unit=" tokens", delay=1, leave=False, disable=hidden or None)

    def watch(one):
        bar.update(len(one.tokens))
        if show:
            show(one)

    done, prefill_seconds, seconds = clocked(rounds, watch, clock)
    bar.close()
    if show:
        show(None)
    ids = [int(token) for one in done for token in one.tokens]
    return done, {
        "text": encoder.decode(visible(ids, encoder)),
        "token_ids": ids,
        "seconds": seconds,
        "prefill_seconds": prefill_seconds,
        "tokens_per_second": len(ids) / seconds,
    }


def visible(ids, encoder):
    """The ids without the <|endoftext|> that ended them."""
    if ids and ids[-1] == encoder.end_of_text:
        return ids[:-1]
    return ids
