"""python main.py advise: which K, what to expect of it, whether speculation pays on this machine,
and what would help most.

The costs c and v are measured here and now, several times over; the acceptance comes from a short
live run, from a results file of benchmark or replay, or is given. What follows from them is theorem
3.8 (experiments/measuring/theory.py), with its numbers.
"""

import dataclasses
import json as json_format
import math
import statistics
from pathlib import Path

from tqdm import tqdm

from experiments.cli.validators import (
    check_choice,
    check_numbers,
    parse_filters,
    parse_K,
    parse_list,
    parse_probability,
)
from experiments.commands.profile import PAST, drafting_seconds, time_rows
from experiments.data.machine import machine
from experiments.data.prompts import choose_prompts
from experiments.decoding.decoders import NGRAM
from experiments.decoding.metrics import speculation
from experiments.decoding.timing import clocked
from experiments.drafting.stored import is_head
from experiments.measuring import runner as measuring
from experiments.measuring.latency import read_rows
from experiments.measuring.referee import drafting_share, interval, ratio
from experiments.measuring.theory import best, break_even, needed, speedup
from utils import MODELS_DIR, InputError, get_backend, random_model

BLOCKS = 5  # the costs are measured this many times; their range is the uncertainty of the timing
LIVE_K = 4  # tokens drafted per round in the live run: the acceptance hardly depends on it

# ---------------------------------------------------------------- what is measured


def spread(values):
    """A measured value and its range: {"value", "low", "high"}."""
    return {"value": statistics.median(values), "low": min(values), "high": max(values)}


def measure_costs(target, drafts, Ks, repeats):
    """({draft: c}, {K: v}), each a spread over blocks in which the models take turns. All in target
    passes over one row.
    """
    c, v = {name: [] for name in drafts}, {K: [] for K in Ks}
    for _ in tqdm(range(BLOCKS), desc="costs", leave=False, disable=None):
        seconds = time_rows(target, [1, *(K + 1 for K in Ks)], repeats)
        for K in Ks:
            v[K].append(seconds[K + 1] / seconds[1])
        for name, draft in drafts.items():
            c[name].append(drafting_seconds(target, draft, repeats) / seconds[1])
    return {name: spread(of) for name, of in c.items()}, {K: spread(of) for K, of in v.items()}


def live_acceptance(target, draft, name, K, texts, n_tokens, filter, seed):
    """Acceptance and drafting share of a live run, the interval over prompts as its range."""
    counts = []
    for i, ids in enumerate(tqdm(texts, desc=f"live run of {name}", leave=False, disable=None)):
        done, *_ = clocked(measuring.rounds_of(target, draft, K, ids, n_tokens, filter, [seed, i]))
        found = speculation(done)
        counts.append([found[what] for what in ("accepted", "examined", "drafted", "rounds")])
    accepted, examined, drafted, n_rounds = zip(*counts)
    return acceptance_of(
        ratio(accepted, examined),
        interval(accepted, examined),
        drafting_share(name, K, sum(drafted), sum(n_rounds)),
        f"live run, {len(texts)} prompts, K = {K}",
    )


def acceptance_of(value, low_high, share, source):
    low, high = low_high or (value, value)
    return {"value": value, "low": low, "high": high, "drafting_share": share, "source": source}


def stored_acceptance(path, draft, target, temperature):
    """Acceptance and drafting share in a results file: medians over its K. Raises InputError where
    it has none.
    """
    rows = [
        row for row in read_rows(path) if row["draft"] == draft and row["target"] in (target, None)
    ]
    rows = [
        row
        for row in rows
        if row.get("temperature") in (temperature, None) and row.get("acceptance_rate") is not None
    ]
    rows = [
        row
        for row in rows
        if row["K"] != "auto" and {"intervals", "drafted", "accepted_histogram"} <= row.keys()
    ]
    if not rows:
        raise InputError(
            f"{path}: has no acceptance of draft {draft} for {target} at T={temperature:g}; expected such a row"
        )
    ranges = [row["intervals"]["acceptance_rate"] or [row["acceptance_rate"]] * 2 for row in rows]
    low_high = [statistics.median(ends) for ends in zip(*ranges)]
    shares = [
        drafting_share(draft, row["K"], row["drafted"], sum(row["accepted_histogram"]))
        for row in rows
    ]
    value = statistics.median(row["acceptance_rate"] for row in rows)
    return acceptance_of(
        value, low_high, statistics.median(shares), f"{path}, {len(rows)} values of K"
    )


