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
MANY = 12  # rows: this many and more are "many rows", 2 to 11 are "a few"
ALL = 1 << 62  # more than any number of rows or columns; as a width: not cut
LINE = 64  # bytes of a cache line
BUFFER = 1 << 18  # products of parts of columns that wait to be added up, in numbers
ROWS_AT_ONCE = 4  # rows: BLAS multiplies this many faster than three, and with AVX2 faster than two
# NumPy releases the GIL only for a product whose result has more numbers than this:
# during a smaller one, no other thread can begin
GIL_RELEASE_SIZE = 500
HEAD_START = 100_000  # numbers that a thread multiplies by a few rows before another begins


class Weight(NamedTuple):
    """The shape of a weight, not its numbers. transposed: it lies in memory as [n_out, n_in]."""

    n_in: int
    n_out: int
    transposed: bool = False

    @classmethod
    def of(cls, n_in, n_out, transposed=False):
        """The Weight of this shape. One row or one column always counts as transposed, because it
        lies in memory the same in both ways, and so is one key of a dict.
        """
        return cls(n_in, n_out, transposed or 1 in (n_in, n_out))

    @property
    def size(self):
        """How many numbers the weight has."""
        return self.n_in * self.n_out


def matrices_of(config):
    """The shapes [(n_in, n_out)] of all matrices in the blocks of a model with this gpt2.Config."""
    shapes = config.shapes()
    return [shape for name, shape in shapes.items() if len(shape) == 2 and name.startswith("h.")]


def weights_of(config):
    """[Weight] of a model with this gpt2.Config: each shape once, the output head last."""
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
    def on(cls, n_threads, layout, rows_at_a_time=(1, 9, 8)):
        """The Kernel of a Layout on n_threads. rows_at_a_time: for one row, for a few, for many"""
        one, few, many = rows_at_a_time
        schedules = Schedule(n_threads, one), Schedule(n_threads, few), Schedule(n_threads, many)
        return cls(layout, *schedules)

    def schedule(self, n_rows):
        """The Schedule for a product of n_rows rows."""
        if n_rows < 2:
            return self.one
        return self.few if n_rows < MANY else self.many

    def __str__(self):
        schedules = self.one, self.few, self.many
        n_threads = "/".join(str(schedule.n_threads) for schedule in schedules)
        threads = f"{n_threads} threads"
        if self.layout.width == ALL:
            return f"uncut; {threads}"
        order = " by column" if self.layout.by_column else ""
        n_rows = [schedule.n_rows for schedule in schedules]
        at_a_time = "/".join("all" if n == ALL else str(n) for n in n_rows)
        return f"tiles of {self.layout.width}{order}; {threads} on {at_a_time} rows"


EXACT_ROWS = (1, 1, 1)  # rows at a time: the bits of a row do not depend on the other rows
ROW_BY_ROW = Kernel.on(1, Layout(ALL), EXACT_ROWS)  # so, and on one thread, uncut


def rows_per_group(n_rows, max_size):
    """How many of n_rows rows to multiply at a time: max_size for one row, else the size of the
    fewest equal groups of at most max_size; but four, faster even with a row of zeros, for three.

    >>> rows_per_group(10, 8), rows_per_group(12, 8), rows_per_group(3, 9)
    (5, 6, 4)
    """
    if n_rows <= 1:
        return max_size  # one row may be padded to two, which can be faster: see Schedule
    n_groups = ceil_div(n_rows, max_size)
    size = ceil_div(n_rows, n_groups)
    return ROWS_AT_ONCE if size == 3 else size


def tiles_ahead(n_in, width):
    """How many tiles [n_in, width] the calling thread multiplies before another thread begins."""
    return HEAD_START // (n_in * width)


