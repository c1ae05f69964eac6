"""The exact law of a decoding loop: every text it can end in, with its probability, computed
without sampling.

Every random choice the code makes is a sample or a toss. Replacing the two by a chooser that takes
each branch in turn, and multiplies its probability, runs the real loop through every possible
history. What comes out can be compared with the target's own law, computed by the chain rule: no
statistics, an error of 1e-12 at most. Feasible for a vocabulary of three tokens and a text of four;
the proofs (tests/test_exact.py) and the museum of mistakes (experiments/proving/mistakes.py) share
it.
"""

from collections import defaultdict
from unittest.mock import patch

import numpy as np

import sampling


class Branches:
    """Takes the choices of a script, then the first possible one each time; `trail` remembers what
    else there was.
    """

    def __init__(self, script):
        self.script, self.trail, self.probability = script, [], 1.0

    def choose(self, p):
        options = [i for i, mass in enumerate(p) if mass > 0]
        if not options:
            raise ValueError("nothing to choose: no option has a probability above 0")
        taken = self.script[len(self.trail)] if len(self.trail) < len(self.script) else 0
        self.trail.append((taken, len(options)))
        self.probability *= p[options[taken]]
        return options[taken]

    def sample(self, p, rng=None):
        """Stands in for sampling.sample."""
        return self.choose(p)

    def toss(self, probability, rng=None):
        """Stands in for sampling.toss."""
        return self.choose([1 - min(probability, 1), min(probability, 1)]) == 1


def every_branch(run):
    """{outcome: probability} of run(branches) -> outcome, called once for each sequence of choices
    it can make.
    """
    outcomes, script = defaultdict(float), []
    while script is not None:
        branches = Branches(script)
        outcomes[run(branches)] += branches.probability
        trail = branches.trail
        while trail and trail[-1][0] + 1 == trail[-1][1]:
            trail.pop()
        script = [taken for taken, _ in trail[:-1]] + [trail[-1][0] + 1] if trail else None
    return dict(outcomes)


def law(run):
    """{outcome: probability} of run() -> outcome over every sample and toss in it that is given None
    for a generator.

    Code that brings a generator of its own has made that choice itself, and makes it here as well.
    """
    real = {"sample": sampling.sample, "toss": sampling.toss}

    def once(branches):
        def choice(name):
            chosen = getattr(branches, name)
            return lambda p, rng: chosen(p) if rng is None else real[name](p, rng)

        with patch.multiple(sampling, sample=choice("sample"), toss=choice("toss")):
            return run()

    return every_branch(once)


def chain_rule(target, ids, n_tokens, filter, ended=sampling.never):
    """{text: probability} of the target alone, without any decoding loop."""
    texts, done = {(): 1.0}, {}
    for _ in range(min(n_tokens, target.config.n_ctx - len(ids))):
        longer = {}
        for text, probability in texts.items():
            p = filter(target.read(ids + list(text), target.new_cache()))[0]
            for token in np.flatnonzero(p):
                into = done if ended([*text, token]) else longer
                into[(*text, int(token))] = probability * p[token]
        texts = longer
    return texts | done


def tokens_of(rounds):
    """The text that rounds make up, as a tuple."""
    return tuple(int(token) for one in rounds for token in one.tokens)


def total_variation(first, second):
    """Half the sum of all differences of two laws {outcome: probability}: 0 for equal ones, 1 for
    disjoint ones.
    """
    return (
        sum(
            abs(first.get(outcome, 0.0) - second.get(outcome, 0.0))
            for outcome in first.keys() | second.keys()
        )
        / 2
    )
