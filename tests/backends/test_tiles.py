"""The matrix product behind `x @ w`: every candidate gives the plain product, and the choice
respects machine and user.
"""

import os
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import TINY

import utils
from backends import autotune as trials
from backends import blas
from backends import tiles as cpu
from gpt2 import Config
from utils import InputError

ROOT = Path(__file__).resolve().parents[2]


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.sampled_from([1, 7, 12, 40, 70]), st.integers(1, 300)),
    n_rows=st.sampled_from([0, 1, 2, 5, 16, 17, 70]),
    width=st.sampled_from([1, 7, 64, 128]),
    n_threads=st.integers(1, 4),
    together=st.sampled_from([1, 2, 3, 8, 9, cpu.ALL]),
    tile=st.sampled_from([64, 1000, 100_000]),
    buffer=st.sampled_from([1, 5000, 1 << 18]),
    transposed=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_every_kernel_gives_the_plain_product(
    shape, n_rows, width, n_threads, together, tile, buffer, transposed, dtype
):
    rng = np.random.default_rng(0)
    w = (
        rng.standard_normal(shape[::-1]).astype(dtype).T
        if transposed
        else rng.standard_normal(shape).astype(dtype)
    )
    x = rng.standard_normal((n_rows, shape[0])).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "TILE", tile)
        patch.setattr(cpu, "BUFFER", buffer)
        y = x @ cpu.Tiles.cut(
            w, cpu.Kernel(width, (n_threads,) * 3, (min(together, 2), together, together))
        )
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


def choice(monkeypatch, seconds, shape=(64, 512), exact=False):
    """The kernel for a weight of that shape where `seconds(width, n_threads, n_rows, together)`
    stands in for the clock.
    """

    def trial(shape, transposed, scratch, width, n_threads, n_rows, together):
        return seconds(width, n_threads, n_rows, together)

    monkeypatch.setattr(trials, "trial", trial)
    monkeypatch.setattr(trials, "N_THREADS", 2)
    config = types.SimpleNamespace(shapes=lambda: {"h.0.w": shape, "wte.weight": shape[::-1]})
    w = trials.plan(config, np.float32, exact=exact)(np.ones(shape, np.float32))
    return w.kernel if isinstance(w, cpu.Tiles) else "plain"


def test_plain_stays_where_plain_wins_or_nearly(monkeypatch):
    assert choice(monkeypatch, lambda width, *_: 0.98 if width < 512 else 1.0) == "plain"
    assert choice(monkeypatch, lambda width, *_: 0.90 if width < 512 else 1.0) != "plain"


def test_tiles_win_where_a_few_rows_are_dear_in_one_piece(monkeypatch):
    kernel = choice(
        monkeypatch, lambda width, n_threads, n_rows, together: 1 + (n_rows > 1) * width / 512
    )
    assert kernel.width == 64 and kernel.threads == (1, 1, 1) and kernel.together[0] == 1


def test_threads_are_used_only_at_the_row_counts_where_they_pay(monkeypatch):
    few = lambda n_rows: n_rows == 9  # noqa: E731
    kernel = choice(
        monkeypatch,
        lambda width, n_threads, n_rows, _: width * (2 if n_threads > 1 and few(n_rows) else 3),
    )
    assert kernel.threads == (1, 2, 1)
    kernel = choice(
        monkeypatch,
        lambda width, n_threads, n_rows, _: width * (4 if n_threads > 1 and few(n_rows) else 3),
    )
    assert kernel.threads == (1, 1, 1)


def test_rows_are_taken_together_as_is_fastest(monkeypatch):
    """One row is padded where two are faster; few go one by one where BLAS packs; many at once
    where packing pays.
    """
    one_by_one = lambda width, n_threads, n_rows, together: width + together  # noqa: E731
    assert choice(monkeypatch, one_by_one).together == (1, 1, 8)
    at_once = lambda width, n_threads, n_rows, together: width / min(together, 60)  # noqa: E731
    assert choice(monkeypatch, at_once).together == (2, 9, cpu.ALL)
    assert choice(monkeypatch, at_once, exact=True).together == (1, 1, 1)
    hardly = lambda width, n_threads, n_rows, together: width - 0.01 * together  # noqa: E731
    assert choice(monkeypatch, hardly).together == (1, 9, cpu.ALL)


