"""The best K by theory, from the costs of single rounds, beside the K that was measured fastest."""

import statistics

from decoding.costs import measure_cost_parts

from decoding.theory import fastest_K
from experiments.benchmark.intervals import ratio
from experiments.benchmark.tables import PAIR
from experiments.progress import progress
from sampling import RULES


def measure_best_Ks(settings, models, target, rows):
    """Measure what rounds cost, and compare the K that theory predicts with the fastest measured K.
    Prints progress on stderr. Returns a list of dicts, one for each temperature, draft and rule:
    what best_K returns, with "predicted_K" and "fastest_K".

    settings: BenchmarkSettings; models: LoadedModels; target: the target's name
    rows: the results for this target (dicts), from measure_all_prompts
    """
    params_by_temperature = settings.sampling_params()
    rows_by_key = {}  # {(temperature, draft, rule): its rows, which differ in K}
    for row in rows:
        key = row["temperature"], row["draft"], row["verification"]
        rows_by_key.setdefault(key, []).append(row)
    results = []
    for key in progress(rows_by_key, len(rows_by_key), target, "costs of rounds"):
        temperature, draft, rule = key
        to_probs = params_by_temperature[temperature]
        costs = measure_cost_parts(models.target, models.drafts[draft], to_probs, RULES[rule])
        results.append(best_K(rows_by_key[key], costs))
    return results


def best_K(rows, costs):
    """Return {column: value}, a dict: the K that theory predicts to be fastest with its speedup and
    costs, beside the fastest of the rows. The prediction is None if there are no costs, or if no
    drafted token was examined.

    rows: results (dicts) of one draft and target, which differ in K only
    costs: [(c, v)] of rounds of K = 1, 2, ... drafted tokens, in units of a target pass over one
        token: c of drafting one token, v of the rest of the round
    """
    # a: the acceptance rate; h: the median share of rounds with a draft; c, v: costs, as above
    fastest = max(rows, key=lambda row: row["tokens_per_second"])
    accepted = [row["drafted"] - row["wasted_drafts"] for row in rows]
    examined = [sum(row["examined_by_position"]) for row in rows]
    a = ratio(accepted, examined)
    shares = [row["drafting_share"] for row in rows if row["drafting_share"] is not None]
    h = statistics.median(shares) if shares else None
    K = c = v = predicted_speedup = None
    if costs and a is not None and h is not None:
        costs_of_K = dict(enumerate(costs, 1))
        K, predicted_speedup = fastest_K(a, costs_of_K, h)
        c, v = costs_of_K[K]
    return {
        **{name: fastest[name] for name in PAIR},
        "acceptance_rate": a,
        "drafting_share": h,
        "draft_cost": c,
        "verify_cost": v,
        "predicted_K": K,
        "predicted_speedup": predicted_speedup,
        "fastest_K": fastest["K"],
        "acceptance_by_position": fastest["acceptance_by_position"],
        "tokens_per_target_pass": fastest["tokens_per_target_pass"],
        "speedup_time": fastest["speedup_time"],
        "intervals": {"speedup_time": fastest["intervals"]["speedup_time"]},
    }
