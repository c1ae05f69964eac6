"""The matrix product behind `x @ w`: tiles give the plain product, with the same bits each time."""

import dataclasses
import math
import os
import platform

import numpy as np
import pytest
from command_line import python
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import NUMPY

import utils
from backends import kernels, threads, tiles
from backends.tiles import Tiles, one_row, several_rows
from gpt2 import Config

# as kernels.lay_out cuts weights
RULES = {"AVX-512": (64, 1024, several_rows), "others": (32, 512, one_row)}


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.sampled_from([1, 7, 12, 40, 70]), st.integers(1, 300)),
    n_rows=st.sampled_from([0, 1, 2, 3, 5, 10, 16, 17, 70]),
    width=st.sampled_from([1, 7, 64]),
    max_depth=st.sampled_from([1, 12, 512]),
    rows_at_a_time=st.sampled_from([one_row, several_rows]),
    share=st.sampled_from([1, 5000, 1 << 18]),
    buffer=st.sampled_from([1, 5000, 1 << 18]),
    transposed=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_every_tile_gives_the_plain_product(
    shape, n_rows, width, max_depth, rows_at_a_time, share, buffer, transposed, dtype
):
    rng = np.random.default_rng(0)
    w = rng.standard_normal(shape).astype(dtype, order="F" if transposed else "C")
    x = rng.standard_normal((n_rows, shape[0])).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "BUFFER", buffer)
        patch.setattr(tiles, "SHARE", share)
        cut = Tiles(w, width, max_depth, rows_at_a_time)
        y = x @ cut
    assert y.dtype == dtype and y.shape == (n_rows, shape[1])
    assert np.allclose(y, x @ w, atol=1e3 * np.finfo(dtype).eps)
    ids = rng.integers(0, w.shape[1], n_rows)
    found = cut.T[ids]
    assert found.dtype == dtype and np.array_equal(found, w.T[ids])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_rows", [1, 5, 40])
def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch, rule, n_rows):
    rng = np.random.default_rng(0)
    for shape in ((768, 768), (512, 2048), (2048, 512), (1600, 400)):
        w = rng.standard_normal(shape, np.float32)
        x = rng.standard_normal((n_rows, shape[0]), np.float32)
        found = []
        for n_threads in (1, 2, 3, 5):
            monkeypatch.setattr(tiles, "THREADS", threads.Threads(n_threads))
            monkeypatch.setattr(tiles, "N_THREADS", n_threads)
            found.append(x @ Tiles(w, *RULES[rule]))
        assert all(np.array_equal(found[0], one) for one in found)


SAME = """
import hashlib, utils
from gpt2 import Config
model = utils.random_model(Config(2048, 64, 512, 8, 2), utils.get_backend())
cache = model.new_cache()
for n in (40, 1, 5, 1, 9):
    logits = model.read(list(range(len(cache.ids) + n)), cache, n)
    print(hashlib.sha256(logits.tobytes()).hexdigest())
"""


def test_two_processes_give_the_same_bits():
    first, second = python("-c", SAME), python("-c", SAME)
    assert first.stdout == second.stdout and len(first.stdout.split()) == 5


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_embd", [384, 512, 768, 1024, 1280, 1600])
def test_threads_that_share_one_row_can_run_at_once(monkeypatch, rule, n_embd):
    """NumPy lets another thread run only during products with more than 500 results."""
    results, n_threads, matmul = [], [], np.matmul

    def counted(*arrays):
        results.append(matmul(*arrays))
        return results[-1]

    class EqualRanges:
        def run_on_threads(self, function, n, n_ranges):
            n_threads.append(n_ranges)
            for start, end in threads.ranges(n, n_ranges):
                function(start, end)

    monkeypatch.setattr(np, "matmul", counted)
    monkeypatch.setattr(tiles, "THREADS", EqualRanges())
    for n_in, n_out in ((n_embd, n_embd), (n_embd, 4 * n_embd), (4 * n_embd, n_embd)):
        cut = Tiles(np.ones((n_in, n_out), np.float32), *RULES[rule])
        for n in (2, 4, 16):
            monkeypatch.setattr(tiles, "N_THREADS", n)
            results.clear()
            np.ones((1, n_in), np.float32) @ cut
            assert n_threads[-1] == 1 or all(one.size > 500 for one in results)
    assert max(n_threads) > 1


