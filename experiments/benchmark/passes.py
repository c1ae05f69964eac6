"""Time single passes of a model (over one row, over several, of a long prompt, part by part), and
the speed at which this machine streams memory. All figures are medians over repeats.
"""

import math
import statistics
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from cProfile import Profile
from functools import partial

import numpy as np
from decoding.costs import CONTEXT_TOKENS
from tqdm import tqdm

import gpt2
from backends.before_numpy import N_THREADS
from backends.kernels import kernels_of
from decoding.streams import Purpose, stream
from sampling import Rng, SamplingParams
from utils import nothing_to_wait_for

PASSES_PER_TURN = 5  # passes over the same number of rows
PREFILL_TOKENS = 512  # tokens of a prompt to read, or as many as the context has
STREAMED_BYTES = 512 << 20  # bytes, more than any cache holds


def median_seconds(functions, repeats, synchronize=nothing_to_wait_for):
    """Time functions in turns. Shows a progress bar. Returns {name: median seconds}.

    functions: {name: function without arguments}
    repeats: how often to time each function, or a few times more
    synchronize: a function without arguments, which waits until the device has finished

    In each turn a function runs once untimed, because the function before it has left its own data
    in the processor's caches. Then it is timed up to PASSES_PER_TURN times.
    """
    times = defaultdict(list)
    n_per_turn = min(repeats, PASSES_PER_TURN)
    n_turns = math.ceil(repeats / PASSES_PER_TURN)
    for _ in tqdm(range(n_turns), desc="measuring", delay=1, leave=False, disable=None):
        for name, function in functions.items():
            function()
            for _ in range(n_per_turn):
                synchronize()
                begin = time.perf_counter()
                function()
                synchronize()
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


# ---------------------------------------------------------------- memory


def new_streaming_read(n_bytes):
    """Return a function without arguments that reads n_bytes of memory once, on all threads.

    Allocates the n_bytes, which should be more than the caches hold. Each thread reduces its part
    to one number, so no matrix product can read a model's weights faster. The memory has huge
    pages, as the weights have, because NumPy asks for them.
    """
    parts = np.array_split(np.ones(n_bytes // 4, np.float32), N_THREADS)
    pool = ThreadPoolExecutor(N_THREADS)
    return lambda: list(pool.map(np.max, parts))


def bytes_per_pass(model):
    """Return how many bytes of a gpt2.Model's parameters every pass reads: all but those of the
    position embeddings.
    """
    config = model.config
    n = config.n_parameters - config.n_ctx * config.n_embd
    return n * model.params["wpe"].dtype.itemsize


# ---------------------------------------------------------------- passes


def context_lengths(model, rows):
    """Return a sorted list of one or two context lengths in tokens: CONTEXT_TOKENS, and the longest
    that leaves room for every pass.

    model: a gpt2.Model; rows: how many tokens each pass reads, a list of ints
    """
    longest = model.config.n_ctx - max(rows)
    return sorted({min(CONTEXT_TOKENS, longest), longest})


def prepare_passes(model, rows, past):
    """Fill a new cache of a gpt2.Model with random tokens. Returns {n: function without arguments}
    for each n of the list `rows`. Every call makes one pass over n tokens after the first `past`,
    the same tokens each time.
    """
    rng = np.random.default_rng(stream(Purpose.RANDOM_PROMPTS, 0))
    ids = rng.integers(0, model.config.n_vocab, past + max(rows)).tolist()
    cache = model.new_cache()
    model.read(ids, cache, n_last=max(rows))  # also a warm-up
    # each read drops from the cache what comes after the first `past` tokens
    return {n: partial(model.read, ids[: past + n], cache, n_last=n) for n in rows}


def measure_parts(model, repeats):
    """Run `repeats` passes of a gpt2.Model over one token under Python's profiler. Returns {name of
    a part of a pass: its mean seconds}; the parts add up to the pass.
    """
    cache, ids = model.new_cache(), [0] * min(CONTEXT_TOKENS + 1, model.config.n_ctx)
    model.read(ids, cache)
    profiler = Profile(builtins=False)
    for _ in range(repeats):
        # the cache holds all ids: each read drops the last one and reads it again
        profiler.runcall(model.read, ids, cache)
    entries = {entry.code: entry for entry in profiler.getstats()}

    def seconds(function, without=None):
        """Return the mean seconds of a function in a pass; the seconds that it spends in calls of
        the function `without` do not count.
        """
        entry = entries[function.__code__]
        total = entry.totaltime
        for call in entry.calls or ():
            if without and call.code is without.__code__:
                total -= call.totaltime
        return total / repeats

    parts = {
        "matrix products": seconds(gpt2.linear),
        "attention": seconds(gpt2.attention, without=gpt2.linear),
        "layer norm": seconds(gpt2.layer_norm),
        "GELU": seconds(gpt2.gelu),
        "output head": seconds(gpt2.Model.logits, without=gpt2.layer_norm),
    }
    return parts | {"embedding and residuals": seconds(gpt2.Model.read) - sum(parts.values())}


def measure_breakdown(model, repeats):
    """Time the parts of a pass of a gpt2.Model over one token, and the choice of a token after it,
    greedy and sampled. Returns {name of a part: milliseconds}: means over `repeats` passes, for the
    choices medians.
    """
    logits, rng = model.read([0], model.new_cache()), Rng(stream(Purpose.TIMING, 0))
    greedy, sampled = SamplingParams(0.0), SamplingParams(1.0)
    choices = {
        "greedy choice": lambda: rng.sample(greedy(logits)[0]),
        "sampled choice": lambda: rng.sample(sampled(logits)[0]),
    }
    parts = measure_parts(model, repeats) | median_seconds(choices, repeats)
    return {part: 1e3 * seconds for part, seconds in parts.items()}


def measure_passes(model, rows, repeats):
    """Time the passes of a gpt2.Model over each number of tokens in the list `rows`, after a short
    and a long context, `repeats` times each; also a prefill, the parts of a pass, and a read of
    memory. Shows progress bars.

    Returns the JSON object of the profile command, a dict: "bandwidth_gb_per_s", "weights_bytes",
    "rows" (a dict for each context length and number of tokens), "prefill", "kernels", "breakdown".
    """
    n_bytes, synchronize = bytes_per_pass(model), model.backend.synchronize
    # memory and passes in turns, because other programs use the memory too
    functions = {"streaming": new_streaming_read(STREAMED_BYTES)}
    for past in context_lengths(model, rows):
        for n, read_n_tokens in prepare_passes(model, rows, past).items():
            functions[past, n] = read_n_tokens
    seconds = median_seconds(functions, repeats, synchronize)
    streaming = seconds.pop("streaming")
    table = [
        {"past": past, "rows": n, "milliseconds": 1e3 * t, "gb_per_s": n_bytes / t / 1e9}
        for (past, n), t in seconds.items()
    ]
    prompt = [0] * min(PREFILL_TOKENS, model.config.n_ctx)
    read_prompt = {"prefill": lambda: model.read(prompt, model.new_cache())}
    n_prefills = max(1, repeats // 4)  # a prefill takes long
    prefill = median_seconds(read_prompt, n_prefills, synchronize)["prefill"]
    return {
        "bandwidth_gb_per_s": STREAMED_BYTES / streaming / 1e9,
        "weights_bytes": n_bytes,
        "rows": table,
        "prefill": {"tokens": len(prompt), "milliseconds": 1e3 * prefill},
        "kernels": kernels_of(model),
        "breakdown": measure_breakdown(model, repeats),
    }
