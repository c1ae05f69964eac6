"""Advice on a pair: which K, what to expect of it, whether speculation pays on this machine, and
what would help most.

What rounds cost is measured here and now, several times over (experiments/decoding/clock.py). The
acceptance comes from a short live run, from a results file, or is given. What follows is theorem
3.8 (experiments/measuring/theory.py), with its numbers. costs is {K: (c, v)} everywhere, spreads
over turns.
"""

import dataclasses
import math
import statistics

from tqdm import tqdm

from experiments.data.results import read_rows
from experiments.data.values import AUTO
from experiments.decoding.clock import measure_costs
from experiments.decoding.job import Job, decode
from experiments.drafting.drafts import ModelDraft
from experiments.drafting.load import CHECKPOINT
from experiments.measuring.statistics import acceptance, drafting_share, spread
from experiments.measuring.theory import best, needed, speedup
from utils import InputError, random_model

TURNS = 9  # rounds are measured this many times over; the range is the uncertainty of the timing
LIVE_K = 4  # tokens drafted per round in the live run: the acceptance hardly depends on it


# ---------------------------------------------------------------- what rounds cost


def spreads_of_costs(target, draft, filter, Ks, repeats, n_turns=TURNS):
    """{K: (c, v)} of a draft."""
    turns = tqdm(range(n_turns), desc="costs", delay=1, leave=False, disable=None)
    _, found = measure_costs(target, draft, filter, Ks, repeats, turns)
    return {K: tuple(map(spread, zip(*found[K]))) for K in Ks}


def whole_costs(costs, of_draft=1, of_surplus=1):
    """{K: cost of a whole round}, where drafting takes this share of its time, and so does what
    verifying takes beyond a pass over one row.
    """
    return {
        K: of_draft * K * c["value"] + 1 + of_surplus * (v["value"] - 1)
        for K, (c, v) in costs.items()
    }


# ---------------------------------------------------------------- acceptance


def acceptance_of(value, low_high, share, source):
    """An acceptance with its range, the share of rounds that draft, and where it comes from."""
    low, high = low_high or (value, value)
    return {"value": value, "low": low, "high": high, "drafting_share": share, "source": source}


def live_acceptance(target, draft, name, K, texts, n_tokens, filter, seed):
    """The acceptance in a live run, the interval over prompts as its range."""
    by_prompt = []
    for i, ids in enumerate(tqdm(texts, desc=f"live run of {name}", leave=False, disable=None)):
        _, *rounds = decode(target, draft, Job(ids, n_tokens, K, filter, [seed, i]))
        by_prompt.append([(one.drafted, one.examined, one.accepted) for one in rounds])
    found = acceptance(by_prompt)
    drafted = sum(n for rounds in by_prompt for n, _, _ in rounds)
    if found.value is None:
        raise InputError(
            f"draft {name} drafted nothing in a live run of {len(texts)} prompts, so its acceptance"
            " is unknown; expected longer texts (--n_tokens_to_generate), more --n_prompts, or an "
            "--acceptance"
        )
    share = drafting_share(not draft.looks_up, K, drafted, sum(map(len, by_prompt)))
    source = f"live run, {len(texts)} prompts, K = {K}"
    return acceptance_of(found.value, found.interval, share, source)


def is_of(row, name, target, filter):
    """Whether a row is of this pair and sampling, with real models and the token rule."""
    expected = {
        "draft": name,
        "target": target,
        "verification": "token",
        "weights": CHECKPOINT,
        "temperature": filter.temperature,
        "top_k": filter.top_k,
        "top_p": filter.top_p,
    }
    same = all(row[field] in (value, None) for field, value in expected.items())
    known = None not in (row["acceptance_rate"], row["drafted"], row["accepted_histogram"])
    return same and known and row["K"] != AUTO and row["synthetic_acceptance"] is None


