"""Which kernel a model is given: what the clock says, and what the user says."""

import types
from collections import defaultdict

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

    def trial(scratch, weight, layout, way, n_rows):
        (width, by_column), (n_threads, together) = layout, way
        return seconds(min(width, shape[1]), by_column, n_threads, n_rows, together)

    monkeypatch.setattr(autotune, "trial", trial)
    monkeypatch.setattr(autotune, "N_THREADS", n_threads)
    config = types.SimpleNamespace(shapes=lambda: {"h.0.w": shape, "wte.weight": shape[::-1]})
    w = autotune.plan(config, np.float32, exact=exact)(np.ones(shape, np.float32))
    return getattr(w, "kernel", "plain")


def test_plain_stays_where_plain_wins_or_nearly(monkeypatch):
    assert choice(monkeypatch, lambda width, *_: 0.98 if width < 512 else 1.0) == "plain"
    assert choice(monkeypatch, lambda width, *_: 0.90 if width < 512 else 1.0) != "plain"


def test_tiles_win_where_a_few_rows_are_dear_in_one_piece(monkeypatch):
    kernel = choice(
        monkeypatch,
        lambda width, by_column, n_threads, n_rows, together: 1 + (n_rows > 1) * width / 512,
    )
    assert kernel.width == 64 and kernel.threads == (1, 1, 1) and kernel.together[0] == 1


def test_a_weight_stays_uncut_where_threads_read_it_fastest_so(monkeypatch):
    def seconds(width, by_column, n_threads, *rest):
        return 1 if width > 500 and n_threads > 1 else 2

    kernel = choice(monkeypatch, seconds)
    assert str(kernel) == "uncut; for 1/few/many rows 2/2/2 threads"
    # not where each thread would hold the interpreter, nor where rows are to be exact
    assert choice(monkeypatch, seconds, (4096, 500)) == "plain"
    assert choice(monkeypatch, seconds, exact=True).width == 64
    # nor where threads read rows that do not lie one after the other
    head = ((64, 8192), True)
    assert autotune.ways(head, (tiles.ALL, False), autotune.ONE, exact=False) == [(1, tiles.ALL)]


def test_tiles_lie_by_column_where_that_is_faster(monkeypatch):
    assert choice(monkeypatch, lambda width, by_column, *_: width - by_column).by_column
    assert not choice(monkeypatch, lambda width, by_column, *_: width + by_column).by_column


@pytest.mark.parametrize("one_row_of_64, width", [(3, 128), (2.5, 64)])
def test_a_layout_counts_as_much_at_one_row_as_at_a_few(monkeypatch, one_row_of_64, width):
    """Twice the time of the best layout is twice too much, however long the best takes."""
    times = {64: (one_row_of_64, 100), 128: (1, 190), 8192: (9, 900)}
    assert choice(monkeypatch, lambda width, *rest: times[width][rest[2] > 1]).width == width


def test_threads_are_used_only_at_the_row_counts_where_they_pay(monkeypatch):
    def seconds(paying):
        def of_one(width, by_column, n_threads, n_rows, together):
            pays = n_threads > 1 and 1 < n_rows < 12
            return width * (paying if pays else 3)

        return of_one

    assert choice(monkeypatch, seconds(paying=2)).threads == (1, 2, 1)
    assert choice(monkeypatch, seconds(paying=4)).threads == (1, 1, 1)


def test_some_of_many_threads_are_used_where_more_do_not_pay(monkeypatch):
    """Memory has a speed, which a few cores reach, and each thread costs something."""

    def seconds(width, by_column, n_threads, n_rows, together):
        reading = max(1 / n_threads, 1 / 4 if n_rows < 12 else 0)
        return width * (reading + 0.001 * n_threads)

    assert choice(monkeypatch, seconds, n_threads=16).threads == (4, 4, 16)
    assert choice(monkeypatch, seconds, n_threads=5).threads == (4, 4, 5)


def test_a_small_weight_is_not_shared(monkeypatch):
    """Whatever the clock said: the first thread would be done before the second begins."""
    faster_on_two = lambda width, by_column, n_threads, *_: width / n_threads  # noqa: E731
    assert choice(monkeypatch, faster_on_two, (64, 1024)).threads == (1, 1, 1)
    assert choice(monkeypatch, faster_on_two, (64, 2048)).threads == (2, 2, 2)


def test_a_large_weight_is_shared_unless_one_thread_is_clearly_faster(monkeypatch):
    """Another program may have had a core for as long as the trials took."""

    def on_two(cost):
        return lambda width, by_column, n_threads, *_: width * (cost if n_threads > 1 else 1)

    large = (64, 8192 * 4)
    assert choice(monkeypatch, on_two(1.05), large).threads == (2, 2, 2)
    assert choice(monkeypatch, on_two(1.15), large).threads == (1, 1, 1)
    assert choice(monkeypatch, on_two(1.05)).threads == (1, 1, 1)


def test_rows_are_taken_together_as_is_fastest(monkeypatch):
    """One row is padded where two are faster; few go one by one where BLAS packs; many at once
    where packing pays.
    """

    def together_of(seconds, exact=False):
        def of_one(width, by_column, n_threads, n_rows, together):
            return seconds(width, together)

        return choice(monkeypatch, of_one, exact=exact).together

    assert together_of(lambda width, together: width + together) == (1, 1, 8)
    at_once = lambda width, together: width / min(together, 60)
    assert together_of(at_once) == (2, 9, tiles.ALL)
    assert together_of(at_once, exact=True) == (1, 1, 1)
    hardly = lambda width, together: width - 0.01 * min(together, 60)
    assert together_of(hardly) == (1, 9, tiles.ALL)


