"""Weights as many programs store them: with other names, with masks and heads, with more rows than
tokens, with attention scores scaled in another way. They are made those of gpt2.py, or refused.
"""

import math
import re
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from checkpoints.files import REFETCH
from checkpoints.formats.tensor import Tensor
from gpt2 import Config

PREFIX = r"(module\.|_orig_mod\.|model\.)*(transformer\.)?"  # what training leaves before names
# causal masks, and heads that a language model does not use
UNUSED = r"h\.\d+\.attn\.(masked_)?bias|multiple_choice_head\..*|v_head\..*"
HEAD, OLD_HEAD = "lm_head.weight", "lm_head.decoder.weight"  # the second before transformers
# between a number and the same stored in float16: relative, and absolute for numbers near 0
RELATIVE, ABSOLUTE = 2.0**-10, 2.0**-24
BLOCK = 1024  # rows of the embedding that are compared at a time, to spare memory


def fit_tensors(
    stored: dict[str, Tensor], config: Config, values: dict, path: Path
) -> dict[str, Tensor]:
    """The tensors of a checkpoint as gpt2.py wants them: {name: Tensor} with exactly the names and
    shapes of config.shapes().

    stored: {name in its file: Tensor}, all that the files of the weights have
    values: the JSON of config.json, which says how attention scores are scaled: where otherwise
        than by GPT-2, the tensors that make the queries multiply by the difference when read
    path: one of the files, to be named in an error about a tensor that is in none

    Left out are causal masks and unused heads (UNUSED), an output head with the numbers of the
    token embedding, and, with a warning, rows of the embedding behind its first n_vocab. A file may
    have the embedding as the output head only. Raises ValueError for a tensor that is missing,
    unknown or of another shape, for two of one name, and for an output head whose numbers differ
    from the embedding's by more than rounding to float16.
    """
    tensors = common_names(stored, path)
    head_name = HEAD if HEAD in tensors else OLD_HEAD
    head = tensors.pop(head_name, None)
    wte = tensors.get("wte.weight", head)  # some files have the one matrix as a head only
    if wte is not None:
        tensors["wte.weight"] = without_padding(wte, config)
    require_shapes(tensors, config, path)  # also refuses OLD_HEAD beside HEAD
    if head is not None:
        require_tied(head, tensors["wte.weight"])
    return tensors | scaled_queries(tensors, config, values)


