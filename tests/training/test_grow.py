"""A model that is grown to twice its width computes what it computed before."""

import dataclasses

import numpy as np
import pytest
from toys import NUMPY, TINY, random_tensors

import utils
from experiments.training.grow import grow
from gpt2 import Config

SMALL = Config(n_vocab=11, n_ctx=9, n_embd=6, n_head=3, n_layer=3)
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def logits(config, tensors):
    model = utils.build_model(config, lambda name: tensors[name], NUMPY, np.float64)
    return model.read(IDS, model.new_cache(), n_last=len(IDS))


def twice_as_wide(config, n_layer):
    return dataclasses.replace(
        config, n_embd=2 * config.n_embd, n_head=2 * config.n_head, n_layer=n_layer
    )


@pytest.mark.parametrize("config", [SMALL, dataclasses.replace(TINY, n_layer=1)])
def test_a_grown_model_has_the_same_logits_and_can_grow_again(config):
    tensors = random_tensors(config, dtype=np.float64)
    expected, wide = logits(config, tensors), config
    for seed in range(2):
        tensors = grow(tensors, range(config.n_layer), np.random.default_rng(seed))
        wide = twice_as_wide(wide, config.n_layer)
        assert {name: array.shape for name, array in tensors.items()} == wide.shapes()
        assert np.allclose(logits(wide, tensors), expected, atol=1e-9)


def test_the_layers_that_are_kept_are_those_named():
    tensors = random_tensors(SMALL, dtype=np.float64)
    grown = grow(tensors, [0, 2], np.random.default_rng(0))
    short = {name.replace("h.2.", "h.1."): a for name, a in tensors.items() if "h.1." not in name}
    expected = logits(dataclasses.replace(SMALL, n_layer=2), short)
    assert np.allclose(logits(twice_as_wide(SMALL, 2), grown), expected, atol=1e-9)


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
