"""Chooses a kernel for each weight of a model, by timing products while the model is loaded.

What is fastest depends on the machine: on its BLAS, its caches, and how long a thread takes to
start. So nothing is assumed. The trials go through weights of the model's shapes as a pass does,
block after block, and multiply each weight by the next of its candidates. The first trials choose a
layout for each shape of weight; the other trials choose on how many threads, and how many rows at a
time, it is multiplied. One candidate leaves the weight uncut: on one thread, that is NumPy's own
product.

So a product is timed between other products, and on a weight that is no longer in the caches,
because the other weights have passed through them since.
"""

import math
import random
import time
from collections import defaultdict
from dataclasses import replace
from statistics import geometric_mean, mean
from typing import NamedTuple

import numpy as np

from backends.before_numpy import N_THREADS
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
    view_as_tiles,
)
from gpt2 import layer_norm

WIDTHS = (64, 128)  # of the tiles to try
# a width to try as well where a weight has many columns: long rows are read faster
WIDE, MANY_COLUMNS = 1024, 16 * 1024
# numbers of rows to time: to decode, to verify drafts, to read a prompt
ONE, FEW, PROMPT = (1,), (2, 5, 9), (32,)
ROWS_AT_A_TIME = {ONE: (1, 2), FEW: (1, 9), PROMPT: (8, ALL)}  # of each Schedule to try for them
# threads to try besides one and all: a few usually read memory at its full speed, and each further
# thread takes time to start
MEDIUM_THREADS = 4
SAMPLES = 5  # times that each candidate is timed, at least
# a weight of more than LARGE_WEIGHT numbers is shared by threads, unless one thread is MIN_GAIN
# times as fast: another program may have held a core during the trials, and to share needlessly
# costs little, while not to share costs much. A smaller weight is shared only if threads are
# MIN_GAIN times as fast: there is little to gain, and much to lose whenever a thread is late
LARGE_WEIGHT, MIN_GAIN = 1_000_000, 1.1
# size of all weights in the trials, unless the model is smaller. With 96 MB and a cache of 32 MB,
# so much was still in the cache that other candidates won
COLD_BYTES = 264 << 20
HEAD_BYTES = 24 << 20  # of an output head in the trials: of a larger one, only the first columns


# ---------------------------------------------------------------- candidates


class Candidate(NamedTuple):
    """A way to multiply by a weight that is timed: how it lies in memory, and on which threads."""

    layout: Layout
    schedule: Schedule


def layouts_to_try(weight):
    """The layouts to time for a Weight: [Layout], uncut first, then in tiles of several widths."""
    widths = [width for width in WIDTHS if width < weight.n_out]
    tiles = [Layout(width, by_column) for width in widths for by_column in (False, True)]
    wide = [Layout(WIDE)] if weight.n_out > MANY_COLUMNS else []  # not by column
    return [Layout(ALL), *tiles, *wide]


def schedules_to_try(weight, layout, rows):
    """The schedules to time for a Weight in a Layout: [Schedule]. rows: ONE, FEW or PROMPT, a tuple
    of the numbers of rows that the weight is to be multiplied by.
    """
    is_uncut = layout.width == ALL
    # of a smaller weight, nothing would be left for a second thread once it has begun
    can_share = weight.size > HEAD_START
    if is_uncut:
        # each thread gets some of the weight's rows: they must be contiguous, and its n_out results
        # for each row of x so many that NumPy releases the GIL
        can_share = can_share and not weight.transposed and weight.n_out > GIL_RELEASE_SIZE
    thread_counts = {1, min(MEDIUM_THREADS, N_THREADS), N_THREADS} if can_share else {1}
    rows_at_a_time = (ALL,) if is_uncut else ROWS_AT_A_TIME[rows]
    return [Schedule(n_threads, n) for n_threads in sorted(thread_counts) for n in rows_at_a_time]


def candidates_of(weight, layouts, rows):
    """[Candidate] for a Weight: [Layout], each with all its schedules. rows: ONE, FEW or PROMPT"""
    return [
        Candidate(layout, schedule)
        for layout in layouts
        for schedule in schedules_to_try(weight, layout, rows)
    ]


