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
from typing import NamedTuple

import numpy as np

from backends.threads import THREADS, ceil_div, ranges

# numbers in a tile: times 9 rows, below the 10^6 multiplications up to which OpenBLAS does not pack
TILE = 110_000
MANY = 12  # rows, from here on; up to there they are few
ALL = 1 << 62  # more than any number of rows or columns; as a width: not cut
LINE = 64  # bytes of a cache line
BUFFER = 1 << 18  # numbers that wait to be added up
ROWS_AT_ONCE = 4  # rows: BLAS multiplies this many faster than three, and with AVX2 faster than two
# NumPy releases the GIL only for a product whose result has more numbers than this:
# during a smaller one, no other thread can begin
GIL_RELEASE_SIZE = 500
HEAD_START = 100_000  # weights that a thread multiplies by a few rows before another has begun


class Weight(NamedTuple):
    """The shape of a weight [n_in, n_out]; transposed: it is a view of an array [n_out, n_in]."""

    n_in: int
    n_out: int
    transposed: bool = False

    @classmethod
    def of(cls, n_in, n_out, transposed=False):
        """The Weight of this shape. A single row or column counts as transposed: the two ways to
        lie in memory are then the same.
        """
        return cls(n_in, n_out, transposed or 1 in (n_in, n_out))

    @property
    def size(self):
        """The number of its numbers."""
        return self.n_in * self.n_out


def matrices_of(config):
    """[(n_in, n_out)] of the matrices in a model's blocks, in the order of the checkpoint."""
    shapes = config.shapes()
    return [shape for name, shape in shapes.items() if len(shape) == 2 and name.startswith("h.")]


def weights_of(config):
    """[Weight]: each shape in a model's blocks once, then the output head's."""
    shapes = dict.fromkeys(matrices_of(config))
    head = Weight.of(config.n_embd, config.n_vocab, transposed=True)
    return [*(Weight.of(*shape) for shape in shapes), head]


@dataclass(frozen=True)
class Layout:
    """How a weight lies in memory: in tiles of `width` columns, each contiguous row by row, or
    column by column. With a width of ALL it is not cut.
    """

    width: int
    by_column: bool = False


class Schedule(NamedTuple):
    """How a weight is multiplied: on how many threads, and by how many rows at a time.

    One row may be computed as two, because BLAS can be faster at a thin matrix than at a vector.
    """

    n_threads: int
    n_rows: int


@dataclass(frozen=True)
class Kernel:
    """The Layout of a weight, and its Schedules for one row, for a few rows and for many rows."""

    layout: Layout
    one: Schedule
    few: Schedule
    many: Schedule

    @classmethod
    def on(cls, n_threads, layout, n_rows=(1, 9, 8)):
        """The Kernel with n_threads for any number of rows. n_rows: of its three Schedules."""
        return cls(layout, *(Schedule(n_threads, n) for n in n_rows))

    def schedule(self, n_rows):
        """The Schedule for this many rows."""
        return self.one if n_rows < 2 else self.few if n_rows < MANY else self.many

    def __str__(self):
        n_threads, n_rows = zip(self.one, self.few, self.many)
        threads = f"for 1/few/many rows {'/'.join(map(str, n_threads))} threads"
        if self.layout.width == ALL:
            return f"uncut; {threads}"
        order = " by column" if self.layout.by_column else ""
        at_a_time = "/".join("all" if n == ALL else str(n) for n in n_rows)
        return f"tiles of {self.layout.width}{order}; {threads}, {at_a_time} at a time"


# NumPy's own product, on one thread, whose bits for a row do not depend on the other rows
ROW_BY_ROW = Kernel.on(1, Layout(ALL), (1, 1, 1))


def group_size(n_rows, most):
    """Rows in a group, `most` or fewer: as few groups as possible, all of the same size."""
    if n_rows <= 1:
        return most
    size = ceil_div(n_rows, ceil_div(n_rows, most))
    return ROWS_AT_ONCE if size == 3 else size


def tiles_ahead(n_in, width):
    """How many tiles more than the other threads the caller's thread multiplies, for few rows."""
    return HEAD_START // (n_in * width)


