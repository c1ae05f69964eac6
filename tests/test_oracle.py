"""The model and the filters against transformers itself, where it and torch are installed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_golden import recipe, reference, reference_logits
from toys import NUMPY, load_model

import utils
from checkpoints.registry import MODELS_DIR
from gpt2 import Config
from sampling import SamplingParams

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.oracle

SMALL = [
    Config(259, 24, 16, 2, 2),
    Config(31, 40, 30, 5, 3),
    Config(7, 8, 4, 1, 1),
    Config(101, 24, 24, 3, 2, 1e-2),
]


def pair(config, dtype, seed=0):
    """(our model, theirs), with the same random weights."""
    read = recipe(config, dtype, seed)
    return utils.build_model(config, read, NUMPY), reference(config, read, dtype)


def random_ids(config, n, seed=0):
    return np.random.default_rng(seed).integers(config.n_vocab, size=n).tolist()


def difference(model, expected_model, ids):
    expected = reference_logits(expected_model, [ids])[0]
    logits = model.read(ids, model.new_cache(), n_last=len(ids))
    assert logits.shape == expected.shape and logits.dtype == expected.dtype
    assert abs(expected).max() > 0.5
    return abs(logits - expected).max()


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-4), (np.float64, 1e-10)])
@pytest.mark.parametrize("config", SMALL, ids=str)
def test_small_models(config, dtype, tolerance):
    for seed in range(3):
        ours, theirs = pair(config, dtype, seed)
        for n in (1, config.n_ctx // 2, config.n_ctx):
            assert difference(ours, theirs, random_ids(config, n, seed)) <= tolerance


@pytest.mark.parametrize("size", ["0.7M", "7M", "0.7M-17M", "17M"])
def test_embedded_models(size):
    """The folders are what they claim: checkpoints in Hugging Face's format."""
    folder = Path(MODELS_DIR) / size
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder).float().eval()
    ours = load_model(folder)
    assert ours.config.n_layer == len(theirs.transformer.h)
    for n in (1, 40, ours.config.n_ctx):
        assert difference(ours, theirs, random_ids(ours.config, n)) <= 3e-4


@given(
    seed=st.integers(0, 10**6),
    n_vocab=st.sampled_from([1, 2, 17, 259, 2048]),
    spread=st.sampled_from([0.1, 1.0, 5.0]),
    temperature=st.floats(0.05, 5),
    top_k=st.one_of(st.none(), st.integers(1, 60)),
    top_p=st.one_of(st.just(1.0), st.floats(0.01, 0.999)),
)
def test_filters(seed, n_vocab, spread, temperature, top_k, top_p):
    """As transformers' warpers in generate()'s order. (Of ties they keep all; here are none.)"""
    logits = spread * np.random.default_rng(seed).standard_normal((3, n_vocab))
    warpers = [transformers.TemperatureLogitsWarper(temperature)]
    if top_k:
        warpers.append(transformers.TopKLogitsWarper(top_k))
    if top_p < 1:
        warpers.append(transformers.TopPLogitsWarper(top_p))
    scores = torch.from_numpy(logits)
    for warper in warpers:
        scores = warper(None, scores)
    expected = scores.softmax(dim=-1).numpy()
    found = SamplingParams(temperature, top_k, top_p)(logits)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert ((found > 0) == (expected > 0)).all()  # the same tokens, also where 1e-6 would not tell
