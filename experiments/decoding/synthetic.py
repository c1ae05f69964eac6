"""Synthetic acceptance: drafts that are accepted by coin, whatever the models say.

All passes are run and the rule is asked, so the time is real; only the verdict is not.
"""

from dataclasses import replace

from sampling import toss


def accept_by_coin(parts, acceptance, rng):
    """The Parts of a loop (job.py) in which drafts are accepted with this probability."""

    def rule(draft, q, p, coins):
        _, next_token = parts.rule(draft, q, p, coins)
        accepted = [toss(acceptance, rng) for _ in draft]
        return [*accepted, False].index(False), next_token

    return replace(parts, rule=rule)
