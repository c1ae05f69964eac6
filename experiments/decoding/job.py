"""A decoding: the job, and the loop of sampling.py that does it.

`decode` puts together all that a loop is handed: the target, the draft, the filters, the random
numbers and the rule. Whoever wants to watch, to time or to change a run replaces some of these
parts (a `tap`), and the loop itself stays as it is.
"""

from dataclasses import dataclass, replace
from typing import Any, Callable

import numpy as np

from experiments.decoding.coupled import Noisy
from experiments.drafting.drafts import SeenTarget
from sampling import Filter, autoregressive, never, speculative, toss, verify, verify_block

# The accept/reject rules, by the names that --verification gives them.
RULES = {"token": verify, "block": verify_block}


@dataclass(frozen=True)
class Job:
    """What a decoding is: everything but the models."""

    ids: list
    n_tokens: int
    K: Any = 4  # tokens drafted per round, or a function of the last Round
    filter: Filter = Filter()
    seed: Any = 0
    ended: Callable = never
    coupled: bool = False  # draft and target share the sampling noise of each position
    confidence: float = 0.0  # see sampling.NeuralDrafter
    rule: str = "token"  # one of the RULES


@dataclass(frozen=True)
class Parts:
    """What a loop is handed. A tap, a function from Parts to Parts, replaces some."""

    target: Any
    draft: Any  # None for autoregressive decoding
    p_filter: Callable  # of the target
    q_filter: Callable  # of the draft
    rng: Any  # the random numbers that drafts are sampled with
    coins: Any  # and those of the rule
    rule: Callable

    def coupled(self, seed):
        """Both models with the same noise at each position: what lies above it is greedy."""
        draft = self.draft and self.draft.over(lambda model: Noisy(model, self.q_filter, seed))
        target = Noisy(self.target, self.p_filter, seed)
        return replace(self, target=target, draft=draft, p_filter=Filter(), q_filter=Filter())

    def accepting(self, acceptance, rng):
        """Drafts are accepted by coin, with this probability. All passes are run and the rule is
        asked, so the time is real; only the verdict is not.
        """

        def rule(draft, q, p, coins):
            _, next_token = self.rule(draft, q, p, coins)
            accepted = [toss(acceptance, rng) for _ in draft]
            return [*accepted, False].index(False), next_token

        return replace(self, rule=rule)


def decode(target, draft, job, tap=None):
    """Yield the Rounds of a Job: autoregressively where draft is None, else speculatively."""
    rng = np.random.default_rng(job.seed)
    parts = Parts(target, draft, job.filter, job.filter, rng, rng, RULES[job.rule])
    if tap:
        parts = tap(parts)
    if job.coupled:
        parts = parts.coupled(job.seed)
    how = parts.p_filter, parts.coins, job.ended
    if parts.draft is None:
        return autoregressive(parts.target, job.ids, job.n_tokens, *how)
    target = SeenTarget(parts.target)
    drafter = parts.draft.drafter(target, parts.q_filter, parts.rng, job.confidence)
    return speculative(target, drafter, job.ids, job.n_tokens, job.K, *how, rule=parts.rule)