def stored_acceptance(path, name, looks_up, target, filter):
    """The acceptance of a draft in a results file: medians over its K."""
    rows = [row for row in read_rows(path) if is_of(row, name, target, filter)]
    if not rows:
        raise InputError(
            f"{path}: has no acceptance of draft {name} for {target} at T={filter.temperature:g}, "
            f"top_k {filter.top_k} and top_p {filter.top_p:g}, measured with real models and the "
            "token rule; expected such a row"
        )
    value = statistics.median(row["acceptance_rate"] for row in rows)
    intervals = [(row["intervals"] or {}).get("acceptance_rate") for row in rows]
    ranges = [both or [row["acceptance_rate"]] * 2 for both, row in zip(intervals, rows)]
    low_high = [statistics.median(ends) for ends in zip(*ranges)]
    share = statistics.median(
        drafting_share(not looks_up, row["K"], row["drafted"], sum(row["accepted_histogram"]))
        for row in rows
    )
    return acceptance_of(value, low_high, share, f"{path}, {len(rows)} values of K")


# ---------------------------------------------------------------- what follows from it


def advice_of(a, costs):
    """What the numbers say of one draft with this acceptance."""
    h, whole = a["drafting_share"], whole_costs(costs)
    rows = [
        {
            "K": K,
            "draft_cost": c["value"],
            "verify_cost": v["value"],
            "speedup": speedup(a["value"], K, c["value"], v["value"], h),
            # with the worst and the best of everything
            "low": speedup(a["low"], K, c["high"], v["high"], h),
            "high": speedup(a["high"], K, c["low"], v["low"], h),
            "break_even_acceptance": needed(1, {K: whole[K]}),
        }
        for K, (c, v) in costs.items()
    ]
    top = max(rows, key=lambda row: row["speedup"])
    pays = "yes" if top["low"] > 1 else "no" if top["high"] < 1 else "too close to tell"
    return {
        "acceptance": a,
        "draft_cost": costs[top["K"]][0],
        "by_K": rows,
        "best_K": top["K"],
        "speedup": top,
        "pays": pays,
        "would_help": gains(a, costs, top),
    }


def gains(a, costs, top):
    """What would help, most first."""
    c, v, rate = top["draft_cost"], top["verify_cost"], a["value"]
    better = (1 + rate) / 2
    rates = f"acceptance {rate:.3f} to {better:.3f}"
    surplus = f"v({top['K'] + 1}) {v:.2f} to {(1 + v) / 2:.2f}"
    half_c, half_v = whole_costs(costs, of_draft=0.5), whole_costs(costs, of_surplus=0.5)
    changes = [
        ("a draft at half its cost", f"c {c:.3f} to {c / 2:.3f}", rate, half_c),
        ("a draft with half the rejections", rates, better, whole_costs(costs)),
        ("a verify pass at half its surplus", surplus, rate, half_v),
    ]
    found = []
    for change, from_to, rate_then, costs_then in changes:
        K, value = best(rate_then, costs_then, a["drafting_share"])
        found.append({"change": change, "from_to": from_to, "speedup": value, "K": K})
    return sorted(found, key=lambda gain: -gain["speedup"])


# ---------------------------------------------------------------- other drafts


def draft_shapes(config):
    """Other drafts to weigh: less deep, less wide, and less deep but wider."""
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


def weigh_shapes(target, model, filter, expected, costs, repeats):
    """What other shapes of draft cost here, and the acceptance they need for this speedup."""
    by_shape = {"as it is": (model.config, costs)}
    for name, config in draft_shapes(model.config).items():
        draft = ModelDraft(random_model(config, target.backend))
        measured = spreads_of_costs(target, draft, filter, [*costs], repeats, n_turns=1)
        by_shape[name] = config, measured
    return [
        {
            "draft": name,
            "shape": f"{config.n_layer} x {config.n_embd}",
            "draft_cost": statistics.median(c["value"] for c, _ in of_shape.values()),
            "needs_acceptance": needed(expected, whole_costs(of_shape)),
        }
        for name, (config, of_shape) in by_shape.items()
    ]
