"""The matrix product behind `x @ w`: every candidate gives the plain product, and the choice respects machine and user."""

import os
import subprocess
import sys
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import utils
from backends import blas, cpu
from gpt2 import Config
from toys import TINY
from utils import InputError

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.sampled_from([1, 7, 12, 40, 70]), st.integers(1, 300)),
    n_rows=st.sampled_from([0, 1, 2, 5, 16, 17, 70]),
    width=st.sampled_from([1, 7, 64, 128]),
    n_threads=st.integers(1, 4),
    pad_one=st.booleans(),
    group=st.sampled_from([0, 0, 1, 3, 8]),
    tile=st.sampled_from([64, 1000, 100_000]),
    transposed=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_every_kernel_gives_the_plain_product(shape, n_rows, width, n_threads, pad_one, group, tile, transposed, dtype):
    rng = np.random.default_rng(0)
    w = rng.standard_normal(shape[::-1]).astype(dtype).T if transposed else rng.standard_normal(shape).astype(dtype)
    x = rng.standard_normal((n_rows, shape[0])).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "TILE", tile)
        y = x @ cpu.Tiles.cut(w, cpu.Kernel(width, (n_threads,) * 3, pad_one, group))
    assert y.dtype == dtype and y.shape == (n_rows, shape[1])
    assert np.allclose(y, x @ w, atol=1e3 * np.finfo(dtype).eps)


def test_every_kernel_gives_the_same_logits():
    """A whole model, on each candidate the machine might choose and on its own choice."""
    config, ids = Config(300, 32, 128, 4, 2), list(range(12))
    logits = {}
    for kernels in ("plain", "64x1", "64x2", "128x2", "256x1", "auto"):
        model = utils.random_model(config, utils.get_backend("numpy", kernels), scale=0.1)
        logits[kernels] = model.read(ids, model.new_cache(), n_last=5)
        assert logits[kernels].dtype == np.float32
    for kernels, rows in logits.items():
        assert np.allclose(rows, logits["plain"], atol=1e-4), kernels


def test_the_output_head_is_the_embedding_in_memory():
    for kernels in ("plain", "64x2", "100x1"):
        model = utils.random_model(TINY, utils.get_backend("numpy", kernels))
        head = model.params["head"]
        parts = [head.tiles, head.rest] if isinstance(head, cpu.Tiles) else [head]
        assert all(np.shares_memory(part, model.params["wte"]) for part in parts if part.size)


def fake_times(monkeypatch, seconds):
    """Let `seconds(width, n_threads, n_rows)` stand in for the clock."""

    def measured(x, weights):
        kernel = getattr(weights[0], "kernel", cpu.Kernel(512, (1, 1, 1)))
        return seconds(kernel.width, kernel.threads[0], len(x))

    monkeypatch.setattr(cpu, "seconds", measured)
    monkeypatch.setattr(cpu, "N_THREADS", 2)
    return cpu.fastest((64, 512), False, np.ones(64 * 512, np.float32))


def test_plain_stays_where_plain_wins_or_nearly(monkeypatch):
    kernel = fake_times(monkeypatch, lambda width, n_threads, n_rows: 0.98 if width < 512 else 1.0)
    assert kernel.width == 512


def test_tiles_win_where_five_rows_are_dear_in_one_piece(monkeypatch):
    kernel = fake_times(monkeypatch, lambda width, n_threads, n_rows: 1 + (n_rows > 1) * width / 512)
    assert kernel.width == 64 and kernel.threads == (1, 1, 1) and not kernel.pad_one


def test_threads_are_used_only_at_the_row_counts_where_they_pay(monkeypatch):
    kernel = fake_times(monkeypatch, lambda width, n_threads, n_rows: width * (2 if n_threads > 1 and n_rows < 64 else 3))
    assert kernel.threads == (2, 2, 1) or kernel.threads == (2, 2, 2)
    kernel = fake_times(monkeypatch, lambda width, n_threads, n_rows: width + (9 if n_threads > 1 and n_rows < 64 else 5))
    assert kernel.threads[:2] == (1, 1)


def test_a_weight_larger_than_the_memory_for_trials():
    for transposed in (False, True):
        kernel = cpu.fastest((64, 1000), transposed, np.ones(64 * 300, np.float32))
        assert kernel.width in (*cpu.WIDTHS, 1000)


def test_one_row_is_padded_where_two_are_faster(monkeypatch):
    kernel = fake_times(monkeypatch, lambda width, n_threads, n_rows: width * (2 if n_rows == 1 else 1))
    assert kernel.pad_one


def test_more_threads_than_there_are_is_no_deadlock():
    w = np.ones((8, 256), np.float32)
    assert (np.ones((1, 8), np.float32) @ cpu.Tiles.cut(w, cpu.Kernel(16, (99, 99, 99))) == 8).all()


