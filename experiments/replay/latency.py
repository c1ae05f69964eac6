"""What a round would cost with a target that is not there, from costs that benchmark measured."""

import statistics
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from cli.input_files import (
    check_fields,
    is_object,
    is_text,
    list_of,
    optional,
    parse_json,
    read_bytes,
)
from cli.values import AUTO

from checkpoints.files import name_of
from checkpoints.limits import POSITIVE, Limits

MAX_COST = 10**6
DRAFT_COST = Limits(0, MAX_COST)  # of a token, in target passes over one row
VERIFY_COST = Limits(1 / MAX_COST, MAX_COST)  # of a pass over several rows, in the same unit

# what is read of a results file, and of its rows
FIELDS = {"settings": optional(is_object), "rows": list_of(is_object)}
ROW_FIELDS = {
    "draft": is_text,
    "target": optional(is_text),
    "K": lambda K: K == AUTO or POSITIVE.allow(K),
    "draft_cost": optional(DRAFT_COST.allow),
    "verify_cost": optional(VERIFY_COST.allow),
}


@dataclass(frozen=True)
class Latency:
    """The cost of a draft's rounds, in target passes over one row.

    A round that drafts n of up to K tokens costs n c(K) + v(n + 1): c for each drafted token, v for
    a target pass over n + 1 rows; v(1) = 1. Between known points both are interpolated. Ask
    why_unknown before the costs: beyond the points they mean nothing.

    points: {K: (c(K), v(K + 1))}, with growing K
    reason: a text that says why nothing is known of a larger K than those of the points
    """

    points: dict
    reason: str

    def why_unknown(self, K):
        """Return why the cost of rounds of up to K tokens is unknown, a text; None if known."""
        # without points no K is known
        return None if K <= max(self.points, default=0) else self.reason

    def draft_cost(self, K):
        """Return c(K), the cost of drafting one token in a round of up to K, in target passes over
        one row, as a float. Below the smallest measured K it is that K's. Raises ValueError without
        points.
        """
        costs = [c for c, _ in self.points.values()]
        return float(np.interp(K, [*self.points], costs))

    def verify_cost(self, n_drafted):
        """Return v(n_drafted + 1), the cost of a target pass over n_drafted + 1 rows, in target
        passes over one row, as a float: 1 if nothing was drafted, else interpolated between
        the K of self.points. Above the largest K it is that of the largest.
        """
        costs = [v for _, v in self.points.values()]
        # without a drafted token it is a pass over one row, which costs 1
        return float(np.interp(n_drafted, [0, *self.points], [1, *costs]))

    def of_round(self, n_drafted, K):
        """Return the cost of a round that drafts n_drafted of up to K tokens, in target passes over
        one row, as a float. A round without a draft costs 1.
        """
        return n_drafted * self.draft_cost(K) + self.verify_cost(n_drafted)


def read_rows(path):
    """Read the rows of a results file of benchmark, at `path` (str). Raises InputError if the file
    is no such file.

    Returns a list of dicts, which give None for a missing key. A row without "verification" gets
    the rule of the file's settings, or "token" if these name none.
    """
    result = parse_json(read_bytes(path), path)
    expected = "expected results of benchmark"
    check_fields(result, FIELDS, path, expected)
    for i, row in enumerate(result["rows"], 1):
        check_fields(row, ROW_FIELDS, f"{path}, row {i}", expected)
    settings = result.get("settings") or {}
    defaults = {"verification": settings.get("verification") or "token"}
    return [defaultdict(lambda: None, defaults | row) for row in result["rows"]]


def read_latencies(path, drafts, target, rule):
    """Read costs from a results file of benchmark. Returns {name of a draft: Latency}, whose points
    are medians over rows with the same K. Raises InputError if the file is no results file.

    path: a str; drafts: a list of names
    rule: "token" or "block", the rule of the rows that are used
    target: the target's name, or None if it is unknown. Then the rows of all targets are used if
        they are of one target, else none. So, too, if several targets have this name.
    """
    rows = [row for row in read_rows(path) if row["K"] != AUTO and row["verification"] == rule]
    if target:
        rows = [row for row in rows if name_of(row["target"] or "") == target]
    if len({row["target"] for row in rows}) > 1:
        rows = []  # the target may be any of these
    latencies = {}
    for draft in drafts:
        costs = defaultdict(list)  # {K: [(c, v)]}
        for row in rows:
            c_and_v = row["draft_cost"], row["verify_cost"]
            if row["draft"] == draft and None not in c_and_v:
                costs[row["K"]].append(c_and_v)
        points = {}
        for K in sorted(costs):
            c, v = zip(*costs[K])
            points[K] = statistics.median(c), statistics.median(v)
        pair = f"draft {draft} up to this K for {target or 'the target'}"
        latencies[draft] = Latency(points, f"{path} has no costs of {pair} with the {rule} rule")
    return latencies
