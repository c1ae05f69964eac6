"""Small heads with random weights."""

import numpy as np

from decoding.eagle import EagleConfig
from decoding.heads import build_head
from decoding.medusa import MedusaConfig

EAGLE, MEDUSA = "eagle", "medusa"


def head_config(kind, config):
    if kind == MEDUSA:
        return MedusaConfig(config.n_vocab, config.n_ctx, config.n_embd, 2, config.epsilon)
    shape = {"n_embd": 6, "n_head": 2, "n_layer": 1, "n_hidden": config.n_embd}
    return EagleConfig(config.n_vocab, config.n_ctx, **shape)


def head_tensors(config, seed=5, scale=0.6):
    rng = np.random.default_rng(seed)
    return {name: scale * rng.standard_normal(shape) for name, shape in config.shapes().items()}


def toy_head(kind, target, dtype=np.float64):
    """A head that has something to say, for a target that is a small Model."""
    config = head_config(kind, target.config)
    tensors = head_tensors(config)
    return build_head(config, lambda name: tensors[name].astype(dtype), target)