def arrange_weight(memory, weight, candidate):
    """View the array memory [n_in * n_columns] as a Weight in the Candidate's layout. Returns an
    array, Uncut or Tiles, for `x @ arranged`. Numbers do not matter, because only time is measured.
    Columns at the end that fill no whole tile are left out. weight: its n_in, n_out, transposed
    """
    layout, schedule = candidate
    # fewer columns than the weight has, if it is a large output head
    n_columns = len(memory) // weight.n_in
    layout = layout if layout.width == ALL else replace(layout, width=min(layout.width, n_columns))
    kernel = Kernel(layout, one=schedule, few=schedule, many=schedule)
    if layout.width == ALL:
        if weight.transposed:
            return memory.reshape(n_columns, weight.n_in).T  # tried on one thread only
        matrix = memory.reshape(weight.n_in, n_columns)
        return matrix if schedule.n_threads == 1 else Uncut(matrix, kernel)
    n_tiles = n_columns // layout.width
    memory = memory[: weight.n_in * n_tiles * layout.width]
    n_parts = count_parts(weight.n_in, weight.n_out, kernel)  # as many as in the whole weight
    tiles = view_as_tiles(memory, weight.n_in, n_parts, layout)
    return Tiles(tiles, n_tiles * layout.width, kernel)


# ---------------------------------------------------------------- trials


