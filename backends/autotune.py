"""Which kernel a model's weights get on this machine: by trial, while it is loaded.

What is best depends on the machine: its BLAS, its caches, what a thread costs. So nothing is
assumed. `plan` times a few ways to hold each shape of weight, then for the best of them on how many
threads and how many rows at a time, over memory the size of the model. One of the ways is not to
cut it: on one thread, that is the plain product.

A product is timed as a pass meets it. Something else comes before it, in which the other threads
wait; and it is cold, as the other weights have passed through the caches since.
"""

import itertools
import math
import re
import time
from collections import defaultdict, deque
from dataclasses import replace

import numpy as np

from backends.blas import N_THREADS
from backends.tiles import AHEAD, ALL, HELD, MANY, Kernel, Tiles, Uncut, one_memory, parts_of

WIDTHS = (64, 128)  # of the tiles to try
# a width to try as well where a weight has many columns: long rows are read faster
WIDE, MANY_COLUMNS = 1024, 16 * 1024
# numbers of rows to try: to decode, to verify drafts, to read a prompt
ONE, FEW, PROMPT = (1,), (2, 5, 9), (32,)
TOGETHER = {ONE: (1, 2), FEW: (1, 9), PROMPT: (8, ALL)}  # rows at a time to try for them
# threads to try besides one and all: a few usually read memory at its full speed, and each further
# thread takes time to start
SEVERAL = 4
ROUNDS = 3  # of trials; the best counts, as the machine may be busy with other things for a moment
PASSES = 5  # in a turn, of a whole model
GAP = 30e-6  # seconds between two products, in which a pass does something else
# seconds a tiled product takes longer in a pass than here, where its code is warm, and a shared one
TILED, HANDED_OVER = 3e-6, 12e-6
# a weight of so many numbers is shared unless one thread is so many times faster: if another
# program had a core during the trials, sharing costs little now, and not sharing much later
LARGE, SHARED = 1_000_000, 1.1
# memory for trials, a model's or this much. Of three times a cache of 32 MB so much was still found
# there that the order of the candidates was another one
COLD_BYTES = 264 << 20
SMALL = 2_000_000  # weights; in the passes of so small a model, what is between products counts
SHARES = 11  # of that memory; a trial reads one of them, or one weight if that is larger