def count_parts(n_in, n_out, kernel):
    """Into how many parts, a power of 2, to cut each column of n_in numbers: so many that a tile
    has at most TILE numbers, and that each thread of the Kernel computes more than GIL_RELEASE_SIZE
    results in a product of one row. Fewer if n_in cannot be halved so often.
    """
    width, for_one_row = min(kernel.layout.width, n_out), kernel.one
    n_shared = n_out // width - tiles_ahead(n_in, width)  # tiles left when other threads begin
    is_shared = for_one_row.n_threads > 1 and n_shared > 1
    # results of a thread, from each part of the columns; the row may be padded to n_rows rows
    n_results = max(1, n_shared // for_one_row.n_threads) * width * for_one_row.n_rows
    n_parts = 1
    while n_in % (2 * n_parts) == 0:
        is_large = n_in // n_parts * width > TILE
        # for few results NumPy keeps the GIL, and the threads would wait for each other
        holds_gil = is_shared and n_parts * n_results <= GIL_RELEASE_SIZE
        if not (is_large or holds_gil):
            break
        n_parts *= 2
    return n_parts


def contiguous_allocator(n, dtype):
    """Allocate one array of n numbers, and return a function empty(shape, dtype) that cuts arrays
    from it, one after the other, of n numbers in all. The first array begins at a cache line.

    The system backs one large array by huge pages. Of arrays as small as weights, a sixth or more
    of the memory has none: reading it is slower, because addresses have to be looked up.
    """
    free = np.empty(n + LINE, dtype)  # LINE numbers are at least LINE bytes
    n_bytes_to_line = -free.ctypes.data % LINE
    free = free[n_bytes_to_line // free.itemsize :]

    def empty(shape, dtype):  # dtype: as above, so that np.empty can stand in for this function
        nonlocal free
        size = math.prod(shape)
        array, free = free[:size], free[size:]
        return array.reshape(shape)

    return empty


def padded_size(n_in, n_out, layout):
    """How many numbers a weight [n_in, n_out] takes in tiles of this Layout, filled with zeros."""
    width = min(layout.width, n_out)
    return n_in * ceil_div(n_out, width) * width


def view_as_tiles(memory, n_in, n_parts, layout):
    """View memory [n_in * n_tiles * width] as tiles [n_parts, n_tiles, depth, width], where depth
    is n_in / n_parts. layout: a Layout with the width of the tiles, each stored by row or column
    """
    n_tiles = len(memory) // (n_in * layout.width)
    depth = n_in // n_parts
    if layout.by_column:
        return memory.reshape(n_parts, n_tiles, layout.width, depth).swapaxes(2, 3)
    return memory.reshape(n_parts, n_tiles, depth, layout.width)


def pad_rows(x, multiple):  # [n_rows, n] -> [n_padded, n]
    """Add rows of zeros below x, until their number is a multiple of `multiple`."""
    n_missing = -len(x) % multiple
    if n_missing == 0:
        return x
    return np.concatenate([x, np.zeros((n_missing, x.shape[1]), x.dtype)])


class Tiles:
    """A weight matrix [n_in, n_out] as tiles [n_parts, n_tiles, depth, width]. The last tile of
    each part is filled up with columns of zeros.

    `x @ tiles` is the matrix product.  [n_rows, n_in] -> [n_rows, n_out]
    """

    __array_ufunc__ = None  # NumPy leaves `x @ self` to __rmatmul__

    def __init__(self, tiles, n_out, kernel):
        n_parts, _, depth, _ = tiles.shape
        self.tiles, self.shape, self.kernel = tiles, (n_parts * depth, n_out), kernel

    @classmethod
    def cut(cls, weight, kernel, empty=np.empty):
        """Copy an array [n_in, n_out] into Tiles. empty(shape, dtype) -> array allocates memory."""
        n_in, n_out = weight.shape
        width = min(kernel.layout.width, n_out)
        n_parts = count_parts(n_in, n_out, kernel)  # of each column; it divides n_in
        n_whole, n_left = divmod(n_out, width)  # tiles that are full, columns in the last tile
        memory = empty((padded_size(n_in, n_out, kernel.layout),), weight.dtype)
        tiles = view_as_tiles(memory, n_in, n_parts, replace(kernel.layout, width=width))
        parts = weight.reshape(n_parts, n_in // n_parts, n_out)  # [n_parts, depth, n_out]
        columns = parts[:, :, : n_whole * width]  # [n_parts, depth, n_whole * width]
        columns = columns.reshape(n_parts, n_in // n_parts, n_whole, width)
        # copy each tile into one piece: a strided view would be read at half the speed
        tiles[:, :n_whole] = columns.swapaxes(1, 2)  # [n_parts, n_whole, depth, width]
        if n_left:
            tiles[:, n_whole, :, :n_left] = parts[:, :, -n_left:]  # [n_parts, depth, n_left]
            tiles[:, n_whole, :, n_left:] = 0
        return cls(tiles, n_out, kernel)

    @property
    def T(self):
        """The transpose, a view: `tiles.T[ids]` looks up columns as rows. If self is the output
        head [n_embd, n_vocab], its transpose is the token embedding.
        """
        return Columns(self)

    def __rmatmul__(self, x):  # [n_rows, n_in] -> [n_rows, n_out]
        n_rows, (n_in, n_out) = len(x), self.shape
        n_threads, rows_at_a_time = self.kernel.schedule(n_rows)
        per_group = rows_per_group(n_rows, rows_at_a_time)
        x = pad_rows(x, per_group)  # [n_groups * per_group, n_in]
        n_parts, n_tiles, _, width = self.tiles.shape
        y = np.empty((len(x), n_tiles * width), x.dtype)
        if n_parts == 1 and len(x) == per_group:
            multiply = self.multiplier(x, y)
        else:
            multiply = self.multiplier_in_groups(x, y, per_group)
        # in tiles: for many rows a tile takes long, compared to waking a thread
        ahead = tiles_ahead(n_in, width) if n_rows < MANY else 0
        THREADS.run_on_threads(multiply, n_tiles, n_threads, ahead)
        return y[:n_rows, :n_out]

    def multiplier(self, x, y):  # [n_rows, n_in], [n_rows, n_tiles * width]
        """Return a function multiply(first, end), which multiplies x by the tiles first to end - 1
        and writes the products into these tiles' columns of y. Needs tiles that hold whole columns.
        """
        tiles = self.tiles[0]  # [n_tiles, n_in, width]
        n_tiles, _, width = tiles.shape
        products = y.reshape(len(x), n_tiles, width).swapaxes(0, 1)  # [n_tiles, n_rows, width]

        def multiply(first, end):
            # [n_rows, n_in] @ [end - first, n_in, width] -> [end - first, n_rows, width]
            np.matmul(x, tiles[first:end], products[first:end])

        return multiply

    def multiplier_in_groups(self, x, y, per_group):  # [n_rows, n_in], [n_rows, n_tiles * width]
        """Return a function multiply(first, end), which multiplies x by the tiles first to end - 1
        of each part, per_group rows at a time, adds up the products over the parts, and writes the
        sums into these tiles' columns of y. n_rows has to be a multiple of per_group.
        """
        n_parts, n_tiles, depth, width = self.tiles.shape
        n_groups = len(x) // per_group
        rows = x.reshape(n_groups, per_group, n_parts, depth)  # n_in = n_parts * depth
        rows = rows.transpose(2, 0, 1, 3)  # [n_parts, n_groups, per_group, depth]
        rows = rows[:, None]  # [n_parts, 1, n_groups, per_group, depth]
        tiles = self.tiles[:, :, None]  # [n_parts, n_tiles, 1, depth, width]
        sums = y.reshape(n_groups, per_group, n_tiles, width)
        sums = sums.transpose(2, 0, 1, 3)  # [n_tiles, n_groups, per_group, width], a view of y
        tile_products = n_parts * len(x) * width  # in numbers
        n_together = max(1, BUFFER // max(1, tile_products))  # tiles

        def multiply(first, end):
            for begin in range(first, end, n_together):
                stop = min(begin + n_together, end)
                # this order multiplies a tile by all groups before it reads the next tile
                # [n_parts, 1, n_groups, per_group, depth]
                # @ [n_parts, stop - begin, 1, depth, width]
                # -> [n_parts, stop - begin, n_groups, per_group, width]
                products = np.matmul(rows, tiles[:, begin:stop])
                products.sum(axis=0, out=sums[begin:stop])  # over the parts

        return multiply


class Uncut:
    """A weight matrix in one piece: each thread multiplies some of its rows, and the products are
    added up. `x @ uncut` is the matrix product.  [n_rows, n_in] -> [n_rows, n_out]
    """

    __array_ufunc__ = None

    def __init__(self, weight, kernel):
        self.weight, self.kernel, self.shape = weight, kernel, weight.shape

    def __rmatmul__(self, x):  # [n_rows, n_in] -> [n_rows, n_out]
        n_rows, (n_in, n_out) = len(x), self.shape
        if 1 < n_rows < MANY:
            x = pad_rows(x, ROWS_AT_ONCE)  # four rows at once are faster than two
        ahead = HEAD_START // n_out if n_rows < MANY else 0  # more rows of W for this thread
        n_threads = self.kernel.schedule(n_rows).n_threads
        # x @ W = x[:, :h] @ W[:h] + x[:, h:] @ W[h:]: one product for each of n_threads parts, even
        # if fewer threads are free, so that the bits of the sum do not depend on that
        parts = ranges(n_in, n_threads, ahead)
        products = [None] * n_threads

        def multiply(first_part, end_part):
            for i in range(first_part, end_part):
                start, end = parts[i]
                products[i] = x[:, start:end] @ self.weight[start:end]

        THREADS.run_on_threads(multiply, n_threads, n_threads)
        y = products[0]
        for product in products[1:]:
            y += product
        return y[:n_rows]


class Columns:
    """The transpose of Tiles: `columns[ids]` returns columns of the weight as rows.

    GPT-2's embedding is one array in two roles: the output head multiplies by it, and tokens look
    up their rows in it. It lies in tiles, because the product reads all of it.
    """

    def __init__(self, weight):
        self.weight, self.shape, self.dtype = weight, weight.shape[::-1], weight.tiles.dtype

    def __getitem__(self, ids):  # [n] -> [n, n_in]
        tiles = self.weight.tiles
        n_in, width = self.shape[1], tiles.shape[3]
        # two arrays of indices with a slice between: the axis of ids comes first
        columns = tiles[:, ids // width, :, ids % width]  # [n, n_parts, depth]
        return columns.reshape(-1, n_in)
