"""Which kernel a model's weights get on this machine: by trial, while it is loaded.

What is fastest depends on the machine: on its BLAS, its caches, and how long a thread takes to
start. So nothing is assumed. `choose` goes through weights of the model's shapes as a pass does,
block after block, and multiplies each by the next of its candidates. The first passes choose how
each shape of weight is held, the others on how many threads and how many rows at a time it is
multiplied. One candidate leaves the weight uncut: on one thread, that is the plain product.

So a product is timed between other products, and on a weight that is no longer in the caches,
because the others have passed through them since.
"""

import itertools
import math
import random
import re
import time
from collections import defaultdict
from dataclasses import replace
from statistics import geometric_mean, mean
from typing import NamedTuple

import numpy as np

from backends.blas import N_THREADS
from backends.tiles import (
    AHEAD,
    ALL,
    GIL_RELEASE_SIZE,
    Kernel,
    Tiles,
    Uncut,
    one_memory,
    padded_size,
    parts_of,
    tiles_in,
)
from gpt2 import layer_norm

WIDTHS = (64, 128)  # of the tiles to try
# a width to try as well where a weight has many columns: long rows are read faster
WIDE, MANY_COLUMNS = 1024, 16 * 1024
# numbers of rows to try: to decode, to verify drafts, to read a prompt
ONE, FEW, PROMPT = (1,), (2, 5, 9), (32,)
TOGETHER = {ONE: (1, 2), FEW: (1, 9), PROMPT: (8, ALL)}  # rows at a time to try for them
# threads to try besides one and all: a few usually read memory at its full speed, and each further
# thread takes time to start
SEVERAL = 4
SAMPLES = 5  # times that each candidate is timed, at least
# a weight of more than LARGE numbers is shared unless one thread is CLEARLY times as fast: another
# program may have held a core during the trials, and sharing needlessly costs little, not sharing
# much. A smaller weight is shared only if that is CLEARLY times as fast: there is little to gain,
# and much to lose whenever another thread is late
LARGE, CLEARLY = 1_000_000, 1.1
# weights in the trials, unless the model has fewer. With 96 MB and a cache of 32 MB, so much was
# still in the cache that other candidates won
COLD_BYTES = 264 << 20
HEAD_BYTES = 24 << 20  # of an output head in the trials: of a larger one, only the first columns


class Weight(NamedTuple):
    """A shape of weight; transposed: a view of an array [n_out, n_in]."""

    n_in: int
    n_out: int
    transposed: bool = False


def matrices_of(config):
    """The shapes of the weights in a model's blocks, one for each weight."""
    shapes = config.shapes()
    return [shape for name, shape in shapes.items() if len(shape) == 2 and name.startswith("h.")]


# ---------------------------------------------------------------- candidates


def layouts_to_try(weight, exact):
    """Ways to try to hold a weight: (width, by_column) each."""
    widths = [width for width in WIDTHS if width < weight.n_out]
    tiled = list(itertools.product(widths, (False, True)))
    if weight.n_out > MANY_COLUMNS:
        tiled.append((WIDE, False))
    return tiled if exact and tiled else [(ALL, False), *tiled]


def kernels_to_try(weight, layout, rows, exact):
    """Kernels for a weight of that layout: on how many threads, and how many rows at a time."""
    width, by_column = layout
    uncut = width == ALL
    together = (1,) if exact else (ALL,) if uncut else TOGETHER[rows]
    # of a small weight, nothing would be left for a second thread once it has begun
    shared = weight.n_in * weight.n_out > AHEAD
    # each thread would multiply some rows of the weight, and must let the others run meanwhile
    if uncut:
        shared = shared and not weight.transposed and not exact and weight.n_out > GIL_RELEASE_SIZE
    counts = {1, min(SEVERAL, N_THREADS), N_THREADS} if shared else {1}
    ways = itertools.product(sorted(counts), together)
    return [Kernel(width, (n_threads,) * 3, (n,) * 3, by_column) for n_threads, n in ways]


