"""python main.py profile: does scoring K + 1 tokens cost what scoring one costs, and where does a
pass spend its time?

The speed at which this machine streams memory is measured in the same run. Medians over repeats.
What other programs need for the same passes is in experiments/training/peers.py.
"""

import itertools
import json as json_format
import statistics
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from tqdm import tqdm

import gpt2
from backends.blas import N_THREADS
from experiments.cli.validators import check_choice, check_numbers
from experiments.decoding.decoders import NGRAM
from experiments.decoding.timing import Clock
from sampling import Filter, NGramDrafter, sample
from utils import (
    MODELS_DIR,
    SIZES,
    InputError,
    find_folder,
    get_backend,
    kernels_of,
    load_model,
    random_model,
)

IN_A_TURN = 5  # passes over the same number of rows
PREFILL = 512  # tokens of a prompt to read, or as many as the context has
STREAMED = 512 << 20  # bytes, more than any cache holds
PAST = 64  # tokens in the cache before the rows that are timed, where the context has room for them


def medians(runs, repeats, synchronize=lambda: None):
    """Median seconds of each of several things to do, {name: function} -> {name: seconds}.

    They take turns. In each turn the first run is not counted: it finds what another left in the
    caches.
    """
    times = defaultdict(list)
    for _ in tqdm(
        range(-(-repeats // IN_A_TURN)), desc="measuring", delay=1, leave=False, disable=None
    ):
        for name, run in runs.items():
            for counts in (False, *[True] * min(repeats, IN_A_TURN)):
                synchronize()
                begin = time.perf_counter()
                run()
                synchronize()
                times[name] += [time.perf_counter() - begin] * counts
    return {name: statistics.median(of_one) for name, of_one in times.items()}


def median_seconds(run, repeats, synchronize=lambda: None):
    """The median time of run()."""
    return medians({None: run}, repeats, synchronize)[None]


def streaming_reads(n_bytes):
    """Ways to read memory that the caches cannot hold, {name: function}; the fastest is the limit.

    Each reduces an array to a few numbers, on one thread and on all: no product of a model can
    read its weights faster. NumPy asks the system for huge pages behind so large an array.
    """
    memory, vector = np.ones((n_bytes // 4096, 1024), np.float32), np.ones(1024, np.float32)
    reads = {
        "max": np.max,
        "product": lambda part: part @ vector,
        "or": lambda part: np.bitwise_or.reduce(part.view(np.int64), axis=None),
    }
    pool = ThreadPoolExecutor(N_THREADS)

    def run(read, parts):
        return lambda: list(pool.map(read, parts))

    ways = itertools.product(reads, {1, N_THREADS})
    return {
        f"{name}, {n_threads} threads": run(reads[name], np.array_split(memory, n_threads))
        for name, n_threads in ways
    }


def bytes_of_a_pass(model):
    """Bytes of parameters that every pass has to read: all but the position and embedding rows it
    looks up.
    """
    sizes = model.config.shapes()
    n = sum(int(np.prod(shape)) for name, shape in sizes.items() if name != "wpe.weight")
    return n * model.params["wpe"].dtype.itemsize


def passes(model, rows):
    """Passes over each number of rows, {n_rows: function}, with the same text before them."""
    rng, past = np.random.default_rng(0), min(PAST, model.config.n_ctx - max(rows))
    ids, cache = rng.integers(0, model.config.n_vocab, past + max(rows)).tolist(), model.new_cache()
    model.read(ids, cache, n_last=max(rows))

    def run(n):
        # which forgets what came after the past
        return lambda: model.read(ids[: past + n], cache, n_last=n)

    return {n: run(n) for n in rows}


def time_rows(model, rows, repeats):
    """Median seconds of a pass over each number of rows: {n_rows: seconds}."""
    return medians(passes(model, rows), repeats, model.backend.synchronize)


def prefill_seconds(model, n_tokens, repeats):
    """Median seconds of reading a prompt into an empty cache, and of the logits after it."""
    ids = np.random.default_rng(0).integers(0, model.config.n_vocab, n_tokens).tolist()
    return median_seconds(
        lambda: model.read(ids, model.new_cache()), repeats, model.backend.synchronize
    )


def drafting_seconds(target, draft, repeats):
    """Median seconds of drafting one token: a pass of the draft or, where that is NGRAM, the
    look-up of n-grams in a text.
    """
    if draft != NGRAM:
        return time_rows(draft, [1], repeats)[1]
    # a text that repeats itself
    drafter, ids = NGramDrafter(target.config.n_vocab), [i % 7 for i in range(PAST)]
    return median_seconds(lambda: drafter.propose(ids, 4), repeats) / 4


class TimedWeight:
    """A weight whose products are timed."""

    __array_ufunc__ = None

    def __init__(self, weight, clock, part):
        self.product = clock.timed(part, lambda x: x @ weight)

    def __rmatmul__(self, x):
        return self.product(x)


PARTS = {
    "forward": "embedding and residuals",
    "linear": "matrix products",
    "attention": "attention",
    "layer_norm": "layer norm",
    "gelu": "GELU",
}


def breakdown(model, repeats):
    """Milliseconds of a one-row pass by part, means over repeats; and of choosing the next token,
    greedily and sampled.
    """
    clock, cache, ids = Clock(), model.new_cache(), [0] * min(PAST + 1, model.config.n_ctx)
    head = TimedWeight(model.params["head"], clock, "output head")
    instrumented = gpt2.Model(model.config, {**model.params, "head": head}, model.backend)
    originals = {name: getattr(gpt2, name) for name in PARTS}
    logits = instrumented.read(ids, cache)
    clock.seconds.clear()
    try:
        for name, part in PARTS.items():
            setattr(gpt2, name, clock.timed(part, originals[name]))
        for _ in range(repeats):
            instrumented.read(ids, cache)
    finally:
        for name, function in originals.items():
            setattr(gpt2, name, function)
    for name, filter in (("greedy choice", Filter(0.0)), ("sampled choice", Filter(1.0))):
        rng = np.random.default_rng(0)
        clock.seconds[name] = repeats * median_seconds(
            lambda: sample(filter(logits)[0], rng), repeats
        )
    return {part: 1e3 * total / repeats for part, total in clock.seconds.items()}


def measure(model, rows, repeats):
    """Everything the command reports, as one object."""
    n_bytes, n_prefill, reads = (
        bytes_of_a_pass(model),
        min(PREFILL, model.config.n_ctx),
        streaming_reads(STREAMED),
    )
    # in turns: others use the memory too
    seconds = medians(reads | passes(model, rows), repeats, model.backend.synchronize)
    bandwidth = STREAMED / min(seconds[name] for name in reads)
    table = [
        {"rows": n, "milliseconds": 1e3 * seconds[n], "gb_per_s": n_bytes / seconds[n] / 1e9}
        for n in rows
    ]
    return {
        "bandwidth_gb_per_s": bandwidth / 1e9,
        "weights_bytes": n_bytes,
        "rows": table,
        "prefill": {
            "tokens": n_prefill,
            "milliseconds": 1e3 * prefill_seconds(model, n_prefill, max(1, repeats // 4)),
        },
        "kernels": kernels_of(model),
        "breakdown": breakdown(model, repeats),
    }


def show(result):
    """The same for people."""
    bandwidth, first = result["bandwidth_gb_per_s"], result["rows"][0]
    print(
        f"Streaming read: {bandwidth:.1f} GB/s. A pass reads {result['weights_bytes'] / 1e9:.3f} GB of weights.\n"
    )
    print(
        f"{'rows':>5} {'ms':>9} {'GB/s':>6} {'of streaming':>13} {'against ' + str(first['rows']) + ' row':>14}"
    )
    for row in result["rows"]:
        share, ratio = row["gb_per_s"] / bandwidth, row["milliseconds"] / first["milliseconds"]
        print(
            f"{row['rows']:>5} {row['milliseconds']:>9.3f} {row['gb_per_s']:>6.1f} {share:>12.0%} {ratio:>14.2f}"
        )
    print("\nPrefill of {tokens} tokens: {milliseconds:.0f} ms".format(**result["prefill"]))
    print("\nKernels:")
    for shape, kernel in result["kernels"].items():
        print(f"  {shape}: {kernel}")
    print("\nA one-row pass, and the choice of a token after it, in ms:")
    for part, milliseconds in result["breakdown"].items():
        print(f"  {part:<24} {milliseconds:8.3f}")


def profile(
    target_model_size="7M",
    models_dir=MODELS_DIR,
    weights="checkpoint",
    rows="1,2,3,5,9",
    repeats=20,
    backend="numpy",
    dtype="float32",
    kernels="auto",
    exact=False,
    json=False,
):
    """Time passes over several numbers of rows against the speed of memory, and say where the time
    goes.

    Args:
        target_model_size: a size in models_dir, or a folder
        models_dir: where the folders of the sizes are
        weights: checkpoint, or random (any size, no files needed)
        rows: how many tokens to score in a pass, separated by commas; 1 is decoding, K + 1 is
            verifying
        repeats: of each measurement; medians are reported
        backend: numpy or cupy
        dtype: float32, or float16 with cupy
        kernels: auto, plain, or WIDTHxTHREADS
        exact: compute rows one by one, so that no bit of a result depends on how many there are
        json: print one JSON object and nothing else
    """
    try:
        counts = [int(part) for part in rows.split(",")]
    except ValueError:
        raise InputError(f"--rows {rows!r}: expected whole numbers separated by commas") from None
    check_numbers(1, repeats=repeats, rows=min(counts))
    check_choice("weights", weights, "checkpoint", "random")
    arrays = get_backend(backend, kernels, exact, dtype)
    if weights == "random":
        if target_model_size not in SIZES:
            raise InputError(
                f"--target_model_size {target_model_size!r}: expected one of {', '.join(SIZES)}"
            )
        model = random_model(SIZES[target_model_size], arrays)
    else:
        model = load_model(find_folder(target_model_size, models_dir), arrays)
    if max(counts) > model.config.n_ctx:
        raise InputError(
            f"--rows {max(counts)}: expected at most {model.config.n_ctx}, the context"
        )
    result = measure(model, counts, repeats)
    if json:
        print(json_format.dumps(result))
    else:
        print(f"{target_model_size}, {weights} weights, {dtype}, {backend}\n")
        show(result)
