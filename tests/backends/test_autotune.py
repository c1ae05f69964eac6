"""Which kernel a model is given: what the clock says, and what the user says."""

import types

import numpy as np
import pytest

import utils
from backends import autotune, tiles
from gpt2 import Config
from utils import InputError


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


def choice(monkeypatch, seconds, shape=(64, 8192), exact=False, n_threads=2):
    """The kernel for a weight of that shape where `seconds(width, by_column, n_threads, n_rows,
    together)` stands in for the clock.
    """

    class Trials:
        def __init__(self, config, weights, dtype):
            pass

        def run(self, n_rows, candidates):
            return {
                (weight, layout, way): seconds(
                    min(layout[0], shape[1]), layout[1], way[0], n_rows, way[1]
                )
                for weight, found in candidates.items()
                for layout, way in found
            }

    monkeypatch.setattr(autotune, "Trials", Trials)
    monkeypatch.setattr(autotune, "N_THREADS", n_threads)
    config = types.SimpleNamespace(shapes=lambda: {"h.0.w": shape, "wte.weight": shape[::-1]})
    w = autotune.plan(config, np.float32, exact=exact)(np.ones(shape, np.float32))
    return getattr(w, "kernel", "plain")


def test_plain_stays_where_plain_wins(monkeypatch):
    assert choice(monkeypatch, lambda width, *_: 1.02 if width < 512 else 1.0) == "plain"
    assert choice(monkeypatch, lambda width, *_: 0.98 if width < 512 else 1.0) != "plain"


def test_a_weight_stays_uncut_where_threads_read_it_fastest_so(monkeypatch):
    def seconds(width, by_column, n_threads, *rest):
        return 1 if width > 500 and n_threads > 1 else 2

    kernel = choice(monkeypatch, seconds)
    assert kernel.width == tiles.ALL and kernel.threads == (2, 2, 2)
    # not where each thread would hold the interpreter, nor where rows are to be exact
    assert choice(monkeypatch, seconds, (4096, 500)) == "plain"
    assert choice(monkeypatch, seconds, exact=True).width == 64
    # nor where threads read rows that do not lie one after the other
    head = ((64, 8192), True)
    assert autotune.ways(head, (tiles.ALL, False), autotune.ONE, exact=False) == [(1, tiles.ALL)]


def test_tiles_lie_by_column_where_that_is_faster(monkeypatch):
    assert choice(monkeypatch, lambda width, by_column, *_: width - by_column).by_column
    assert not choice(monkeypatch, lambda width, by_column, *_: width + by_column).by_column


@pytest.mark.parametrize("one_row_of_64, width", [(2, 128), (1.8, 64)])
def test_a_layout_counts_as_much_at_one_row_as_at_a_few(monkeypatch, one_row_of_64, width):
    """Twice the time of the best layout is twice too much, however long the best takes."""
    times = {64: (one_row_of_64, 100), 128: (1, 190), 8192: (9, 900)}
    assert choice(monkeypatch, lambda width, *rest: times[width][rest[2] > 1]).width == width


MEDIUM, SMALL, LARGE = (64, 8192), (64, 1024), (64, 8192 * 4)


def at_a_few(cost):
    return lambda n_threads, n_rows: cost if n_threads > 1 and 1 < n_rows < 12 else 3


def on_two(cost):
    return lambda n_threads, n_rows: cost if n_threads > 1 else 1


def memory(n_threads, n_rows):
    """It has a speed, which a few cores reach, and each thread costs something."""
    return max(1 / n_threads, 1 / 4 if n_rows < 12 else 0) + 0.001 * n_threads


@pytest.mark.parametrize("cost, shape, n_threads, expected", [
    (at_a_few(2), MEDIUM, 2, (1, 2, 1)),  # only at the row counts where they pay
    (at_a_few(4), MEDIUM, 2, (1, 1, 1)),
    (memory, MEDIUM, 16, (4, 4, 16)),  # some of many, where more do not pay
    (memory, MEDIUM, 5, (4, 4, 5)),
    (on_two(0.5), SMALL, 2, (1, 1, 1)),  # one would be done before the other begins
    (on_two(0.95), MEDIUM, 2, (1, 1, 1)),  # little to gain, and much to lose where one is late
    (on_two(0.85), MEDIUM, 2, (2, 2, 2)),
    (on_two(1.05), LARGE, 2, (2, 2, 2)),  # another program may have had a core meanwhile
    (on_two(1.15), LARGE, 2, (1, 1, 1)),
])  # fmt: skip
def test_how_many_threads(monkeypatch, cost, shape, n_threads, expected):
    kernel = choice(
        monkeypatch,
        lambda width, by_column, n, n_rows, together: width * cost(n, n_rows),
        shape,
        n_threads=n_threads,
    )
    assert kernel.threads == expected and kernel.width == 64


