"""The time of single passes: over one row and several, into an empty cache, part by part; and the
speed at which this machine streams memory. Medians over repeats.
"""

import itertools
import statistics
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import numpy as np
from tqdm import tqdm

import gpt2
from backends.autotune import WIDTHS
from backends.blas import N_THREADS
from experiments.data.machine import kernels_of
from experiments.decoding.clock import PAST, Clock
from sampling import Filter, sample
from utils import done, get_backend, random_model

IN_A_TURN = 5  # passes over the same number of rows
PREFILL = 512  # tokens of a prompt to read, or as many as the context has
STREAMED = 512 << 20  # bytes, more than any cache holds
KERNELS = ("auto", "plain", *(f"{w}x{n}" for n in sorted({1, N_THREADS}) for w in WIDTHS))
PARTS = {
    "linear": "matrix products",
    "attention": "attention",
    "layer_norm": "layer norm",
    "gelu": "GELU",
}


def medians(runs, repeats, synchronize=done):
    """Median seconds of each of several things to do, {name: function} -> {name: seconds}.

    They take turns. In each turn the first run is not counted: it finds what another left in the
    caches.
    """
    times = defaultdict(list)
    in_a_turn = min(repeats, IN_A_TURN)
    turns = range(-(-repeats // IN_A_TURN))
    for _ in tqdm(turns, desc="measuring", delay=1, leave=False, disable=None):
        for name, run in runs.items():
            run()
            for _ in range(in_a_turn):
                synchronize()
                begin = time.perf_counter()
                run()
                synchronize()
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def seldom(repeats):
    """How often to repeat what takes long."""
    return max(1, repeats // 4)


# ---------------------------------------------------------------- memory


def streaming_reads(n_bytes):
    """Ways to read memory that the caches cannot hold, {(name, threads): function}; the fastest is
    the limit.

    Each reduces an array to a few numbers, on one thread and on all: no product of a model can
    read its weights faster. NumPy asks the system for huge pages behind so large an array.
    """
    memory = np.ones((n_bytes // 4096, 1024), np.float32)
    vector = np.ones(1024, np.float32)
    reads = {
        "max": np.max,
        "product": lambda part: part @ vector,
        "or": lambda part: np.bitwise_or.reduce(part.view(np.int64), axis=None),
    }
    pool = ThreadPoolExecutor(N_THREADS)

    def run(name, n_threads):
        parts = np.array_split(memory, n_threads)
        return lambda: list(pool.map(reads[name], parts))

    return {way: run(*way) for way in itertools.product(reads, {1, N_THREADS})}


def bytes_of_a_pass(model):
    """Bytes of parameters that every pass has to read: all but the position and embedding rows it
    looks up.
    """
    sizes = model.config.shapes()
    n = sum(int(np.prod(shape)) for name, shape in sizes.items() if name != "wpe.weight")
    return n * model.params["wpe"].dtype.itemsize


# ---------------------------------------------------------------- passes


def passes(model, rows):
    """Passes over each number of rows, {n_rows: function}, with the same text before them."""
    rng = np.random.default_rng(0)
    past = min(PAST, model.config.n_ctx - max(rows))
    ids = rng.integers(0, model.config.n_vocab, past + max(rows)).tolist()
    cache = model.new_cache()
    model.read(ids, cache, n_last=max(rows))

    def run(n):
        # the cache forgets what comes after the past
        return lambda: model.read(ids[: past + n], cache, n_last=n)

    return {n: run(n) for n in rows}


def compare_kernels(config, rows, repeats):
    """Median seconds of passes over each number of rows with each choice of --kernels, in turns:
    {kernels: {n_rows: seconds}}.
    """
    runs = {}
    for kernels in KERNELS:
        model = random_model(config, get_backend("numpy", kernels))
        runs |= {(kernels, n): run for n, run in passes(model, rows).items()}
    seconds = medians(runs, repeats)
    return {kernels: {n: seconds[kernels, n] for n in rows} for kernels in KERNELS}


def breakdown(model, repeats):
    """Milliseconds of a one-row pass by part, means over repeats; and of choosing the next token,
    greedily and sampled.
    """
    clock, cache = Clock(), model.new_cache()
    ids = [0] * min(PAST + 1, model.config.n_ctx)
    logits = model.read(ids, cache)

    # time the functions of gpt2.py in their places
    read = clock.timed("embedding and residuals", model.read)
    head = clock.timed("output head", gpt2.Model.logits)
    timed = {name: clock.timed(part, getattr(gpt2, name)) for name, part in PARTS.items()}
    with patch.multiple(gpt2, **timed), patch.object(gpt2.Model, "logits", head):
        for _ in range(repeats):
            read(ids, cache)

    seconds = {part: total / repeats for part, total in clock.seconds.items()}
    rng = np.random.default_rng(0)
    choose = lambda filter: lambda: sample(filter(logits)[0], rng)
    choices = {"greedy choice": choose(Filter(0.0)), "sampled choice": choose(Filter(1.0))}
    return {part: 1e3 * one for part, one in (seconds | medians(choices, repeats)).items()}


def measure_passes(model, rows, repeats):
    """What the profile command reports of a model, as one object."""
    n_bytes, synchronize = bytes_of_a_pass(model), model.backend.synchronize
    reads = streaming_reads(STREAMED)
    # in turns: others use the memory too
    seconds = medians(reads | passes(model, rows), repeats, synchronize)
    bandwidth = STREAMED / min(seconds[name] for name in reads)
    table = [
        {"rows": n, "milliseconds": 1e3 * seconds[n], "gb_per_s": n_bytes / seconds[n] / 1e9}
        for n in rows
    ]
    prompt = [0] * min(PREFILL, model.config.n_ctx)
    prefill = {"prefill": lambda: model.read(prompt, model.new_cache())}
    prefill = medians(prefill, seldom(repeats), synchronize)["prefill"]
    return {
        "bandwidth_gb_per_s": bandwidth / 1e9,
        "weights_bytes": n_bytes,
        "rows": table,
        "prefill": {"tokens": len(prompt), "milliseconds": 1e3 * prefill},
        "kernels": kernels_of(model),
        "breakdown": breakdown(model, repeats),
    }
