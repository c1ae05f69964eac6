"""Which kernel a model's weights get on this machine: by trial, while it is loaded.

What is fastest depends on the machine: on its BLAS, its caches, and how long a thread takes to
start. So nothing is assumed. `choose` runs passes over a few blocks of the model's shape, in which
each product uses the next of its candidates. The first passes choose how each shape of weight is
held, the others on how many threads and how many rows at a time it is multiplied. One candidate is
not to cut the weight: on one thread, that is the plain product.

So a product is timed where it is used: between the other products, and on a weight that is no
longer in the caches, because the others have passed through them since.
"""

import itertools
import math
import random
import re
import statistics
import time
from collections import defaultdict
from dataclasses import replace
from statistics import geometric_mean
from types import SimpleNamespace

import numpy as np

from backends.blas import N_THREADS
from backends.tiles import AHEAD, ALL, HELD, Kernel, Tiles, Uncut, one_memory, parts_of
from gpt2 import Model, attend, layer_norm, nested

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


class Turns:
    """Decides how each product of a pass is made, and times it.

    A product's time ends where the next product begins: threads that have done their share may
    still slow down what follows. Nothing here refers to a product, whose memory thus is free again
    as soon as the trials are over.
    """

    def __init__(self):
        self.random, self.times, self.begun = random.Random(0), defaultdict(list), None

    def start(self, candidates):
        """From now on, use these candidates, {weight: [(layout, way)]}, each as often."""
        self.candidates = {weight: self.dealt(found) for weight, found in candidates.items()}

    def dealt(self, candidates):
        """The candidates in random order, then in another, and so on."""
        while True:
            yield from self.random.sample(candidates, len(candidates))

    def end(self):
        now = time.perf_counter()
        if self.begun:
            candidate, begun = self.begun
            self.times[candidate].append(now - begun)
        self.begun = None


class Product:
    """Stands for a weight in a pass: each `x @ product` is made with its next candidate."""

    __array_ufunc__ = None  # NumPy leaves `x @ self` to __rmatmul__

    def __init__(self, turns, weight, memory):
        self.turns, self.weight, self.memory = turns, weight, memory
        memory[...] = 1

    def __rmatmul__(self, x):
        self.turns.end()
        layout, way = next(self.turns.candidates[self.weight])
        held = held_in(self.memory, self.weight, layout, way)
        self.turns.begun = (self.weight, layout, way), time.perf_counter()
        return x @ held


