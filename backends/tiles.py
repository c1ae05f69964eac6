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

How many rows at a time are multiplied by a tile depends on BLAS. Its AVX-512 kernels have a path
without packing for small products: several rows. Others pack whatever the size: one row, so that
the first fetches the tile from memory and the next find it in the cache. Many rows pay for packing.
"""

import math
import threading
from typing import Any, Callable

import numpy as np

from backends.threads import N_THREADS, THREADS, ceil_div

MANY = 12  # rows: this many and more are "many rows", 2 to 11 are "a few"
# numbers of a weight, at least, for each thread that multiplies by it: fewer are read in less time
# than another thread takes to begin. One thread computes at least SHARE / depth results of a row,
# with both tiles of backend.py 512 in a product: for fewer than 501, NumPy keeps the GIL
SHARE = 1 << 18
BUFFER = 1 << 18  # products of parts of columns that wait to be added up, in numbers
LINE = 64  # bytes of a cache line
SLAB = 32 << 20  # bytes


def one_row(n_rows: int) -> int:
    """How many of n_rows rows to multiply at a time, for BLAS that packs whatever the size."""
    return 1 if n_rows < MANY else n_rows


def several_rows(n_rows: int) -> int:
    """How many of n_rows rows to multiply at a time, for BLAS that does not pack small products:
    nearly equal groups that are too small to be packed: 9 rows at most, 8 of MANY rows or more. One
    row counts as two, three as four, which is faster: `pad_rows` adds rows of zeros.

    >>> [several_rows(n) for n in (1, 2, 3, 5, 9, 10, 12, 16)]
    [2, 2, 4, 5, 9, 5, 6, 8]
    """
    most = 9 if n_rows < MANY else 8
    size = ceil_div(n_rows, max(1, ceil_div(n_rows, most)))
    return size + 1 if size in (0, 1, 3) else size  # 0: of no rows


class Slabs:
    """Memory for arrays, which are cut, one after the other, from slabs of SLAB bytes or more. The
    system backs these by huge pages: alone, a weight would be read 3 to 5 % slower, as more
    addresses are looked up.
    """

    def __init__(self) -> None:
        self.free = np.empty(0, np.uint8)  # what is left of the newest slab
        self.lock = threading.Lock()

    def empty(self, shape: tuple, dtype: Any) -> np.ndarray:
        """An array of this shape and dtype, its numbers not set, which begins at a cache line."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        with self.lock:
            if n_bytes > len(self.free):
                slab = np.empty(max(n_bytes, SLAB) + LINE, np.uint8)
                n_before = -slab.ctypes.data % LINE  # bytes before its first whole line
                self.free = slab[n_before:]
            array = self.free[:n_bytes]
            n_lines = ceil_div(n_bytes, LINE)
            self.free = self.free[n_lines * LINE :]
        return array.view(dtype).reshape(shape)


SLABS = Slabs()


def pad_rows(x, multiple: int):  # [n_rows, n] -> [n_padded, n]
    """Add rows of zeros below x, until their number is a multiple of `multiple`."""
    n_missing = -len(x) % multiple
    if n_missing == 0:
        return x
    return np.concatenate([x, np.zeros((n_missing, x.shape[1]), x.dtype)])