class Scratch:
    """Memory the size of a model, to be read on and on: as cold as the model will be.

    It is in arrays of their own: glibc, having freed one of 24 MB (32 would be too much), gives
    less memory back to the system between products, and a prefill is spared some 20,000 page
    faults.
    """

    def __init__(self, shapes, weights, dtype):
        itemsize = np.dtype(dtype).itemsize
        n_model = sum(math.prod(shape) for shape in shapes.values())
        n = min(n_model, COLD_BYTES // itemsize)
        n_largest = max(math.prod(shape) for shape, _ in weights)
        n_column = max(shape[0] for shape, _ in weights)
        self.share = max(1, n // SHARES)
        size = max(self.share, n_column, min(n_largest, COLD_BYTES // SHARES // itemsize))
        arrays = [np.ones(size, dtype) for _ in range(-(-n // size))]
        self.arrays, self.used = deque(arrays), 0

    def copies(self, n_in, n_out):
        """Memory for some weights of that shape, with fewer columns if they do not fit:
        [n_copies, n_in * columns]
        """
        columns = min(n_out, len(self.arrays[0]) // n_in)
        if WIDE < columns < n_out:
            columns -= columns % WIDE  # so that tiles of any width read as much
        n_copies = max(1, self.share // (n_in * columns))
        n = n_copies * n_in * columns
        if self.used + n > len(self.arrays[0]):
            self.arrays.rotate(-1)
            self.used = 0
        memory = self.arrays[0][self.used : self.used + n]
        self.used += n
        return memory.reshape(n_copies, -1)


def seconds(x, weights):
    """The mean time of one product, going through the weights one after the other."""
    total = 0.0
    for weight in weights:
        resumed = time.perf_counter() + GAP
        while time.perf_counter() < resumed:
            pass
        begin = time.perf_counter()
        x @ weight
        total += time.perf_counter() - begin
    return total / len(weights)


def weights_in(memory, weight, layout, way):
    """The weights that lie in memory [n_copies, n_in * columns], if that is read in a layout.

    A weight is (its shape, whether it is a transposed array), a layout (width of a tile or ALL,
    whether by column), a way (n_threads, together).
    """
    ((n_in, n_out), transposed), (width, by_column), (n_threads, together) = weight, layout, way
    columns = memory.shape[1] // n_in
    if width == ALL:
        if transposed:
            return memory.reshape(-1, columns, n_in).swapaxes(1, 2)
        weights = memory.reshape(-1, n_in, columns)
        if n_threads == 1:
            return weights
        return [Uncut(one, Kernel(ALL, (n_threads,) * 3)) for one in weights]
    n_tiles, width = max(1, columns // width), min(width, columns)
    kernel = Kernel(width, (n_threads,) * 3, (together,) * 3, by_column)
    n_parts = parts_of(n_in, n_out, kernel)
    shape = (len(memory), n_parts, n_tiles, n_in // n_parts, width)
    memory = memory[:, : n_in * n_tiles * width]
    if by_column:
        tiles = memory.reshape(*shape[:3], width, -1).swapaxes(3, 4)
    else:
        tiles = memory.reshape(shape)
    rest = np.zeros((n_in, n_out % width), memory.dtype)
    return [Tiles(one, rest, kernel) for one in tiles]


def trial(scratch, weight, layout, way, n_rows):
    """Seconds of one product with a weight; see `weights_in`."""
    (n_in, n_out), (width, _), (n_threads, _) = weight[0], layout, way
    memory = scratch.copies(n_in, n_out)
    if n_rows >= MANY:
        memory = memory[:1]
    x = np.ones((n_rows, n_in), memory.dtype)
    took = seconds(x, weights_in(memory, weight, layout, way))
    plain = width == ALL and n_threads == 1
    return took if plain else took + TILED + (n_threads > 1) * HANDED_OVER


def layouts(n_out, exact):
    """Ways to try to hold a weight with so many columns: (width, by_column) each."""
    widths = [width for width in WIDTHS if width < n_out]
    tiled = list(itertools.product(widths, (False, True)))
    if n_out > MANY_COLUMNS:
        tiled.append((WIDE, False))
    return tiled if exact and tiled else [*tiled, (ALL, False)]


def ways(weight, layout, rows, exact):
    """Ways to try to multiply by a weight of that layout: (n_threads, together) each."""
    ((n_in, n_out), transposed), uncut = weight, layout[0] == ALL
    together = (1,) if exact else (ALL,) if uncut else TOGETHER[rows]
    # of a small weight, nothing would be left for a second thread once it has begun
    shared = n_in * n_out > AHEAD
    # each thread would multiply some rows of the weight, and must let the others run meanwhile
    if uncut:
        shared = shared and not transposed and not exact and n_out > HELD
    thread_counts = {1, min(SEVERAL, N_THREADS), N_THREADS} if shared else {1}
    return list(itertools.product(sorted(thread_counts), together))


def relative(times):
    """{(candidate, n_rows): seconds} -> {candidate: the sum over n_rows of seconds / the best's}.

    So that each number of rows counts as much.
    """
    least = defaultdict(lambda: math.inf)
    for (_, n_rows), t in times.items():
        least[n_rows] = min(least[n_rows], t)
    sums = defaultdict(float)
    for (candidate, n_rows), t in times.items():
        sums[candidate] += t / least[n_rows]
    return sums


def best_layout(times):
    """The layout that {(layout, way, n_rows): seconds} speaks for."""
    found = defaultdict(lambda: math.inf)
    for (layout, _, n_rows), t in times.items():
        found[layout, n_rows] = min(found[layout, n_rows], t)
    costs = relative(found)
    # a weight is only cut where that is clearly better
    return min(costs, key=lambda layout: costs[layout] * (0.95 if layout[0] == ALL else 1))


def best_way(times, rows, large):
    """The way to multiply so many rows that {(way, n_rows): seconds} speaks for."""
    costs = relative({key: t for key, t in times.items() if key[1] in rows})
    for n_threads, together in costs:
        if rows == ONE and together == 2:
            costs[n_threads, together] *= 1.05  # padded only if that is clearly better
        if large and n_threads == 1:
            costs[n_threads, together] *= SHARED
    return min(costs, key=costs.get)


def measured(candidates, scratch):
    """{candidate: seconds}, the least of several rounds, for (weight, layout, way, n_rows) each.

    Those of one candidate lie apart, so that one disturbance does not meet them all.
    """
    times = defaultdict(lambda: math.inf)
    for _ in range(ROUNDS):
        for candidate in candidates:
            times[candidate] = min(times[candidate], trial(scratch, *candidate))
    return times


def chosen_kernels(weights, scratch, exact):
    """{weight: Kernel} by trial; a weight is (its shape, whether it is a transposed array)."""
    decode_and_verify = ((ONE, 1), (FEW, 5), (FEW, 9))
    times = measured(
        [
            (weight, layout, way, n_rows)
            for weight in weights
            for layout in layouts(weight[0][1], exact)
            for rows, n_rows in decode_and_verify
            for way in ways(weight, layout, rows, exact)
        ],
        scratch,
    )
    best = {}
    for weight in weights:
        of_weight = {key[1:]: t for key, t in times.items() if key[0] == weight}
        best[weight] = best_layout(of_weight)
    times = measured(
        [
            (weight, layout, way, n_rows)
            for weight, layout in best.items()
            for rows in TOGETHER
            for n_rows in rows
            for way in ways(weight, layout, rows, exact)
        ],
        scratch,
    )
    kernels = {}
    for weight, (width, by_column) in best.items():
        of_weight = {key[2:]: t for key, t in times.items() if key[0] == weight}
        large = math.prod(weight[0]) > LARGE
        threads, together = zip(*(best_way(of_weight, rows, large) for rows in TOGETHER))
        kernels[weight] = Kernel(width, threads, together, by_column)
    return kernels


def kernel_named(name):
    """None for "auto", else the Kernel that "plain" or "WIDTHxTHREADS" stands for. Raises
    ValueError for another name.
    """
    if name == "auto":
        return None
    if name == "plain":
        return Kernel(ALL, (1, 1, 1))
    if not re.fullmatch(r"([2-9]|[1-9]\d{1,5})x[1-9]\d{0,3}", name):
        raise ValueError(f"kernels {name!r}: expected auto, plain, or WIDTHxTHREADS such as 64x2")
    width, n_threads = map(int, name.split("x"))
    return Kernel(width, (n_threads,) * 3)


# what a small model is tried with as well, see `fastest`
FIXED = (kernel_named("plain"), kernel_named("64x1"))


def matrices_of(config):
    """The shapes of a model's weights in its blocks, one for each weight."""
    shapes = config.shapes()
    return [shape for name, shape in shapes.items() if len(shape) == 2 and name.startswith("h.")]


def choose(config, dtype, kernel=None, exact=False):
    """{weight: Kernel} for a model of this shape; a weight is (its shape, whether it is a
    transposed array).

    Without a kernel, times the candidates for each shape of weight, in a fraction of a second.
    """
    shapes = config.shapes()
    head = shapes["wte.weight"][::-1]
    weights = [*dict.fromkeys((shape, False) for shape in matrices_of(config)), (head, True)]
    if kernel:
        return dict.fromkeys(weights, replace(kernel, together=(1, 1, 1)) if exact else kernel)
    return chosen_kernels(weights, Scratch(shapes, weights, dtype), exact)


def layout(config, dtype, chosen, exact=False):
    """How a model of this shape should hold its weights, with the kernels that `choose` returned: a
    function w -> what `x @ w` is to be computed with.
    """
    empty = one_memory(sum(map(math.prod, matrices_of(config))), dtype)

    def lay_out(w):
        transposed = not w.flags.c_contiguous
        one = chosen[w.shape, transposed]
        if one.width < w.shape[1] or exact:
            # the output head, the last of all, has memory of its own
            return Tiles.cut(w, one, np.empty if transposed else empty)
        if one.width < ALL or max(one.threads) == 1:
            return w
        uncut = empty(w.shape, w.dtype)
        uncut[...] = w
        return Uncut(uncut, one)

    return lay_out


def plan(config, dtype, kernel=None, exact=False):
    """The layout of a model of this shape, by trial if no kernel is given.

    exact: the result for a row is the same, bit by bit, however many rows are computed together:
    one at a time.
    """
    # the trials come first: model and scratch are not to lie in memory together
    return layout(config, dtype, choose(config, dtype, kernel, exact), exact)


def is_small(config):
    """Whether whole passes of a model of this shape are quickly timed, and worth it."""
    return sum(map(math.prod, config.shapes().values())) <= SMALL


def fastest(models):
    """Of several builds of a small model, the one with the fastest passes: over one row, as a draft
    reads, and over a few, as a target does.

    Its products take microseconds, and the fastest alone may not be so between all else.
    """
    times = defaultdict(lambda: math.inf)
    turns = itertools.product(range(ROUNDS), enumerate(models), (*ONE, *FEW))
    for _, (i, model), n_rows in turns:
        ids = [0] * min(n_rows, model.config.n_ctx)
        cache = model.new_cache(len(ids))
        for _ in range(PASSES):
            begin = time.perf_counter()
            model.read(ids, cache, n_last=len(ids))
            times[i, n_rows] = min(times[i, n_rows], time.perf_counter() - begin)
    costs = relative(times)
    return models[min(costs, key=costs.get)]
