"""Advice on a pair: which K, what to expect of it, whether speculation pays on this machine, and
what would help most.

What rounds cost is measured here and now, several times over, as whole rounds: a draft that was
timed alone would find its weights in the cache, from which the target's passes displace them in a
text. The acceptance comes from a short live run, from a results file, or is given. What follows is
theorem 3.8 (experiments/measuring/theory.py), with its numbers.
"""

import dataclasses
import math
import statistics
from dataclasses import dataclass

from tqdm import tqdm

from experiments.data.results import AUTO, read_rows
from experiments.decoding.adaptive_k import RoundTimer
from experiments.decoding.decoders import NGRAM
from experiments.decoding.metrics import speculation
from experiments.measuring.runner import Task, rounds_of
from experiments.measuring.statistics import drafting_share, interval, ratio, spread
from experiments.measuring.theory import best, break_even, needed, speedup
from utils import InputError, random_model

TURNS = 9  # rounds are measured this many times over; the range is the uncertainty of the timing
LIVE_K = 4  # tokens drafted per round in the live run: the acceptance hardly depends on it


# ---------------------------------------------------------------- what rounds cost


@dataclass(frozen=True)
class RoundCost:
    """Of a round with K drafts, in rounds without any: a drafted token, and all the rest, which is
    little more than the pass that verifies. Both are spreads over turns.
    """

    draft: dict
    verify: dict

    def whole(self, K):
        return K * self.draft["value"] + self.verify["value"]


def medians(rounds):
    """(median of drafting, of all the rest) of [(seconds of drafting, of the whole round)]."""
    drafting = statistics.median(drafting for drafting, _ in rounds)
    return drafting, statistics.median(whole - drafting for drafting, whole in rounds)


def one_turn(timer, Ks, repeats):
    """{K: (cost of a drafted token, of all the rest)} in rounds without drafts, which are timed
    before and after the others.

    A turn takes well under a second: a machine that gets faster or slower from one second to the
    next does so for all rounds of a turn.
    """
    before = timer.timed(0, repeats)
    rounds = {K: timer.timed(K, repeats) for K in Ks}
    plain = sum(medians(before + timer.timed(0, repeats)))
    costs = {}
    for K in Ks:
        drafting, rest = medians(rounds[K])
        costs[K] = drafting / K / plain, rest / plain
    return costs


def measure_costs(target, draft, filter, Ks, repeats, n_turns=TURNS):
    """{K: RoundCost} of a draft, over turns in which every K is timed."""
    timer = RoundTimer(target, draft, filter, max(Ks))
    progress = tqdm(range(n_turns), desc="costs", delay=1, leave=False, disable=None)
    turns = [one_turn(timer, Ks, repeats) for _ in progress]
    costs = {}
    for K in Ks:
        drafting, rest = zip(*(turn[K] for turn in turns))
        costs[K] = RoundCost(spread(drafting), spread(rest))
    return costs


# ---------------------------------------------------------------- acceptance


def acceptance_of(value, low_high, share, source):
    """An acceptance with its range, the share of rounds that draft, and where it comes from."""
    low, high = low_high or (value, value)
    return {"value": value, "low": low, "high": high, "drafting_share": share, "source": source}


def live_acceptance(target, draft, name, K, texts, n_tokens, filter, seed):
    """Acceptance and drafting share of a live run, the interval over prompts as its range. Raises
    InputError where no draft was examined.
    """
    counts = []
    for i, ids in enumerate(tqdm(texts, desc=f"live run of {name}", leave=False, disable=None)):
        _, *rounds = rounds_of(target, draft, K, Task(ids, n_tokens, filter), [seed, i])
        counts.append(speculation(rounds))
    accepted = [found["accepted"] for found in counts]
    examined = [found["examined"] for found in counts]
    drafted = sum(found["drafted"] for found in counts)
    n_rounds = sum(found["rounds"] for found in counts)
    if not sum(examined):
        raise InputError(
            f"draft {name} drafted nothing in a live run of {len(texts)} prompts, so its acceptance"
            " is unknown; expected longer texts (--n_tokens_to_generate), more --n_prompts, or an "
            "--acceptance"
        )
    share = drafting_share(draft != NGRAM, K, drafted, n_rounds)
    source = f"live run, {len(texts)} prompts, K = {K}"
    return acceptance_of(
        ratio(accepted, examined), interval(accepted, examined, most=1), share, source
    )