def test_a_disturbance_of_one_round_does_not_decide(monkeypatch):
    calls = iter(range(10**6))
    per_round = 2 * sum(1 for _ in trials.candidates(512, False))  # two weights

    def seconds(width, n_threads, n_rows, together):
        # the second round speaks for the wrong one
        return width if next(calls) // per_round != 1 else 1000 - width

    assert choice(monkeypatch, seconds).width == 64


def test_a_weight_larger_than_the_memory_for_trials():
    for transposed in (False, True):
        for one in trials.candidates(1000, False):
            assert trials.trial((64, 1000), transposed, np.ones(64 * 300, np.float32), *one) > 0


def test_the_smallest_model_is_measured():
    model = utils.random_model(Config(2, 1, 2, 1, 1), utils.get_backend())
    assert model.read([1], model.new_cache()).shape == (1, 2)


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


def test_an_error_in_the_part_of_the_caller_waits_for_the_others():
    done = []

    def broken(a, b):
        if a == 0:
            raise KeyboardInterrupt
        time.sleep(0.1)
        done.append((a, b))

    with pytest.raises(KeyboardInterrupt):
        cpu.THREADS.share(broken, 4, 2)
    assert done == ([(2, 4)] if cpu.N_THREADS > 1 else [])


@pytest.fixture
def shared(monkeypatch):
    """(n, n_threads, ahead) of each call of Threads.share, which is made on one thread, on a
    machine that seems to have 9.
    """
    calls = []

    def share(function, n, n_threads, ahead=0):
        calls.append((n, n_threads, ahead))
        function(0, n)

    monkeypatch.setattr(cpu, "N_THREADS", 9)
    monkeypatch.setattr(cpu.THREADS, "share", share)
    return calls


def test_which_threads_multiply_and_which_is_ahead(shared):
    tiles = cpu.Tiles.cut(np.ones((8, 64), np.float32), cpu.Kernel(16, (1, 2, 3)))
    for n_rows in (1, 2, cpu.MANY - 1, cpu.MANY):
        np.ones((n_rows, 8), np.float32) @ tiles
    ahead = cpu.AHEAD // (8 * 16)
    assert shared == [(4, 1, ahead), (4, 2, ahead), (4, 2, ahead), (4, 3, 0)]


def test_heads_are_shared_where_a_prompt_is_long_and_threads_are_wanted(shared):
    for kernels, wanted in (("plain", False), ("64x1", False), ("64x2", True), ("auto", True)):
        model = utils.random_model(
            Config(50, 3 * cpu.LONG, 16, 2, 1), utils.get_backend("numpy", kernels)
        )
        shared.clear()
        model.read([1] * cpu.LONG, model.new_cache())
        assert shared.count((2, 9, 0)) == wanted
        # many rows, of short texts
        model.read_batch([[1] * 8] * 9, [model.new_cache() for _ in range(9)], [1] * 9)
        assert shared.count((2, 9, 0)) == wanted


@given(n=st.integers(0, 40), n_threads=st.integers(1, 4), ahead=st.integers(0, 60))
def test_threads_share_all_of_the_work_and_the_first_is_ahead(n, n_threads, ahead):
    done = []
    cpu.THREADS.share(lambda a, b: done.append((a, b)), n, n_threads, ahead)
    done.sort(key=lambda part: (part[1], part[0]))
    assert [k for a, b in done for k in range(a, b)] == list(range(n))
    assert done[0][1] - done[0][0] >= min(ahead, n)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([1, 16, 64]))),
    st.sampled_from([np.float32, np.float64]),
)
def test_arrays_of_one_memory_lie_one_after_the_other(shapes, dtype):
    empty = cpu.one_memory(sum(a * b for a, b in shapes), dtype)
    arrays = [empty(shape, dtype) for shape in shapes]
    for i, array in enumerate(arrays):
        array[...] = i
    for i, (array, shape) in enumerate(zip(arrays, shapes)):
        assert array.shape == shape and array.dtype == dtype and (array == i).all()
    for before, after in zip(arrays, arrays[1:]):
        assert before.ctypes.data + before.nbytes == after.ctypes.data
    assert not arrays or arrays[0].ctypes.data % cpu.LINE == 0


