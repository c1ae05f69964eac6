"""NumPy's matrix product, so that scoring K + 1 tokens costs about what scoring one costs.

One row times a weight matrix is a vector product: every weight is read from memory once and used once, so the time is
the size of the weights over the memory's bandwidth, and the arithmetic is free. K + 1 rows use every weight K + 1 times
and could cost the same. They do not in a general matrix product: it first packs the whole matrix into a scratch buffer, in
the order its inner loop likes. For hundreds of rows that copy is nothing; for five it costs more than the product.

BLAS has paths without packing for small matrices. So the weight is cut into tiles small enough, each contiguous, and one
stacked matmul runs over them, each thread over its share; a long column goes through several tiles, whose products add up:

    weight [n_in, n_out]  ->  tiles [n_parts, n_tiles, depth, width],     n_in = n_parts * depth,  n_out = n_tiles * width

What is best depends on the machine: its BLAS, its caches, what a thread costs. So nothing is assumed. `plan` times a few
tile widths, on one thread and on all, over memory the size of the model, and keeps the best for each shape. The plain
product is one of the candidates: it is a single tile as wide as the matrix.
"""

import math
import re
import threading
import time
from dataclasses import dataclass, replace
from queue import SimpleQueue

import numpy as np

from backends.blas import N_THREADS

WIDTHS = (64, 128)  # of the tiles to try
TILE, TOGETHER = 110_000, 9  # numbers in a tile, and rows at a time: below 10^6 products OpenBLAS does not pack
ROWS = (1, 2, 5, 64)  # the row counts to try: decode, the same padded, verify, prefill
MANY = 48  # from here on a product is limited by arithmetic, and packing pays
COLD_BYTES = 96 << 20  # more than the caches hold
WAKE = 15e-6  # seconds: what waking a thread costs more between the other parts of a pass than in the trials' loop
GROUP = 8  # rows computed together where results must not depend on how many there are


