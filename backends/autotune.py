"""Chooses a kernel for each weight of a model, by timing products while the model is loaded.

What is fastest depends on the machine: on its BLAS, its caches, and how long a thread takes to
start. So nothing is assumed. `choose` goes through weights of the model's shapes as a pass does,
block after block, and multiplies each by the next of its candidates. The first passes choose how
each shape of weight is held, the others on how many threads and how many rows at a time it is
multiplied. One candidate leaves the weight uncut: on one thread, that is the plain product.

So a product is timed between other products, and on a weight that is no longer in the caches,
because the others have passed through them since.
"""

import math
import random
import re
import time
from collections import defaultdict
from dataclasses import replace
from statistics import geometric_mean, mean
from typing import NamedTuple

import numpy as np

from backends.blas import N_THREADS
from backends.tiles import (
    ALL,
    GIL_RELEASE_SIZE,
    HEAD_START,
    Kernel,
    Layout,
    Schedule,
    Tiles,
    Uncut,
    contiguous_allocator,
    count_parts,
    padded_size,
    tiles_in,
)
from gpt2 import layer_norm

WIDTHS = (64, 128)  # of the tiles to try
# a width to try as well where a weight has many columns: long rows are read faster
WIDE, MANY_COLUMNS = 1024, 16 * 1024
# numbers of rows to try: to decode, to verify drafts, to read a prompt
ONE, FEW, PROMPT = (1,), (2, 5, 9), (32,)
TOGETHER = {ONE: (1, 2), FEW: (1, 9), PROMPT: (8, ALL)}  # rows at a time to try for them
# threads to try besides one and all: a few usually read memory at its full speed, and each further
# thread takes time to start
MEDIUM_THREADS = 4
SAMPLES = 5  # times that each candidate is timed, at least
# a weight of more than LARGE_WEIGHT numbers is shared by threads, unless one thread is MIN_GAIN
# times as fast: another program may have held a core during the trials, and to share needlessly
# costs little, while not to share costs much. A smaller weight is shared only if threads are
# MIN_GAIN times as fast: there is little to gain, and much to lose whenever a thread is late
LARGE_WEIGHT, MIN_GAIN = 1_000_000, 1.1
# with --exact nothing is timed: a weight of more numbers is shared by threads
SHARED_EXACT = 500_000
ROW_BY_ROW = (1, 1, 1)  # rows at a time of one, of a few and of many
# weights in the trials, unless the model has fewer. With 96 MB and a cache of 32 MB, so much was
# still in the cache that other candidates won
COLD_BYTES = 264 << 20
HEAD_BYTES = 24 << 20  # of an output head in the trials: of a larger one, only the first columns


class Weight(NamedTuple):
    """A shape of weight; transposed: a view of an array [n_out, n_in]."""

    n_in: int
    n_out: int
    transposed: bool = False

    @classmethod
    def of(cls, n_in, n_out, transposed=False):
        """The Weight of this shape. One with a single row or column lies both ways in memory, and
        counts as transposed.
        """
        return cls(n_in, n_out, transposed or 1 in (n_in, n_out))


def matrices_of(config):
    """[(n_in, n_out)] of the matrices in a model's blocks, in the order of the checkpoint."""
    shapes = config.shapes()
    return [shape for name, shape in shapes.items() if len(shape) == 2 and name.startswith("h.")]


def weights_of(config):
    """[Weight]: each shape in a model's blocks once, then the output head's."""
    shapes = dict.fromkeys(matrices_of(config))
    head = Weight.of(config.n_embd, config.n_vocab, transposed=True)
    return [*(Weight.of(*shape) for shape in shapes), head]


# ---------------------------------------------------------------- candidates


class Candidate(NamedTuple):
    """A layout and a schedule that are tried for a weight."""

    layout: Layout
    schedule: Schedule


def layouts_to_try(weight):
    """[Layout] that are worth a trial for a Weight."""
    tiles = [
        Layout(width, by_column)
        for width in WIDTHS
        if width < weight.n_out
        for by_column in (False, True)
    ]
    wide = [Layout(WIDE)] if weight.n_out > MANY_COLUMNS else []
    return [Layout(ALL), *tiles, *wide]


def schedules_to_try(weight, layout, rows):
    """[Schedule] to try for a weight in this layout. rows: ONE, FEW or PROMPT."""
    # of a small weight, nothing would be left for a second thread once it has begun
    shared = weight.n_in * weight.n_out > HEAD_START
    if uncut := layout.width == ALL:
        # each thread multiplies some rows of the weight, and must let the others run meanwhile
        shared = shared and not weight.transposed and weight.n_out > GIL_RELEASE_SIZE
    counts = {1, min(MEDIUM_THREADS, N_THREADS), N_THREADS} if shared else {1}
    together = (ALL,) if uncut else TOGETHER[rows]
    return [Schedule(n_threads, n) for n_threads in sorted(counts) for n in together]


