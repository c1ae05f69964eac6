"""Which kernel a model's weights get on this machine: by trial, while it is loaded.

What is best depends on the machine: its BLAS, its caches, what a thread costs. So nothing is
assumed. `plan` times a few tile widths, on one thread and on all, some rows at a time, over memory
the size of the model, and keeps the best for each shape. The plain product is one of the
candidates: it is a single tile as wide as the matrix.
"""

import itertools
import math
import re
import time
from dataclasses import replace

import numpy as np

from backends.blas import N_THREADS
from backends.threads import THREADS
from backends.tiles import ALL, MANY, Kernel, Tiles, one_memory, parts_of

WIDTHS = (64, 128)  # of the tiles to try
# row counts to try (decode, verify, prefill), and rows at a time for each
TOGETHER = {1: (1, 2), 9: (1, 9), 32: (8, ALL)}
ROUNDS = 4  # of trials; the best counts, as the machine may be busy with other things for a moment
# memory to read, and the shares of it that trials read in turn. Of three times a cache of 32 MB so
# much was still found there that the order of the candidates was another one
COLD_BYTES, SHARES = 264 << 20, 11


def seconds(x, weights):
    """The mean time of one product, going through the weights one after the other."""
    # awake, as they are between the products of a pass
    THREADS.share(lambda a, b: None, N_THREADS, N_THREADS)
    begin = time.perf_counter()
    for weight in weights:
        x @ weight
    return (time.perf_counter() - begin) / len(weights)


def trial(shape, transposed, scratch, width, n_threads, n_rows, together):
    """Seconds of one product with a weight of that shape, read from scratch; with a part of it
    where scratch is smaller.
    """
    n_in, n_out = shape
    columns = min(n_out, len(scratch) // n_in)
    width = min(width, columns)
    columns -= columns % width
    n_copies = max(1, len(scratch) // (n_in * columns)) if n_rows < MANY else 1
    memory = scratch[: n_copies * n_in * columns].reshape(n_copies, -1)
    weights = [
        one.reshape(columns, n_in).T if transposed else one.reshape(n_in, columns) for one in memory
    ]
    if width < columns:
        kernel, n_parts = Kernel(width, (n_threads,) * 3, (together,) * 3), parts_of(n_in, width)
        layout, nothing = (
            (n_parts, columns // width, n_in // n_parts, width),
            np.empty((n_in, 0), scratch.dtype),
        )
        # as if cut: the same memory, no copy
        tiled = [Tiles(one.reshape(layout), nothing, kernel) for one in memory]
        weights = [Tiles.cut(one, kernel) for one in weights] if transposed else tiled
    return seconds(np.ones((n_rows, n_in), scratch.dtype), weights)


def candidates(n_out, exact):
    """What to try for a weight with so many columns: (width, n_threads, n_rows, together) each."""
    widths = [width for width in WIDTHS if width < n_out]
    for width in widths if exact and widths else (*widths, n_out):
        for n_threads in sorted({1, N_THREADS} if width < n_out else {1}):
            for n_rows, options in TOGETHER.items():
                for together in (1,) if exact else options if width < n_out else options[-1:]:
                    yield width, n_threads, n_rows, together


def best(times, n_out):
    """The Kernel that {candidate: seconds} speaks for."""

    def fastest(width, n_rows):
        # seconds, threads, rows at a time; one row is padded only if that is clearly better
        options = ((t, n, g) for (w, n, r, g), t in times.items() if (w, r) == (width, n_rows))
        return min(options, key=lambda option: option[0] * (1.05 if option[2] == 2 else 1))

    def cost(width):
        # one row, and many drafts at once; a plain product is kept unless something is clearly
        # better
        return sum(fastest(width, n_rows)[0] for n_rows in list(TOGETHER)[:2]) * (
            0.95 if width == n_out else 1
        )

    width = min({width for width, *_ in times}, key=cost)
    _, threads, together = zip(*(fastest(width, n_rows) for n_rows in TOGETHER))
    return Kernel(width, threads, together)


def kernel_named(name):
    """None for "auto", else the Kernel that "plain" or "WIDTHxTHREADS" stands for. Raises
    ValueError for another name.
    """
    if name == "auto":
        return None
    if name == "plain":
        return Kernel(ALL, (1, 1, 1))  # one tile, whatever the shape
    if not re.fullmatch(r"[1-9]\d{0,5}x[1-9]\d?", name):
        raise ValueError(f"kernels {name!r}: expected auto, plain, or WIDTHxTHREADS such as 64x2")
    width, n_threads = map(int, name.split("x"))
    return Kernel(width, (n_threads,) * 3)


def plan(config, dtype, kernel=None, exact=False):
    """How a model of this shape should hold its weights: a function w -> what `x @ w` is to be
    computed with.

    Without a kernel, times the candidates for each shape of weight, in a fraction of a second.
    exact: the result for a row is the same, bit by bit, however many rows are computed together:
    one at a time.
    """
    shapes = config.shapes()
    matrices = [
        shape for name, shape in shapes.items() if len(shape) == 2 and name.startswith("h.")
    ]
    keys = dict.fromkeys((shape, True) for shape in matrices)
    keys[shapes["wte.weight"][::-1], False] = None  # the output head
    if kernel:
        chosen = dict.fromkeys(keys, replace(kernel, together=(1, 1, 1)) if exact else kernel)
    else:  # before any weight is read: model and scratch are not to lie in memory together
        n_bytes = sum(math.prod(shape) for shape in shapes.values()) * np.dtype(dtype).itemsize
        n = max(
            min(n_bytes, COLD_BYTES) // SHARES // np.dtype(dtype).itemsize,
            *(n_in for (n_in, _), _ in keys),
        )
        # as cold as the model will be. Arrays of their own: glibc, having freed one of 24 MB (32
        # would be too much), gives less memory back to the system between products, and a prefill
        # is spared some 20,000 page faults
        scratch = itertools.cycle([np.ones(n, dtype) for _ in range(SHARES)])
        times = {key: {} for key in keys}
        for _ in range(ROUNDS):
            # those of one candidate lie apart, so that one disturbance does not meet them all
            for (shape, contiguous), of_shape in times.items():
                for one in candidates(shape[1], exact):
                    of_shape[one] = min(
                        of_shape.get(one, math.inf),
                        trial(shape, not contiguous, next(scratch), *one),
                    )
        chosen = {key: best(of_shape, key[0][1]) for key, of_shape in times.items()}

    empty = one_memory(sum(map(math.prod, matrices)), dtype)

    def weight(w):
        one = chosen[w.shape, w.flags.c_contiguous]
        return w if one.width >= w.shape[1] and not exact else Tiles.cut(w, one, empty)

    return weight