def test_a_disturbance_of_one_round_does_not_decide(monkeypatch):
    calls = defaultdict(int)

    def seconds(*of_one):
        calls[of_one] += 1
        # the second time speaks for the wrong one
        return of_one[0] if calls[of_one] != 2 else abs(1000 - of_one[0])

    assert choice(monkeypatch, seconds).width == 64


def scratch_of(monkeypatch, cold_bytes, *shapes):
    monkeypatch.setattr(autotune, "COLD_BYTES", cold_bytes)
    return autotune.Scratch(
        dict(enumerate(shapes)), [(shape, False) for shape in shapes], np.float32
    )


def test_a_weight_larger_than_the_memory_for_trials(monkeypatch):
    shape = (64, 1000)
    scratch = scratch_of(monkeypatch, 11 * 4 * 64 * 300, shape)
    for weight in ((shape, False), (shape, True)):
        for layout in autotune.layouts(1000, exact=False):
            for rows in autotune.TOGETHER:
                for way in autotune.ways(weight, layout, rows, exact=False):
                    took = autotune.trial(scratch, weight, layout, way, rows[-1])
                    assert took > 0


def test_every_layout_of_a_weight_that_does_not_fit_reads_as_much(monkeypatch):
    shape = (16, 40_000)
    scratch = scratch_of(monkeypatch, 11 * 4 * 16 * 2500, shape)
    read = set()
    for layout in autotune.layouts(shape[1], exact=False):
        memory = scratch.copies(*shape)
        for weight in autotune.weights_in(memory, (shape, False), layout, (1, 1)):
            read.add(weight.tiles.size if isinstance(weight, tiles.Tiles) else weight.size)
    assert read == {16 * 2048}


@pytest.mark.parametrize("shape", [(8, 10), (64, 100), (64, 1000), (500, 1)])
@pytest.mark.parametrize("cold_bytes", [1 << 10, 1 << 16, 1 << 20])
def test_trials_read_all_of_their_memory_in_turn(monkeypatch, shape, cold_bytes):
    scratch = scratch_of(monkeypatch, cold_bytes, (64, 1000), shape)
    arrays = list(scratch.arrays)
    assert len({len(array) for array in arrays}) == 1
    n = sum(map(len, arrays))
    begins = []
    while len(begins) < 2 or begins[-1] != begins[0]:
        memory = scratch.copies(*shape)
        assert memory.shape[1] % shape[0] == 0 and memory.shape[1] <= shape[0] * shape[1]
        assert any(np.shares_memory(memory, array) for array in arrays)
        begins.append(memory.ctypes.data)
    turns = begins[:-1]
    assert len(set(turns)) == len(turns) and len(turns) * memory.size > n / 3


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
    product = autotune.plan(config, np.float32, autotune.kernel_named(kernels), exact=True)(w)
    together = x @ product
    assert np.allclose(together, x @ w, atol=1e-3)
    for first, n in ((0, 1), (20, 1), (3, 2), (5, 5), (2, 9), (4, 17)):
        assert np.array_equal(x[first : first + n] @ product, together[first : first + n]), (
            first,
            n,
        )


@pytest.mark.parametrize(
    "kernels", ["fast", "64", "64x0", "1x2", "0x2", "64x", "x2", "-1x2", "64x2x2"]
)
def test_kernels_that_make_no_sense(kernels):
    with pytest.raises(InputError, match="expected auto, plain, or WIDTHxTHREADS"):
        utils.get_backend("numpy", kernels)


# ---------------------------------------------------------------- whole passes


class Timed:
    """A model whose passes take seconds(n_rows) by a clock of their own."""

    config = Config(300, 4, 128, 4, 2)

    def __init__(self, clock, seconds):
        self.clock, self.seconds = clock, seconds

    def new_cache(self, n_positions):
        return n_positions

    def read(self, ids, cache, n_last):
        assert len(ids) == cache == n_last <= self.config.n_ctx
        self.clock.append(self.clock[-1] + self.seconds(n_last))


@pytest.mark.parametrize("few, best", [(1.5, 0), (3, 1)])
def test_one_row_of_a_small_model_counts_as_much_as_a_few(monkeypatch, few, best):
    """The second model is slower by half at one row; the first at several, by little or by much."""
    clock = [0.0]
    monkeypatch.setattr(autotune.time, "perf_counter", lambda: clock[-1])
    monkeypatch.setattr(autotune, "FEW", (2,))
    first = Timed(clock, lambda n_rows: few if n_rows > 1 else 2)
    second = Timed(clock, lambda n_rows: 1.5 if n_rows > 1 else 3)
    assert autotune.fastest([first, second]) is (first, second)[best]


def test_a_small_model_is_built_by_every_plan_and_its_fastest_build_is_kept(monkeypatch):
    """Each tensor is read once all the same."""
    builds, names = [], []
    monkeypatch.setattr(autotune, "fastest", lambda models: builds.extend(models) or models[-1])

    def read(name):
        names.append(name)
        return np.ones(config.shapes()[name], np.float32)

    config = Config(300, 32, 128, 4, 2)
    model = utils.build_model(config, read, utils.get_backend(), np.float32)
    n = 1 + len(autotune.FIXED)
    assert len(builds) == n and model is builds[-1] and len(names) == len(set(names))
    assert utils.kernels_of(builds[1])["attn.c_attn 128x384"] == "plain"
    for kernels, exact in (("plain", False), ("auto", True)):
        utils.build_model(config, read, utils.get_backend("numpy", kernels, exact), np.float32)
    monkeypatch.setattr(autotune, "SMALL", 1000)
    utils.build_model(config, read, utils.get_backend(), np.float32)
    assert len(builds) == n
