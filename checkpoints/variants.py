"""Weights as many programs store them: with other names, with masks and heads, with more rows than
tokens, with attention scores scaled in another way. They are made those of gpt2.py, or refused.
"""

import math
import re
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from checkpoints.files import REFETCH
from checkpoints.formats.tensor import Tensor
from gpt2 import Config

PREFIX = r"(module\.|_orig_mod\.|model\.)*(transformer\.)?"  # what training leaves before names
# causal masks, and heads that a language model does not use
UNUSED = r"h\.\d+\.attn\.(masked_)?bias|multiple_choice_head\..*|v_head\..*"
HEADS = ("lm_head.weight", "lm_head.decoder.weight")  # the second before transformers
ROUNDING = 2.0**-10, 2.0**-24  # of float16: relative, and near 0


def fit_tensors(
    stored: dict[str, Tensor], config: Config, values: dict, path: Path
) -> dict[str, Tensor]:
    """The tensors of config.shapes(), out of those that the files of the weights have.

    Left out are masks and heads (UNUSED), an output head that is the token embedding, and with a
    warning rows of the embedding behind its n_vocab tokens. Queries are scaled as the values of
    config.json say. Raises ValueError, about `path` or the file of a tensor, for one that is
    missing, unknown or of another shape, for two of one name, and for an output head of its own.
    """
    tensors = common_names(stored, path)
    head = next((tensors.pop(name) for name in HEADS if name in tensors), None)
    wte = tensors.get("wte.weight", head)  # some files have the one matrix as a head only
    if wte:
        tensors["wte.weight"] = without_padding(wte, config)
    require_shapes(tensors, config, path)
    if head:
        require_tied(head, tensors["wte.weight"])
    return tensors | scaled_queries(tensors, config, values)


def common_names(stored: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Tensors by the names of gpt2.py: without what training leaves before them, such as module. or
    transformer. (PREFIX); masks and unused heads, such as h.0.attn.bias (UNUSED), are left out.
    Raises ValueError, about `path`, if two tensors get one name.
    """
    tensors = {re.sub(PREFIX, "", name, count=1): tensor for name, tensor in stored.items()}
    if len(tensors) < len(stored):
        raise ValueError(f"{path}: has a tensor with and without 'transformer.'; {REFETCH}")
    return {name: tensor for name, tensor in tensors.items() if not re.fullmatch(UNUSED, name)}


def without_padding(wte: Tensor, config: Config) -> Tensor:
    """The token embedding without the rows behind its n_vocab tokens, of which it warns. One whose
    rows do not follow one another in the file, or of another width, is returned as it is.
    """
    wanted = config.n_vocab, config.n_embd
    surplus = wte.shape[0] - config.n_vocab if wte.shape[1:] == wanted[1:] else 0
    if surplus <= 0 or wte.order != "C":
        return wte
    warnings.warn(f"{wte.path}: the last {surplus} rows of wte.weight are of no token: left out")
    return replace(wte, shape=wanted)


def require_shapes(tensors: dict[str, Tensor], config: Config, path: Path) -> None:
    """Raise ValueError, about `path` or the file of a tensor, unless the tensors are those of
    config.shapes().
    """
    shapes = config.shapes()
    for name, shape in shapes.items():
        if name not in tensors:
            raise ValueError(f"{path}: lacks the tensor {name}; the file does not match its config")
        found = tensors[name].shape
        if found != shape:
            said = f"{name} has shape {list(found)}; its config says {list(shape)}"
            raise ValueError(f"{tensors[name].path}: {said}")
    if extra := sorted(tensors.keys() - shapes.keys()):
        raise ValueError(f"{path}: has {len(extra)} tensors GPT-2 does not, such as {extra[0]!r}")


def require_tied(head: Tensor, wte: Tensor) -> None:
    """Raise ValueError unless an output head has the numbers of the token embedding. If they differ
    by float16's rounding only, warn that the embedding is taken.
    """
    b = wte.stored()
    a = head.stored()[: len(b)]  # without padding, as wte is
    if np.array_equal(a, b):
        return
    parts = (slice(begin, begin + 1024) for begin in range(0, len(b), 1024))  # to spare memory
    is_close = a.shape == b.shape and all(np.allclose(a[x], b[x], *ROUNDING) for x in parts)
    if not is_close:
        raise ValueError(f"{head.path}: lm_head.weight differs from wte.weight; GPT-2 ties them")
    warnings.warn(f"{head.path}: lm_head.weight is wte.weight, but for rounding: left out")


@dataclass(frozen=True)
class ScaledQueries(Tensor):
    """A tensor c_attn. The first third of its columns makes the queries: `read` multiplies these by
    `scale`.
    """

    scale: float = 1

    def read(self, dtype: DTypeLike) -> np.ndarray:
        """A copy of the array in this dtype, scaled. Raises ValueError as Tensor.read does."""
        array = super().read(dtype)
        array[..., : array.shape[-1] // 3] *= self.scale
        return array


def scaled_queries(tensors: dict[str, Tensor], config: Config, values: dict) -> dict[str, Tensor]:
    """{name: ScaledQueries} of the weight and bias of c_attn in all layers. Their scale is what the
    values of config.json multiply attention scores by, besides the division by the root of a head's
    width in gpt2.dot_product_attention.
    """
    scaled: dict[str, Tensor] = {}
    for layer in range(config.n_layer):
        scale = 1 / (layer + 1) if values.get("scale_attn_by_inverse_layer_idx") else 1.0
        if not values.get("scale_attn_weights", True):  # no division is wanted
            scale *= math.sqrt(config.n_embd // config.n_head)
        for name in (f"h.{layer}.attn.c_attn.weight", f"h.{layer}.attn.c_attn.bias"):
            scaled[name] = ScaledQueries(**vars(tensors[name]), scale=scale)  # the same fields
    return scaled
