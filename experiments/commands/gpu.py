"""python main.py gpu: what --backend cupy does on a GPU, in one run. Does it compute what NumPy
computes, how fast is it, and how much of a pass is spent on launching kernels?

It has not been run on a GPU yet. Please send the result with the issue template "Results from your
machine".
"""

import json as json_format
import platform
import statistics
import time

import numpy as np
from tqdm import tqdm

import utils
from experiments.cli.validators import check_choice, check_length, check_numbers, parse_list
from experiments.data.machine import machine
from experiments.decoding.decoders import decode
from experiments.decoding.session import Session, models_of
from experiments.decoding.settings import Settings
from experiments.decoding.timing import clocked
from experiments.measuring import passes
from experiments.measuring.synthetic import accept_by_coin
from sampling import Filter
from utils import SIZES, get_backend, random_model

DTYPES = ("float32", "float16")
DRAFT = "124M"  # drafts for the larger shapes
PROMPT = list(range(100, 132))
ACCEPTANCE = 0.8  # of a drafted token, by coin
ROWS = 5  # of a verify pass
BOUND = 1e-3  # between the logits of two ways to compute in float32
PEER = "transformers, eager"


# ---------------------------------------------------------------- does it compute the same?


def text_of(session, text, **settings):
    """The token ids that a session writes after a text."""
    session = session.changed(mode="speculative", **settings)
    return session.run("speculative", session.prompt(text), None, session.new_watch())["token_ids"]


def parity(settings, backend, dtype):
    """How the included pair on this backend differs from NumPy's float32."""
    host = Session(settings, models_of(settings))
    moved = settings.replace(backend=backend, dtype=dtype)
    device = Session(moved, models_of(moved))
    ids = host.prompt("Once upon a time there lived a king who had three sons.").ids
    logits = [one.target.read(ids, one.target.new_cache(), len(ids)) for one in (host, device)]
    texts = {
        "greedy": {},
        "coupled": {"temperature": 0.8, "coupled": True},
    }
    return {
        "dtype": dtype,
        "largest_difference": float(np.abs(logits[0] - logits[1]).max()),
        "same_texts": {
            name: text_of(host, "Long ago", **more) == text_of(device, "Long ago", **more)
            for name, more in texts.items()
        },
    }


# ---------------------------------------------------------------- how fast is it?


def tokens_per_second(target, draft, n_tokens, repeats):
    """Medians of both decoders in turns; a coin accepts the drafts, as the weights are random."""

    def wrap(drafter, filter):
        return accept_by_coin(drafter, filter, ACCEPTANCE, np.random.default_rng(0))

    found = {"plain": [], "speculative": []}
    for repeat in range(repeats + 1):
        for name, decoder in (("plain", "autoregressive"), ("speculative", "speculative")):
            if draft is None and name == "speculative":
                continue
            more = {"K": ROWS - 1, "filter": Filter(), "seed": 0, "wrap": wrap}
            _, _, seconds = clocked(decode(decoder, target, draft, PROMPT, n_tokens, **more))
            if repeat:  # the first is the warm-up
                found[name].append(n_tokens / seconds)
    return {name: statistics.median(speeds) for name, speeds in found.items() if speeds}


def launch_share(model, repeats):
    """The share of a one-row pass in which the host issues its kernels, the median."""
    backend, cache = model.backend, model.new_cache()
    model.read(PROMPT, cache)
    shares = []
    for _ in range(repeats + 1):
        backend.synchronize()
        begin = time.perf_counter()
        model.blocks(model.embed(model.unread(PROMPT, cache, 1), cache), model.past(cache))
        issued = time.perf_counter() - begin
        backend.synchronize()
        shares.append(issued / (time.perf_counter() - begin))
    return statistics.median(shares[1:])


def speeds(shape, backend, dtype, n_tokens, repeats):
    """One row of the table: a shape with random weights."""
    arrays = get_backend(backend, dtype=dtype)
    target = random_model(SIZES[shape], arrays)
    larger = SIZES[shape].n_layer > SIZES[DRAFT].n_layer
    draft = random_model(SIZES[DRAFT], arrays, seed=1) if larger else None
    rows = passes.medians(passes.passes(target, (1, ROWS)), repeats, arrays.synchronize)
    return {
        "shape": shape,
        "dtype": dtype,
        **tokens_per_second(target, draft, n_tokens, repeats),
        "rows_ratio": rows[ROWS] / rows[1],
        "one_row_ms": 1e3 * rows[1],
        "launch_share": launch_share(target, repeats),
        PEER: transformers_speed(SIZES[shape], dtype, n_tokens, repeats),
    }