def held_in(memory, weight, kernel):
    """What `x @ w` is computed with, if a weight lies in this memory [n_in * columns]."""
    columns = len(memory) // weight.n_in
    if kernel.width == ALL:
        if weight.transposed:
            return memory.reshape(columns, weight.n_in).T
        whole = memory.reshape(weight.n_in, columns)
        return whole if kernel.threads[0] == 1 else Uncut(whole, kernel)
    kernel = replace(kernel, width=min(kernel.width, columns))
    memory = memory[: len(memory) - len(memory) % (weight.n_in * kernel.width)]
    n_parts = parts_of(weight.n_in, weight.n_out, kernel)
    tiles = tiles_in(memory, weight.n_in, n_parts, kernel)
    return Tiles(tiles, tiles.shape[1] * kernel.width, kernel)


# ---------------------------------------------------------------- trials


def places_of(weights, n_model, dtype):
    """[(weight, its memory)] in the order of a pass: the weights of a block and an output head,
    another block, and so on.

    They take at most the memory of the model's n_model numbers, and about COLD_BYTES of a large
    one: so that they are as cold when they are read.
    """
    *matrices, head = weights
    itemsize = np.dtype(dtype).itemsize
    columns = min(head.n_out, max(1, HEAD_BYTES // itemsize // head.n_in))
    if WIDE < columns < head.n_out:
        columns -= columns % WIDE  # so that tiles of any width read as much
    n_block = sum(w.n_in * w.n_out for w in matrices)
    n_head = head.n_in * columns
    n_blocks = max(1, min(n_model, COLD_BYTES // itemsize) // (n_block + n_head))
    places = []
    for _ in range(n_blocks):
        # A head is an array of its own. Once glibc has freed an array of 24 MB (not one of 32), it
        # returns less memory to the system, which spares a prefill some 20,000 page faults
        empty = one_memory(n_block, dtype)
        places += [(w, empty((w.n_in * w.n_out,), dtype)) for w in matrices]
        places.append((head, one_memory(n_head, dtype)((n_head,), dtype)))
    for _, memory in places:
        memory[...] = 1
    return places


def timed(places, n_rows, candidates):
    """Seconds of products of n_rows rows: {weight: [kernel]} -> {weight: {kernel: seconds}}."""
    times = {weight: defaultdict(list) for weight in candidates}
    rng = random.Random(0)
    # one number of threads in a pass: a thread that waits for work slows the others down
    for count in sorted({one.threads[0] for found in candidates.values() for one in found}):
        chosen = {  # all candidates of a weight that is never shared
            weight: [one for one in found if one.threads[0] == count] or found
            for weight, found in candidates.items()
        }
        most = max(map(len, chosen.values()))
        n_passes = math.ceil(SAMPLES * most * len(chosen) / len(places))
        turns = {weight: shuffled_forever(found, rng) for weight, found in chosen.items()}
        for weight, memory in n_passes * places:
            kernel = next(turns[weight])
            times[weight][kernel].append(product_seconds(n_rows, weight, memory, kernel))
    # the faster half counts: the machine may be busy with other things at times
    return {
        weight: {kernel: mean(sorted(t)[: len(t) // 2 + 1]) for kernel, t in found.items()}
        for weight, found in times.items()
    }


def shuffled_forever(candidates, rng):
    """The candidates in random order, then in another, and so on."""
    while True:
        yield from rng.sample(candidates, len(candidates))


def product_seconds(n_rows, weight, memory, kernel):
    """One product and what follows it in a pass, which threads may still slow down."""
    held = held_in(memory, weight, kernel)
    x = np.ones((n_rows, weight.n_in), memory.dtype)
    begin = time.perf_counter()
    y = x @ held
    layer_norm(y[:, : weight.n_in], 1, 0, 1e-5)
    return time.perf_counter() - begin


# ---------------------------------------------------------------- the choice


def choose(config, dtype, kernel=None, exact=False):
    """{Weight: Kernel} for a model of this shape.

    Without a kernel, times the candidates for each shape of weight: up to a few seconds.
    """
    head = Weight(config.n_embd, config.n_vocab, transposed=True)
    weights = [*dict.fromkeys(Weight(*shape) for shape in matrices_of(config)), head]
    if kernel:
        return dict.fromkeys(weights, replace(kernel, together=(1, 1, 1)) if exact else kernel)
    places = places_of(weights, config.n_parameters, dtype)

    def measured(layouts, rows, n_rows):
        """{weight: {kernel: seconds}} of n_rows rows, by the kernels for {weight: layouts}."""
        candidates = {
            w: [k for layout in layouts[w] for k in kernels_to_try(w, layout, rows, exact)]
            for w in weights
        }
        return timed(places, n_rows, candidates)

    # first: how is each weight held?
    layouts = {w: layouts_to_try(w, exact) for w in weights}
    one, five, nine = (measured(layouts, rows, n) for rows, n in ((ONE, 1), (FEW, 5), (FEW, 9)))
    held = {w: [best_layout(layouts[w], one[w], [five[w], nine[w]])] for w in weights}
    # then, held like that: on how many threads, and how many rows at a time?
    times = {n: measured(held, rows, n) for rows in TOGETHER for n in rows}
    return {w: best_kernel(w, {n: times[n][w] for n in times}) for w in weights}


def best_layout(layouts, one, few):
    """The best layout by {kernel: seconds} for one row and for several numbers of a few. One row,
    as in drafting and plain decoding, counts as much as the few rows of a verification.
    """

    def cost(layout):
        least = lambda times: min(t for k, t in times.items() if (k.width, k.by_column) == layout)
        return least(one) * geometric_mean(map(least, few))

    return min(layouts, key=cost)


def best_kernel(weight, times):
    """The kernel of a weight by {n_rows: {kernel: seconds}}: the best way to multiply one row, a
    few and many. Of these, each number of rows counts equally.
    """
    large = weight.n_in * weight.n_out > LARGE
    best = []
    for rows in TOGETHER:

        def cost(kernel):
            seconds = geometric_mean([times[n_rows][kernel] for n_rows in rows])
            on_one_thread = kernel.threads[0] == 1
            must_win_clearly = on_one_thread if large else not on_one_thread
            return seconds * CLEARLY if must_win_clearly else seconds

        best.append(min(times[rows[0]], key=cost))
    threads, together = zip(*((one.threads[0], one.together[0]) for one in best))
    return replace(best[0], threads=threads, together=together)


def lay_out_by(config, dtype, chosen, exact=False):
    """A function w -> what `x @ w` is computed with, by the kernels of `choose`."""
    shapes = matrices_of(config)
    empty = one_memory(sum(padded_size(*shape, chosen[Weight(*shape)]) for shape in shapes), dtype)

    def lay_out(w):
        transposed = not w.flags.c_contiguous
        kernel = chosen[Weight(*w.shape, transposed)]
        if kernel.width < w.shape[1] or exact:
            # the output head, the last of all, has memory of its own
            return Tiles.cut(w, kernel, np.empty if transposed else empty)
        if kernel.width < ALL or max(kernel.threads) == 1:
            return w
        uncut = empty(w.shape, w.dtype)
        uncut[...] = w
        return Uncut(uncut, kernel)

    return lay_out


def plan(config, dtype, kernel=None, exact=False):
    """The layout of a model of this shape, by trial if no kernel is given.

    exact: the result for a row is the same, bit by bit, however many rows are computed together:
    one at a time.
    """
    # the trials come first: their memory and the model's are not to be in use at once
    return lay_out_by(config, dtype, choose(config, dtype, kernel, exact), exact)


def kernel_named(name):
    """The Kernel of "plain" or "64x2", None for "auto". Raises ValueError."""
    if name == "auto":
        return None
    if name == "plain":
        return Kernel(ALL, (1, 1, 1))
    if not re.fullmatch(r"([2-9]|[1-9]\d{1,5})x[1-9]\d{0,3}", name):
        raise ValueError(f"kernels {name!r}: expected auto, plain, or WIDTHxTHREADS such as 64x2")
    width, n_threads = map(int, name.split("x"))
    return Kernel(width, (n_threads,) * 3)