def count_parts(n_in, n_out, kernel):
    """The number of parts, a power of 2, into which columns of n_in numbers are cut: enough that a
    tile is small, and that a thread that multiplies one row has over GIL_RELEASE_SIZE results.
    """
    width, (n_threads, n_rows) = min(kernel.layout.width, n_out), kernel.one
    n_shared = n_out // width - tiles_ahead(n_in, width)
    is_shared = n_threads > 1 and n_shared > 1
    fewest = max(1, n_shared // n_threads) * width * n_rows  # results of a thread
    n_parts = 1
    while n_in % (2 * n_parts) == 0 and (
        n_in // n_parts * width > TILE or (is_shared and fewest * n_parts <= GIL_RELEASE_SIZE)
    ):
        n_parts *= 2
    return n_parts


def contiguous_allocator(n, dtype):
    """Allocate n numbers, and return a function empty(shape, dtype) that cuts arrays from them, one
    after the other. The first array begins at a cache line.

    The system backs one large array by huge pages. Of arrays as small as weights, it leaves a
    sixth and more without: reading that part is slower, because addresses have to be looked up.
    """
    free = np.empty(n + LINE, dtype)
    free = free[-free.ctypes.data % LINE // free.itemsize :]

    def empty(shape, dtype):
        nonlocal free
        array, free = np.split(free, [math.prod(shape)])
        return array.reshape(shape)

    return empty


def padded_size(n_in, n_out, layout):
    """How many numbers the tiles of a weight [n_in, n_out] hold, with the zeros that fill them."""
    width = min(layout.width, n_out)
    return n_in * ceil_div(n_out, width) * width


def view_as_tiles(memory, n_in, n_parts, layout):
    """A view of memory [n_in * n_tiles * width] as tiles [n_parts, n_tiles, depth, width]."""
    n_tiles, depth = len(memory) // (n_in * layout.width), n_in // n_parts
    if layout.by_column:
        return memory.reshape(n_parts, n_tiles, layout.width, depth).swapaxes(2, 3)
    return memory.reshape(n_parts, n_tiles, depth, layout.width)


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
        """Copy a weight [n_in, n_out] into Tiles, in memory that empty(shape, dtype) returns."""
        n_in, n_out = weight.shape
        width, n_parts = min(kernel.layout.width, n_out), count_parts(n_in, n_out, kernel)
        n_whole, n_left = divmod(n_out, width)
        memory = empty((padded_size(n_in, n_out, kernel.layout),), weight.dtype)
        tiles = view_as_tiles(memory, n_in, n_parts, replace(kernel.layout, width=width))
        # copy each tile into one piece: a strided view would be read at half the speed
        parts = weight.reshape(n_parts, n_in // n_parts, n_out)
        columns = parts[:, :, : n_whole * width]  # [n_parts, depth, n_whole * width]
        columns = columns.reshape(*columns.shape[:2], n_whole, width)
        tiles[:, :n_whole] = columns.swapaxes(1, 2)  # [n_parts, n_whole, depth, width]
        if n_left:
            tiles[:, n_whole, :, :n_left] = parts[:, :, -n_left:]  # [n_parts, depth, n_left]
            tiles[:, n_whole, :, n_left:] = 0
        return cls(tiles, n_out, kernel)

    @property
    def T(self):
        """The transpose, to look rows up in: the embedding, where self is the output head."""
        return Columns(self)

    def __rmatmul__(self, x):  # [n_rows, n_in] -> [n_rows, n_out]
        n_rows, (n_in, n_out) = len(x), self.shape
        n_threads, most = self.kernel.schedule(n_rows)
        group = group_size(n_rows, most)
        x = padded(x, group)  # [n_groups * group, n_in]
        n_parts, n_tiles, _, width = self.tiles.shape
        y = np.empty((len(x), n_tiles * width), x.dtype)
        whole = n_parts == 1 and len(x) == group
        multiply = self.multiply_whole(x, y) if whole else self.multiply_in_groups(x, y, group)
        ahead = tiles_ahead(n_in, width) if n_rows < MANY else 0
        THREADS.run_on_threads(multiply, n_tiles, n_threads, ahead)
        return y[:n_rows, :n_out]

    def multiply_whole(self, x, y):  # [n_rows, n_in], [n_rows, n_tiles * width]
        """A function multiply(first, end) that writes to y the products of all rows and the tiles
        first to end - 1. For tiles that hold whole columns.
        """
        tiles = self.tiles[0]  # [n_tiles, n_in, width]
        n_tiles, _, width = tiles.shape
        products = y.reshape(len(x), n_tiles, width).swapaxes(0, 1)  # [n_tiles, n_rows, width]
        return lambda first, end: np.matmul(x, tiles[first:end], products[first:end])

    def multiply_in_groups(self, x, y, group):  # as multiply_whole; n_rows = n_groups * group
        """As multiply_whole, but multiplies a tile by one group of rows at a time, and adds up the
        products of the parts of a column.
        """
        n_parts, n_tiles, depth, width = self.tiles.shape
        n_groups = len(x) // group
        rows = x.reshape(n_groups, group, n_parts, depth)
        rows = rows.transpose(2, 0, 1, 3)  # [n_parts, n_groups, group, depth]
        rows = rows[:, None]  # [n_parts, 1, n_groups, group, depth]
        tiles = self.tiles[:, :, None]  # [n_parts, n_tiles, 1, depth, width]
        sums = y.reshape(n_groups, group, n_tiles, width)
        sums = sums.transpose(2, 0, 1, 3)  # [n_tiles, n_groups, group, width]
        n_together = BUFFER // (n_parts * (len(x) or 1) * width) or 1  # tiles

        def multiply(first, end):
            for a in range(first, end, n_together):
                b = min(a + n_together, end)
                # a tile meets all groups before the next is read, which the order of y would not do
                products = np.matmul(rows, tiles[:, a:b])
                # [n_parts, b - a, n_groups, group, width] -> [b - a, n_groups, group, width]
                products.sum(axis=0, out=sums[a:b])

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
            x = padded(x, ROWS_AT_ONCE)
        n_threads, _ = self.kernel.schedule(n_rows)
        # x @ W = x[:, :h] @ W[:h] + x[:, h:] @ W[h:], the same sum on however many threads
        parts = ranges(n_in, n_threads, HEAD_START // n_out if is_few else 0)
        products = [None] * n_threads

        def multiply(a, b):
            for i in range(a, b):
                first, end = parts[i]
                products[i] = x[:, first:end] @ self.weight[first:end]

        THREADS.run_on_threads(multiply, n_threads, n_threads)
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