def test_a_small_weight_is_not_shared_and_many_rows_are(monkeypatch):
    n_threads = []

    class Noted:
        def run_on_threads(self, function, n, n_wanted):
            n_threads.append(n_wanted)
            function(0, n)

    monkeypatch.setattr(tiles, "THREADS", Noted())
    monkeypatch.setattr(tiles, "N_THREADS", 9)
    for shape in ((512, 512), (512, 1024), (1024, 4096)):
        cut = Tiles(np.ones(shape, np.float32), *RULES["others"])
        for n_rows in (1, 5, 128):
            np.ones((n_rows, shape[0]), np.float32) @ cut
    assert n_threads == [1, 1, 9, 2, 2, 9, 9, 9, 9]


@pytest.mark.parametrize("rule", RULES)
def test_the_output_head_is_the_embedding_in_memory(rule):
    wte = np.random.default_rng(0).standard_normal((150, 40), np.float32)
    head = Tiles(wte.T, *RULES[rule])
    ids = np.array([0, 149, 6, 7, 63, 64, 0, 99, 100])
    assert np.array_equal(head.T[ids], wte[ids]) and head.T.dtype == np.float32
    assert head.T.shape == wte.shape and head.T.weight is head
    assert head.tiles.flags.c_contiguous  # what is multiplied is read in one go


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([1, 16, 64]))),
    st.sampled_from([np.float32, np.float64]),
)
def test_arrays_of_a_slab_do_not_overlap(shapes, dtype):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "SLAB", 2000)
        empty = tiles.slab_allocator()
        arrays = [empty(shape, dtype) for shape in shapes]
    for i, array in enumerate(arrays):
        array[...] = i
    for i, (array, shape) in enumerate(zip(arrays, shapes)):
        assert array.shape == shape and array.dtype == dtype and (array == i).all()
        assert array.size == 0 or array.ctypes.data % tiles.LINE == 0


# ---------------------------------------------------------------- the rule


@pytest.mark.parametrize("name, width, n_rows", [
    ("SkylakeX", 64, [2, 5, 9, 8]),
    ("SapphireRapids", 64, [2, 5, 9, 8]),
    ("Haswell", 32, [1, 1, 1, 512]),
    ("ARMV8", 32, [1, 1, 1, 512]),
])  # fmt: skip
def test_tiles_suit_the_kernels_of_openblas(monkeypatch, name, width, n_rows):
    monkeypatch.setattr(kernels, "openblas_kernels", lambda: name)
    cut = kernels.lay_out(np.ones((768, 768), np.float32))
    assert cut.tiles.shape[3] == width
    assert list(map(cut.rows_at_a_time, (1, 5, 9, 512))) == n_rows
    small = np.ones((256, 256), np.float32)
    assert kernels.lay_out(small) is small


def test_another_blas_multiplies_as_it_likes(monkeypatch):
    monkeypatch.setattr(kernels, "openblas_kernels", lambda: None)
    weight = np.ones((768, 768), np.float32)
    assert kernels.lay_out(weight) is weight


def test_openblas_names_the_kernels_that_the_user_has_chosen():
    """In NumPy's wheels for x86; another BLAS has no name."""
    code = "from backends.kernels import openblas_kernels as name; print(name())"
    found = python("-c", code, environment={**os.environ, "OPENBLAS_CORETYPE": "Haswell"})
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    if blas == "scipy-openblas" and is_x86:
        assert found.stdout.strip() == "Haswell"
    elif blas == "accelerate":
        assert found.stdout.strip() == "None"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_vocab, n_embd", [(2, 2), (1, 2), (2, 1), (3, 1), (1, 1)])
@pytest.mark.parametrize("rule", RULES)
def test_the_smallest_model_is_cut(dtype, n_vocab, n_embd, rule):
    config, cut = Config(n_vocab, 1, n_embd, 1, 1), lambda w: Tiles(w, *RULES[rule])
    model = utils.random_model(config, dataclasses.replace(NUMPY, lay_out=cut), dtype)
    plain = utils.random_model(config, NUMPY, dtype)
    expected = plain.read([0], plain.new_cache())
    assert np.allclose(model.read([0], model.new_cache()), expected, atol=1e-6)


def test_heads_are_shared_where_attention_is_long(monkeypatch):
    n_ids = 1 + math.isqrt(threads.WORTH_SHARING // 2)  # of each of two heads
    model = utils.random_model(Config(50, 3 * n_ids, 16, 2, 1), utils.get_backend())
    cache, shared = model.new_cache(), []

    def run_on_threads(function, n, n_threads):
        shared.append((n, n_threads))
        function(0, n)

    monkeypatch.setattr(threads, "N_THREADS", 9)
    monkeypatch.setattr(threads.THREADS, "run_on_threads", run_on_threads)
    for n_new, is_long in ((n_ids, True), (1, False), (n_ids, True)):
        shared.clear()
        model.read([1] * (len(cache.ids) + n_new), cache, n_last=n_new)
        assert shared.count((2, 9)) == is_long