def test_an_error_in_a_thread_reaches_the_caller():
    done = []

    def broken(a, b):
        done.append((a, b))
        if b == 4:
            raise ValueError("broken")

    if cpu.N_THREADS > 1:
        with pytest.raises(ValueError, match="broken"):
            cpu.THREADS.share(broken, 4, 2)
        assert sorted(done) == [(0, 2), (2, 4)]
    cpu.THREADS.share(broken, 3, 2)  # and leaves nothing behind
    assert sorted(done)[-1][1] in (3, 4)


def test_tiles_are_small_enough_for_nine_rows():
    for config in utils.SIZES.values():
        for n_in in (config.n_embd, 4 * config.n_embd):
            for width in cpu.WIDTHS:
                n_parts = cpu.parts_of(n_in, width)
                assert n_in % n_parts == 0 and 9 * width * n_in // n_parts < 1e6


@pytest.mark.parametrize("kernels", ["plain", "64x2", "128x1", "100x1", "auto"])
@pytest.mark.parametrize("shape", [(48, 100), (256, 1024), (3072, 768), (768, 300)])
@pytest.mark.parametrize("transposed", [False, True])
def test_exact_rows_do_not_depend_on_how_many_there_are(kernels, shape, transposed):
    rng = np.random.default_rng(0)
    w = rng.standard_normal(shape[::-1]).astype(np.float32).T if transposed else rng.standard_normal(shape, np.float32)
    x = rng.standard_normal((21, shape[0]), np.float32)
    config = types.SimpleNamespace(shapes=lambda: {"h.0.w": shape, "wte.weight": shape[::-1]})
    product = cpu.plan(config, np.float32, cpu.kernel_named(kernels), exact=True)(w)
    together = x @ product
    assert np.allclose(together, x @ w, atol=1e-3)
    for first, n in ((0, 1), (20, 1), (3, 2), (5, 5), (2, 9), (4, 17)):
        assert np.array_equal(x[first : first + n] @ product, together[first : first + n]), (first, n)


def test_where_a_row_depends_on_its_place_exact_rows_are_computed_one_by_one(monkeypatch):
    class Uneven(cpu.Tiles):
        def __rmatmul__(self, x):
            return super().__rmatmul__(x) + (np.arange(len(x))[:, None] if self.kernel.group > 1 else 0)

    monkeypatch.setattr(cpu, "Tiles", Uneven)
    assert cpu.independent(np.ones((4, 8), np.float32), cpu.Kernel(4, (1, 1, 1))).group == 1


@pytest.mark.parametrize("kernels", ["fast", "64", "64x0", "0x2", "64x", "x2", "-1x2", "64x2x2"])
def test_kernels_that_make_no_sense(kernels):
    with pytest.raises(InputError, match="expected auto, plain, or WIDTHxTHREADS"):
        utils.get_backend("numpy", kernels)


# ---------------------------------------------------------------- before NumPy


@pytest.mark.parametrize(
    "variables, quota, expected",
    [
        ({}, None, None),
        ({"OMP_NUM_THREADS": "1"}, None, 1),
        ({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "8"}, None, 1),
        ({"OMP_NUM_THREADS": "nonsense"}, None, None),
        ({"OMP_NUM_THREADS": "0"}, None, 1),
        ({}, "100000 100000", 1),
        ({}, "50000 100000", 1),
        ({}, "max 100000", None),
        ({}, "garbage", None),
    ],
)
def test_thread_limits_are_respected(tmp_path, variables, quota, expected):
    cgroup = tmp_path / "cpu.max"
    if quota:
        cgroup.write_text(quota)
    unlimited = blas.count_threads({}, tmp_path / "none")
    assert blas.count_threads(variables, cgroup) == (expected or unlimited)


CPU = "processor\t: 0\nvendor_id\t: {}\ncpu family\t: {}\nmodel name\t: X\nflags\t\t: fpu {} sse\n\nprocessor\t: 1\n"


@pytest.mark.parametrize(
    "vendor, family, flags, expected",
    [
        ("AuthenticAMD", 26, "avx512f", True),
        ("AuthenticAMD", 26, "avx2", False),
        ("AuthenticAMD", 25, "avx512f", False),
        ("GenuineIntel", 26, "avx512f", False),
    ],
)
def test_only_the_cpu_that_openblas_does_not_know(tmp_path, vendor, family, flags, expected):
    path = tmp_path / "cpuinfo"
    path.write_text(CPU.format(vendor, family, flags))
    assert blas.unrecognised_avx512(path) is expected
    assert blas.unrecognised_avx512(tmp_path / "missing") is False


def environment_after_import(first, **variables):
    """The two variables after importing backends.blas in a new process, `first` run before it."""
    code = f"import os; {first}; import backends.blas; print(*map(os.environ.get, {list(VARIABLES)}))"
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env=clean | variables, text=True).split()


VARIABLES = ("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE")


def test_the_environment_is_set_before_numpy_and_never_over_the_user():
    core = "SkylakeX" if blas.unrecognised_avx512() else "None"
    assert environment_after_import("pass") == ["1", core]
    assert environment_after_import("import numpy") == ["None", "None"]
    mine = {"OPENBLAS_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Haswell"}
    assert environment_after_import("pass", **mine) == ["2", "Haswell"]
