"""The time of single passes: over one row and several, into an empty cache, part by part; and the
speed at which this machine streams memory. Medians over repeats.
"""

import statistics
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from cProfile import Profile

import numpy as np
from tqdm import tqdm

import gpt2
from backends.blas import N_THREADS
from backends.machine import kernels_of
from decoding.clock import PAST
from sampling import Chance, Filter
from utils import nothing_to_wait_for

IN_A_TURN = 5  # passes over the same number of rows
PREFILL = 512  # tokens of a prompt to read, or as many as the context has
STREAMED = 512 << 20  # bytes, more than any cache holds


def median_seconds(runs, repeats, synchronize=nothing_to_wait_for):
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


# ---------------------------------------------------------------- memory


def streaming_read(n_bytes):
    """A function that reads memory which the caches cannot hold, on all threads, and reduces it to
    a few numbers: no product of a model can read its weights faster.

    NumPy asks the system for huge pages behind so large an array.
    """
    parts = np.array_split(np.ones(n_bytes // 4, np.float32), N_THREADS)
    pool = ThreadPoolExecutor(N_THREADS)
    return lambda: list(pool.map(np.max, parts))


def bytes_of_a_pass(model):
    """Bytes of parameters that every pass reads: all but the positions' and tokens' rows."""
    config = model.config
    n = config.n_parameters - config.n_ctx * config.n_embd
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


def seconds_of_parts(model, repeats):
    """{part: seconds} of a one-row pass, told apart by Python's profiler."""
    cache, ids = model.new_cache(), [0] * min(PAST + 1, model.config.n_ctx)
    model.read(ids, cache)
    profiler = Profile(builtins=False)
    for _ in range(repeats):
        profiler.runcall(model.read, ids, cache)
    entries = {entry.code: entry for entry in profiler.getstats()}

    def seconds(function, without=None):
        """Of all calls of a function; without those of another that it calls."""
        entry, inner = entries[function.__code__], without and without.__code__
        elsewhere = sum(call.totaltime for call in entry.calls or () if call.code is inner)
        return (entry.totaltime - elsewhere) / repeats

    parts = {
        "matrix products": seconds(gpt2.linear),
        "attention": seconds(gpt2.attention, without=gpt2.linear),
        "layer norm": seconds(gpt2.layer_norm),
        "GELU": seconds(gpt2.gelu),
        "output head": seconds(gpt2.Model.logits, without=gpt2.layer_norm),
    }
    return parts | {"embedding and residuals": seconds(gpt2.Model.read) - sum(parts.values())}


def breakdown(model, repeats):
    """Milliseconds of the parts of a one-row pass, and of choosing the next token."""
    logits, chance = model.read([0], model.new_cache()), Chance(0)
    choose = lambda filter: lambda: chance.sample(filter(logits)[0])
    choices = {"greedy choice": choose(Filter(0.0)), "sampled choice": choose(Filter(1.0))}
    parts = seconds_of_parts(model, repeats) | median_seconds(choices, repeats)
    return {part: 1e3 * seconds for part, seconds in parts.items()}


def measure_passes(model, rows, repeats):
    """What the profile command reports of a model, as one object."""
    n_bytes, synchronize = bytes_of_a_pass(model), model.backend.synchronize
    # in turns: others use the memory too
    runs = {"streaming": streaming_read(STREAMED)} | passes(model, rows)
    seconds = median_seconds(runs, repeats, synchronize)
    table = [
        {"rows": n, "milliseconds": 1e3 * seconds[n], "gb_per_s": n_bytes / seconds[n] / 1e9}
        for n in rows
    ]
    prompt = [0] * min(PREFILL, model.config.n_ctx)
    prefill = {"prefill": lambda: model.read(prompt, model.new_cache())}
    prefill = median_seconds(prefill, max(1, repeats // 4), synchronize)["prefill"]
    return {
        "bandwidth_gb_per_s": STREAMED / seconds["streaming"] / 1e9,
        "weights_bytes": n_bytes,
        "rows": table,
        "prefill": {"tokens": len(prompt), "milliseconds": 1e3 * prefill},
        "kernels": kernels_of(model),
        "breakdown": breakdown(model, repeats),
    }