def stored_acceptance(path, draft, target, filter):
    """Acceptance and drafting share of real models under the token rule in a results file: medians
    over its K. Raises InputError where it has none.
    """
    rows = [row for row in read_rows(path) if row.draft == draft and row.K != AUTO]
    rows = [row for row in rows if row.target in (target, None) and row.verification == "token"]
    for name in ("temperature", "top_k", "top_p"):
        rows = [row for row in rows if getattr(row, name) in (getattr(filter, name), None)]
    rows = [row for row in rows if row.is_real]
    needs = ("acceptance_rate", "drafted", "n_rounds")
    rows = [row for row in rows if None not in [getattr(row, name) for name in needs]]
    if not rows:
        raise InputError(
            f"{path}: has no acceptance of draft {draft} for {target} at T={filter.temperature:g}, "
            f"top_k {filter.top_k} and top_p {filter.top_p:g}, measured with real models and the "
            "token rule; expected such a row"
        )
    ranges = [row.acceptance_interval or [row.acceptance_rate] * 2 for row in rows]
    low_high = [statistics.median(ends) for ends in zip(*ranges)]
    is_model = draft != NGRAM
    shares = [drafting_share(is_model, row.K, row.drafted, row.n_rounds) for row in rows]
    value = statistics.median(row.acceptance_rate for row in rows)
    share = min(1, statistics.median(shares))
    return acceptance_of(value, low_high, share, f"{path}, {len(rows)} values of K")


# ---------------------------------------------------------------- what follows from it


def whole_costs(costs):
    """{K: cost of a whole round}"""
    return {K: cost.whole(K) for K, cost in costs.items()}


def row_of(K, a, cost):
    """What to expect of one K; the range of the speedup takes the worst and best of everything."""
    c, v, h = cost.draft, cost.verify, a["drafting_share"]
    return {
        "K": K,
        "draft_cost": c["value"],
        "verify_cost": v["value"],
        "speedup": speedup(a["value"], K, c["value"], v["value"], h),
        "low": speedup(a["low"], K, c["high"], v["high"], h),
        "high": speedup(a["high"], K, c["low"], v["low"], h),
        "break_even_acceptance": break_even(K, c["value"], v["value"]),
    }


def verdict(top):
    """Whether the fastest K pays."""
    if top["low"] > 1:
        return "yes"
    if top["high"] < 1:
        return "no"
    return "too close to tell"


def gain_of(name, from_to, a, costs, h):
    """What a change would give."""
    K, value = best(a, costs, h)
    return {"change": name, "from_to": from_to, "speedup": value, "K": K}


def gains(a, costs, top):
    """What would help, most first."""
    h, c, v, rate = a["drafting_share"], top["draft_cost"], top["verify_cost"], a["value"]
    better = (1 + rate) / 2
    whole = whole_costs(costs)
    cheaper = {K: cost.whole(K) - K * cost.draft["value"] / 2 for K, cost in costs.items()}
    faster = {K: cost.whole(K) - (cost.verify["value"] - 1) / 2 for K, cost in costs.items()}
    found = [
        gain_of("a draft at half its cost", f"c {c:.3f} to {c / 2:.3f}", rate, cheaper, h),
        gain_of(
            "a draft with half the rejections",
            f"acceptance {rate:.3f} to {better:.3f}",
            better,
            whole,
            h,
        ),
        gain_of(
            "a verify pass at half its surplus",
            f"v({top['K'] + 1}) {v:.2f} to {1 + (v - 1) / 2:.2f}",
            rate,
            faster,
            h,
        ),
    ]
    return sorted(found, key=lambda gain: -gain["speedup"])


def advice_of(a, costs):
    """What the numbers say of one draft, from its acceptance and {K: RoundCost}."""
    rows = [row_of(K, a, cost) for K, cost in costs.items()]
    top = max(rows, key=lambda row: row["speedup"])
    return {
        "acceptance": a,
        "draft_cost": costs[top["K"]].draft,
        "by_K": rows,
        "best_K": top["K"],
        "speedup": top,
        "pays": verdict(top),
        "would_help": gains(a, costs, top),
    }


# ---------------------------------------------------------------- other drafts


def draft_shapes(config):
    """Other drafts to weigh against this one: less deep, less wide, and less deep but wider, with
    about as many weights.
    """
    heads = config.n_head
    half_depth = config.n_layer // 2
    half_width = config.n_embd // 2 // heads * heads
    wider = round(math.sqrt(2) * config.n_embd / heads) * heads
    changes = {
        "half the layers": {"n_layer": half_depth},
        "half the width": {"n_embd": half_width},
        "half the layers, wider": {"n_layer": half_depth, "n_embd": wider},
    }
    shapes = {name: dataclasses.replace(config, **change) for name, change in changes.items()}
    # a matrix of one column is no matrix
    return {name: one for name, one in shapes.items() if one.n_layer >= 1 and one.n_embd >= 2}


def weigh_shapes(target, draft, arrays, filter, expected, costs, repeats):
    """What differently shaped drafts cost here, and the acceptance each would need for the same
    speedup. costs are those of the draft as it is.
    """
    Ks = [*costs]
    by_shape = {"as it is": (draft.config, costs)}
    for name, config in draft_shapes(draft.config).items():
        model = random_model(config, arrays)
        by_shape[name] = config, measure_costs(target, model, filter, Ks, repeats, n_turns=1)
    found = []
    for name, (config, of_shape) in by_shape.items():
        whole = whole_costs(of_shape)
        drafting = statistics.median(cost.draft["value"] for cost in of_shape.values())
        found.append(
            {
                "draft": name,
                "shape": f"{config.n_layer} x {config.n_embd}",
                "draft_cost": drafting,
                "needs_acceptance": needed(expected, whole),
            }
        )
    return found
