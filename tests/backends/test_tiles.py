"""The matrix product behind `x @ w`: tiles give the plain product, with the same bits each time."""

import os
import platform

import numpy as np
import pytest
from command_line import python
from hypothesis import given, settings
from hypothesis import strategies as st

from backends import backend, threads, tiles
from backends.tiles import Tiles, one_row, several_rows

# as backend.lay_out cuts weights
RULES = {"AVX-512": (64, 1024, several_rows), "others": (32, 512, one_row)}


@settings(max_examples=60)
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


@pytest.fixture
def shared(monkeypatch):
    """The numbers of threads that products ask for; they get equal ranges."""
    asked = []

    class EqualRanges:
        def run_on_threads(self, function, n, n_threads):
            asked.append(n_threads)
            for start, end in threads.ranges(n, n_threads):
                function(start, end)

    monkeypatch.setattr(tiles, "THREADS", EqualRanges())
    return asked


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_embd", [384, 512, 768, 1024, 1280, 1600])
def test_threads_that_share_one_row_can_run_at_once(monkeypatch, shared, rule, n_embd):
    """NumPy lets another thread run only during products with more than 500 results."""
    results, matmul = [], np.matmul
    noted = lambda *arrays: results.append(matmul(*arrays)) or results[-1]
    monkeypatch.setattr(np, "matmul", noted)
    for n_in, n_out in ((n_embd, n_embd), (n_embd, 4 * n_embd), (4 * n_embd, n_embd)):
        cut = Tiles(np.ones((n_in, n_out), np.float32), *RULES[rule])
        for n in (2, 4, 16):
            monkeypatch.setattr(tiles, "N_THREADS", n)
            results.clear()
            np.ones((1, n_in), np.float32) @ cut
            assert shared[-1] == 1 or all(one.size > 500 for one in results)
    assert max(shared) > 1


def test_a_small_weight_is_not_shared_and_many_rows_are(monkeypatch, shared):
    monkeypatch.setattr(tiles, "N_THREADS", 9)
    for shape in ((512, 512), (512, 1024), (1024, 4096)):
        cut = Tiles(np.ones(shape, np.float32), *RULES["others"])
        for n_rows in (1, 5, 128):
            np.ones((n_rows, shape[0]), np.float32) @ cut
    assert shared == [1, 1, 9, 2, 2, 9, 9, 9, 9]


# ---------------------------------------------------------------- the rule


@pytest.mark.parametrize("name, width, n_rows", [
    ("SkylakeX", 64, [2, 5, 9, 8]),
    ("SapphireRapids", 64, [2, 5, 9, 8]),
    ("Haswell", 32, [1, 1, 1, 512]),
    ("ARMV8", 32, [1, 1, 1, 512]),
])  # fmt: skip
def test_tiles_suit_the_kernels_of_openblas(monkeypatch, name, width, n_rows):
    monkeypatch.setattr(backend, "openblas_kernels", lambda: name)
    cut = backend.lay_out(np.ones((768, 768), np.float32))
    assert cut.tiles.shape[3] == width
    assert list(map(cut.rows_at_a_time, (1, 5, 9, 512))) == n_rows
    small = np.ones((256, 256), np.float32)
    assert backend.lay_out(small) is small
    monkeypatch.setattr(backend, "openblas_kernels", lambda: None)  # another BLAS
    large = small.repeat(9, axis=0)
    assert backend.lay_out(large) is large


def test_openblas_names_the_kernels_that_the_user_has_chosen():
    """In NumPy's wheels for x86; another BLAS has no name."""
    code = "from backends.backend import openblas_kernels as name; print(name())"
    found = python("-c", code, environment={**os.environ, "OPENBLAS_CORETYPE": "Haswell"})
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    if blas == "scipy-openblas" and is_x86:
        assert found.stdout.strip() == "Haswell"
    elif blas == "accelerate":
        assert found.stdout.strip() == "None"
