"""The best K by theory, from the costs of single rounds, beside the K that was measured fastest."""

import itertools
import statistics
from operator import itemgetter

from decoding.auto_k import measure_cost_parts
from decoding.theory import fastest_K
from experiments.benchmark.intervals import ratio
from experiments.progress import progress
from sampling import RULES


def measure_best_Ks(settings, models, target, rows):
    """Measure what rounds cost, and return best_K for each temperature, draft and rule."""
    params_by_temperature = settings.sampling_params()
    ways = [*itertools.product(params_by_temperature, settings.drafts(), settings.rules())]
    key = itemgetter("temperature", "draft", "verification")
    found = []
    for way in progress(ways, len(ways), target, "costs of rounds"):
        t, draft, rule = way
        costs = measure_cost_parts(
            models.target, models.drafts[draft], params_by_temperature[t], RULES[rule]
        )
        found.append(best_K([row for row in rows if key(row) == way], costs))
    return found


def best_K(rows, costs):
    """The K that theory calls the best, beside the fastest of these rows, which differ in K only.

    costs: [(c, v)] of rounds of 1, 2, ... drafts, timed one by one (auto_k.measure_cost_parts)
    """
    same = "draft", "target", "temperature", "verification"
    fastest = max(rows, key=lambda row: row["tokens_per_second"])
    accepted = [row["drafted"] - row["wasted_drafts"] for row in rows]
    a = ratio(accepted, [sum(row["examined_by_position"]) for row in rows])
    shares = [row["drafting_share"] for row in rows if row["drafting_share"] is not None]
    h = statistics.median(shares) if shares else None
    K = c = v = expected = None
    if costs and None not in (a, h):
        by_K = dict(enumerate(costs, 1))
        K, expected = fastest_K(a, by_K, h)
        c, v = by_K[K]
    return {
        **{name: fastest[name] for name in same},
        "acceptance_rate": a,
        "drafting_share": h,
        "draft_cost": c,
        "verify_cost": v,
        "predicted_K": K,
        "predicted_speedup": expected,
        "fastest_K": fastest["K"],
        "acceptance_by_position": fastest["acceptance_by_position"],
        "tokens_per_target_pass": fastest["tokens_per_target_pass"],
        "speedup_time": fastest["speedup_time"],
        "intervals": {"speedup_time": fastest["intervals"]["speedup_time"]},
    }
