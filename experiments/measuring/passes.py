"""The time of single passes: over one row and several, into an empty cache, part by part; and the
speed at which this machine streams memory. Medians over repeats.

And whole texts on a backend: are they those of NumPy, and how fast are they? CuPy's have not been
written on a GPU yet. Please send the result with the issue template "Results from your machine".
"""

import dataclasses
import statistics
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest.mock import patch

import numpy as np
from tqdm import tqdm

import gpt2
from backends.autotune import WIDTHS
from backends.blas import N_THREADS
from experiments.data.machine import kernels_of, machine
from experiments.decoding.clock import PAST, Clock
from experiments.decoding.job import Job, decode
from experiments.drafting.drafts import ModelDraft
from experiments.drafting.load import load
from sampling import Filter, sample
from utils import SIZES, done, get_backend, random_model

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
# of whole texts
PAIR = ("17M", "0.7M-17M")  # that must write the same texts
DRAFT = "124M"  # drafts for deeper targets
PROMPT = 32 * [0]
ACCEPTANCE = 0.8  # of a drafted token, by coin
ROWS = 5  # of a verify pass
BOUND = 1e-3  # between the logits of two ways to compute in float32
PEER = "transformers, eager"


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
    """{kernels: {n_rows: median seconds of a pass}} for each choice of --kernels, in turns."""
    runs = {}
    for kernels in KERNELS:
        model = random_model(config, get_backend("numpy", kernels))
        runs |= {(kernels, n): run for n, run in passes(model, rows).items()}
    seconds = medians(runs, repeats)
    return {kernels: {n: seconds[kernels, n] for n in rows} for kernels in KERNELS}


def breakdown(model, repeats):
    """Milliseconds of the parts of a one-row pass, and of choosing the next token."""
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
    # in turns: others use the memory too
    runs = {"streaming": streaming_read(STREAMED)} | passes(model, rows)
    seconds = medians(runs, repeats, synchronize)
    table = [
        {"rows": n, "milliseconds": 1e3 * seconds[n], "gb_per_s": n_bytes / seconds[n] / 1e9}
        for n in rows
    ]
    prompt = [0] * min(PREFILL, model.config.n_ctx)
    prefill = {"prefill": lambda: model.read(prompt, model.new_cache())}
    prefill = medians(prefill, seldom(repeats), synchronize)["prefill"]
    return {
        "bandwidth_gb_per_s": STREAMED / seconds["streaming"] / 1e9,
        "weights_bytes": n_bytes,
        "rows": table,
        "prefill": {"tokens": len(prompt), "milliseconds": 1e3 * prefill},
        "kernels": kernels_of(model),
        "breakdown": breakdown(model, repeats),
    }


# ---------------------------------------------------------------- whole texts


def measure_texts(target, settings):
    """What `profile --texts` reports, as one object."""
    same, what = {"dtype": settings.dtype}, {"shape": settings.target_model_size}
    return {
        "machine": machine_of(settings.backend),
        "parity": [same | parity(settings)],
        "speeds": [what | same | speeds(target, settings)],
    }


def machine_of(backend):
    """What figures of a backend depend on."""
    if backend == "numpy":
        return machine() | {"gpu": None}
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    return machine() | {
        "gpu": properties["name"].decode(),
        "cupy": cupy.__version__,
        "cuda_driver": cupy.cuda.runtime.driverGetVersion(),
        "cuda_runtime": cupy.cuda.runtime.runtimeGetVersion(),
    }


def parity(settings):
    """How the included pair on this backend differs from NumPy's own products in float32."""
    target, draft = PAIR
    ways = get_backend(kernels="plain"), settings.get_backend()
    host, device = (load(target, [draft], settings.models_dir, way).pair(draft) for way in ways)
    ids = host.encoder.encode("Once upon a time there lived a king who had three sons.")
    logits = [pair.target.read(ids, pair.target.new_cache(), len(ids)) for pair in (host, device)]
    greedy = Job(host.encoder.encode("Long ago"), n_tokens=200, seed=123)
    coupled = dataclasses.replace(greedy, filter=Filter(0.8), coupled=True)
    jobs = {"greedy": greedy, "coupled": coupled}
    written = lambda pair, job: text(pair.target, pair.draft, job)
    return {
        "largest_difference": float(np.abs(logits[0] - logits[1]).max()),
        "same_texts": {
            name: written(host, job) == written(device, job) for name, job in jobs.items()
        },
    }


def text(target, draft, job, tap=None):
    """The token ids that a pair writes."""
    return [int(token) for one in decode(target, draft, job, tap) for token in one.tokens]


def speeds(target, settings):
    """Medians in turns: tokens per second of both decoders, and of transformers, prefill included;
    times of passes.

    Deep targets have a draft. Its weights are random, so a coin accepts what it drafts.
    """
    backend, n_tokens, repeats = target.backend, settings.n_tokens_to_generate, settings.repeats
    coin = lambda parts: parts.accepting(ACCEPTANCE, np.random.default_rng(0))
    job = Job(PROMPT, n_tokens, ROWS - 1)
    runs = {"plain": partial(text, target, None, job)}
    shape = dataclasses.replace(SIZES[DRAFT], n_vocab=target.config.n_vocab)
    if target.config.n_layer > shape.n_layer:
        draft = ModelDraft(random_model(shape, backend, seed=1))
        runs["speculative"] = partial(text, target, draft, job, coin)
    if peer := transformers_on_gpu(target.config, settings.dtype, n_tokens):
        runs[PEER] = peer
    seconds = medians(runs, seldom(repeats), backend.synchronize)
    rows = medians(passes(target, (1, ROWS)), repeats, backend.synchronize)
    return {
        PEER: None,
        **{name: n_tokens / seconds[name] for name in runs},
        "launch_share": statistics.median(launch_share(target) for _ in range(seldom(repeats))),
        "rows_ratio": rows[ROWS] / rows[1],
        "one_row_ms": 1e3 * rows[1],
    }


def launch_share(model):
    """The share of a one-row pass in which the host issues its kernels."""
    backend, cache = model.backend, model.new_cache()
    model.read(PROMPT, cache)
    backend.synchronize()
    begin = time.perf_counter()
    model.blocks(model.embed(model.roll_back(PROMPT, cache, 1), cache), cache.look_back)
    issued = time.perf_counter() - begin
    backend.synchronize()
    return issued / (time.perf_counter() - begin)


def transformers_on_gpu(config, dtype, n_tokens):
    """A function that writes a text with this shape in transformers on the GPU, or None."""
    try:
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    names = {"n_vocab": "vocab_size", "n_ctx": "n_positions"}
    shape = {names.get(name, name): n for name, n in dataclasses.asdict(config).items()}
    shape.pop("epsilon")
    model = GPT2LMHeadModel(GPT2Config(**shape)).eval().to("cuda", getattr(torch, dtype))
    ids = torch.tensor([PROMPT], device="cuda")
    length = {"min_new_tokens": n_tokens, "max_new_tokens": n_tokens}
    # tolist waits for the GPU
    return lambda: model.generate(ids, do_sample=False, **length).tolist()