def test_tiles_keep_nothing_of_the_weight_alive():
    w = np.ones((8, 70), np.float32)
    tiles = cpu.Tiles.cut(w, cpu.Kernel(16, (1, 1, 1)))
    assert (
        tiles.rest.shape == (8, 6)
        and not np.shares_memory(tiles.tiles, w)
        and not np.shares_memory(tiles.rest, w)
    )


def test_a_model_lies_in_one_piece():
    blocks = utils.random_model(Config(50, 8, 64, 2, 2), utils.get_backend("numpy", "16x1")).params[
        "blocks"
    ]
    weights = [
        part["weight"].tiles
        for block in blocks
        for parts in (block["attn"], block["mlp"])
        for part in parts.values()
    ]
    assert len(weights) == 8
    for before, after in zip(weights, weights[1:]):
        assert before.ctypes.data + before.nbytes == after.ctypes.data


def test_weights_are_cut_into_the_memory_they_are_given():
    w, memory = np.ones((8, 70), np.float32), np.zeros((1, 4, 8, 16), np.float32)
    tiles = cpu.Tiles.cut(w, cpu.Kernel(16, (1, 1, 1)), lambda shape, dtype: memory.reshape(shape))
    assert np.shares_memory(tiles.tiles, memory) and (memory == 1).all()


def test_tiles_are_small_enough_for_nine_rows():
    for config in utils.SIZES.values():
        for n_in in (config.n_embd, 4 * config.n_embd):
            for width in trials.WIDTHS:
                n_parts = cpu.parts_of(n_in, width)
                assert n_in % n_parts == 0 and 9 * width * n_in // n_parts < 1e6


@pytest.mark.parametrize("kernels", ["plain", "64x2", "128x1", "100x1", "auto"])
@pytest.mark.parametrize("shape", [(48, 100), (256, 1024), (3072, 768), (768, 300)])
@pytest.mark.parametrize("transposed", [False, True])
def test_exact_rows_do_not_depend_on_how_many_there_are(kernels, shape, transposed):
    rng = np.random.default_rng(0)
    w = (
        rng.standard_normal(shape[::-1]).astype(np.float32).T
        if transposed
        else rng.standard_normal(shape, np.float32)
    )
    x = rng.standard_normal((21, shape[0]), np.float32)
    config = types.SimpleNamespace(shapes=lambda: {"h.0.w": shape, "wte.weight": shape[::-1]})
    product = trials.plan(config, np.float32, trials.kernel_named(kernels), exact=True)(w)
    together = x @ product
    assert np.allclose(together, x @ w, atol=1e-3)
    for first, n in ((0, 1), (20, 1), (3, 2), (5, 5), (2, 9), (4, 17)):
        assert np.array_equal(x[first : first + n] @ product, together[first : first + n]), (
            first,
            n,
        )


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
        ({"OMP_NUM_THREADS": "²"}, None, None),
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
    code = (
        f"import os; {first}; import backends.blas; print(*map(os.environ.get, {list(VARIABLES)}))"
    )
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return subprocess.check_output(
        [sys.executable, "-c", code], cwd=ROOT, env=clean | variables, text=True
    ).split()


VARIABLES = ("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE")


def test_the_environment_is_set_before_numpy_and_never_over_the_user():
    core = "SkylakeX" if blas.unrecognised_avx512() else "None"
    assert environment_after_import("pass") == ["1", core]
    assert environment_after_import("import numpy") == ["None", "None"]
    empty = {"OPENBLAS_NUM_THREADS": "", "OPENBLAS_CORETYPE": ""}  # means no setting
    assert environment_after_import("pass", **empty)[0] == "1"
    mine = {"OPENBLAS_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Haswell"}
    assert environment_after_import("pass", **mine) == ["2", "Haswell"]
