"""What the page shows, computed: a race of the two decoders, a text with coins or settings changed
on the way, and what drafting and verifying cost on this machine.
"""

from dataclasses import replace

import numpy as np

from experiments.decoding.clock import RoundTimer
from experiments.decoding.watch import Watch
from experiments.page.report import report_data
from sampling import Filter, verify

MOST_K = 8  # of the rounds whose costs are measured
TURNS, ROUNDS = 8, 2  # in each turn, so many rounds of every K
GREEDY = Filter(0.0)  # drafts without random numbers


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
            self.current = replace(self.current, temperature=change.temperature)
        self.n_rounds += 1
        return self.K

    def filter(self, logits):
        return self.current(logits)


def watched_run(session, prompt, decoder, request, advance):
    """(what the JSON object says of a decoder's run, its notes)"""
    run = session.warm_run(prompt, decoder)
    schedule = Schedule(session.settings, request.changes)
    job = replace(run.job, K=schedule.next_K, filter=schedule.filter)
    watch = Watch(job, request.coins)

    def show(one):
        if one is not None:
            advance(len(one.tokens))

    return replace(run, job=job, watch=watch).finish(show), watch.notes


def page_data(session, request, advance):
    """The data of a page: the decoders of the session after the request's prompt.

    advance(n) is called whenever n tokens have been written; each decoder writes all of them.
    """
    prompt = session.prompt(request.prompt)
    results, notes = {}, {}
    for decoder in session.settings.decoders:
        results[decoder], notes[decoder] = watched_run(session, prompt, decoder, request, advance)
    summary = session.summary(prompt, results)
    plain, fast = notes.get("autoregressive"), notes["speculative"]
    return report_data(summary["settings"], prompt.ids, fast, summary, session.encoder, plain)


def race(session, request, advance):
    """The data of a page, with both decoders."""
    return page_data(session.changed(mode="both", **request.settings), request, advance)


def what_if(session, request, advance):
    """The speculative half of such data, with the request's coins and changes."""
    return page_data(session.changed(mode="speculative", **request.settings), request, advance)


def typical(seconds):
    """A disturbed pass is slow, and none is too fast."""
    return float(np.quantile(seconds, 0.25))


def costs(session, check):
    """{"c": cost of drafting a token, "v": [cost of a pass over 1, 2, ... rows]}, both in passes of
    the target over one row, and the seconds of such a pass.

    check() is called now and then.
    """
    target, draft = session.pair.target, session.pair.draft
    most = min(MOST_K, draft.most, min(target.config.n_ctx, draft.n_ctx) - 1)
    timer = RoundTimer(target, draft, GREEDY, most, verify)
    drafting, passes = [], [[] for _ in range(most + 1)]
    for _ in range(TURNS):
        for K, found in enumerate(passes):
            check()
            for drafted, verified, _ in timer.timed(K, ROUNDS):
                found.append(verified)
                if K:
                    drafting.append(drafted / K)
    one = typical(passes[0])
    return {
        "c": typical(drafting) / one,
        "v": [typical(seconds) / one for seconds in passes],
        "target_seconds": one,
    }