class Tiles:
    """A weight matrix [n_in, n_out], copied into tiles [n_parts, n_tiles, depth, width]: its rows
    are halved until depth is at most max_depth, or odd. n_tiles is n_out / width rounded up, and
    the last tile of each part is filled up with columns of zeros.

    `x @ tiles` is the matrix product.  [n_rows, n_in] -> [n_rows, n_out]
    """

    __array_ufunc__ = None  # NumPy leaves `x @ self` to __rmatmul__

    def __init__(self, weight: np.ndarray, width: int, max_depth: int, rows_at_a_time: Callable):
        """weight: it is copied. width, max_depth: of a tile. rows_at_a_time(n_rows): how many of
        n_rows rows are multiplied by a tile at a time.
        """
        self.shape, self.rows_at_a_time = weight.shape, rows_at_a_time
        n_in, n_out = weight.shape
        n_parts = 1  # doubled until depth is at most max_depth, or odd
        while n_in // n_parts > max_depth and n_in % (2 * n_parts) == 0:
            n_parts *= 2
        depth, n_tiles = n_in // n_parts, ceil_div(n_out, width)
        parts = weight.reshape(n_parts, depth, n_out)
        self.tiles = SLABS.empty((n_parts, n_tiles, depth, width), weight.dtype)
        for i in range(n_tiles):
            columns = parts[:, :, i * width : (i + 1) * width]
            n_columns = columns.shape[2]  # fewer than width, maybe, in the last tile
            self.tiles[:, i, :, :n_columns] = columns
            self.tiles[:, i, :, n_columns:] = 0

    @property
    def T(self) -> "Columns":
        """The transpose, a view: `tiles.T[ids]` looks up columns as rows. If self is the output
        head [n_embd, n_vocab], its transpose is the token embedding.
        """
        return Columns(self)

    def __rmatmul__(self, x):  # [n_rows, n_in] -> [n_rows, n_out]
        """The matrix product x @ weight, on several threads if it is large."""
        n_rows, (n_in, n_out) = len(x), self.shape
        per_group = self.rows_at_a_time(n_rows)
        x = pad_rows(x, per_group)  # [n_groups * per_group, n_in]
        n_parts, n_tiles, _, width = self.tiles.shape
        y = np.empty((len(x), n_tiles * width), x.dtype)
        if n_parts == 1 and len(x) == per_group:
            multiply = self.multiplier(x, y)
        else:
            multiply = self.multiplier_in_groups(x, y, per_group)
        # up to 15 rows, reading the weight takes the time, as for one row; then, computing does
        times_one_row = max(1, n_rows // 8)
        n_threads = n_in * n_out * times_one_row // SHARE
        THREADS.run_on_threads(multiply, n_tiles, min(max(1, n_threads), N_THREADS))
        return y[:n_rows, :n_out]

    def multiplier(self, x, y) -> Callable:  # [n_rows, n_in], [n_rows, n_tiles * width]
        """Return a function multiply(first, end), which multiplies x by the tiles first to end - 1
        and writes the products into these tiles' columns of y. Only for tiles with n_parts = 1.
        """
        tiles = self.tiles[0]  # [n_tiles, n_in, width]
        n_tiles, _, width = tiles.shape
        products = y.reshape(len(x), n_tiles, width).swapaxes(0, 1)  # [n_tiles, n_rows, width]

        def multiply(first: int, end: int) -> None:
            # [n_rows, n_in] @ [end - first, n_in, width] -> [end - first, n_rows, width]
            np.matmul(x, tiles[first:end], products[first:end])

        return multiply

    def multiplier_in_groups(
        self, x, y, per_group: int
    ) -> Callable:  # [n_rows, n_in], [n_rows, n_tiles * width]
        """Return a function multiply(first, end), which multiplies x by the tiles first to end - 1
        of each part, per_group rows at a time, adds up the products over the parts, and writes the
        sums into these tiles' columns of y. n_rows has to be a multiple of per_group.
        """
        n_parts, n_tiles, depth, width = self.tiles.shape
        n_groups = len(x) // per_group
        groups = x.reshape(n_groups, per_group, n_parts, depth)  # n_in = n_parts * depth
        # the same rows for all tiles: [n_parts, 1, n_groups, per_group, depth]
        rows = groups.transpose(2, 0, 1, 3)[:, None]
        # the same tiles for all groups: [n_parts, n_tiles, 1, depth, width]
        tiles = self.tiles[:, :, None]
        sums_of_groups = y.reshape(n_groups, per_group, n_tiles, width)  # a view of y
        sums = sums_of_groups.transpose(2, 0, 1, 3)  # [n_tiles, n_groups, per_group, width]
        numbers_per_tile = n_parts * len(x) * width  # its products, before they are added up
        n_together = max(1, BUFFER // max(1, numbers_per_tile))  # tiles

        def multiply(first: int, end: int) -> None:
            for begin in range(first, end, n_together):
                stop = min(begin + n_together, end)
                # into a new array, where tiles come first in memory. In y, groups do: NumPy follows
                # the order of the output, and would read all tiles again for each group
                # -> [n_parts, stop - begin, n_groups, per_group, width]
                products = np.matmul(rows, tiles[:, begin:stop])
                products.sum(axis=0, out=sums[begin:stop])  # over the parts

        return multiply


class Columns:
    """The transpose of Tiles: `columns[ids]` returns columns of the weight as rows.

    GPT-2's embedding is one array in two roles: the output head multiplies by it, and tokens look
    up their rows in it. It lies in tiles, because the product reads all of it.
    """

    def __init__(self, weight: Tiles):
        self.weight, self.shape, self.dtype = weight, weight.shape[::-1], weight.tiles.dtype

    def __getitem__(self, ids):  # [n] -> [n, n_in]
        """A copy of the columns `ids`, as rows."""
        tiles = self.weight.tiles  # [n_parts, n_tiles, depth, width]
        n_in, width = self.shape[1], tiles.shape[3]
        # two arrays of indices with a slice between: the axis of ids comes first
        columns = tiles[:, ids // width, :, ids % width]  # [n, n_parts, depth]
        return columns.reshape(-1, n_in)
