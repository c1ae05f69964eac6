"""The matrix product behind `x @ w`: every kernel gives the plain product."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import NUMPY, TINY

import utils
from backends import threads, tiles
from backends.tiles import Kernel, Layout, Schedule
from decoding.batching import read_together
from gpt2 import Config


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.sampled_from([1, 7, 12, 40, 70]), st.integers(1, 300)),
    n_rows=st.sampled_from([0, 1, 2, 5, 16, 17, 70]),
    width=st.sampled_from([1, 7, 64, 128]),
    n_threads=st.integers(1, 4),
    together=st.sampled_from([1, 2, 3, 8, 9, tiles.ALL]),
    tile=st.sampled_from([64, 1000, 100_000]),
    buffer=st.sampled_from([1, 5000, 1 << 18]),
    transposed=st.booleans(),
    by_column=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_every_kernel_gives_the_plain_product(
    shape, n_rows, width, n_threads, together, tile, buffer, transposed, by_column, dtype
):
    rng = np.random.default_rng(0)
    w = rng.standard_normal(shape).astype(dtype, order="F" if transposed else "C")
    x = rng.standard_normal((n_rows, shape[0])).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "TILE", tile)
        patch.setattr(tiles, "BUFFER", buffer)
        at_a_time, layout = (min(together, 2), together, together), Layout(width, by_column)
        cut = tiles.Tiles.cut(w, Kernel.on(n_threads, layout, at_a_time))
        y = x @ cut
    assert y.dtype == dtype and y.shape == (n_rows, shape[1])
    assert np.allclose(y, x @ w, atol=1e3 * np.finfo(dtype).eps)
    ids = rng.integers(0, w.shape[1], n_rows)
    found = cut.T[ids]
    assert found.dtype == dtype and np.array_equal(found, w.T[ids])


FOUR = threads.Threads(4)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.sampled_from([1, 7, 40, 300]), st.sampled_from([1, 30, 700])),
    n_rows=st.sampled_from([0, 1, 2, 5, 16, 70]),
    n_threads=st.integers(1, 4),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_an_uncut_weight_gives_the_plain_product(shape, n_rows, n_threads, dtype):
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal(shape).astype(dtype), rng.standard_normal((n_rows, shape[0]))
    x = x.astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        uncut = tiles.Uncut(w, Kernel.on(n_threads, Layout(tiles.ALL)))
        patch.setattr(tiles, "THREADS", FOUR)
        y = x @ uncut
        # the bits do not depend on how many threads there are
        patch.setattr(tiles, "THREADS", threads.Threads(1))
        assert np.array_equal(y, x @ uncut)
    assert y.dtype == dtype and y.shape == (n_rows, shape[1])
    assert np.allclose(y, x @ w, atol=1e3 * np.finfo(dtype).eps)


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("width", [tiles.ALL, 64, 100, 7])
def test_the_output_head_is_the_embedding_in_memory(monkeypatch, width, by_column):
    kernel = Kernel.on(1, Layout(width, by_column))
    config = dataclasses.replace(TINY, n_vocab=150)
    expected = utils.random_model(config, NUMPY).params["wte"]
    monkeypatch.setattr(utils, "parse_kernel", lambda name: kernel)
    params = utils.random_model(config, utils.get_backend()).params
    head, wte = params["head"], params["wte"]
    ids = np.array([0, 149, 6, 7, 63, 64, 0, 99, 100])
    assert np.array_equal(wte[ids], expected[ids]) and wte.dtype == np.float32
    assert wte.shape == expected.shape
    if width == tiles.ALL:
        assert np.shares_memory(head, wte)
        return
    assert wte.weight is head
    # what is multiplied lies in contiguous tiles, in the order that is printed
    assert (head.tiles.swapaxes(2, 3) if by_column else head.tiles).flags.c_contiguous
    assert ("by column" in str(head.kernel)) == by_column


@pytest.mark.parametrize("n_in, n_out", [(512, 512), (768, 768), (3072, 768)])
@pytest.mark.parametrize("together", [1, 2])
def test_threads_that_share_one_row_can_run_at_once(monkeypatch, n_in, n_out, together):
    """NumPy lets another thread run only during products with more than 500 results."""
    kernel = Kernel.on(2, Layout(64), (together, 9, 8))
    cut = tiles.Tiles.cut(np.ones((n_in, n_out), np.float32), kernel)
    results, matmul = [], np.matmul

    def counted(*arrays):
        results.append(matmul(*arrays))
        return results[-1]

    monkeypatch.setattr(np, "matmul", counted)
    monkeypatch.setattr(tiles, "THREADS", threads.Threads(2))
    np.ones((1, n_in), np.float32) @ cut
    assert len(results) == 2 and all(one.size > tiles.GIL_RELEASE_SIZE for one in results)


@pytest.fixture
def shared(monkeypatch):
    """(n, n_threads, ahead) of each call of run_on_threads, on a machine that seems to have 9."""
    calls = []

    def run_on_threads(function, n, n_threads, ahead=0):
        calls.append((n, n_threads, ahead))
        function(0, n)

    monkeypatch.setattr(threads, "N_THREADS", 9)
    monkeypatch.setattr(threads.THREADS, "run_on_threads", run_on_threads)
    return calls


ONE_TWO_THREE = [Schedule(n_threads, 1) for n_threads in (1, 2, 3)]


def test_which_threads_multiply_and_which_is_ahead(shared):
    cut = tiles.Tiles.cut(np.ones((8, 64), np.float32), Kernel(Layout(16), *ONE_TWO_THREE))
    for n_rows in (1, 2, tiles.MANY - 1, tiles.MANY):
        np.ones((n_rows, 8), np.float32) @ cut
    ahead = tiles.HEAD_START // (8 * 16)
    assert shared == [(4, 1, ahead), (4, 2, ahead), (4, 2, ahead), (4, 3, 0)]
    shared.clear()
    uncut = tiles.Uncut(np.ones((8, 64), np.float32), Kernel(Layout(tiles.ALL), *ONE_TWO_THREE))
    for n_rows in (1, tiles.MANY - 1, tiles.MANY):
        np.ones((n_rows, 8), np.float32) @ uncut
    assert shared == [(1, 1, 0), (2, 2, 0), (3, 3, 0)]


def test_heads_are_shared_where_attention_is_long_and_threads_are_wanted(shared):
    n_ids = 1 + math.isqrt(threads.WORTH_SHARING // 2)  # of each of two heads
    for kernels, wanted in (("plain", False), ("64x1", False), ("64x2", True), ("auto", True)):
        model = utils.random_model(
            Config(50, 3 * n_ids, 16, 2, 1), utils.get_backend("numpy", kernels)
        )
        cache = model.new_cache()
        for n_new, is_long in ((n_ids, True), (1, False), (n_ids, True)):
            shared.clear()
            model.read([1] * (cache.length + n_new), cache, n_last=n_new)
            assert shared.count((2, 9, 0)) == (wanted and is_long)
        shared.clear()
        # many rows, of short texts
        read_together(model, [[1] * 8] * 9, [model.new_cache() for _ in range(9)], [1] * 9)
        assert shared.count((2, 9, 0)) == 0


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([1, 16, 64]))),
    st.sampled_from([np.float32, np.float64]),
)
def test_arrays_of_one_memory_lie_one_after_the_other(shapes, dtype):
    empty = tiles.contiguous_allocator(sum(a * b for a, b in shapes), dtype)
    arrays = [empty(shape, dtype) for shape in shapes]
    for i, array in enumerate(arrays):
        array[...] = i
    for i, (array, shape) in enumerate(zip(arrays, shapes)):
        assert array.shape == shape and array.dtype == dtype and (array == i).all()
    for before, after in zip(arrays, arrays[1:]):
        assert before.ctypes.data + before.nbytes == after.ctypes.data
    assert not arrays or arrays[0].ctypes.data % tiles.LINE == 0
