"""Which kernel a model is given: what the clock says, and what the user says."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import utils
from backends import autotune, kernels, threads, tiles
from backends.autotune import Candidate
from backends.tiles import ALL, Kernel, Layout, Schedule, Weight
from checkpoints.registry import SIZES
from gpt2 import Config

NUMPY = utils.get_backend()
MEDIUM, SMALL, LARGE = (64, 8192), (64, 1024), (64, 8192 * 4)


def uncut(config, dtype):
    """The layout of a model whose blocks are not cut, and multiplied by two threads."""
    chosen = kernels.choose_kernels(
        config, dtype, Kernel(Layout(ALL), Schedule(2, 1), Schedule(1, 9), Schedule(2, 8))
    )
    head = Weight(config.n_embd, config.n_vocab, transposed=True)
    return kernels.layout_function(config, dtype, chosen | {head: Kernel.on(1, Layout(ALL))})


def test_every_kernel_gives_the_same_logits():
    names = ("plain", "64x1", "64x2", "128x2", "256x1", "auto")
    backends = {name: utils.get_backend("numpy", name) for name in names}
    backends |= {"uncut": replace(NUMPY, plan_layouts=uncut)}
    held = {"plain": np.ndarray, "uncut": tiles.Uncut}
    config, ids = Config(300, 32, 128, 4, 2), list(range(12))
    logits = {}
    for name, backend in backends.items():
        model = utils.random_model(config, backend, scale=0.1)
        logits[name] = model.read(ids, model.new_cache(), n_last=5)
        assert logits[name].dtype == np.float32
        weight = model.params["blocks"][0]["mlp"]["c_fc"]["weight"]
        assert name == "auto" or isinstance(weight, held.get(name, tiles.Tiles))
    for name, rows in logits.items():
        assert np.allclose(rows, logits["plain"], atol=1e-4), name


# ---------------------------------------------------------------- the choice


def flat(layout, n_threads, n_rows):
    """A kernel, or a candidate, with the parts of its layout and its schedules side by side."""
    width, by_column = layout.width, layout.by_column
    return SimpleNamespace(width=width, by_column=by_column, n_threads=n_threads, n_rows=n_rows)


def choice(monkeypatch, seconds, shape=MEDIUM, n_threads=2):
    """The kernel for a weight of that shape; seconds(candidate, n_rows) stands in for the clock."""

    def time_candidates(trial_weights, n_rows, candidates):
        def time(candidate):
            layout = replace(candidate.layout, width=min(candidate.layout.width, shape[1]))
            return seconds(flat(layout, *candidate.schedule), n_rows)

        return {weight: {one: time(one) for one in found} for weight, found in candidates.items()}

    monkeypatch.setattr(autotune, "time_candidates", time_candidates)
    monkeypatch.setattr(autotune, "N_THREADS", n_threads)
    # the output head is as small as can be
    shapes = {"h.0.w": shape}
    config = SimpleNamespace(
        n_embd=1, n_vocab=1, n_parameters=math.prod(shape), shapes=lambda: shapes
    )
    kernel = kernels.choose_kernels(config, np.float32)[Weight(*shape)]
    return flat(kernel.layout, *zip(kernel.one, kernel.few, kernel.many))


def uncut_on_threads(k, n):
    return 1 if k.width > 500 and k.n_threads > 1 else 2


def memory(k, n):
    """It has a speed, which a few cores reach, and each thread costs something."""
    return k.width * (max(1 / k.n_threads, n < 12 and 1 / 4) + 0.001 * k.n_threads)


def at_a_few(cost):
    return lambda k, n: k.width * (cost if k.n_threads > 1 and 1 < n < 12 else 3)


def on_two(cost):
    return lambda k, n: k.width * (cost if k.n_threads > 1 else 1)


def rows_together(cost):
    return lambda k, n: k.width + cost * min(k.n_rows, 60)


def one_row_of_64(cost):
    """Twice the time of the best layout is twice too much, however long the best takes."""
    times = {64: (cost, 100), 128: (1, 190), 8192: (9, 900)}
    return lambda k, n: times[k.width][n > 1]


PLAIN, TILES = {"width": ALL, "n_threads": (1, 1, 1)}, {"width": 64, "by_column": False}


@pytest.mark.parametrize("seconds, given, expected", [
    (lambda k, n: k.width + k.by_column, {}, TILES),
    (lambda k, n: k.width - k.by_column, {}, {"width": 64, "by_column": True}),
    (one_row_of_64(2), {}, {"width": 128}),
    (one_row_of_64(1.8), {}, {"width": 64}),
    (lambda k, n: 1 + (k.width != 1024), {"shape": LARGE}, {"width": 1024}),
    (lambda k, n: 1 + (k.width != 1024), {}, PLAIN),  # only where columns are many
    # uncut on several threads, but not where each would hold the interpreter
    (uncut_on_threads, {}, {"width": ALL, "n_threads": (2, 2, 2)}),
    (uncut_on_threads, {"shape": (4096, 500)}, PLAIN),
    # threads only at the numbers of rows where they pay; some of many, where more do not pay
    (at_a_few(2), {}, TILES | {"n_threads": (1, 2, 1)}),
    (at_a_few(4), {}, TILES | {"n_threads": (1, 1, 1)}),
    (memory, {"n_threads": 5}, TILES | {"n_threads": (4, 4, 5)}),
    # one would be done before the other begins
    (on_two(0.5), {"shape": SMALL}, TILES | {"n_threads": (1, 1, 1)}),
    # little to gain, and much to lose where one is late
    (on_two(0.95), {}, TILES | {"n_threads": (1, 1, 1)}),
    (on_two(0.85), {}, TILES | {"n_threads": (2, 2, 2)}),
    # another program may have had a core meanwhile
    (on_two(1.05), {"shape": LARGE}, TILES | {"n_threads": (2, 2, 2)}),
    (on_two(1.15), {"shape": LARGE}, TILES | {"n_threads": (1, 1, 1)}),
    # one row padded where two are faster; few one by one where BLAS packs; many at once where
    # packing pays
    (rows_together(1), {}, TILES | {"n_rows": (1, 1, 8)}),
    (rows_together(-1), {}, TILES | {"n_rows": (2, 9, ALL)}),
])  # fmt: skip
def test_the_clock_decides(monkeypatch, seconds, given, expected):
    kernel = choice(monkeypatch, seconds, **given)
    assert {name: getattr(kernel, name) for name in expected} == expected


@pytest.mark.parametrize("shape, wanted", [(MEDIUM, (4, 4, 4)), (SMALL, (1, 1, 1))])
def test_nothing_is_timed_where_rows_are_exact(monkeypatch, shape, wanted):
    """Another layout may round otherwise, and so give another text."""
    monkeypatch.setattr(autotune, "time_product", pytest.fail)
    for n_threads in (1, 2, 64):
        monkeypatch.setattr(autotune, "N_THREADS", n_threads)
        kernel = kernels.choose_kernels(Config(9, 8, 16, 2, 1), np.float32, exact=True)[
            Weight(16, 48)
        ]
        assert kernel == kernels.exact_kernel(Weight(16, 48))
        found = kernels.exact_kernel(Weight(*shape))
        expected = TILES | {"n_threads": wanted, "n_rows": (1, 1, 1)}
        assert vars(flat(found.layout, *zip(found.one, found.few, found.many))) == expected


def test_exact_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    rng = np.random.default_rng(0)
    for shape in ((768, 768), (512, 2048), (2048, 512)):
        w, x = (
            rng.standard_normal(shape, np.float32),
            rng.standard_normal((5, shape[0]), np.float32),
        )
        found = []
        for n_threads in (1, 2, 3, 5):
            monkeypatch.setattr(tiles, "THREADS", threads.Threads(n_threads))
            found.append(x @ tiles.Tiles.cut(w, kernels.exact_kernel(Weight(*shape))))
        assert all(np.array_equal(found[0], one) for one in found)


# ---------------------------------------------------------------- trials


CONFIG = Config(300, 8, 64, 2, 3)
WEIGHTS = [*(Weight(*shape) for shape in tiles.matrices_of(CONFIG)[:4]), Weight(64, 300, True)]
N_BLOCK, N_HEAD = 12 * 64 * 64, 64 * 300


def test_every_candidate_multiplies(monkeypatch):
    """Each in each place, also where a head is larger than the memory for it."""
    monkeypatch.setattr(autotune, "HEAD_BYTES", 4 * 64 * 250)
    monkeypatch.setattr(autotune, "N_THREADS", 2)
    trial_weights = autotune.allocate_trial_weights(WEIGHTS, 3 * N_BLOCK + N_HEAD, np.float32)
    for rows in autotune.ROWS_AT_A_TIME:
        candidates = {
            weight: autotune.candidates_of(weight, autotune.layouts_to_try(weight), rows)
            for weight in WEIGHTS
        }
        times = autotune.time_candidates(trial_weights, rows[-1], candidates)
        assert {weight: set(found) for weight, found in candidates.items()} == {
            weight: set(found) for weight, found in times.items()
        }
        assert min(min(found.values()) for found in times.values()) > 0


@pytest.mark.parametrize("n_bytes, n_blocks", [(1, 1), (1 << 19, 1), (1 << 20, 2), (1 << 30, 2)])
def test_trials_take_as_much_memory_as_the_model_has_or_is_allowed(monkeypatch, n_bytes, n_blocks):
    monkeypatch.setattr(autotune, "COLD_BYTES", n_bytes)
    trial_weights = autotune.allocate_trial_weights(WEIGHTS, 3 * N_BLOCK + 2 * N_HEAD, np.float32)
    assert [weight for weight, _ in trial_weights] == n_blocks * WEIGHTS
    memory = [array for _, array in trial_weights]
    assert sum(array.size for array in memory) == n_blocks * (N_BLOCK + N_HEAD)
    assert not any(np.shares_memory(a, b) for i, a in enumerate(memory) for b in memory[i + 1 :])


def test_every_layout_of_a_head_that_does_not_fit_reads_as_much(monkeypatch):
    monkeypatch.setattr(autotune, "HEAD_BYTES", 4 * 16 * 2500)
    head = Weight(16, 40_000, transposed=True)
    (_, memory), *_ = autotune.allocate_trial_weights([head], 16 * 40_000, np.float32)
    read = set()
    for layout in autotune.layouts_to_try(head):
        weight = autotune.arrange_weight(memory, head, Candidate(layout, Schedule(1, 1)))
        read.add(weight.tiles.size if isinstance(weight, tiles.Tiles) else weight.size)
    assert read == {16 * 2048}
    # threads would read rows that do not lie one after the other
    assert len(autotune.schedules_to_try(head, Layout(ALL), autotune.ONE)) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("n_vocab, n_embd", [(2, 2), (1, 2), (2, 1), (3, 1), (1, 1)])
def test_the_smallest_model_is_measured(dtype, exact, n_vocab, n_embd):
    config, backend = Config(n_vocab, 1, n_embd, 1, 1), utils.get_backend(exact=exact)
    model = utils.random_model(config, backend, dtype)
    plain = utils.random_model(config, utils.get_backend(kernels="plain"), dtype)
    expected = plain.read([0], plain.new_cache())
    assert np.allclose(model.read([0], model.new_cache()), expected, atol=1e-6)


def test_tiles_are_small_enough_for_nine_rows():
    for config in SIZES.values():
        for n_in in (config.n_embd, 4 * config.n_embd):
            for width in autotune.WIDTHS:
                n_parts = tiles.count_parts(n_in, 768, Kernel.on(2, Layout(width)))
                assert n_in % n_parts == 0 and 9 * width * n_in // n_parts < 1e6


@pytest.mark.parametrize("name", ["plain", "64x2", "128x1", "100x1", "auto"])
@pytest.mark.parametrize("config", [Config(100, 8, 48, 4, 1), Config(300, 8, 768, 12, 1)])
def test_exact_rows_do_not_depend_on_how_many_there_are(name, config):
    rng = np.random.default_rng(0)
    lay_out = kernels.plan_layouts(config, np.float32, kernels.parse_kernel(name), exact=True)
    matrices = [rng.standard_normal(shape, np.float32) for shape in tiles.matrices_of(config)]
    head = rng.standard_normal((config.n_vocab, config.n_embd), np.float32).T
    for w in (*matrices, head):
        x = rng.standard_normal((21, len(w)), np.float32)
        product = lay_out(w)
        together = x @ product
        assert np.allclose(together, x @ w, atol=1e-3)
        for first, n in ((0, 1), (20, 1), (3, 2), (5, 5), (2, 9), (4, 17)):
            some = x[first : first + n] @ product
            assert np.array_equal(some, together[first : first + n]), (w.shape, first, n)


def test_a_model_lies_in_one_piece():
    """Its blocks, also where the last tile of a weight is filled up."""
    model = utils.random_model(Config(50, 8, 64, 2, 2), utils.get_backend("numpy", "20x1"))
    parts = [block[name] for block in model.params["blocks"] for name in ("attn", "mlp")]
    weights = [part["weight"].tiles for two in parts for part in two.values()]
    assert [weight.shape[1] for weight in weights[:4]] == [10, 4, 13, 4]
    for before, after in zip(weights, weights[1:]):
        assert before.ctypes.data + math.prod(before.shape) * 4 == after.ctypes.data
