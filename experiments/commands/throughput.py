"""python main.py throughput: what batches do to both decoders, and where they eat the gain of
speculation.

B texts are decoded together (experiments/decoding/batching.py). A plain pass has B rows, a
verifying one B (K + 1): while rows are few, a pass costs the time to read the weights, whatever
their number, and speculation has its rows for free. With many the arithmetic counts, plain decoding
has used the idle arithmetic up already, and verifying K + 1 rows costs K + 1 times one.
"""

import dataclasses
import json as json_format

from experiments.cli.validators import (
    check_choice,
    check_length,
    check_numbers,
    parse_list,
    parse_probability,
)
from experiments.data.machine import machine
from experiments.decoding.batching import check_batch_size, require_memory
from experiments.drafting.pairs import CHECKPOINT, RANDOM, load_pairs
from experiments.measuring.runner import N_PROMPT, batch_speeds
from utils import MODELS_DIR, get_backend, kernels_of


@dataclasses.dataclass(frozen=True)
class ThroughputSettings:
    """What decides the figures. Raises InputError."""

    target_model_size: str
    draft_model_size: str
    models_dir: str
    weights: str
    synthetic_acceptance: str
    K: int
    batch_size: str
    n_tokens_to_generate: int
    repeats: int
    backend: str
    kernels: str

    def __post_init__(self):
        check_numbers(
            1, K=self.K, n_tokens_to_generate=self.n_tokens_to_generate, repeats=self.repeats
        )
        for n_texts in self.batch_sizes():
            check_batch_size(n_texts)
        check_choice("weights", self.weights, CHECKPOINT, RANDOM)
        self.acceptance()

    def batch_sizes(self):
        return parse_list("batch_size", self.batch_size, int)

    def acceptance(self):
        return parse_probability("synthetic_acceptance", self.synthetic_acceptance)


def check_room(settings, target, draft):
    """Raises InputError where the context or the memory is too small."""
    n_tokens = settings.n_tokens_to_generate
    check_length("n_tokens_to_generate", n_tokens, target.config.n_ctx - N_PROMPT)
    length = N_PROMPT + n_tokens
    require_memory([target, draft], max(settings.batch_sizes()), length)


def show_speeds(settings, rows):
    """The rows for people."""
    labels = [f"{settings.weights} weights"]
    if settings.acceptance() is not None:
        labels.append(f"synthetic acceptance {settings.acceptance()}")
    pair = f"{settings.draft_model_size} drafting for {settings.target_model_size}"
    print(f"{pair}, K = {settings.K}, {', '.join(labels)}")
    print("Tokens per second of all texts together, prefill apart:\n")
    print(f"{'texts':>6} {'plain':>10} {'of one':>8} {'speculative':>12} {'speedup':>8}")
    alone = {row["batch_size"]: row["autoregressive"] for row in rows}.get(1)
    for row in rows:
        plain, fast = row["autoregressive"], row["speculative"]
        of_one = f"{plain / alone:.2f}" if alone else "–"
        print(f"{row['batch_size']:>6} {plain:>10.1f} {of_one:>8}", end=" ")
        print(f"{fast:>12.1f} {fast / plain:>8.2f}")


def throughput(
    target_model_size="17M",
    draft_model_size="0.7M-17M",
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
        draft_model_size: a size in models_dir, a folder, or ngram
        models_dir: the folder that holds a folder for each size
        weights: checkpoint, or random (sizes 82M to 1558M need no files, a folder only its
            config.json; the texts mean nothing)
        synthetic_acceptance: accept drafts by coin with this probability; passes are run, texts
            mean nothing
        K: how many tokens are drafted in a round
        batch_size: how many texts at once, separated by commas
        n_tokens_to_generate: how many tokens to write after each prompt
        repeats: of each measurement, taking turns; medians are reported
        backend: what computes: numpy, or cupy on a GPU
        kernels: how NumPy multiplies: auto measures, plain is NumPy's own, 64x2 is tiles of 64
            columns on 2 threads
        json: print one JSON object and nothing else
    """
    settings = ThroughputSettings(
        target_model_size=target_model_size,
        draft_model_size=draft_model_size,
        models_dir=models_dir,
        weights=weights,
        synthetic_acceptance=synthetic_acceptance,
        K=K,
        batch_size=batch_size,
        n_tokens_to_generate=n_tokens_to_generate,
        repeats=repeats,
        backend=backend,
        kernels=kernels,
    )
    arrays = get_backend(backend, kernels)
    pairs = load_pairs(target_model_size, [draft_model_size], models_dir, weights, arrays)
    target, draft = pairs.target, pairs.drafts[draft_model_size]
    check_room(settings, target, draft)
    sizes, acceptance = settings.batch_sizes(), settings.acceptance()
    speeds = batch_speeds(target, draft, (0, K), sizes, n_tokens_to_generate, repeats, acceptance)
    rows = [
        {"batch_size": n, "autoregressive": speeds[n, 0], "speculative": speeds[n, K]}
        for n in sizes
    ]
    if json:
        where = machine() | {"kernels": kernels_of(target)}
        result = {"machine": where, "settings": dataclasses.asdict(settings), "rows": rows}
        print(json_format.dumps(result))
    else:
        show_speeds(settings, rows)
