"""The latency model of a projected speedup: what a round would cost with a target that is not
there, in target passes.

A round that drafts n tokens costs n c + v(n + 1): c for each drafted token, v(rows) for a target
pass over that many rows, v(1) = 1. Between known points v is taken to be straight.
"""

import statistics
from pathlib import Path

import numpy as np

from utils import InputError, read_json


def read_rows(path):
    """The rows of a results file of benchmark or replay. Raises InputError."""
    rows = read_json(Path(path)).get("rows")
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and {"draft", "target", "K"} <= row.keys() for row in rows
    ):
        raise InputError(
            f"{path}: has no rows of draft, target and K; expected a results file of benchmark or replay"
        )
    return rows


def numbers(flag, text):
    """Positive numbers separated by commas."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 <= value < float("inf") for value in found):
        raise InputError(f"--{flag} {text!r}: expected numbers of 0 or more, in target passes")
    return found


class Latency:
    """Costs by draft and K, from flags or from a results file. Raises InputError for ones that make
    no sense.

    draft_cost, verify_cost: as given, "" where not. costs: a results file of benchmark, "" for
    none.
    """

    def __init__(self, drafts, Ks, target, costs, draft_cost, verify_cost):
        self.source, self.costs = costs, {}
        if costs and (draft_cost or verify_cost):
            raise InputError(
                f"--costs {costs!r}: give either this or --draft_cost and --verify_cost"
            )
        if bool(draft_cost) != bool(verify_cost):
            raise InputError(
                "--draft_cost and --verify_cost: a latency model needs both; give the other one too"
            )
        if draft_cost:
            (c,), v = numbers("draft_cost", draft_cost)[:1], numbers("verify_cost", verify_cost)
            if len(v) not in (1, len(Ks)) or min(v) == 0:
                raise InputError(
                    f"--verify_cost {verify_cost!r}: expected one number above 0, or one for each of {len(Ks)} K"
                )
            points = [(1, 1.0), *((K + 1, cost) for K, cost in zip(Ks, v))]
            self.costs = {
                (d, K): (c, points if len(v) > 1 else [(1, 1.0), (K + 1, v[0])])
                for d in drafts
                for K in Ks
            }
        elif costs:
            rows = [
                row
                for row in read_rows(costs)
                if None not in (row.get("draft_cost"), row.get("verify_cost"))
            ]
            targets = {row["target"] for row in rows}
            target = target if target in targets or len(targets) != 1 else targets.pop()
            for draft in drafts:
                self.costs |= self.from_rows(
                    [row for row in rows if (row["draft"], row["target"]) == (draft, target)], Ks
                )

    def from_rows(self, rows, Ks):
        by_K = {K: [row for row in rows if row["K"] == K] for K in {row["K"] for row in rows}}
        median = lambda name, some: statistics.median(row[name] for row in some)  # noqa: E731
        points = [(1, 1.0)] + [(K + 1, median("verify_cost", by_K[K])) for K in sorted(by_K)]
        reached = [K for K in Ks if K <= max(by_K, default=0)]
        return {
            (rows[0]["draft"], K): (median("draft_cost", by_K.get(K, rows)), points)
            for K in reached
        }

    def missing(self, draft, K):
        """Why there is no projection, or None."""
        if (draft, K) in self.costs:
            return None
        if not self.source:
            return "no latency model; give --costs FILE, or --draft_cost and --verify_cost"
        return f"{self.source} has no costs of draft {draft} up to this K for the target"

    def draft_cost(self, draft, K):
        return self.costs[draft, K][0]

    def pass_cost(self, draft, K, rows):
        return float(np.interp(rows, *zip(*self.costs[draft, K][1])))

    def cost(self, draft, K, n_drafted):
        """What a round costs that drafts so many."""
        return n_drafted * self.draft_cost(draft, K) + self.pass_cost(draft, K, n_drafted + 1)