class Trials:
    """Passes over blocks of a model's shape, each followed by an output head.

    Their weights take at most the memory of the model's, and about COLD_BYTES of a large one: so
    that they are as cold when they are read.
    """

    def __init__(self, config, weights, dtype):
        *matrices, head = weights
        (n_in, n_out), itemsize = head[0], np.dtype(dtype).itemsize
        columns = min(n_out, max(1, HEAD_BYTES // itemsize // n_in))
        if WIDE < columns < n_out:
            columns -= columns % WIDE  # so that tiles of any width read as much
        n_block, n_head = sum(math.prod(shape) for shape, _ in matrices), n_in * columns
        n_model = sum(math.prod(shape) for shape in config.shapes().values())
        n = min(n_model, COLD_BYTES // itemsize)
        self.config, self.dtype, self.turns = replace(config, n_layer=1), dtype, Turns()
        self.blocks = []
        for _ in range(max(1, n // (n_block + n_head))):
            # A head is an array of its own. Once glibc has freed an array of 24 MB (not one of 32),
            # it returns less memory to the system, which spares a prefill some 20,000 page faults
            empty = one_memory(n_block, dtype)
            products = {
                weight: Product(self.turns, weight, empty((math.prod(weight[0]),), dtype))
                for weight in matrices
            }
            memory = one_memory(n_head, dtype)((n_head,), dtype)
            self.blocks.append((self.block(products), Product(self.turns, head, memory)))

    def block(self, products):
        """The parameters of a block, as gpt2.Model takes them."""
        return nested(
            {
                name: products[shape, False] if len(shape) == 2 else np.ones(shape, self.dtype)
                for name, shape in self.config.shapes().items()
                if name.startswith("h.")
            }
        )["h"]["0"]

    def run(self, n_rows, candidates):
        """Time products with so many rows: {weight: [(layout, way)]} -> {(weight, layout, way):
        seconds}.
        """
        self.turns.times.clear()
        # one number of threads in a pass: a thread that waits for work slows the others down
        for count in sorted({n for found in candidates.values() for _, (n, _) in found}):
            chosen = {  # all candidates of a weight that is never shared
                weight: [(layout, way) for layout, way in found if way[0] == count] or found
                for weight, found in candidates.items()
            }
            self.turns.start(chosen)
            most = max(map(len, chosen.values()))
            for _ in range(math.ceil(SAMPLES * most / len(self.blocks))):
                self.run_pass(n_rows)
        # the faster half counts: the machine may be busy with other things at times
        return {
            candidate: statistics.mean(sorted(times)[: len(times) // 2 + 1])
            for candidate, times in self.turns.times.items()
        }

    def run_pass(self, n_rows):
        x = np.ones((n_rows, self.config.n_embd), self.dtype)
        for block, head in self.blocks:
            model = Model(self.config, {"blocks": [block]}, SimpleNamespace(xp=np))
            x = model.blocks(x, lambda layer, q, k, v: attend(q, k, v, np))
            layer_norm(x, **block["ln_2"], epsilon=self.config.epsilon) @ head
        self.turns.end()


def held_in(memory, weight, layout, way):
    """Memory [n_in * columns] as a weight in that layout, to be multiplied in that way.

    A weight is (its shape, whether it is a transposed array), a layout (width of a tile or ALL,
    whether by column), a way (n_threads, together).
    """
    ((n_in, n_out), transposed), (width, by_column), (n_threads, together) = weight, layout, way
    columns = len(memory) // n_in
    if width == ALL:
        if transposed:
            return memory.reshape(columns, n_in).T
        whole = memory.reshape(n_in, columns)
        return whole if n_threads == 1 else Uncut(whole, Kernel(ALL, (n_threads,) * 3))
    n_tiles, width = max(1, columns // width), min(width, columns)
    kernel = Kernel(width, (n_threads,) * 3, (together,) * 3, by_column)
    n_parts = parts_of(n_in, n_out, kernel)
    memory = memory[: n_in * n_tiles * width]
    if by_column:
        tiles = memory.reshape(n_parts, n_tiles, width, -1).swapaxes(2, 3)
    else:
        tiles = memory.reshape(n_parts, n_tiles, -1, width)
    return Tiles(tiles, np.zeros((n_in, n_out % width), memory.dtype), kernel)


def layouts(n_out, exact):
    """Ways to try to hold a weight with so many columns: (width, by_column) each."""
    widths = [width for width in WIDTHS if width < n_out]
    tiled = list(itertools.product(widths, (False, True)))
    if n_out > MANY_COLUMNS:
        tiled.append((WIDE, False))
    return tiled if exact and tiled else [(ALL, False), *tiled]


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


def best_layout(times):
    """The best layout by {(layout, way, n_rows): seconds}. One row, as in drafting and plain
    decoding, counts as much as the few rows of a verification.
    """
    fastest = defaultdict(dict)
    for (layout, _, n_rows), t in times.items():
        fastest[layout][n_rows] = min(t, fastest[layout].get(n_rows, math.inf))

    def cost(layout):
        (one, *few) = (t for _, t in sorted(fastest[layout].items()))
        return one * geometric_mean(few)

    return min(fastest, key=cost)


def best_way(times, rows, large):
    """The best way to multiply so many rows, by {(way, n_rows): seconds}; each number of rows
    counts equally.
    """

    def cost(way):
        seconds = geometric_mean([times[way, n_rows] for n_rows in rows])
        return seconds * CLEARLY if (way[0] == 1) == large else seconds

    return min((way for way, n_rows in times if n_rows == rows[0]), key=cost)


def measured(trials, layouts_of, numbers, exact):
    """{weight: {(layout, way, n_rows): seconds}}, for {weight: [layout]} and pairs (ONE, FEW or
    PROMPT, n_rows): the first says which ways are tried.
    """
    times = defaultdict(dict)
    for rows, n_rows in numbers:
        candidates = {
            weight: [(layout, way) for layout in found for way in ways(weight, layout, rows, exact)]
            for weight, found in layouts_of.items()
        }
        for (weight, layout, way), seconds in trials.run(n_rows, candidates).items():
            times[weight][layout, way, n_rows] = seconds
    return times


def chosen_kernels(config, weights, dtype, exact):
    """{weight: Kernel} by trial; a weight is (its shape, whether it is a transposed array)."""
    trials = Trials(config, weights, dtype)
    found = {weight: layouts(weight[0][1], exact) for weight in weights}
    times = measured(trials, found, [(ONE, 1), (FEW, 5), (FEW, 9)], exact)
    best = {weight: [best_layout(times[weight])] for weight in weights}
    numbers = [(rows, n_rows) for rows in TOGETHER for n_rows in rows]
    times = measured(trials, best, numbers, exact)
    kernels = {}
    for weight, [(width, by_column)] in best.items():
        of_ways = {(way, n_rows): t for (_, way, n_rows), t in times[weight].items()}
        large = math.prod(weight[0]) > LARGE
        threads, together = zip(*(best_way(of_ways, rows, large) for rows in TOGETHER))
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


def matrices_of(config):
    """The shapes of a model's weights in its blocks, one for each weight."""
    shapes = config.shapes()
    return [shape for name, shape in shapes.items() if len(shape) == 2 and name.startswith("h.")]


def choose(config, dtype, kernel=None, exact=False):
    """{weight: Kernel} for a model of this shape; a weight is (its shape, whether it is a
    transposed array).

    Without a kernel, times the candidates for each shape of weight: up to a few seconds.
    """
    head = config.shapes()["wte.weight"][::-1]
    weights = [*dict.fromkeys((shape, False) for shape in matrices_of(config)), (head, True)]
    if kernel:
        return dict.fromkeys(weights, replace(kernel, together=(1, 1, 1)) if exact else kernel)
    return chosen_kernels(config, weights, dtype, exact)


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
    # the trials come first: their memory and the model's are not to be in use at once
    return layout(config, dtype, choose(config, dtype, kernel, exact), exact)
