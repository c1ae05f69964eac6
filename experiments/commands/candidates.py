"""python main.py candidates: what several drafted tokens for one position would bring a pair."""

import json as json_format
import statistics

import numpy as np
from tqdm import tqdm

from experiments.candidates import measured, tree
from experiments.cli.validators import check_numbers, check_seed, longest_prompt
from experiments.data.prompts import choose_prompts
from experiments.measuring.advice import measure_costs
from sampling import Filter
from utils import MODELS_DIR, InputError, get_backend, load_pair

MOST_CANDIDATES, MOST_NODES = 16, 64
SIBLINGS = (measured.WITHOUT, measured.LIKELIEST)  # the candidates that a tree may be made of


def costs_of_rounds(target, draft, filter, n_rows, repeats):
    """(c, {n: v}) in rounds without drafts: a drafted token, and a pass of the target over up to
    n_rows rows.
    """
    # time some numbers of rows, take a straight line between them
    Ks = sorted({1, 2, 3, 5, 7, 11, 15, 23, 31, 47, n_rows - 1} & {*range(1, n_rows)})
    costs = measure_costs(target, draft, filter, Ks, repeats)
    c = statistics.median(costs[K].draft["value"] for K in Ks)
    measured_rows = [1, *(K + 1 for K in Ks)]
    ratios = [1.0, *(costs[K].verify["value"] for K in Ks)]
    v = {n: float(np.interp(n, measured_rows, ratios)) for n in range(1, n_rows + 1)}
    return c, v


def describe(shape, a, c, v):
    """What the JSON object says of a tree."""
    return {
        "drafts_by_depth": tree.drawing(shape),
        "rows": tree.size_of(shape),
        "tokens_per_round": tree.expected_tokens(shape, a),
        "predicted_speedup": tree.speedup(shape, a, c, v),
    }


def weigh_trees(found, c, v):
    """The fastest chain and the fastest tree of each kind of siblings."""
    rows = []
    for name in SIBLINGS:
        # the probability that the j-th is the accepted one
        a = np.diff(found.mean[name], prepend=0).tolist()
        chain, best = tree.best_chain(a, c, v), tree.best_tree(a, c, v)
        rows.append(
            {
                "siblings": name,
                "acceptance": a,
                "best_chain": describe(chain, a, c, v),
                "best_tree": describe(best, a, c, v),
            }
        )
    return rows


def fastest(trees, name):
    """The best predicted speedup of all best chains, or of all best trees."""
    return max(row[name]["predicted_speedup"] for row in trees)


def result_of(settings, n_texts, found, costs):
    """The JSON object."""
    c, v = costs
    trees = weigh_trees(found, c, v)
    rules = []
    for rule in measured.RULES:
        error = found.error[rule]
        error = None if error is None else error.tolist()
        accepted = found.mean[rule].tolist()
        rules.append({"rule": rule, "accepted": accepted, "standard_error": error})
    return {
        "settings": settings,
        "n_texts": n_texts,
        "n_places": found.n_places,
        "rules": rules,
        "draft_cost": c,
        "verify_costs": v,
        "trees": trees,
        "gain": fastest(trees, "best_tree") / fastest(trees, "best_chain") - 1,
    }


def show(result):
    settings, k = result["settings"], result["settings"]["candidates"]
    print(
        f"Draft {settings['draft_model_size']}, target {settings['target_model_size']}, "
        f"temperature {settings['temperature']:g}: {result['n_places']} positions of "
        f"{result['n_texts']} texts by the target\n"
    )
    print("Probability that one of the candidates for a position is accepted:\n")
    print(f"{'candidates':<22}" + "".join(f"{n:>8}" for n in range(1, k + 1)))
    for row in result["rules"]:
        print(f"{row['rule']:<22}" + "".join(f"{value:>8.3f}" for value in row["accepted"]))
    errors = [max(row["standard_error"]) for row in result["rules"] if row["standard_error"]]
    known = f"up to {max(errors):.3f}" if errors else "unknown, from one text"
    print(f"\nStandard errors: {known}.")
    print("optimum: the most that any rule can accept of independent candidates.\n")
    costs = result["verify_costs"]
    shown = ", ".join(f"{n}: {costs[n]:.2f}" for n in (1, 2, 4, 8, 16, 32, 64) if n in costs)
    print(f"Measured costs: c = {result['draft_cost']:.3f}, v by rows {shown}\n")
    print(f"{'siblings':<22} {'shape':<28} {'rows':>4} {'tokens':>7} {'speedup':>8}")
    for row in result["trees"]:
        for name in ("best_chain", "best_tree"):
            one = row[name]
            print(
                f"{row['siblings']:<22} {one['drafts_by_depth']:<28} {one['rows']:>4} "
                f"{one['tokens_per_round']:>7.2f} {one['predicted_speedup']:>8.2f}"
            )
    gain = result["gain"]
    if gain > 0:
        print(f"\nThe best tree is {gain:.1%} faster than the best chain.")
    else:
        print("\nThe best tree is the chain: another row costs more than a second candidate gives.")


