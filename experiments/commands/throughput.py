"""python main.py throughput: what batches do to both decoders, and where they eat the gain of
speculation.

B texts are decoded together (experiments/decoding/batching.py). A plain pass has B rows, a
verifying one B (K + 1): while rows are few, a pass costs the time to read the weights, whatever
their number, and speculation has its rows for free. With many the arithmetic counts, plain decoding
has used the idle arithmetic up already, and verifying K + 1 rows costs K + 1 times one.
"""

import json as json_format
import statistics

import numpy as np
from tqdm import tqdm

from experiments.cli.validators import check_choice, check_numbers, parse_list, parse_probability
from experiments.data.machine import machine
from experiments.decoding.batching import check_batch_size, decode_together, require_memory
from experiments.decoding.timing import clocked
from experiments.measuring import runner as measuring
from sampling import Filter
from utils import MODELS_DIR, InputError, get_backend, kernels_of

N_PROMPT = 13


def tokens_per_second(target, draft, K, n_texts, n_tokens, acceptance):
    """Of n_texts texts decoded together, prefill apart; K = 0 is plain decoding."""
    rng = np.random.default_rng(0)
    prompts = rng.integers(0, target.config.n_vocab - 1, (n_texts, N_PROMPT)).tolist()

    def task(i):
        return lambda *models: clocked(
            measuring.rounds_of(*models, K, prompts[i], n_tokens, Filter(), [i], acceptance)
        )

    runs = decode_together([task(i) for i in range(n_texts)], [target, draft], n_texts)
    return n_texts * n_tokens / max(seconds for _, _, seconds in runs)


def throughput(
    target_model_size="7M",
    draft_model_size="0.7M",
    models_dir=MODELS_DIR,
    weights="checkpoint",
    synthetic_acceptance="",
    K=4,
    batch_size="1,2,4,8,16",
    n_tokens_to_generate=48,
    repeats=3,
    backend="numpy",
    kernels="auto",
    json=False,
):
    """Measure tokens per second of both decoders with several texts at once: greedy, prompts of 13
    random tokens.

    Args:
        target_model_size: a size in models_dir, or a folder
        draft_model_size: a size in models_dir, or a folder
        models_dir: where the folders of the sizes are
        weights: checkpoint, or random (sizes 124M to 1558M need no files; the texts mean nothing)
        synthetic_acceptance: accept drafts by coin with this probability; passes are run, texts
            mean nothing
        K: how many tokens are drafted in a round
        batch_size: how many texts at once, separated by commas
        n_tokens_to_generate: how many tokens after each prompt
        repeats: of each measurement, taking turns; medians are reported
        backend: numpy or cupy
        kernels: how NumPy multiplies: auto measures, plain is NumPy's own, 64x2 is tiles of 64
            columns on 2 threads
        json: print one JSON object and nothing else
    """
    settings = {name: value for name, value in locals().items() if name != "json"}
    acceptance = parse_probability("synthetic_acceptance", synthetic_acceptance)
    sizes = parse_list("batch_size", batch_size, int)
    check_numbers(1, K=K, n_tokens_to_generate=n_tokens_to_generate, repeats=repeats)
    for n_texts in sizes:
        check_batch_size(n_texts)
    check_choice("weights", weights, "checkpoint", "random")
    arrays = get_backend(backend, kernels)
    target, drafts, _ = measuring.load(
        target_model_size, [draft_model_size], models_dir, weights, arrays
    )
    if N_PROMPT + n_tokens_to_generate > target.config.n_ctx:
        most = target.config.n_ctx - N_PROMPT
        raise InputError(
            f"--n_tokens_to_generate {n_tokens_to_generate}: expected at most {most}, what the context leaves"
        )
    models = [target, drafts[draft_model_size]]
    require_memory(models, max(sizes), N_PROMPT + n_tokens_to_generate)
    found = {(n, k): [] for n in sizes for k in (0, K)}
    for repeat in tqdm(range(repeats + 1), desc="throughput", leave=False, disable=None):
        for (n, k), speeds in found.items():
            speed = tokens_per_second(*models, k, n, n_tokens_to_generate, acceptance)
            speeds += [speed] if repeat else []  # the first is a warm-up
    medians = {key: statistics.median(speeds) for key, speeds in found.items()}
    rows = [
        {"batch_size": n, "autoregressive": medians[n, 0], "speculative": medians[n, K]}
        for n in sizes
    ]
    if json:
        where = machine() | {"kernels": kernels_of(target)}
        return print(json_format.dumps({"machine": where, "settings": settings, "rows": rows}))
    labels = [f"{weights} weights"] + (
        [f"synthetic acceptance {acceptance}"] if acceptance is not None else []
    )
    print(f"{draft_model_size} drafting for {target_model_size}, K = {K}, {', '.join(labels)}")
    print("Tokens per second of all texts together, prefill apart:\n")
    print(f"{'texts':>6} {'plain':>10} {'of one':>8} {'speculative':>12} {'speedup':>8}")
    for row in rows:
        plain, fast = row["autoregressive"], row["speculative"]
        of_one = plain / rows[0]["autoregressive"]
        print(
            f"{row['batch_size']:>6} {plain:>10.1f} {of_one:>8.2f} {fast:>12.1f} {fast / plain:>8.2f}"
        )
