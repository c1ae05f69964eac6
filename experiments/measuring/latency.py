"""The latency model of a projected speedup: what a round would cost with a target that is not
there, in target passes.

A round that drafts n tokens costs n c + v(n + 1): c for each drafted token, v(rows) for a target
pass over that many rows, v(1) = 1. Between known points v is interpolated linearly.
"""

import statistics
from dataclasses import dataclass

import numpy as np

from experiments.data.results import AUTO, LIMITS, read_rows
from utils import InputError


def parse_costs(flag, text):
    """Numbers separated by commas. Raises InputError."""
    least, most = LIMITS[flag]
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(least <= value <= most for value in found):
        raise InputError(
            f"--{flag} {text!r}: expected numbers from {least:g} to {most:g}, in target passes"
        )
    return found


@dataclass(frozen=True)
class RoundCosts:
    """Of a draft: the cost of a drafted token, and known costs of a target pass by its rows."""

    draft_cost: float
    passes: dict

    def of_pass(self, rows):
        return float(np.interp(rows, [*self.passes], [*self.passes.values()]))

    def of_round(self, n_drafted):
        return n_drafted * self.draft_cost + self.of_pass(n_drafted + 1)


class Latency:
    """RoundCosts by draft and K, from flags or from a results file. Raises InputError for ones that
    make no sense.

    draft_cost, verify_cost: as given, "" where not. costs: a results file of benchmark, "" for
    none, of which rows of this verification rule are taken.
    """

    def __init__(self, drafts, Ks, target, costs, draft_cost, verify_cost, rule="token"):
        self.source, self.target, self.rule, self.costs = costs, target, rule, {}
        if costs and (draft_cost or verify_cost):
            raise InputError(
                f"--costs {costs!r}: give either this or --draft_cost and --verify_cost"
            )
        if bool(draft_cost) != bool(verify_cost):
            raise InputError(
                "--draft_cost and --verify_cost: a latency model needs both; give the other one too"
            )
        if draft_cost:
            by_K = costs_as_given(draft_cost, verify_cost, Ks)
            self.costs = {(draft, K): by_K[K] for draft in drafts for K in Ks}
        elif costs:
            rows = [row for row in read_rows(costs) if row.K != AUTO and row.verification == rule]
            rows = [row for row in rows if None not in (row.draft_cost, row.verify_cost)]
            targets = {row.target for row in rows}
            if target is None and len(targets) == 1:  # the log of another program
                (target,) = targets
            for draft in drafts:
                of_pair = [row for row in rows if (row.draft, row.target) == (draft, target)]
                self.costs |= {(draft, K): cost for K, cost in costs_in(of_pair, Ks).items()}

    def missing(self, draft, K):
        """Why there is no projection, or None."""
        if (draft, K) in self.costs:
            return None
        if not self.source:
            return "no latency model; give --costs FILE, or --draft_cost and --verify_cost"
        target = self.target or "the target"
        pair = f"draft {draft} up to this K for {target}"
        return f"{self.source} has no costs of {pair} with the {self.rule} rule"


def costs_as_given(draft_cost, verify_cost, Ks):
    """{K: RoundCosts} from the flags. Raises InputError."""
    c, *more = parse_costs("draft_cost", draft_cost)
    v = parse_costs("verify_cost", verify_cost)
    if more:
        raise InputError(f"--draft_cost {draft_cost!r}: expected one number")
    if len(v) not in (1, len(Ks)):
        raise InputError(
            f"--verify_cost {verify_cost!r}: expected one number, or one for each of {len(Ks)} K"
        )
    if len(v) == 1:
        return {K: RoundCosts(c, {1: 1.0, K + 1: v[0]}) for K in Ks}
    passes = {1: 1.0} | {K + 1: cost for K, cost in sorted(zip(Ks, v))}
    return dict.fromkeys(Ks, RoundCosts(c, passes))


def costs_in(rows, Ks):
    """{K: RoundCosts} from the rows of a pair, up to their largest K."""
    by_K = {K: [row for row in rows if row.K == K] for K in sorted({row.K for row in rows})}
    passes = {1: 1.0}
    for K, some in by_K.items():
        passes[K + 1] = statistics.median(row.verify_cost for row in some)
    reached = [K for K in Ks if K <= max(by_K, default=0)]
    found = {}
    for K in reached:
        c = statistics.median(row.draft_cost for row in by_K.get(K, rows))
        found[K] = RoundCosts(c, passes)
    return found
