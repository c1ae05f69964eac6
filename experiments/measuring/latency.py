"""The latency model of a projected speedup: what a round would cost with a target that is not
there, in target passes over one row.

A round that drafts n of up to K tokens costs n c(K) + v(n + 1): c for each drafted token, v for a
target pass over that many rows, v(1) = 1. Between known points both are interpolated linearly.
"""

import statistics
from dataclasses import dataclass

import numpy as np

from experiments.data.results import read_rows
from experiments.data.values import AUTO


@dataclass(frozen=True)
class Latency:
    """points: {K: (c(K), v(K + 1))}, with growing K. unknown: why nothing is said beyond these."""

    points: dict
    unknown: str = ""

    def missing(self, K):
        """Why there is no projection, or None."""
        return None if K <= max(self.points, default=0) else self.unknown

    def draft_cost(self, K):
        c, _ = zip(*self.points.values())
        return float(np.interp(K, [*self.points], c))

    def verify_cost(self, n_drafted):
        """Of a pass over one row more than were drafted."""
        _, v = zip(*self.points.values())
        return float(np.interp(n_drafted, [0, *self.points], [1, *v]))

    def of_round(self, n_drafted, K):
        return n_drafted * self.draft_cost(K) + self.verify_cost(n_drafted)


def stored_latencies(path, drafts, target, rule):
    """{draft: Latency} from a results file of benchmark, of which rows of this verification rule
    are taken, medians over those of the same K. target: None if the log does not tell; then the
    file's only one will do.
    """
    rows = [row for row in read_rows(path) if row.K != AUTO and row.verification == rule]
    rows = [row for row in rows if None not in (row.draft_cost, row.verify_cost)]
    targets = {row.target for row in rows}
    if target is None and len(targets) == 1:
        (target,) = targets
    found = {}
    for draft in drafts:
        of_pair = [row for row in rows if (row.draft, row.target) == (draft, target)]
        costs = {K: [] for K in sorted({row.K for row in of_pair})}
        for row in of_pair:
            costs[row.K].append((row.draft_cost, row.verify_cost))
        points = {K: tuple(map(statistics.median, zip(*some))) for K, some in costs.items()}
        pair = f"draft {draft} up to this K for {target or 'the target'}"
        found[draft] = Latency(points, f"{path} has no costs of {pair} with the {rule} rule")
    return found
