"""A model that is grown to twice its width computes what it computed before."""

import dataclasses

import numpy as np
import pytest
from toys import NUMPY, random_tensors

import utils
from gpt2 import Config
from train.grow import grow

SMALL = Config(n_vocab=11, n_ctx=9, n_embd=6, n_head=3, n_layer=3)
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def logits(config, tensors, layers):
    """Those of a model, of which only these layers are used."""
    model = utils.build_model(config, tensors.__getitem__, NUMPY)
    model.params["blocks"] = [model.params["blocks"][layer] for layer in layers]
    return model.read(IDS, model.new_cache(), n_last=len(IDS))


@pytest.mark.parametrize("layers", [[0, 1, 2], [0, 2], [1]])
def test_a_grown_model_has_the_logits_of_the_layers_it_keeps_and_can_grow_again(layers):
    config = dataclasses.replace(SMALL, n_layer=len(layers))
    tensors = random_tensors(SMALL, dtype=np.float64)
    expected = logits(SMALL, tensors, layers)
    for seed in range(2):
        tensors = grow(tensors, layers, np.random.default_rng(seed))
        layers = range(len(layers))
        config = dataclasses.replace(config, n_embd=2 * config.n_embd, n_head=2 * config.n_head)
        assert {name: array.shape for name, array in tensors.items()} == config.shapes()
        assert np.allclose(logits(config, tensors, layers), expected, atol=1e-9)


def test_the_two_copies_of_a_weight_differ_and_noise_is_small():
    """Equal copies would get the same gradients, and stay one weight."""
    tensors = random_tensors(SMALL, dtype=np.float64)
    plain, noisy = (grow(tensors, range(3), np.random.default_rng(0), n) for n in (0.0, 0.02))
    for name, array in plain.items():
        moved = abs(noisy[name] - array).max()
        assert 0 < moved < 0.1 * array.std() if array.ndim == 2 else moved == 0
        if name.startswith("h.") and array.ndim == 2:
            n = len(array) // 2
            assert (array[:n] != array[n:]).all()
