"""Whole texts on a backend: are they those of NumPy, how fast are they, and how much of a pass is
spent on launching kernels?

CuPy's have not been written on a GPU yet. Please send the result with the issue template "Results
from your machine".
"""

import dataclasses
import statistics
import time
from functools import partial

import numpy as np

from experiments.data.machine import machine
from experiments.decoding.job import Job, decode
from experiments.decoding.synthetic import accept_by_coin
from experiments.drafting.drafts import ModelDraft
from experiments.drafting.load import load
from experiments.measuring.passes import medians, passes, seldom
from sampling import Filter
from utils import SIZES, get_backend, random_model

PAIR = ("17M", "0.7M-17M")  # that must write the same texts
DRAFT = "124M"  # drafts for deeper targets
PROMPT = 32 * [0]
ACCEPTANCE = 0.8  # of a drafted token, by coin
ROWS = 5  # of a verify pass
BOUND = 1e-3  # between the logits of two ways to compute in float32
PEER = "transformers, eager"


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


# ---------------------------------------------------------------- are they the same?


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
    return {
        "largest_difference": float(np.abs(logits[0] - logits[1]).max()),
        "same_texts": {name: text(host, job) == text(device, job) for name, job in jobs.items()},
    }


def text(pair, job):
    """The token ids that a pair writes."""
    return [int(token) for one in decode(pair.target, pair.draft, job) for token in one.tokens]


# ---------------------------------------------------------------- how fast are they?


def speeds(target, settings):
    """Medians in turns: tokens per second of both decoders, and of transformers, prefill included;
    times of passes.

    Deep targets have a draft. Its weights are random, so a coin accepts what it drafts.
    """
    backend, n_tokens, repeats = target.backend, settings.n_tokens_to_generate, settings.repeats
    runs = {"plain": partial(write, target, None, n_tokens)}
    shape = dataclasses.replace(SIZES[DRAFT], n_vocab=target.config.n_vocab)
    if target.config.n_layer > shape.n_layer:
        draft = ModelDraft(random_model(shape, backend, seed=1))
        runs["speculative"] = partial(write, target, draft, n_tokens)
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


def write(target, draft, n_tokens):
    """Decode one text; what a draft says is accepted by coin."""

    def tap(parts):
        return accept_by_coin(parts, ACCEPTANCE, np.random.default_rng(0)) if draft else parts

    list(decode(target, draft, Job(PROMPT, n_tokens, ROWS - 1), tap))


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
    """A function that writes a text with the same shape in transformers on the same GPU; None where
    it cannot.
    """
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
