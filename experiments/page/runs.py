"""What the page shows, computed: a race of the two decoders, and a text with coins or settings
changed on the way.
"""

import dataclasses
import time

from experiments.decoding.metrics import speculation
from experiments.decoding.recorder import Watch
from experiments.decoding.timing import timed_run
from experiments.showing.page import report_data


class Schedule:
    """K and filter of each round: those of the settings, changed from some rounds on."""

    def __init__(self, settings, changes):
        self.K = settings.K
        self.current = settings.sampling
        self.changes = list(changes)
        self.n_rounds = 0

    def next_K(self, last):
        """K of the round that begins; the loop asks once a round, before anything else."""
        while self.changes and self.changes[0].round <= self.n_rounds:
            change = self.changes.pop(0)
            self.K = change.K
            self.current = dataclasses.replace(self.current, temperature=change.temperature)
        self.n_rounds += 1
        return self.K

    def filter(self, logits):
        return self.current(logits)


class Progress:
    """A `show` of timed_run that says how far it is, by a watch that stands still meanwhile."""

    def __init__(self, watch, advance):
        self.watch = watch
        self.advance = advance
        self.ends = []  # of each round, by the watch

    def __call__(self, one):
        begin = time.perf_counter()
        if one is not None:
            self.ends.append(self.watch.clock())
            self.advance(len(one.tokens))
        self.watch.aside += time.perf_counter() - begin

    def seconds(self, total):
        """Of each round, of a run that took so many."""
        later = [end - begin for begin, end in zip(self.ends, self.ends[1:])]
        return [total - sum(later), *later]


def autoregressive_run(session, prompt, advance):
    """(what the JSON object says of the run, seconds of each pass)"""
    watch = Watch()
    progress = Progress(watch, advance)
    result = session.run("autoregressive", prompt, progress, watch)
    return result, progress.seconds(result["seconds"])


def speculative_run(session, prompt, request, advance):
    """(what the JSON object says of the run, its notes)"""
    watch = Watch(forced=request.coins)
    schedule = Schedule(session.settings, request.changes)
    n_tokens = session.settings.n_tokens_to_generate
    rounds = watch.decode(
        session.target,
        session.draft,
        prompt.ids,
        n_tokens,
        K=schedule.next_K,
        filter=schedule.filter,
        seed=prompt.seed,
        ended=session.ended,
    )
    show = Progress(watch, advance)
    done, result = timed_run(rounds, n_tokens, session.encoder, show, watch.clock)
    return result | speculation(done), watch.notes


def race(session, request, advance):
    """The data of a page: both decoders after the same prompt.

    advance(n) is called whenever n tokens have been written; each decoder writes all of them.
    """
    session = session.changed(mode="both", **request.settings)
    prompt = session.prompt(request.prompt)
    for decoder in session.settings.decoders:
        session.warm_up(decoder, prompt)
    plain, seconds = autoregressive_run(session, prompt, advance)
    fast, notes = speculative_run(session, prompt, request, advance)
    summary = session.summary(prompt, {"autoregressive": plain, "speculative": fast})
    return report_data(summary["settings"], prompt.ids, notes, summary, session.encoder, seconds)


def what_if(session, request, advance):
    """The speculative half of such data, with the request's coins and changes."""
    session = session.changed(mode="speculative", **request.settings)
    prompt = session.prompt(request.prompt)
    fast, notes = speculative_run(session, prompt, request, advance)
    summary = session.summary(prompt, {"speculative": fast})
    return report_data(summary["settings"], prompt.ids, notes, summary, session.encoder)
