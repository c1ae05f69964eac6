"""A larger model from a smaller one: twice as wide, the same function (Net2Net, Chen et al. 2015,
arXiv 1511.05641).

Every number that flows through the model is there twice, side by side. That this changes nothing:

- Layer norm of [x, x] is the layer norm of x, twice: mean and variance stay.
- A linear layer reads each of its inputs twice, so the two weights of a pair add up to the old one.
  They are not halves but w r and w (1 - r), with another r for every weight: two equal copies would
  get equal gradients for ever, and the model could never use its width.
- Its outputs are computed twice. Attention thus has twice as many heads, each as wide as before, so
  scores are scaled as before.
- The output head is the embedding, which is there twice as well: logits would double, so the final
  norm is halved.

A little noise on top, relative to the spread of a matrix, parts the copies further. Layers may be
left out, which does change the function; what is left is trained on.
"""

import numpy as np


def duplicate(x):  # [..., n] -> [..., 2 n]
    """Put two copies of x side by side, along the last axis."""
    return np.concatenate([x, x], axis=-1)


def duplicate_qkv(x):  # [..., 3 n] -> [..., 6 n]
    """Duplicate queries, keys and values each on their own: x holds the three side by side."""
    return np.concatenate([duplicate(part) for part in np.split(x, 3, axis=-1)], axis=-1)


def split_inputs(w, rng):  # [n_in, n_out] -> [2 n_in, n_out]
    """Split each weight into two uneven parts, for the two copies of its input."""
    r = rng.uniform(0.375, 0.625, w.shape).astype(w.dtype)
    return np.concatenate([w * r, w * (1 - r)])


def grow(tensors, layers, rng, noise=0.0):
    """Return the parameters of a model twice as wide as a GPT-2, {name: array} as stored.

    layers: which ones to keep, in order. With all of them and no noise the logits stay the same.
    """
    grown = {
        "wte.weight": duplicate(tensors["wte.weight"]),
        "wpe.weight": duplicate(tensors["wpe.weight"]),
        "ln_f.weight": duplicate(tensors["ln_f.weight"]) / 2,
        "ln_f.bias": duplicate(tensors["ln_f.bias"]) / 2,
    }
    for new, old in enumerate(layers):
        for norm in ("ln_1", "ln_2"):
            for kind in ("weight", "bias"):
                grown[f"h.{new}.{norm}.{kind}"] = duplicate(tensors[f"h.{old}.{norm}.{kind}"])
        for linear in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
            outputs = duplicate_qkv if linear == "attn.c_attn" else duplicate
            weight = split_inputs(tensors[f"h.{old}.{linear}.weight"], rng)
            grown[f"h.{new}.{linear}.weight"] = outputs(weight)
            grown[f"h.{new}.{linear}.bias"] = outputs(tensors[f"h.{old}.{linear}.bias"])
    for array in grown.values():
        if noise and array.ndim == 2:
            array += noise * array.std() * rng.standard_normal(array.shape, dtype=array.dtype)
    return grown
