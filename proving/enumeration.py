"""The exact distribution of a decoding loop: every text it can end in, with its probability,
computed without sampling.

Every random choice in the code is made by one object, a sampling.Rng. Another one in its place
takes each branch in turn and multiplies its probability, so the real loop runs through every
possible history. The result is compared with the target's own distribution, computed by the chain
rule: no statistics, an error of 1e-12 at most. It is feasible for a vocabulary of three tokens and
a text of four. The proofs (tests/test_exact.py) and the museum of mistakes share it.
"""

from collections import defaultdict

import numpy as np

import sampling

MAX_BRANCHES = 200_000  # of one function: half a minute
N_REPEATED, N_RUNS = 10, 6  # so many branches are run so many times


class WrongAnswer(AssertionError):
    """Raised for a wrong answer to an exercise: says in one line what the function does wrong."""


OWN_STATE = "it does something else when it runs again: expected no randomness or state of your own"


class EnumeratingRng:
    """An Rng for one branch of a tree of choices. It makes the choices of a script, then takes the
    first possible option each time.

    script: a list of the index of the option to take, for each choice
    trail: a list of (index of the option taken, number of options), for each choice made
    probability: the product of the probabilities of all choices made
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
        if taken >= len(options):  # there were more in the run that the script was made from
            raise WrongAnswer(OWN_STATE)
        self.trail.append((taken, len(options)))
        self.probability *= p[options[taken]]
        return options[taken]

    def sample(self, p):
        return self.choose(p)

    def accept(self, ratio):
        heads = min(ratio, 1)
        return self.choose([1 - heads, heads]) == 1


def next_script(trail):
    """The script of the next branch, depth first, from the trail of this branch. None after the
    last branch.
    """
    # the last choice that has an option left takes it; those after it begin anew
    for n_kept in reversed(range(len(trail))):
        taken, n_options = trail[n_kept]
        if taken + 1 < n_options:
            return [earlier for earlier, _ in trail[:n_kept]] + [taken + 1]
    return None


def run_branch(run, script):
    """Run one branch: (what run(rng) returns, the trail of its choices, its probability)."""
    branches = EnumeratingRng(script)
    outcome = run(branches)
    return outcome, branches.trail, branches.probability


def enumerate_branches(run):
    """Run a function through every sequence of its random choices: {outcome: probability}.

    run: called with an EnumeratingRng for each branch; returns an outcome, which is hashable
    Raises WrongAnswer if `run` has random numbers or state of its own, or more than MAX_BRANCHES
    branches.
    """
    outcomes, script = defaultdict(float), []
    for n in range(MAX_BRANCHES):
        branch = outcome, trail, probability = run_branch(run, script)
        n_more = N_RUNS - 1 if n < N_REPEATED else 0
        if any(run_branch(run, script) != branch for _ in range(n_more)):
            raise WrongAnswer(OWN_STATE)
        outcomes[outcome] += probability
        script = next_script(trail)
        if script is None:
            return dict(outcomes)
    raise WrongAnswer(f"it has more than {MAX_BRANCHES:,} branches: expected fewer random choices")


def chain_rule(target, ids, n_tokens, to_probs, is_done=sampling.never):
    """The target's own distribution of texts, without any decoding loop: {text, a tuple of new
    tokens: probability}. Arguments as those of sampling.autoregressive.
    """
    texts, done = {(): 1.0}, {}
    for _ in range(min(n_tokens, target.config.n_ctx - len(ids))):
        longer = {}
        for text, probability in texts.items():
            p = to_probs(target.read(ids + list(text), target.new_cache()))[0]
            for token in np.flatnonzero(p):
                into = done if is_done([*text, token]) else longer
                into[(*text, int(token))] = probability * p[token]
        texts = longer
    return texts | done


def total_variation(first, second):
    """Half the sum of all differences of two distributions {outcome: probability}."""
    outcomes = first.keys() | second.keys()
    return sum(abs(first.get(one, 0.0) - second.get(one, 0.0)) for one in outcomes) / 2
