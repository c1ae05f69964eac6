"""NumPy's matrix product, so that scoring K + 1 tokens costs about what scoring one costs.

One row times a weight matrix is a vector product: every weight is read from memory once and used
once, so the time is the size of the weights over the memory's bandwidth, and the arithmetic is
free. K + 1 rows use every weight K + 1 times and could cost the same. They do not in a general
matrix product: panel by panel it packs the matrix into a scratch buffer, in the order its inner
loop likes. For hundreds of rows that copy is nothing; for five it costs more than the product.

So the weight is cut into tiles, each contiguous and small enough to stay in a core's cache, and one
stacked matmul runs over them, each thread over its share; a long column goes through several tiles,
whose products add up:

    weight [n_in, n_out]  ->  tiles [n_parts, n_tiles, depth, width]

    n_in = n_parts * depth,  n_out <= n_tiles * width

Some rows at a time are multiplied by a tile. A few: BLAS with AVX-512 has a path without packing
for small products. One: the first row fetches the tile from memory, the others find it in the
cache. All: for many rows, where packing pays.

With AVX2, BLAS packs whatever the size. There it can be better not to cut the weight, as it is read
faster in one long piece. Each thread then multiplies some of its rows, and the products are added.

What is best depends on the machine; backends/autotune.py finds out.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from backends.threads import THREADS, ceil_div, ranges

# numbers in a tile: times 9 rows, below the 10^6 multiplications up to which OpenBLAS does not pack
TILE = 110_000
MANY = 12  # rows, from here on; up to there they are few
ALL = 1 << 62  # more than any number of rows or columns; as a width: not cut
LINE = 64  # bytes of a cache line
BUFFER = 1 << 18  # numbers that wait to be added up
AT_ONCE = 4  # rows: BLAS multiplies this many faster than three, and with AVX2 faster than two
# NumPy releases the GIL only for a product whose result has more numbers than this:
# during a smaller one, no other thread can begin
GIL_RELEASE_SIZE = 500
AHEAD = 100_000  # weights that a thread multiplies by a few rows before another has begun


@dataclass(frozen=True)
class Kernel:
    """How one shape of weight is held and multiplied.

    Each tile has `width` columns, and is contiguous row by row, or column by column; with a width
    of ALL, the weight is not cut. For one row, for a few and for many: how many threads, and how
    many rows at a time meet a tile. One row may be computed as two, where BLAS is faster at a thin
    matrix than at a vector.
    """

    width: int
    threads: tuple
    together: tuple = (1, 9, 8)
    by_column: bool = False

    def way(self, n_rows):
        """(n_threads, together) for this many rows."""
        size = 0 if n_rows < 2 else 1 if n_rows < MANY else 2
        return self.threads[size], self.together[size]

    def __str__(self):
        threads = "/".join(map(str, self.threads))
        if self.width == ALL:
            return f"uncut; for 1/few/many rows {threads} threads"
        together = "/".join(map(str, self.together)).replace(str(ALL), "all")
        order = " by column" if self.by_column else ""
        return (
            f"tiles of {self.width}{order}; for 1/few/many rows {threads} threads, "
            f"{together} at a time"
        )


# NumPy's own product, on one thread, whose bits for a row do not depend on the other rows
ROW_BY_ROW = Kernel(ALL, (1, 1, 1), together=(1, 1, 1))


def group_size(n_rows, most):
    """How many rows to multiply at a time, up to `most`: as few groups as can be, of one size."""
    if n_rows <= 1:
        return most
    size = ceil_div(n_rows, ceil_div(n_rows, most))
    return AT_ONCE if size == 3 else size


def tiles_ahead(n_in, width):
    """How many tiles the first thread multiplies more than the others."""
    return AHEAD // (n_in * width)


def parts_of(n_in, n_out, kernel):
    """Into how many parts a column of n_in is cut, 1, 2, 4, ...: enough of them that a tile is
    small, and that each thread which multiplies one row has more than GIL_RELEASE_SIZE results.
    """
    width, n_threads = min(kernel.width, n_out), kernel.threads[0]
    n_shared = n_out // width - tiles_ahead(n_in, width)
    is_shared = n_threads > 1 and n_shared > 1
    fewest = max(1, n_shared // n_threads) * width * kernel.together[0]  # results of a thread
    n_parts = 1
    while n_in % (2 * n_parts) == 0 and (
        n_in // n_parts * width > TILE or (is_shared and fewest * n_parts <= GIL_RELEASE_SIZE)
    ):
        n_parts *= 2
    return n_parts


def one_memory(n, dtype):
    """A function `empty(shape, dtype)` that gives arrays of n numbers altogether, one after the
    other in memory.

    The system backs one large array by huge pages; of arrays as small as weights it leaves out a
    sixth and more, and whoever reads through that waits for addresses to be looked up. The first
    begins at a cache line, and so do those after it.
    """
    free = np.empty(n + LINE, dtype)
    free = free[-free.ctypes.data % LINE // free.itemsize :]

    def empty(shape, dtype):
        nonlocal free
        array, free = np.split(free, [math.prod(shape)])
        return array.reshape(shape)

    return empty


def padded_size(n_in, n_out, kernel):
    """Numbers in the tiles of a weight."""
    width = min(kernel.width, n_out)
    return n_in * ceil_div(n_out, width) * width


def tiles_in(memory, n_in, n_parts, kernel):
    """Memory [n_in * n_tiles * width] as tiles [n_parts, n_tiles, depth, width]."""
    n_tiles = len(memory) // (n_in * kernel.width)
    if kernel.by_column:
        return memory.reshape(n_parts, n_tiles, kernel.width, -1).swapaxes(2, 3)
    return memory.reshape(n_parts, n_tiles, -1, kernel.width)


def padded(x, multiple):
    """x with rows of zeros added below, up to a multiple of `multiple` rows."""
    missing = -len(x) % multiple
    return np.concatenate([x, np.zeros((missing, x.shape[1]), x.dtype)]) if missing else x


class Tiles:
    """A weight matrix [n_in, n_out] as tiles [n_parts, n_tiles, depth, width], the last of them
    filled up with columns of zeros.

    `x @ tiles` is the matrix product.  [n_rows, n_in] -> [n_rows, n_out]
    """

    __array_ufunc__ = None  # NumPy leaves `x @ self` to __rmatmul__

    def __init__(self, tiles, n_out, kernel):
        n_parts, _, depth, _ = tiles.shape
        self.tiles, self.shape, self.kernel = tiles, (n_parts * depth, n_out), kernel

    @classmethod
    def cut(cls, weight, kernel, empty=np.empty):
        """The tiles of a weight, in memory that empty(shape, dtype) provides."""
        n_in, n_out = weight.shape
        kernel = replace(kernel, width=min(kernel.width, n_out))
        n_parts, whole = parts_of(n_in, n_out, kernel), n_out // kernel.width
        # copy each tile into one piece: a strided view would be read at half the speed
        memory = empty((padded_size(n_in, n_out, kernel),), weight.dtype)
        tiles = tiles_in(memory, n_in, n_parts, kernel)
        parts = weight.reshape(n_parts, -1, n_out)
        columns = parts[:, :, : whole * kernel.width].reshape(*parts.shape[:2], whole, kernel.width)
        tiles[:, :whole] = columns.swapaxes(1, 2)
        if rest := n_out % kernel.width:
            tiles[:, whole, :, :rest] = parts[:, :, -rest:]
            tiles[:, whole, :, rest:] = 0
        return cls(tiles, n_out, kernel)

    @property
    def T(self):
        """The transpose, to look rows up in: the embedding, where self is the output head."""
        return Columns(self)

    def __rmatmul__(self, x):
        n_rows = len(x)
        n_threads, most = self.kernel.way(n_rows)
        group = group_size(n_rows, most)
        x = padded(x, group)
        n_parts, n_tiles, _, width = self.tiles.shape
        y = np.empty((len(x), n_tiles * width), x.dtype)
        at_once = n_parts == 1 and len(x) == group
        multiply = self.at_once(x, y) if at_once else self.in_groups(x, y, group)
        ahead = tiles_ahead(self.shape[0], width) if n_rows < MANY else 0
        THREADS.share(multiply, n_tiles, n_threads, ahead)
        return y[:n_rows, : self.shape[1]]

    def at_once(self, x, y):
        """multiply(first, end): all rows with these tiles, where no tile is a part of a column."""
        tiles = self.tiles[0]
        n_tiles, _, width = tiles.shape
        products = y.reshape(-1, n_tiles, width).swapaxes(0, 1)
        return lambda a, b: np.matmul(x, tiles[a:b], products[a:b])

    def in_groups(self, x, y, group):
        """multiply(first, end): some rows at a time with each of these tiles, and sums of parts."""
        n_parts, n_tiles, depth, width = self.tiles.shape
        n_groups = len(x) // group
        rows = x.reshape(n_groups, group, n_parts, depth).transpose(2, 0, 1, 3)[:, None]
        sums = y.reshape(n_groups, group, n_tiles, width).transpose(2, 0, 1, 3)
        n_together = BUFFER // (n_parts * (len(x) or 1) * width) or 1  # tiles

        def multiply(first, end):
            for a in range(first, end, n_together):
                b = min(a + n_together, end)
                # a tile meets all groups before the next is read, which the order of y would not do
                np.matmul(rows, self.tiles[:, a:b, None]).sum(axis=0, out=sums[a:b])

        return multiply


class Uncut:
    """A weight matrix in one piece, of which each thread multiplies some rows; all are added.

    `x @ uncut` is the matrix product.  [n_rows, n_in] -> [n_rows, n_out]
    """

    __array_ufunc__ = None

    def __init__(self, weight, kernel):
        self.weight, self.kernel, self.shape = weight, kernel, weight.shape

    def __rmatmul__(self, x):
        n_rows, (n_in, n_out) = len(x), self.shape
        is_few = n_rows < MANY
        if n_rows > 1 and is_few:
            x = padded(x, AT_ONCE)
        n_threads, _ = self.kernel.way(n_rows)
        # x @ W = x[:, :h] @ W[:h] + x[:, h:] @ W[h:], the same sum on however many threads
        parts = ranges(n_in, n_threads, AHEAD // n_out if is_few else 0)
        products = [None] * n_threads

        def multiply(a, b):
            for i in range(a, b):
                first, end = parts[i]
                products[i] = x[:, first:end] @ self.weight[first:end]

        THREADS.share(multiply, n_threads, n_threads)
        y = products[0]
        for product in products[1:]:
            y += product
        return y[:n_rows]


class Columns:
    """The columns of a weight that lies in tiles, to be looked up as the rows of its transpose.

    An embedding is one array in two roles: an output head multiplies with it, tokens look their
    rows up. It lies as the product wants it, which reads all of it.
    """

    def __init__(self, weight):
        self.weight, self.shape, self.dtype = weight, weight.shape[::-1], weight.tiles.dtype

    def __getitem__(self, ids):  # [n] -> [n, n_in]
        tiles = self.weight.tiles
        width = tiles.shape[3]
        return tiles[:, ids // width, :, ids % width].reshape(-1, self.shape[1])
