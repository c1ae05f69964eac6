"""The exact distribution of a decoding loop: every text it can end in, with its probability,
computed without sampling.

Every random choice in the code is made by one object, a sampling.Chance. Another one in its place
takes each branch in turn and multiplies its probability, so the real loop runs through every
possible history. The result is compared with the target's own distribution, computed by the chain
rule: no statistics, an error of 1e-12 at most. It is feasible for a vocabulary of three tokens and
a text of four. The proofs (tests/test_exact.py) and the museum of mistakes share it.
"""

from collections import defaultdict

import numpy as np

import sampling


class Branches:
    """A Chance that runs through a tree of choices: takes those of a script, then the first
    possible one each time.

    trail: (which option was taken, how many there were) for each choice
    probability: that of all the choices together
    """

    def __init__(self, script):
        self.script, self.trail, self.probability = script, [], 1.0

    def choose(self, p):
        """An index of p with a probability above 0."""
        options = [i for i, mass in enumerate(p) if mass > 0]
        if not options:
            raise ValueError("nothing to choose: no option has a probability above 0")
        n_chosen = len(self.trail)
        taken = self.script[n_chosen] if n_chosen < len(self.script) else 0
        self.trail.append((taken, len(options)))
        self.probability *= p[options[taken]]
        return options[taken]

    def sample(self, p):
        return self.choose(p)

    def toss(self, ratio):
        heads = min(ratio, 1)
        return self.choose([1 - heads, heads]) == 1


def next_script(trail):
    """The choices that lead to the next branch, depth first; None after the last."""
    # the last choice that has an option left takes it; those after it begin anew
    for n_kept in reversed(range(len(trail))):
        taken, n_options = trail[n_kept]
        if taken + 1 < n_options:
            return [earlier for earlier, _ in trail[:n_kept]] + [taken + 1]
    return None


def every_branch(run):
    """{outcome: probability} of run(chance) -> outcome, over every sequence of choices."""
    outcomes, script = defaultdict(float), []
    while script is not None:
        branches = Branches(script)
        outcome = run(branches)
        outcomes[outcome] += branches.probability
        script = next_script(branches.trail)
    return dict(outcomes)


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


def total_variation(first, second):
    """Half the sum of all differences of two distributions {outcome: probability}."""
    outcomes = first.keys() | second.keys()
    return sum(abs(first.get(one, 0.0) - second.get(one, 0.0)) for one in outcomes) / 2