def arrange_weight(memory, weight, candidate):
    """A view of memory [n_in * columns] in the Candidate's layout, which supports `x @ w`."""
    layout, schedule = candidate
    columns = len(memory) // weight.n_in
    if layout.width == ALL:
        if weight.transposed:
            return memory.reshape(columns, weight.n_in).T
        whole = memory.reshape(weight.n_in, columns)
        kernel = Kernel(layout, schedule, schedule, schedule)
        return whole if schedule.n_threads == 1 else Uncut(whole, kernel)
    layout = replace(layout, width=min(layout.width, columns))
    kernel = Kernel(layout, schedule, schedule, schedule)
    memory = memory[: len(memory) - len(memory) % (weight.n_in * layout.width)]
    n_parts = count_parts(weight.n_in, weight.n_out, kernel)
    tiles = tiles_in(memory, weight.n_in, n_parts, layout)
    return Tiles(tiles, tiles.shape[1] * layout.width, kernel)


# ---------------------------------------------------------------- trials


def allocate_trial_weights(weights, n_model, dtype):
    """Allocate memory for trials: [(Weight, array [n_in * columns])] in the order of a pass, the
    weights of a block and an output head, the next block and a head, and so on.

    They take at most the memory of the model's n_model numbers, and at most about COLD_BYTES: as
    in the model, a weight is then no longer in the caches when its turn comes.
    """
    *matrices, head = weights
    itemsize = np.dtype(dtype).itemsize
    columns = min(head.n_out, max(1, HEAD_BYTES // itemsize // head.n_in))
    if WIDE < columns < head.n_out:
        columns -= columns % WIDE  # so that tiles of any width read as much
    n_block = sum(w.n_in * w.n_out for w in matrices)
    n_head = head.n_in * columns
    n_blocks = max(1, min(n_model, COLD_BYTES // itemsize) // (n_block + n_head))
    places = []
    for _ in range(n_blocks):
        # A head is an array of its own. Once glibc has freed an array of 24 MB (not one of 32), it
        # returns less memory to the system, which spares a prefill some 20,000 page faults
        empty = contiguous_allocator(n_block, dtype)
        places += [(w, empty((w.n_in * w.n_out,), dtype)) for w in matrices]
        places.append((head, contiguous_allocator(n_head, dtype)((n_head,), dtype)))
    for _, memory in places:
        memory[...] = 1
    return places


def time_candidates(places, n_rows, candidates):
    """Time products of n_rows rows: {weight: [Candidate]} -> {weight: {Candidate: seconds}}."""
    times = {weight: defaultdict(list) for weight in candidates}
    rng = random.Random(0)
    counts = {one.schedule.n_threads for found in candidates.values() for one in found}
    # one number of threads in a pass: a thread that waits for work slows the others down
    for n_threads in sorted(counts):
        on_these = {  # all candidates of a weight that is never shared
            weight: [one for one in found if one.schedule.n_threads == n_threads] or found
            for weight, found in candidates.items()
        }
        n_candidates = max(map(len, on_these.values()))
        n_passes = math.ceil(SAMPLES * n_candidates * len(on_these) / len(places))
        turns = {weight: shuffled_forever(found, rng) for weight, found in on_these.items()}
        for weight, memory in n_passes * places:
            candidate = next(turns[weight])
            times[weight][candidate].append(product_seconds(n_rows, weight, memory, candidate))
    return {
        weight: {candidate: mean_of_faster_half(t) for candidate, t in found.items()}
        for weight, found in times.items()
    }


def mean_of_faster_half(times):
    """The mean of the faster half of [seconds], as other programs may slow the machine at times."""
    return mean(sorted(times)[: len(times) // 2 + 1])


def shuffled_forever(candidates, rng):
    """Yield all candidates in random order, then again in a new random order, without end."""
    while True:
        yield from rng.sample(candidates, len(candidates))


def product_seconds(n_rows, weight, memory, candidate):
    """Seconds of one product and the layer norm after it, which waking threads may slow down."""
    held = arrange_weight(memory, weight, candidate)
    x = np.ones((n_rows, weight.n_in), memory.dtype)
    begin = time.perf_counter()
    y = x @ held
    layer_norm(y[:, : weight.n_in], 1, 0, 1e-5)
    return time.perf_counter() - begin


# ---------------------------------------------------------------- the choice


def choose(config, dtype, kernel=None, exact=False):
    """Choose a kernel for each weight of a Config: {Weight: Kernel}. Without a given kernel this
    takes up to a few seconds of trials. With exact, nothing is timed.
    """
    weights = weights_of(config)
    if exact:
        return {weight: exact_kernel(weight, kernel) for weight in weights}
    if kernel:
        return dict.fromkeys(weights, kernel)
    return choose_by_trial(weights, config.n_parameters, dtype)


def exact_kernel(weight, kernel=None):
    """The Kernel that multiplies one row at a time, in the layout of the given kernel, or of one
    that depends on the weight's shape only. So every run gives the same bits.
    """
    if kernel is None:
        n_threads = MEDIUM_THREADS if weight.n_in * weight.n_out > SHARED_EXACT else 1
        return Kernel.on(n_threads, Layout(WIDTHS[0]), ROW_BY_ROW)
    return Kernel.on(kernel.one.n_threads, kernel.layout, ROW_BY_ROW)


def choose_by_trial(weights, n_model, dtype):
    """Time all candidates: {Weight: its fastest Kernel}. n_model: numbers in the whole model."""
    places = allocate_trial_weights(weights, n_model, dtype)

    def measure(layouts, rows, n_rows):
        """{weight: {Candidate: seconds}} of n_rows rows, for {weight: [Layout]}."""
        candidates = {
            weight: [
                Candidate(layout, schedule)
                for layout in layouts[weight]
                for schedule in schedules_to_try(weight, layout, rows)
            ]
            for weight in weights
        }
        return time_candidates(places, n_rows, candidates)

    # first: how is each weight held?
    layouts = {weight: layouts_to_try(weight) for weight in weights}
    one, five, nine = (measure(layouts, rows, n) for rows, n in ((ONE, 1), (FEW, 5), (FEW, 9)))
    best = {w: best_layout(layouts[w], one[w], [five[w], nine[w]]) for w in weights}
    # then, held like that: on how many threads, and how many rows at a time?
    layouts = {weight: [layout] for weight, layout in best.items()}
    times = {rows: [measure(layouts, rows, n) for n in rows] for rows in TOGETHER}

    def best_kernel(weight):
        schedules = [best_schedule(weight, [t[weight] for t in times[rows]]) for rows in TOGETHER]
        return Kernel(best[weight], *schedules)

    return {weight: best_kernel(weight) for weight in weights}


def best_layout(layouts, one, few):
    """The best of [Layout], by {Candidate: seconds} for one row and for several numbers of a few.
    One row, as in drafting and plain decoding, counts as much as the few rows of a verification.
    """

    def cost(layout):
        least = lambda times: min(times[c] for c in times if c.layout == layout)
        return least(one) * geometric_mean(map(least, few))

    return min(layouts, key=cost)


def best_schedule(weight, times):
    """The best Schedule of a weight, by [{Candidate: seconds}] of some numbers of rows, which count
    equally.
    """
    large = weight.n_in * weight.n_out > LARGE_WEIGHT

    def cost(candidate):
        seconds = geometric_mean([seconds_of[candidate] for seconds_of in times])
        on_one_thread = candidate.schedule.n_threads == 1
        must_win_clearly = on_one_thread if large else not on_one_thread
        return seconds * MIN_GAIN if must_win_clearly else seconds

    return min(times[0], key=cost).schedule


def lay_out_by(config, dtype, chosen, exact=False):
    """A function lay_out(w) that returns w in the layout of its kernel, for `x @ lay_out(w)`."""
    sizes = [padded_size(*w, chosen[Weight.of(*w)].layout) for w in matrices_of(config)]
    empty = contiguous_allocator(sum(sizes), dtype)

    def lay_out(w):
        weight = Weight.of(*w.shape, transposed=not w.flags.c_contiguous)
        kernel = chosen[weight]
        if kernel.layout.width < weight.n_out or exact:
            # the output head, the last of all, has memory of its own
            return Tiles.cut(w, kernel, np.empty if weight.transposed else empty)
        is_shared = max(s.n_threads for s in (kernel.one, kernel.few, kernel.many)) > 1
        if kernel.layout.width < ALL or not is_shared:
            return w
        uncut = empty(w.shape, w.dtype)
        uncut[...] = w
        return Uncut(uncut, kernel)

    return lay_out


def plan(config, dtype, kernel=None, exact=False):
    """The function lay_out of `lay_out_by`, with kernels chosen by trial if no kernel is given.

    exact: rows are multiplied one at a time, so the bits of a row do not depend on the others.
    Nothing is timed.
    """
    # the trials come first: their memory and the model's are not to be in use at once
    return lay_out_by(config, dtype, choose(config, dtype, kernel, exact), exact)


def kernel_named(name):
    """The Kernel of "plain" or WIDTHxTHREADS such as "64x2"; None for "auto". Raises ValueError."""
    if name == "auto":
        return None
    if name == "plain":
        return Kernel.on(1, Layout(ALL))  # one thread, not cut into tiles
    if not re.fullmatch(r"([2-9]|[1-9]\d{1,5})x[1-9]\d{0,3}", name):
        raise ValueError(f"kernels {name!r}: expected auto, plain, or WIDTHxTHREADS such as 64x2")
    width, n_threads = map(int, name.split("x"))
    return Kernel.on(n_threads, Layout(width))