def allocate_trial_weights(weights, n_model, dtype):
    """Allocate memory for trials: [(Weight, flat array for its numbers)] in the order of a pass: a
    block's weights, an output head, the next block's, a head, ... up to about COLD_BYTES in all. So
    each weight has left the caches before its next product, as in a pass of the model.

    weights: [Weight], the output head last. Only the head is cut: its array is for its first
    columns, about HEAD_BYTES. n_model: how many numbers the model has; the arrays have no more
    """
    *matrices, head = weights
    itemsize = np.dtype(dtype).itemsize
    head_columns = min(head.n_out, max(1, HEAD_BYTES // itemsize // head.n_in))
    if WIDE < head_columns < head.n_out:
        head_columns -= head_columns % WIDE  # so that tiles of any width read as much
    n_block = sum(weight.size for weight in matrices)
    n_head = head.n_in * head_columns
    n_blocks = max(1, min(n_model, COLD_BYTES // itemsize) // (n_block + n_head))
    trial_weights = []
    for _ in range(n_blocks):
        # a head is a separate array: freeing 24 MB (not 32) raises glibc's mmap threshold, so that
        # later arrays reuse memory, which spares a prefill some 20,000 page faults
        empty = contiguous_allocator(n_block, dtype)
        trial_weights += [(weight, empty((weight.size,), dtype)) for weight in matrices]
        trial_weights.append((head, contiguous_allocator(n_head, dtype)((n_head,), dtype)))
    for _, memory in trial_weights:
        memory[...] = 1  # so that the system provides the pages now, not while products are timed
    return trial_weights


def time_candidates(trial_weights, n_rows, candidates):
    """Time products of n_rows rows. Returns {Weight: {Candidate: mean seconds of a product}}.

    trial_weights: [(Weight, array)], from allocate_trial_weights; candidates: {Weight: [Candidate]}
    """
    times = {weight: defaultdict(list) for weight in candidates}
    rng = random.Random(0)
    thread_counts = {c.schedule.n_threads for tried in candidates.values() for c in tried}
    # one number of threads in a pass: a thread that waits for work slows the others down
    for n_threads in sorted(thread_counts):
        trials = {}
        for weight, tried in candidates.items():
            on_n_threads = [c for c in tried if c.schedule.n_threads == n_threads]
            trials[weight] = on_n_threads or tried  # all equally often: they displace the others
        # a pass multiplies each weight len(trial_weights) / len(trials) times
        n_candidates = max(len(tried) for tried in trials.values())
        n_passes = math.ceil(SAMPLES * n_candidates * len(trials) / len(trial_weights))
        turns = {weight: shuffled_forever(tried, rng) for weight, tried in trials.items()}
        for weight, memory in n_passes * trial_weights:
            candidate = next(turns[weight])
            times[weight][candidate].append(time_product(n_rows, weight, memory, candidate))
    means = {}
    for weight, times_of in times.items():
        means[weight] = {c: mean_of_faster_half(seconds) for c, seconds in times_of.items()}
    return means


def mean_of_faster_half(times):
    """The mean of the faster half of a list of seconds: other programs slow some trials."""
    return mean(sorted(times)[: len(times) // 2 + 1])


def shuffled_forever(candidates, rng):
    """Yield the items of the list `candidates` in random order, then again in a new random order,
    without end. rng: a random.Random
    """
    while True:
        yield from rng.sample(candidates, len(candidates))


def time_product(n_rows, weight, memory, candidate):
    """Time one product of n_rows rows by a Weight in the array `memory` [n_in * n_columns], laid
    out as the Candidate says, and a layer norm, which threads that still spin may slow: in seconds.
    """
    w = arrange_weight(memory, weight, candidate)
    x = np.ones((n_rows, weight.n_in), memory.dtype)
    begin = time.perf_counter()
    y = x @ w
    layer_norm(y[:, : weight.n_in], weight=1, bias=0, epsilon=1e-5, xp=np)  # of n_embd columns
    return time.perf_counter() - begin


# ---------------------------------------------------------------- the choice


def choose_by_trial(weights, n_model, dtype):
    """Time ways to multiply by each weight, for some seconds. Returns {Weight: its fastest Kernel}.

    weights: [Weight], the output head last; n_model: how many numbers the whole model has
    """
    trial_weights = allocate_trial_weights(weights, n_model, dtype)

    def measure(layouts, rows, n_rows):  # {Weight: [Layout]} -> {Weight: {Candidate: seconds}}
        candidates = {weight: candidates_of(weight, layouts[weight], rows) for weight in weights}
        return time_candidates(trial_weights, n_rows, candidates)

    # first: which layout for each weight?
    layouts = {weight: layouts_to_try(weight) for weight in weights}
    of_1 = measure(layouts, ONE, n_rows=1)
    of_5 = measure(layouts, FEW, n_rows=5)
    of_9 = measure(layouts, FEW, n_rows=9)
    layout_of = {w: best_layout(layouts[w], of_1[w], [of_5[w], of_9[w]]) for w in weights}
    # then, in that layout: which schedule, for each n_rows in ONE, FEW and PROMPT?
    layouts = {weight: [layout] for weight, layout in layout_of.items()}
    times = {rows: [measure(layouts, rows, n_rows) for n_rows in rows] for rows in ROWS_AT_A_TIME}

    def kernel_of(weight):
        times_of = lambda rows: [seconds[weight] for seconds in times[rows]]
        schedules = [best_schedule(weight, times_of(rows)) for rows in (ONE, FEW, PROMPT)]
        return Kernel(layout_of[weight], *schedules)

    return {weight: kernel_of(weight) for weight in weights}


def best_layout(layouts, times_of_one, times_of_few):
    """The Layout of [Layout] whose fastest Candidate takes least time: the product of the time for
    one row, as in plain decoding, and the mean time for the few rows of a verification.

    times_of_one: {Candidate: seconds} for one row; times_of_few: [{Candidate: seconds}], a dict for
        each small number of rows
    """

    def fastest(layout, times):
        return min(seconds for c, seconds in times.items() if c.layout == layout)

    def cost(layout):
        of_few = geometric_mean([fastest(layout, times) for times in times_of_few])
        return fastest(layout, times_of_one) * of_few

    return min(layouts, key=cost)


def best_schedule(weight, times):
    """The Schedule of the Candidate with the least time for a Weight. But one thread for a large
    weight, or several for a smaller one, must be MIN_GAIN times as fast: times are noisy.
    times: [{Candidate: seconds}], a dict for each number of rows, which all count equally
    """
    is_large = weight.size > LARGE_WEIGHT

    def cost(candidate):
        seconds = geometric_mean([seconds_of[candidate] for seconds_of in times])
        on_one_thread = candidate.schedule.n_threads == 1
        must_win_clearly = on_one_thread if is_large else not on_one_thread
        return seconds * MIN_GAIN if must_win_clearly else seconds

    return min(times[0], key=cost).schedule