def draft_shapes(config):
    """Other drafts to weigh against this one: less deep, less wide, and less deep but wider, with
    about as many weights.
    """
    heads, wide = config.n_head, round(math.sqrt(2) * config.n_embd / config.n_head) * config.n_head
    half_depth = {"n_layer": config.n_layer // 2}
    shapes = {
        "half the layers": half_depth,
        "half the width": {"n_embd": config.n_embd // 2 // heads * heads},
    }
    shapes["half the layers, wider"] = half_depth | {"n_embd": wide}
    return {
        name: dataclasses.replace(config, **change)
        for name, change in shapes.items()
        if all(n > 0 for n in change.values())
    }


# ---------------------------------------------------------------- what follows from it


def middle(costs):
    return {K: cost["value"] for K, cost in costs.items()}


def advice_of(a, c, v):
    """What the numbers say of one draft. a, c and v[K] are spreads; the range of a speedup takes
    the worst and best of all.
    """
    h, rows = a["drafting_share"], []
    for K, of_pass in v.items():
        rows.append(
            {
                "K": K,
                "verify_cost": of_pass["value"],
                "speedup": speedup(a["value"], K, c["value"], of_pass["value"], h),
                "low": speedup(a["low"], K, c["high"], of_pass["high"], h),
                "high": speedup(a["high"], K, c["low"], of_pass["low"], h),
                "break_even_acceptance": break_even(K, c["value"], of_pass["value"]),
            }
        )
    top = max(rows, key=lambda row: row["speedup"])
    verdict = "yes" if top["low"] > 1 else "no" if top["high"] < 1 else "too close to tell"
    costs = middle(v)
    half = {K: 1 + (cost - 1) / 2 for K, cost in costs.items()}
    better = (1 + a["value"]) / 2
    changes = {
        "a draft at half its cost": (
            (a["value"], c["value"] / 2, costs, h),
            f"c {c['value']:.3f} to {c['value'] / 2:.3f}",
        ),
        "a draft with half the rejections": (
            (better, c["value"], costs, h),
            f"acceptance {a['value']:.3f} to {better:.3f}",
        ),
        "a verify pass at half its surplus": (
            (a["value"], c["value"], half, h),
            f"v({top['K'] + 1}) {costs[top['K']]:.2f} to {half[top['K']]:.2f}",
        ),
    }
    gains = []
    for name, (arguments, what) in changes.items():
        K, value = best(*arguments)
        gains.append({"change": name, "from_to": what, "speedup": value, "K": K})
    gains.sort(key=lambda gain: -gain["speedup"])
    found = {"acceptance": a, "draft_cost": c, "by_K": rows, "best_K": top["K"], "speedup": top}
    return found | {"pays": verdict, "would_help": gains}


def weigh_shapes(target, draft, arrays, expected, v, repeats):
    """What a pass of differently shaped drafts costs here, and the acceptance each would need for
    the same speedup.
    """
    found = []
    unit = time_rows(target, [1], repeats)[1]
    for name, config in {"as it is": draft.config, **draft_shapes(draft.config)}.items():
        model = draft if config is draft.config else random_model(config, arrays)
        cost = time_rows(model, [1], repeats)[1] / unit
        shape = f"{config.n_layer} x {config.n_embd}"
        found.append(
            {
                "draft": name,
                "shape": shape,
                "draft_cost": cost,
                "needs_acceptance": needed(expected, cost, middle(v)),
            }
        )
    return found


# ---------------------------------------------------------------- the command


def show_advice(name, target, found):
    """The advice for people."""
    a, c, top = found["acceptance"], found["draft_cost"], found["speedup"]
    print(f"Draft {name} for target {target}")
    print(
        f"  acceptance {a['value']:.3f} ({a['low']:.3f} to {a['high']:.3f}; {a['source']})", end=""
    )
    print(f", in {a['drafting_share']:.0%} of the rounds" if a["drafting_share"] < 1 else "")
    print(
        f"  a drafted token costs c = {c['value']:.3f} ({c['low']:.3f} to {c['high']:.3f}) target passes\n"
    )
    print(f"  {'K':>4} {'v(K+1)':>7} {'speedup':>8} {'range':>14} {'break-even acceptance':>22}")
    for row in found["by_K"]:
        even = (
            "–" if row["break_even_acceptance"] is None else f"{row['break_even_acceptance']:.3f}"
        )
        low_high = f"{row['low']:.2f} to {row['high']:.2f}"
        print(
            f"  {row['K']:>4} {row['verify_cost']:>7.2f} {row['speedup']:>8.2f} {low_high:>14} {even:>22}"
        )
    print(f"\n  Does it pay here? {found['pays'].capitalize()}. Best K = {top['K']}: ", end="")
    print(f"speedup {top['speedup']:.2f}, between {top['low']:.2f} and {top['high']:.2f};", end=" ")
    even = top["break_even_acceptance"]
    print(
        "no acceptance would do."
        if even is None
        else f"it pays from an acceptance of {even:.3f}, here {a['value']:.3f}."
    )
    print("  What would help, most first:")
    for gain in found["would_help"]:
        print("    {change:<34} {from_to:<28}".format(**gain), end="")
        print(f"{top['speedup']:.2f} to {gain['speedup']:.2f} at K = {gain['K']}")
    if found["shapes"]:
        print(
            "  Depth against width (layers x width, random weights): the acceptance that gives the same speedup"
        )
    for shape in found["shapes"]:
        least = "none" if shape["needs_acceptance"] is None else f"{shape['needs_acceptance']:.3f}"
        print(
            f"    {shape['draft']:<24} {shape['shape']:<12} c = {shape['draft_cost']:.3f}, acceptance {least}"
        )
    print()


def advise(
    draft_model_size="0.7M,ngram",
    target_model_size="7M",
    models_dir=MODELS_DIR,
    K="1..10",
    temperature=0.0,
    top_k=0,
    top_p=1.0,
    acceptance="",
    prompts="",
    n_prompts=12,
    n_tokens_to_generate=60,
    repeats=9,
    seed=123,
    backend="numpy",
    kernels="auto",
    weights="checkpoint",
    json=False,
):
    """Say which K to use, what speedup to expect, whether speculation pays on this machine, and
    what would help most.

    Args:
        draft_model_size: sizes in models_dir, folders, or ngram, separated by commas
        target_model_size: a size in models_dir, or a folder
        models_dir: where the folders of the sizes are
        K: the draft lengths to choose from: 1..10, or 1,2,4
        temperature: 0 is greedy decoding
        top_k: sample from this many of the likeliest tokens; 0 is all
        top_p: sample from the fewest likeliest tokens that reach this probability
        acceptance: a number from 0 to 1, or a results file of benchmark or replay; by default a
            short live run
        prompts: a file of prompts for the live run (see benchmark), or the built-in ones
        n_prompts: how many of them; 0 is all
        n_tokens_to_generate: how many tokens after each prompt
        repeats: of each timing, five times over
        seed: of the random draws
        backend: numpy or cupy
        kernels: how NumPy multiplies: auto, plain, or WIDTHxTHREADS
        weights: checkpoint, or random (sizes 124M to 1558M need no files), which needs --acceptance
        json: print one JSON object and nothing else
    """
    settings = {name: value for name, value in locals().items() if name != "json"}
    check_numbers(0, n_prompts=n_prompts, seed=seed)
    check_numbers(1, n_tokens_to_generate=n_tokens_to_generate, repeats=repeats)
    check_choice("weights", weights, "checkpoint", "random")
    (filter,) = parse_filters(str(temperature), top_k, top_p).values()
    drafts, Ks = parse_list("draft_model_size", draft_model_size), parse_K(K, 512)
    given, stored = None, Path(acceptance).is_file() if acceptance else False
    if acceptance and not stored:
        given = parse_probability("acceptance", acceptance)
    if weights == "random" and not acceptance:
        raise InputError(
            "--weights random: random models agree on nothing; give an --acceptance from 0 to 1"
        )
    arrays = get_backend(backend, kernels)
    target, models, encoder = measuring.load(target_model_size, drafts, models_dir, weights, arrays)
    room = target.config.n_ctx - PAST
    if max(Ks) >= room:
        raise InputError(
            f"--K {K!r}: expected at most {room - 1}, what the context leaves after {PAST} tokens"
        )
    texts = []
    if not acceptance:
        texts, _ = choose_prompts(
            prompts, n_prompts, encoder, target.config.n_ctx - n_tokens_to_generate
        )
    c, v = measure_costs(target, models, Ks, repeats)
    result = {"machine": machine(), "settings": settings, "advice": {}}
    for name, draft in models.items():
        if stored:
            a = stored_acceptance(acceptance, name, target_model_size, temperature)
        elif acceptance:
            a = acceptance_of(given, None, 1, "as given")
        else:
            a = live_acceptance(
                target, draft, name, min(LIVE_K, max(Ks)), texts, n_tokens_to_generate, filter, seed
            )
        found = advice_of(a, c[name], v)
        shapes = (
            weigh_shapes(target, draft, arrays, found["speedup"]["speedup"], v, repeats)
            if draft != NGRAM and not is_head(draft)
            else []
        )
        result["advice"][name] = found | {"shapes": shapes}
        if not json:
            show_advice(name, target_model_size, result["advice"][name])
    if json:
        print(json_format.dumps(result))
