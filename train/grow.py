"""A larger model from a smaller one: twice as wide, the same function (Net2Net, Chen et al. 2015,
arXiv 1511.05641).

Every number that flows through the model is there twice, side by side. Why the function stays the
same:

- Layer norm of [x, x] is the layer norm of x, twice: mean and variance stay.
- A linear layer reads each of its inputs twice, so the two weights of a pair add up to the old one.
  They are not halves but w r and w (1 - r), with another r for every weight: two equal copies would
  get equal gradients for ever, and the model could never use its width.
- Its outputs are computed twice. Attention thus has twice as many heads, each as wide as before, so
  scores are scaled as before.
- The output head is the embedding, which is there twice as well: logits would double, so the final
  norm is halved.

A little noise, relative to the standard deviation of a matrix, makes the copies differ more. Layers
may be left out. That does change the function, and training repairs it.
"""

from collections.abc import Iterable

import numpy as np


def duplicate(x):  # [..., n] -> [..., 2 n]
    """Return two copies of an array x side by side, along the last axis."""
    return np.concatenate([x, x], axis=-1)


def duplicate_qkv(x):  # [..., 3 n] -> [..., 6 n]
    """Duplicate queries, keys and values, which lie side by side in x, each on their own:
    [q, k, v] becomes [q, q, k, k, v, v].
    """
    return np.concatenate([duplicate(part) for part in np.split(x, 3, axis=-1)], axis=-1)


def split_inputs(w, rng: np.random.Generator):  # [n_in, n_out] -> [2 n_in, n_out]
    """Split each weight of a matrix w at random into two uneven parts (3/8 to 5/8) that add up to
    it, for the two copies of its input: first the rows of all first parts, then those of all second
    parts.
    """
    r = rng.uniform(0.375, 0.625, w.shape).astype(w.dtype)
    return np.concatenate([w * r, w * (1 - r)])


def grow(
    tensors: dict[str, np.ndarray],
    layers: Iterable[int],
    rng: np.random.Generator,
    noise: float = 0.0,
) -> dict[str, np.ndarray]:
    """Make the parameters of a GPT-2 twice as wide from those of a GPT-2. Tensors are {name
    as stored: array}. With all layers and no noise the logits stay the same.

    layers: the indices of the layers to keep, in order
    noise: how much noise is added to each matrix: its standard deviation over the matrix's own
    """
    grown = {
        "wte.weight": duplicate(tensors["wte.weight"]),
        "wpe.weight": duplicate(tensors["wpe.weight"]),
        # halved, because the output head adds up both copies
        "ln_f.weight": duplicate(tensors["ln_f.weight"]) / 2,
        "ln_f.bias": duplicate(tensors["ln_f.bias"]) / 2,
    }
    for new, old in enumerate(layers):
        for norm in ("ln_1", "ln_2"):
            for part in ("weight", "bias"):
                grown[f"h.{new}.{norm}.{part}"] = duplicate(tensors[f"h.{old}.{norm}.{part}"])
        for linear in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
            duplicate_outputs = duplicate_qkv if linear == "attn.c_attn" else duplicate
            # each input comes twice: two random parts of its weight, which add up to it
            weight = split_inputs(tensors[f"h.{old}.{linear}.weight"], rng)
            grown[f"h.{new}.{linear}.weight"] = duplicate_outputs(weight)
            bias = tensors[f"h.{old}.{linear}.bias"]
            grown[f"h.{new}.{linear}.bias"] = duplicate_outputs(bias)
    for array in grown.values():
        if noise and array.ndim == 2:
            array += noise * array.std() * rng.standard_normal(array.shape, dtype=array.dtype)
    return grown
