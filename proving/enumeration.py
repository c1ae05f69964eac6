"""The exact distribution of a decoding loop: every text it can end in, with its probability,
computed without sampling.

Every random choice in the code is made by one object, a sampling.Rng. An EnumeratingRng in its
place takes each branch in turn and multiplies its probability, so the real loop runs through every
possible history. The result is compared with the target's own distribution, computed by the chain
rule: no statistics, an error of 1e-12 at most. This is feasible for a vocabulary of three tokens
and a text of four. The proofs (tests/test_exact.py) and the museum of mistakes share it.
"""

from collections import defaultdict

import numpy as np

import sampling

MAX_BRANCHES = 200_000  # of one function: half a minute
# to see whether a function does the same again:
N_REPEATED = 10  # branches that are run again
N_RUNS = 6  # of each of these branches


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
        """Choose an index of p, a sequence of probabilities, among the indices with a probability
        above 0: the one that the script names, after the script's end the first. Adds the choice
        to the trail.

        Raises ValueError if no probability is above 0, WrongAnswer if the script does not fit.
        """
        options = [i for i, mass in enumerate(p) if mass > 0]
        if not options:
            raise ValueError("nothing to choose: no option has a probability above 0")
        n_made = len(self.trail)
        # after the choices of the script, the first option each time
        option = self.script[n_made] if n_made < len(self.script) else 0
        if option >= len(options):  # there were more in the run that the script was made from
            raise WrongAnswer(OWN_STATE)
        self.trail.append((option, len(options)))
        self.probability *= p[options[option]]
        return options[option]

    def sample(self, p):  # [n_vocab] -> token
        """Choose a token of the distribution p, and add the choice to the trail."""
        return self.choose(p)

    def accept(self, ratio):
        """Choose between True, of probability min(1, ratio), and False, as `choose` does. Adds the
        choice to the trail, also if only one of the two is possible.
        """
        p_true = min(ratio, 1)
        return self.choose([1 - p_true, p_true]) == 1


def next_script(trail):
    """The script of the next branch, depth first, from the trail of this branch. None after the
    last branch.

    >>> next_script([(0, 2), (1, 3), (1, 2)])
    [0, 2]
    """
    script = [option for option, _ in trail]
    # the last choice that has an option left takes it; the choices after it begin anew
    for i in reversed(range(len(trail))):
        option, n_options = trail[i]
        if option + 1 < n_options:
            return [*script[:i], option + 1]
    return None


def run_branch(run, script):
    """Run one branch of the tree of choices. Returns (what run(rng) returns, the trail, the
    probability of the branch).

    run: a function that is called with an EnumeratingRng
    script: a list of the index of the option to take, for each choice
    trail: a list of (index of the option taken, number of options), for each choice made
    """
    rng = EnumeratingRng(script)
    outcome = run(rng)
    return outcome, rng.trail, rng.probability


def enumerate_branches(run):
    """Run a function through every sequence of its random choices. Returns {outcome: probability}.

    run: called once for each branch, with an EnumeratingRng in place of a sampling.Rng; returns an
        outcome, which is hashable
    Raises WrongAnswer if `run` has random numbers or state of its own, or more than MAX_BRANCHES
    branches.
    """
    outcomes = defaultdict(float)
    script = []
    for n_branches in range(MAX_BRANCHES):
        branch = run_branch(run, script)
        # the first branches run again, to see that only `rng` decides what they do
        if n_branches < N_REPEATED:
            for _ in range(N_RUNS - 1):
                if run_branch(run, script) != branch:
                    raise WrongAnswer(OWN_STATE)
        outcome, trail, probability = branch
        outcomes[outcome] += probability
        script = next_script(trail)
        if script is None:
            return dict(outcomes)
    raise WrongAnswer(f"it has more than {MAX_BRANCHES:,} branches: expected fewer random choices")


def chain_rule(target, ids, n_tokens, to_probs, is_done=sampling.never):
    """Compute the target's own distribution of texts, without any decoding loop. Returns {text, a
    tuple of up to n_tokens new tokens: probability}.

    target: a gpt2.Model. ids: the prompt, a list
    to_probs: a function from logits to probabilities, both [1, n_vocab]
    is_done: a function from the list of new tokens to whether the text ends there
    """
    unfinished = {(): 1.0}
    finished = {}
    for _ in range(min(n_tokens, target.config.n_ctx - len(ids))):
        longer_texts = {}
        for text, probability in unfinished.items():
            p = to_probs(target.read(ids + list(text), target.new_cache()))[0]
            for token in np.flatnonzero(p):
                longer_text = (*text, int(token))
                texts = finished if is_done(list(longer_text)) else longer_texts
                texts[longer_text] = probability * p[token]
        unfinished = longer_texts
    return unfinished | finished


def total_variation(first, second):
    """The total variation distance of two distributions {outcome: probability}: half the sum of all
    differences.

    >>> total_variation({"a": 0.5, "b": 0.5}, {"b": 1.0})
    0.5
    """
    outcomes = first.keys() | second.keys()
    return sum(abs(first.get(key, 0.0) - second.get(key, 0.0)) for key in outcomes) / 2