class Threads:
    """Threads that wait for work; handing it over and waiting for it costs 10 to 30 microseconds."""

    def __init__(self, n):
        self.inboxes = [SimpleQueue() for _ in range(n)]
        for inbox in self.inboxes:
            threading.Thread(target=self._serve, args=(inbox,), daemon=True).start()

    def _serve(self, inbox):
        while True:
            function, a, b, done = inbox.get()
            try:
                function(a, b)
                done.put(None)
            except Exception as error:
                done.put(error)
            del function, done  # the arrays may be large, and the next call far away

    def share(self, function, n, n_threads):
        """function(a, b) on n_threads threads, whose ranges a to b together are 0 to n."""
        n_threads, done = min(n_threads, 1 + len(self.inboxes)), SimpleQueue()
        cuts = [n * i // n_threads for i in range(n_threads + 1)]
        for inbox, a, b in zip(self.inboxes, cuts[1:], cuts[2:]):
            inbox.put((function, a, b, done))
        function(0, cuts[1])
        for _ in range(n_threads - 1):
            if error := done.get():
                raise error


THREADS = Threads(N_THREADS - 1)


@dataclass(frozen=True)
class Kernel:
    """How one shape of weight is multiplied: the tile width, and the threads for one row, for a few and for many.

    pad_one: one row is computed as two, where BLAS is faster at a thin matrix than at a vector.
    group: rows are computed this many at a time, with zeros for those that lack, so that what comes out for a row does
    not depend on how many there are; 0 is all at once.
    """

    width: int
    threads: tuple
    pad_one: bool = False
    group: int = 0

    def __str__(self):
        text = f"tiles of {self.width}, {'/'.join(map(str, self.threads))} threads for 1/few/many rows"
        return text + (f", {self.group} rows at a time" if self.group else ", 1 row as 2" if self.pad_one else "")


def parts_of(n_in, width):
    """Into how many parts a column of n_in is cut, so that a tile is small enough: 1, 2, 4, ..."""
    n_parts = 1
    while n_in // n_parts * width > TILE and n_in % (2 * n_parts) == 0:
        n_parts *= 2
    return n_parts


class Tiles:
    """A weight matrix [n_in, n_out] as tiles [n_parts, n_tiles, depth, width], and what is left at the right [n_in, rest].

    `x @ tiles` is the matrix product.  [n_rows, n_in] -> [n_rows, n_out]
    """

    __array_ufunc__ = None  # NumPy leaves `x @ self` to __rmatmul__

    def __init__(self, tiles, rest, kernel):
        n_parts, n_tiles, depth, width = tiles.shape
        self.tiles, self.rest, self.kernel = tiles, rest, kernel
        self.shape = (n_parts * depth, n_tiles * width + rest.shape[1])

    @classmethod
    def cut(cls, weight, kernel):
        n_in, n_out = weight.shape
        width = min(kernel.width, n_out)
        n_parts, end = parts_of(n_in, width), n_out - n_out % width
        if weight.flags.c_contiguous:  # each tile is made contiguous: a strided view would be read at half the speed
            tiles = weight[:, :end].reshape(n_parts, n_in // n_parts, end // width, width).swapaxes(1, 2)
            return cls(np.ascontiguousarray(tiles), weight[:, end:].copy(), kernel)
        # the output head, the embedding transposed: its columns are contiguous already, so its tiles are views
        tiles = weight.T[:end].reshape(end // width, width, n_parts, n_in // n_parts).transpose(2, 0, 3, 1)
        return cls(tiles, weight[:, end:], kernel)

    def __rmatmul__(self, x):
        (n_parts, n_tiles, depth, width), kernel, n_rows = self.tiles.shape, self.kernel, len(x)
        if n_rows >= MANY and not kernel.group:
            return self.multiply_many(x)
        if kernel.group or n_rows < 2:
            group = kernel.group or 1 + kernel.pad_one
        else:
            group = -(-n_rows // -(-n_rows // TOGETHER))  # as few groups of rows as can be, of one size
        if missing := -n_rows % group:
            x = np.concatenate([x, np.zeros((missing, x.shape[1]), x.dtype)])
        n_groups, end = len(x) // group, n_tiles * width
        y = np.empty((len(x), self.shape[1]), x.dtype)
        sums = y[None, :, :end] if n_parts == 1 else np.empty((n_parts, len(x), end), x.dtype)
        # [n_parts, 1, n_groups, group, depth] @ [n_parts, n_tiles, 1, depth, width], written where it belongs
        rows = x.reshape(n_groups, group, n_parts, depth).transpose(2, 0, 1, 3)[:, None]
        out = sums.reshape(n_parts, n_groups, group, n_tiles, width).transpose(0, 3, 1, 2, 4)

        def multiply(a, b):
            np.matmul(rows, self.tiles[:, a:b, None], out[:, a:b])

        THREADS.share(multiply, n_tiles, kernel.threads[0 if n_rows == 1 else 1 if n_rows < MANY else 2])
        if n_parts > 1:
            sums.sum(axis=0, out=y[:, :end])
        if n_rest := self.rest.shape[1]:
            rows = x.reshape(n_groups, group, self.shape[0])
            np.matmul(rows, self.rest, y[:, end:].reshape(n_groups, group, n_rest))
        return y[:n_rows]

    def multiply_many(self, x):  # [n_rows, n_in] -> [n_rows, n_out]
        """For many rows arithmetic is the limit, and BLAS would pack x for every tile: so each thread joins its tiles first."""
        (_, n_tiles, _, width), y = self.tiles.shape, np.empty((len(x), self.shape[1]), x.dtype)

        def multiply(a, b):
            joined = self.tiles[:, a:b].swapaxes(1, 2).reshape(self.shape[0], (b - a) * width)
            np.matmul(x, joined, y[:, a * width : b * width])

        THREADS.share(multiply, n_tiles, self.kernel.threads[2])
        if self.rest.size:
            y[:, n_tiles * width :] = x @ self.rest
        return y


def seconds(x, weights):
    """The mean time of one product, going through the weights one after the other."""
    begin = time.perf_counter()
    for weight in weights:
        x @ weight
    return (time.perf_counter() - begin) / len(weights)


def fastest(shape, transposed, scratch):
    """The Kernel for weights of one shape, by trial. scratch is memory to read: as cold as the model's will be."""
    (n_in, n_out), times, widths = shape, {}, [w for w in WIDTHS if w < shape[1]] + [shape[1]]

    def trial(width, n_threads, n_rows):
        columns = min(n_out, len(scratch) // n_in)  # a head may be larger than all of scratch: a part of it is tried
        width = min(width, columns)
        columns -= columns % width
        n_copies = max(1, len(scratch) // (n_in * columns)) if n_rows < MANY else 1
        memory = scratch[: n_copies * n_in * columns].reshape(n_copies, -1)
        kernel, nothing = Kernel(width, (n_threads,) * 3), np.empty((n_in, 0), scratch.dtype)
        if transposed:
            weights = [one.reshape(columns, n_in).T for one in memory]
            weights = weights if width == columns else [Tiles.cut(one, kernel) for one in weights]
        elif width == columns:
            weights = [one.reshape(n_in, columns) for one in memory]
        else:
            n_parts = parts_of(n_in, width)
            layout = (n_parts, columns // width, n_in // n_parts, width)
            weights = [Tiles(one.reshape(layout), nothing, kernel) for one in memory]
        return seconds(np.ones((n_rows, n_in), scratch.dtype), weights)

    for _ in range(3):  # the best of three rounds, as the machine may be busy with other things for a moment
        for width in widths:
            for n_threads in sorted({1, N_THREADS}) if width < n_out else [1]:
                for n_rows in ROWS:
                    key = (width, n_threads, n_rows)
                    times[key] = min(times.get(key, 1e9), trial(*key))

    def threads(width, n_rows):
        options = [t for w, t, r in times if (w, r) == (width, n_rows)]
        return min(options, key=lambda t: times[width, t, n_rows] + (WAKE if t > 1 else 0))

    def cost(width):  # one row, and K + 1 rows; a plain product is kept unless something is clearly better
        best = sum(times[width, threads(width, n_rows), n_rows] for n_rows in (ROWS[0], ROWS[2]))
        return best * (0.95 if width == n_out else 1)

    width = min(widths, key=cost)
    one, two, few, many = (threads(width, n_rows) for n_rows in ROWS)
    return Kernel(width, (one, few, many), pad_one=times[width, two, 2] < 0.95 * times[width, one, 1])


def independent(w, kernel):
    """The kernel with rows in groups: a row's place among the others of its group must not change a bit of its result."""
    x = np.random.default_rng(0).standard_normal((GROUP, len(w))).astype(w.dtype)
    grouped = replace(kernel, group=GROUP)
    tiles = Tiles.cut(w, grouped)
    return grouped if np.array_equal((x @ tiles)[::-1], x[::-1] @ tiles) else replace(grouped, group=1)


def kernel_named(name):
    """None for "auto", else the Kernel that "plain" or "WIDTHxTHREADS" stands for. Raises ValueError for another name."""
    if name == "auto":
        return None
    if name == "plain":
        return Kernel(1 << 62, (1, 1, 1))  # one tile, whatever the shape
    if not re.fullmatch(r"[1-9]\d{0,5}x[1-9]\d?", name):
        raise ValueError(f"kernels {name!r}: expected auto, plain, or WIDTHxTHREADS such as 64x2")
    width, n_threads = map(int, name.split("x"))
    return Kernel(width, (n_threads,) * 3)


def plan(config, dtype, kernel=None, exact=False):
    """How a model of this shape should hold its weights: a function w -> what `x @ w` is to be computed with.

    Without a kernel, times the candidates for each shape of weight, in a fraction of a second.
    exact: the result for a row is the same, bit by bit, however many rows are computed together.
    """
    shapes = config.shapes()
    keys = [(shape, True) for name, shape in shapes.items() if len(shape) == 2 and name.startswith("h.")]
    keys.append((shapes["wte.weight"][::-1], False))  # the output head
    chosen = dict.fromkeys(keys, kernel)
    if not kernel:  # before any weight is read: model and scratch are not to lie in memory together
        n_bytes = sum(math.prod(shape) for shape in shapes.values()) * np.dtype(dtype).itemsize
        scratch = np.ones(min(n_bytes, COLD_BYTES) // np.dtype(dtype).itemsize, dtype)
        chosen = {(shape, contiguous): fastest(shape, not contiguous, scratch) for shape, contiguous in chosen}

    def weight(w):
        key = (w.shape, w.flags.c_contiguous)
        if exact and not chosen[key].group:
            chosen[key] = independent(w, chosen[key])
        one = chosen[key]
        return w if one.width >= w.shape[1] and not one.group else Tiles.cut(w, one)

    return weight