def test_rows_are_taken_together_as_is_fastest(monkeypatch):
    """One row is padded where two are faster; few go one by one where BLAS packs; many at once
    where packing pays.
    """
    for sign, expected in ((1, (1, 1, 8)), (-1, (2, 9, tiles.ALL))):
        seconds = lambda width, *rest: width + sign * min(rest[-1], 60)
        assert choice(monkeypatch, seconds).together == expected
        assert choice(monkeypatch, seconds, exact=True).together == (1, 1, 1)


# ---------------------------------------------------------------- trials


CONFIG = Config(300, 8, 64, 2, 3)


def weights_of(config):
    """Each shape of weight, the output head last: (shape, whether it is a transposed array)."""
    matrices = dict.fromkeys(autotune.matrices_of(config))
    return [*((shape, False) for shape in matrices), ((config.n_embd, config.n_vocab), True)]


def trials_of(config=CONFIG):
    return autotune.Trials(config, weights_of(config), np.float32)


def test_every_candidate_multiplies(monkeypatch):
    """Each in each place, also where a head is larger than the memory for it."""
    monkeypatch.setattr(autotune, "HEAD_BYTES", 4 * 64 * 250)
    monkeypatch.setattr(autotune, "N_THREADS", 2)
    trials = trials_of()
    for rows in autotune.TOGETHER:
        candidates = {
            weight: [
                (layout, way)
                for layout in autotune.layouts(weight[0][1], exact=False)
                for way in autotune.ways(weight, layout, rows, exact=False)
            ]
            for weight in weights_of(CONFIG)
        }
        times = trials.run(rows[-1], candidates)
        assert times.keys() == {(w, *one) for w, found in candidates.items() for one in found}
        assert min(times.values()) > 0


@pytest.mark.parametrize("n_bytes, n_blocks", [(1, 1), (1 << 19, 1), (1 << 20, 2), (1 << 30, 2)])
def test_passes_go_through_as_much_memory_as_the_model_has_or_is_allowed(
    monkeypatch, n_bytes, n_blocks
):
    monkeypatch.setattr(autotune, "COLD_BYTES", n_bytes)
    trials = trials_of()
    memory = [head.memory for _, head in trials.blocks]
    for block, _ in trials.blocks:
        for parts in (block["attn"], block["mlp"]):
            memory += [part["weight"].memory for part in parts.values()]
    n_params = 12 * 64 * 64 + 64 * 300
    assert sum(array.size for array in memory) == n_blocks * n_params
    assert not any(np.shares_memory(a, b) for i, a in enumerate(memory) for b in memory[i + 1 :])


def test_every_layout_of_a_head_that_does_not_fit_reads_as_much(monkeypatch):
    monkeypatch.setattr(autotune, "HEAD_BYTES", 4 * 16 * 2500)
    config = Config(40_000, 8, 16, 1, 1)
    head = trials_of(config).blocks[0][1]
    read = set()
    for layout in autotune.layouts(40_000, exact=False):
        weight = autotune.held_in(head.memory, head.weight, layout, (1, 1))
        read.add(weight.tiles.size if isinstance(weight, tiles.Tiles) else weight.size)
    assert read == {16 * 2048}


def test_the_smallest_model_is_measured():
    model = utils.random_model(Config(2, 1, 2, 1, 1), utils.get_backend())
    assert model.read([1], model.new_cache()).shape == (1, 2)


def test_tiles_are_small_enough_for_nine_rows():
    for config in utils.SIZES.values():
        for n_in in (config.n_embd, 4 * config.n_embd):
            for width in autotune.WIDTHS:
                n_parts = tiles.parts_of(n_in, 768, tiles.Kernel(width, (2, 2, 2)))
                assert n_in % n_parts == 0 and 9 * width * n_in // n_parts < 1e6


@pytest.mark.parametrize("kernels", ["plain", "64x2", "128x1", "100x1", "auto"])
@pytest.mark.parametrize("config", [Config(100, 8, 48, 4, 1), Config(300, 8, 768, 12, 1)])
def test_exact_rows_do_not_depend_on_how_many_there_are(kernels, config):
    rng = np.random.default_rng(0)
    lay_out = autotune.plan(config, np.float32, autotune.kernel_named(kernels), exact=True)
    for shape, transposed in weights_of(config):
        w = rng.standard_normal(shape[::-1] if transposed else shape, np.float32)
        w = w.T if transposed else w
        x = rng.standard_normal((21, shape[0]), np.float32)
        product = lay_out(w)
        together = x @ product
        assert np.allclose(together, x @ w, atol=1e-3)
        for first, n in ((0, 1), (20, 1), (3, 2), (5, 5), (2, 9), (4, 17)):
            some = x[first : first + n] @ product
            assert np.array_equal(some, together[first : first + n]), (shape, first, n)


@pytest.mark.parametrize(
    "kernels", ["fast", "64", "64x0", "1x2", "0x2", "64x", "x2", "-1x2", "64x2x2"]
)
def test_kernels_that_make_no_sense(kernels):
    with pytest.raises(InputError, match=kernels):
        utils.get_backend("numpy", kernels)
