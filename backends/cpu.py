"""NumPy's matrix product, so that scoring K + 1 tokens costs about what scoring one costs.

One row times a weight matrix is a vector product: every weight is read from memory once and used once, so the time is
the size of the weights over the memory's bandwidth, and the arithmetic is free. K + 1 rows use every weight K + 1 times
and could cost the same. They do not in a general matrix product: it first packs the whole matrix into a scratch buffer, in
the order its inner loop likes. For hundreds of rows that copy is nothing; for five it costs more than the product.

BLAS has paths without packing for small matrices. So the weight is cut into column tiles, each contiguous and small
enough, and one stacked matmul runs over them, each thread over its share:

    weight [n_in, n_out]  ->  tiles [n_tiles, n_in, width],     x @ tiles: [n_tiles, n_rows, width]

What is best depends on the machine: its BLAS, its caches, what a thread costs. So nothing is assumed. `plan` times a few
tile widths, on one thread and on all, over memory the size of the model, and keeps the best for each shape. The plain
product is one of the candidates: it is a single tile as wide as the matrix.
"""

import threading
import time
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np

from backends.blas import N_THREADS

WIDTHS = (64, 128, 256)  # of the tiles to try
ROWS = (1, 2, 5, 64)  # the row counts to try: decode, the same padded, verify, prefill
FEW = 16  # up to here a product is limited by memory
COLD_BYTES = 96 << 20  # more than the caches hold
WAKE = 15e-6  # seconds: what waking a thread costs more between the other parts of a pass than in the trials' loop


class Threads:
    """Threads that wait for work; handing it over and waiting for it costs 10 to 30 microseconds."""

    def __init__(self, n):
        self.inboxes = [SimpleQueue() for _ in range(n)]
        for inbox in self.inboxes:
            threading.Thread(target=self._serve, args=(inbox,), daemon=True).start()

    def _serve(self, inbox):
        while True:
            arguments, done = inbox.get()
            try:
                np.matmul(*arguments)  # releases the interpreter while it computes
                done.put(None)
            except Exception as error:
                done.put(error)
            del arguments, done  # the arrays may be large, and the next call far away

    def matmul(self, x, tiles, out, n_threads):  # [n_rows, n_in], [n_tiles, n_in, width], [n_tiles, n_rows, width]
        n_threads, done = min(n_threads, 1 + len(self.inboxes)), SimpleQueue()
        cuts = [len(tiles) * i // n_threads for i in range(n_threads + 1)]
        for inbox, a, b in zip(self.inboxes, cuts[1:], cuts[2:]):
            inbox.put(((x, tiles[a:b], out[a:b]), done))
        np.matmul(x, tiles[: cuts[1]], out[: cuts[1]])
        for _ in range(n_threads - 1):
            if error := done.get():
                raise error


THREADS = Threads(N_THREADS - 1)


@dataclass(frozen=True)
class Kernel:
    """How one shape of weight is multiplied: the tile width, and the threads for one row, for a few and for many.

    pad_one: one row is computed as two, where BLAS is faster at a thin matrix than at a vector.
    """

    width: int
    threads: tuple
    pad_one: bool = False

    def __str__(self):
        threads = "/".join(map(str, self.threads))
        return f"tiles of {self.width}, {threads} threads for 1/few/many rows" + (", 1 row as 2" if self.pad_one else "")


class Tiles:
    """A weight matrix [n_in, n_out] as column tiles [n_tiles, n_in, width] and what is left over at the right [n_in, rest].

    `x @ tiles` is the matrix product.  [n_rows, n_in] -> [n_rows, n_out]
    """

    __array_ufunc__ = None  # NumPy leaves `x @ self` to __rmatmul__

    def __init__(self, tiles, rest, kernel):
        self.tiles, self.rest, self.kernel = tiles, rest, kernel
        self.shape = (tiles.shape[1], tiles.shape[0] * tiles.shape[2] + rest.shape[1])

    @classmethod
    def cut(cls, weight, kernel):
        n_in, n_out = weight.shape
        end = n_out - n_out % kernel.width
        if weight.flags.c_contiguous:  # each tile is made contiguous: a strided view would be read at half the speed
            tiles = np.ascontiguousarray(weight[:, :end].reshape(n_in, -1, kernel.width).swapaxes(0, 1))
            return cls(tiles, weight[:, end:].copy(), kernel)
        # the output head, the embedding transposed: its columns are contiguous already, so its tiles are views
        return cls(weight.T[:end].reshape(-1, kernel.width, n_in).swapaxes(1, 2), weight[:, end:], kernel)

    def __rmatmul__(self, x):
        if len(x) == 1 and self.kernel.pad_one:
            return (np.concatenate([x, x]) @ self)[:1]
        n_tiles, _, width = self.tiles.shape
        y = np.empty((len(x), self.shape[1]), x.dtype)
        out = y[:, : n_tiles * width].reshape(len(x), n_tiles, width).swapaxes(0, 1)  # a view: the tiles write into y
        n_threads = self.kernel.threads[0 if len(x) == 1 else 1 if len(x) <= FEW else 2]
        if n_threads == 1:
            np.matmul(x, self.tiles, out)
        else:
            THREADS.matmul(x, self.tiles, out, n_threads)
        if self.rest.size:
            y[:, n_tiles * width :] = x @ self.rest
        return y


def seconds(x, copies, kernel):
    """The time of one product, going through weights [n_copies, n_tiles, n_in, width] one after the other."""
    nothing = np.empty((x.shape[1], 0), x.dtype)
    weights = [Tiles(tiles, nothing, kernel) for tiles in copies]
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
        size = n_in * (columns - columns % width)
        n_copies = max(1, len(scratch) // size) if n_rows <= FEW else 1
        tiles = scratch[: n_copies * size].reshape(n_copies, -1, *((width, n_in) if transposed else (n_in, width)))
        x = np.ones((n_rows, n_in), scratch.dtype)
        return seconds(x, tiles.swapaxes(2, 3) if transposed else tiles, Kernel(width, (n_threads,) * 3))

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


def plan(config, dtype, pinned=None):
    """How a model of this shape should hold its weights: a function w -> what `x @ w` is to be computed with.

    Times the candidates for each shape of weight, in a fraction of a second; pinned, "plain" or "WIDTHxTHREADS", spares it.
    """
    if pinned == "plain":
        return lambda w: w
    shapes = config.shapes()
    keys = {(shape, True): None for name, shape in shapes.items() if len(shape) == 2 and name.startswith("h.")}
    keys[shapes["wte.weight"][::-1], False] = None  # the output head
    if pinned:
        width, n_threads = map(int, pinned.split("x"))
        chosen = dict.fromkeys(keys, Kernel(width, (n_threads,) * 3))
    else:  # before any weight is read: model and scratch are not to lie in memory together
        n_bytes = sum(int(np.prod(shape)) for shape in shapes.values()) * np.dtype(dtype).itemsize
        scratch = np.ones(min(n_bytes, COLD_BYTES) // np.dtype(dtype).itemsize, dtype)
        chosen = {(shape, contiguous): fastest(shape, not contiguous, scratch) for shape, contiguous in keys}

    def weight(w):
        kernel = chosen.get((w.shape, w.flags.c_contiguous))
        return w if kernel is None or kernel.width >= w.shape[1] else Tiles.cut(w, kernel)

    return weight
