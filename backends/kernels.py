"""Decides which kernel each weight of a model has, lays the weights out for it, and names it.

The kernel is the one that the user asks for, or the fastest in the trials of autotune.py.
"""

import re

import numpy as np

from backends.tiles import (
    ALL,
    EXACT_ROWS,
    Kernel,
    Layout,
    Tiles,
    Uncut,
    Weight,
    contiguous_allocator,
    matrices_of,
    padded_size,
    weights_of,
)

# with --exact nothing is timed: tiles of this width, and several threads for weights that have more
# than SHARED_EXACT numbers
EXACT_WIDTH, EXACT_THREADS, SHARED_EXACT = 64, 4, 500_000


def choose_kernels(config, dtype, kernel=None, exact=False):
    """Return {Weight: Kernel} for a model with this gpt2.Config: the given Kernel for all weights,
    or if it is None, for each the fastest in trials, which take up to a few seconds. With exact,
    nothing is timed: `exact_kernel` gives each Kernel. dtype: of the weights
    """
    weights = weights_of(config)
    if exact:
        return {weight: exact_kernel(weight, kernel) for weight in weights}
    if kernel:
        return dict.fromkeys(weights, kernel)
    from backends.autotune import choose_by_trial  # here: only --kernels auto times anything

    return choose_by_trial(weights, config.n_parameters, dtype)


def exact_kernel(weight, kernel=None):
    """The Kernel that multiplies a Weight by one row at a time, so every run gives the same bits.
    Layout and threads are those of `kernel`, a Kernel; if None, they depend on the size only.
    """
    if kernel is None:
        n_threads = EXACT_THREADS if weight.size > SHARED_EXACT else 1
        return Kernel.on(n_threads, Layout(EXACT_WIDTH), EXACT_ROWS)
    return Kernel.on(kernel.one.n_threads, kernel.layout, EXACT_ROWS)


def layout_function(config, dtype, kernels, exact=False):
    """Allocate memory for the blocks of a model, and return a function lay_out(w): it copies a
    weight [n_in, n_out] into its kernel's layout, for `x @ lay_out(w)`. A weight of a single tile,
    or uncut and on one thread, is returned as it is; with `exact`, all become Tiles.

    kernels: {Weight: Kernel}. Call lay_out once for each matrix of the blocks, and for the head.
    """
    sizes = [
        padded_size(*shape, kernels[Weight.of(*shape)].layout) for shape in matrices_of(config)
    ]
    empty = contiguous_allocator(sum(sizes), dtype)

    def lay_out(w):
        # the head is a view of the embedding, which is transposed
        weight = Weight.of(*w.shape, transposed=not w.flags.c_contiguous)
        kernel = kernels[weight]
        if kernel.layout.width < weight.n_out or exact:  # exact: only Tiles multiply row by row
            # `empty` has memory for the blocks only: the head gets its own
            return Tiles.cut(w, kernel, np.empty if weight.transposed else empty)
        is_shared = any(s.n_threads > 1 for s in (kernel.one, kernel.few, kernel.many))
        # a single tile, as wide as the weight or wider, is the weight itself
        if kernel.layout.width < ALL or not is_shared:
            return w
        uncut = empty(w.shape, w.dtype)
        uncut[...] = w
        return Uncut(uncut, kernel)

    return lay_out


def plan_layouts(config, dtype, kernel=None, exact=False):
    """Choose a kernel for each weight of a gpt2.Config, and return a function lay_out(w), which
    copies a weight [n_in, n_out] into the layout of its kernel, for `x @ lay_out(w)`.
    kernel: a Kernel for all weights; if None, candidates are timed. exact: rows are multiplied one
        at a time, so the bits of a row do not depend on the other rows; nothing is timed
    """
    # the trials come first: their memory and the model's are not to be in use at once
    return layout_function(config, dtype, choose_kernels(config, dtype, kernel, exact), exact)


def parse_kernel(name):
    """The Kernel of "plain" or WIDTHxTHREADS such as "64x2"; None for "auto". Raises ValueError."""
    if name == "auto":
        return None
    if name == "plain":
        return Kernel.on(1, Layout(ALL))  # one thread, not cut into tiles
    if not re.fullmatch(r"([2-9]|[1-9]\d{1,5})x[1-9]\d{0,3}", name):
        raise ValueError(f"kernels {name!r}: expected auto, plain, or WIDTHxTHREADS such as 64x2")
    width, n_threads = map(int, name.split("x"))
    return Kernel.on(n_threads, Layout(width))


def kernels_of(model):
    """The kernels of a utils.Model in words: {"mlp.c_fc 768x3072": "uncut; 1/2/2 threads"}, the
    threads for one, a few and many rows. Only of the first block, like all blocks, and of the head.
    """
    weights = {}
    for block in model.params.get("blocks", [])[:1]:  # Medusa's heads have no blocks
        for part in ("attn", "mlp"):
            for name, values in block[part].items():
                weights[f"{part}.{name}"] = values["weight"]
    weights["head"] = model.params["head"]
    kernels = {}
    for name, weight in weights.items():
        n_in, n_out = weight.shape
        kernels[f"{name} {n_in}x{n_out}"] = str(getattr(weight, "kernel", "plain"))
    return kernels