def transformers_speed(config, dtype, n_tokens, repeats):
    """Tokens per second of transformers on the same GPU, or None where it cannot run."""
    try:
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    shape = {"n_embd": config.n_embd, "n_head": config.n_head, "n_layer": config.n_layer}
    model = GPT2LMHeadModel(GPT2Config(**shape)).eval().to("cuda", getattr(torch, dtype))
    ids, found = torch.tensor([PROMPT], device="cuda"), []
    for repeat in range(repeats + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        model.generate(ids, do_sample=False, min_new_tokens=n_tokens, max_new_tokens=n_tokens)
        torch.cuda.synchronize()
        if repeat:
            found.append(n_tokens / (time.perf_counter() - begin))
    return statistics.median(found)


# ---------------------------------------------------------------- the command


def device(backend):
    """What figures of a GPU depend on."""
    if backend == "numpy":
        return machine() | {"gpu": None}
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    return machine() | {
        "gpu": properties["name"].decode(),
        "cupy": cupy.__version__,
        "cuda_driver": cupy.cuda.runtime.driverGetVersion(),
        "cuda_runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "system": platform.platform(),
    }


def show(result):
    """The result, for people."""
    where = result["machine"]
    print(f"{where['gpu'] or where['cpu']}, {where['date']}\n")
    for one in result["parity"]:
        verdict = ""
        if one["dtype"] == "float32":
            verdict = " (ok)" if one["largest_difference"] <= BOUND else f" (above {BOUND:g})"
        print(
            f"{one['dtype']}: logits differ from NumPy's by {one['largest_difference']:.2g}", end=""
        )
        print(f"{verdict}; same text:", end=" ")
        print(", ".join(f"{name} {same}" for name, same in one["same_texts"].items()))
    print(
        f"\nRandom weights; drafted tokens of {DRAFT} accepted at random with probability "
        f"{ACCEPTANCE}; tokens/s:\n"
    )
    heads = f"{'plain':>8} {'speculative':>12} {PEER:>20} {f'{ROWS} rows/1':>9}"
    print(f"{'shape':<7} {'dtype':<8} {heads} {'1 row ms':>9} {'launching':>10}")
    for row in result["speeds"]:
        numbers = [row.get(name) for name in ("plain", "speculative", PEER)]
        plain, fast, peer = (f"{x:.1f}" if x else "–" for x in numbers)
        print(f"{row['shape']:<7} {row['dtype']:<8} {plain:>8} {fast:>12} {peer:>20}", end=" ")
        print(f"{row['rows_ratio']:>9.2f} {row['one_row_ms']:>9.2f} {row['launch_share']:>10.0%}")


def gpu(
    shapes="124M,355M,1558M",
    dtypes="float32,float16",
    n_tokens_to_generate=64,
    repeats=5,
    models_dir=utils.MODELS_DIR,
    backend="cupy",
    json=False,
):
    """Check and measure --backend cupy on this machine's GPU. It takes about ten minutes and needs
    CuPy.

    The check: the included models must write the same texts as with NumPy. The speeds: models in
    GPT-2's sizes with random weights, compared with transformers if torch finds the GPU.

    Args:
        shapes: GPT-2 sizes to measure with random weights, separated by commas
        dtypes: float32, float16 or both, separated by commas
        n_tokens_to_generate: how many tokens to write in each timed text
        repeats: how often to measure each, in turns; medians are reported
        models_dir: the folder with the included models
        backend: cupy, or numpy to try the command without a GPU
        json: print one JSON object and nothing else
    """
    check_choice("backend", backend, "cupy", "numpy")
    check_numbers(1, n_tokens_to_generate=n_tokens_to_generate, repeats=repeats)
    sizes, types = parse_list("shapes", shapes), parse_list("dtypes", dtypes)
    for size in sizes:
        check_choice("shapes", size, *SIZES)
    room = min(SIZES[size].n_ctx for size in sizes) - len(PROMPT)
    check_length("n_tokens_to_generate", n_tokens_to_generate, room)
    for dtype in types:
        check_choice("dtypes", dtype, *DTYPES)
        get_backend(backend, dtype=dtype)
    settings = Settings(models_dir=models_dir, n_tokens_to_generate=200)
    rows = [(size, dtype) for size in sizes for dtype in types]
    result = {
        "machine": device(backend),
        "parity": [parity(settings, backend, dtype) for dtype in types],
        "speeds": [
            speeds(size, backend, dtype, n_tokens_to_generate, repeats)
            for size, dtype in tqdm(rows, desc="shapes", leave=False, disable=None)
        ],
    }
    if json:
        print(json_format.dumps(result))
    else:
        show(result)