def common_names(stored: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """The tensors `stored`, {name: Tensor}, by the names of gpt2.py: without what training leaves
    before them, such as module. or transformer. (PREFIX); masks and unused heads, such as
    h.0.attn.bias (UNUSED), are left out. Raises ValueError, which names the file `path`, if two
    tensors get one name.
    """
    tensors = {re.sub(PREFIX, "", name, count=1): tensor for name, tensor in stored.items()}
    if len(tensors) < len(stored):  # one has replaced another of its name
        raise ValueError(f"{path}: has a tensor with and without 'transformer.'; {REFETCH}")
    return {name: tensor for name, tensor in tensors.items() if not re.fullmatch(UNUSED, name)}


def without_padding(wte: Tensor, config: Config) -> Tensor:
    """The token embedding `wte` [n_rows, n_embd] cut to its first n_vocab rows, with a warning if
    it has more. One of another width than n_embd is returned as it is. Raises ValueError, which
    names its file, for one that has to be cut, but is stored by columns (wte.order).
    """
    n_vocab, n_embd = config.n_vocab, config.n_embd
    if wte.shape[1:] != (n_embd,) or wte.shape[0] <= n_vocab:
        return wte
    surplus = wte.shape[0] - n_vocab
    if wte.order != "C":
        problem = f"wte.weight has {surplus} rows of no token, and is stored by columns"
        raise ValueError(f"{wte.path}: {problem}; store it by rows, as contiguous() of torch does")
    warnings.warn(f"{wte.path}: the last {surplus} rows of wte.weight are of no token: left out")
    return replace(wte, shape=(n_vocab, n_embd))  # its rows follow one another: the first are read


def require_shapes(tensors: dict[str, Tensor], config: Config, path: Path) -> None:
    """Raise ValueError unless the tensors {name: Tensor} have exactly the names and shapes of
    config.shapes(). It names the file of a tensor of another shape, else `path`.
    """
    shapes = config.shapes()
    for name, shape in shapes.items():
        if name not in tensors:
            raise ValueError(f"{path}: lacks the tensor {name}; the file does not match its config")
        found = tensors[name].shape
        if found != shape:
            said = f"{name} has shape {list(found)}; its config says {list(shape)}"
            raise ValueError(f"{tensors[name].path}: {said}")
    extra = sorted(tensors.keys() - shapes.keys())
    if extra:
        raise ValueError(f"{path}: has {len(extra)} tensors GPT-2 does not, such as {extra[0]!r}")


def require_tied(head: Tensor, wte: Tensor) -> None:
    """Compare an output head [n_rows, n_embd] with the token embedding `wte` [n_vocab, n_embd], row
    by row; rows behind the first n_vocab, padding, are not compared. Raises ValueError, which names
    the head's file, if they differ, or if it has fewer rows. If they differ by no more than
    rounding to float16 (`are_close`), it only warns that the head is left out.
    """
    wanted = wte.stored()
    found = head.stored()[: len(wanted)]
    if np.array_equal(found, wanted):
        return
    if not are_close(found, wanted):  # or if rows are missing
        raise ValueError(f"{head.path}: lm_head.weight differs from wte.weight; GPT-2 ties them")
    warnings.warn(f"{head.path}: lm_head.weight is wte.weight, but for rounding: left out")


def are_close(found: np.ndarray, wanted: np.ndarray) -> bool:  # 2 x [n_rows, n_embd]
    """Whether the arrays have one shape, and each number differs from the wanted one by at most
    2^-10 of that plus 2^-24, as after rounding to float16.
    """
    if found.shape != wanted.shape:
        return False
    for begin in range(0, len(wanted), BLOCK):  # some rows at a time, to spare memory
        rows = slice(begin, begin + BLOCK)
        if not np.allclose(found[rows], wanted[rows], rtol=RELATIVE, atol=ABSOLUTE):
            return False
    return True


@dataclass(frozen=True)
class ScaledQueries(Tensor):
    """A Tensor c_attn, the weight or the bias. Its columns are three equal parts, which make the
    queries, the keys and the values: `read` multiplies the first part by `scale`.
    """

    scale: float = 1

    def read(self, dtype: DTypeLike) -> np.ndarray:
        """A copy of the array in this dtype, scaled. Raises ValueError as Tensor.read does."""
        array = super().read(dtype)
        array[..., : array.shape[-1] // 3] *= self.scale
        return array


def scaled_queries(tensors: dict[str, Tensor], config: Config, values: dict) -> dict[str, Tensor]:
    """The weights and biases c_attn of all layers, which make queries, keys and values, as {name:
    ScaledQueries}: tensors that multiply what makes the queries by the layer's scale when read.

    tensors: {name: Tensor} of config.shapes(); values: the JSON of config.json
    """
    scaled: dict[str, Tensor] = {}
    for layer in range(config.n_layer):
        scale = query_scale(layer, config, values)
        for name in (f"h.{layer}.attn.c_attn.weight", f"h.{layer}.attn.c_attn.bias"):
            fields = asdict(tensors[name])  # of a Tensor; ScaledQueries has these and the scale
            scaled[name] = ScaledQueries(**fields, scale=scale)
    return scaled


def query_scale(layer: int, config: Config, values: dict) -> float:
    """What the queries of a layer, counted from 0, are multiplied by, so that the scores of
    attention are scaled as config.json wants it. values: its JSON. With
    "scale_attn_by_inverse_layer_idx", scores are divided by the number of the layer, from 1. With
    "scale_attn_weights" false, they are not divided by the root of a head's width n_embd / n_head:
    as gpt2.dot_product_attention always does so, the scale is that root.
    """
    scale = 1.0
    if values.get("scale_attn_by_inverse_layer_idx"):
        scale /= layer + 1
    if not values.get("scale_attn_weights", True):
        scale *= math.sqrt(config.n_embd // config.n_head)
    return scale