def candidates(
    target_model_size="17M",
    draft_model_size="0.7M-17M",
    models_dir=MODELS_DIR,
    candidates=4,
    rows=16,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    prompts="",
    n_prompts=0,
    n_tokens_to_generate=40,
    seed=123,
    repeats=10,
    backend="numpy",
    kernels="auto",
    json=False,
):
    """Compute what several candidates for one position would gain: how often each rule would accept
    one of them, and whether a tree of drafted tokens would be faster than a chain.

    The target writes texts; at each position, both models' distributions give the probabilities of
    acceptance. The rules "with replacement", "K-SEQ" and "best of k" verify candidates sampled
    independently, and "optimum" is the most that any rule can accept of those. "without
    replacement" verifies candidates that all differ. "likeliest" takes the draft model's most
    likely tokens instead of sampling.

    The speedup of a tree is predicted from costs measured on this machine: each level costs c, the
    time of a drafted token, and the verify pass costs v, by the number of rows (tokens) in the
    tree, both relative to a target pass over one row. Every position is taken to have the average
    acceptance. Shape 3-2-1 means three candidates for the first position, two in all for the
    second, and one for the third. docs/family.md describes the methods.

    Args:
        target_model_size: a size in models_dir, or a folder
        draft_model_size: a size in models_dir, or a folder
        models_dir: the folder that holds a folder for each size
        candidates: the largest number of candidates for one position
        rows: the largest tree, in rows of the verify pass
        temperature: 0 is greedy decoding
        top_k: sample from this many most likely tokens; 0 keeps all
        top_p: sample from the smallest set of most likely tokens with this total probability
        prompts: a file of prompts (see benchmark); by default built-in stories
        n_prompts: how many prompts to use; 0 is all
        n_tokens_to_generate: how many positions to examine after each prompt
        seed: of the random samples
        repeats: how many rounds of each length to time in each of nine turns; medians are used
        backend: what computes: numpy, or cupy on a GPU
        kernels: auto, plain, or WIDTHxTHREADS
        json: print one JSON object and nothing else
    """
    settings = {
        "target_model_size": target_model_size,
        "draft_model_size": draft_model_size,
        "candidates": candidates,
        "rows": rows,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "prompts": prompts,
        "n_prompts": n_prompts,
        "n_tokens_to_generate": n_tokens_to_generate,
        "seed": seed,
    }
    filter = check(settings, repeats)
    arrays = get_backend(backend, kernels)
    target, draft, encoder = load_pair(target_model_size, draft_model_size, models_dir, arrays)
    n_ctx = min(target.config.n_ctx, draft.config.n_ctx)
    if rows > n_ctx:
        raise InputError(f"--rows {rows}: expected at most {n_ctx}, the context")
    longest = longest_prompt(n_ctx, n_tokens_to_generate)
    texts, _ = choose_prompts(prompts, n_prompts, encoder, longest)
    rng = np.random.default_rng(seed)

    def written(ids):
        return measured.places(target, draft, encoder, ids, n_tokens_to_generate, filter, rng)

    bar = tqdm(texts, desc="texts", leave=False, disable=None)
    found = measured.acceptance(map(written, bar), candidates, rng)
    costs = costs_of_rounds(target, draft, filter, rows, repeats)
    result = result_of(settings, len(texts), found, costs)
    if json:
        print(json_format.dumps(result))
    else:
        show(result)


def check(settings, repeats):
    """The Filter of the settings. Raises InputError for one that cannot be used."""
    if settings["draft_model_size"] == "ngram":
        raise InputError(
            "--draft_model_size 'ngram': expected a model, as n-grams have one candidate"
        )
    check_numbers(1, n_tokens_to_generate=settings["n_tokens_to_generate"], repeats=repeats)
    check_seed(settings["seed"])
    check_numbers(0, n_prompts=settings["n_prompts"])
    for name, least, most in (("candidates", 1, MOST_CANDIDATES), ("rows", 2, MOST_NODES)):
        if not least <= settings[name] <= most:
            raise InputError(f"--{name} {settings[name]}: expected {least} to {most}")
    try:
        return Filter(settings["temperature"], settings["top_k"], settings["top_p"])
    except ValueError as error:
        raise InputError(f"--{error}") from None
