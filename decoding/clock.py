"""Times the rounds of a run, which a loop of sampling.py yields."""

import time
from dataclasses import dataclass
from types import SimpleNamespace


@dataclass(frozen=True)
class Seconds:
    """The seconds that one round took, in three parts."""

    draft: float  # drafting
    target: float  # the target's pass
    rest: float  # all else: the target's probabilities, the rule and the loop

    @property
    def total(self):
        return self.draft + self.target + self.rest


class Stopwatch:
    """Times each round of a loop of sampling.py, which itself looks at no clock.

    The loop is called with timed_target(model) and timed_drafter(drafter) in place of the model and
    the drafter. A caller takes the loop's rounds from timed_rounds(loop's rounds).
    """

    def __init__(self):
        self.spent = {"draft": 0.0, "target": 0.0}  # seconds of this round so far

    def timed_target(self, model):
        """Return a stand-in for a Model, whose `read` adds its seconds to spent["target"]."""
        read = self.with_timer("target", model.read)
        return SimpleNamespace(config=model.config, new_cache=model.new_cache, read=read)

    def timed_drafter(self, drafter):
        """Return a stand-in for a drafter, whose `propose` adds its seconds to spent["draft"]."""
        propose = self.with_timer("draft", drafter.propose)
        return SimpleNamespace(n_vocab=drafter.n_vocab, prefill=drafter.prefill, propose=propose)

    def with_timer(self, part, function):
        """Return `function` with a timer that adds to spent[part]; part: "draft" or "target"."""

        def call(*arguments, **named):
            begin = time.perf_counter()
            result = function(*arguments, **named)
            self.spent[part] += time.perf_counter() - begin
            return result

        return call

    def timed_rounds(self, rounds):
        """Yield (Round, its Seconds) for each Round of `rounds`, the iterator that a loop returns.
        The time that the caller takes between two rounds is not counted.
        """
        while True:
            self.spent.update(draft=0.0, target=0.0)  # next(rounds) adds to it
            begin = time.perf_counter()
            this_round = next(rounds, None)
            elapsed = time.perf_counter() - begin
            if this_round is None:
                return
            yield this_round, Seconds(**self.spent, rest=elapsed - sum(self.spent.values()))
