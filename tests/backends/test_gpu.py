"""The CuPy backend. Where there is no GPU, NumPy stands in for CuPy, and strict arrays for its
arrays (see also test_gpt2.py); the tests marked gpu run where CuPy finds a device.
"""

import sys
import types

import numpy as np
import pytest
import strict
from toys import NUMPY, refusal

import backends
import utils
from backends.backend import get_backend
from checkpoints.registry import MODELS_DIR
from cli.machine import describe_machine
from decoding.decode import begin, encode_prompt
from gpt2 import Config
from sampling import SamplingParams

CONFIG = Config(300, 32, 64, 4, 2)
NAMES = "asarray float16 float32 dtype empty full triu exp tanh concatenate".split()


def forget():
    """Let the next import of backends.gpu see the CuPy of then."""
    sys.modules.pop("backends.gpu", None)
    vars(backends).pop("gpu", None)


@pytest.fixture
def cupy(monkeypatch):
    module = types.ModuleType("cupy")
    for name in NAMES:
        setattr(module, name, getattr(np, name))
    module.asnumpy = np.asarray
    runtime = types.SimpleNamespace(getDeviceCount=lambda: 1)
    module.cuda = types.SimpleNamespace(runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", module)
    forget()
    yield module
    forget()


def logits(model):
    return model.read(list(range(20)), model.new_cache(), n_last=5)


def test_float32_is_the_same_pass(cupy):
    model = utils.random_model(CONFIG, get_backend("cupy"), scale=0.1)
    assert np.array_equal(logits(model), logits(utils.random_model(CONFIG, NUMPY, scale=0.1)))
    assert np.shares_memory(model.params["wte"], model.params["head"])


def test_float16_weights_in_a_float32_pass(cupy):
    model = utils.random_model(CONFIG, get_backend("cupy-float16"), scale=0.1)
    weights = [part["weight"] for part in model.params["blocks"][0]["mlp"].values()]
    for weight in (*weights, model.params["head"]):
        assert weight.weight.dtype == np.float16
    plain = utils.random_model(CONFIG, NUMPY, scale=0.1)
    found, expected = logits(model), logits(plain)
    assert found.dtype == np.float32
    assert 0 < abs(found - expected).max() < 0.02 * expected.std()


def test_layer_norm_of_what_float16_cannot_square(cupy):
    """Trained models have activations in the thousands, whose squares float16 cannot hold."""
    read = utils.random_weights(CONFIG)
    longer = lambda name: read(name) * np.float32(150_000 if name == "wpe.weight" else 1)
    backend = get_backend("cupy-float16")
    assert np.isfinite(logits(utils.build_model(CONFIG, longer, backend))).all()


def test_no_driver_is_one_line(cupy):
    def fail():
        raise Exception("cudaErrorInsufficientDriver: CUDA driver version\nis insufficient")

    cupy.cuda.runtime.getDeviceCount = fail
    message = refusal(get_backend, "cupy")
    assert "cudaErrorInsufficientDriver" in message and "--backend numpy" in message


def test_cupy_that_is_not_installed(cupy, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert "pip install" in refusal(get_backend, "cupy")


def test_an_unknown_backend():
    assert "'tpu': expected numpy, cupy or cupy-float16" in refusal(get_backend, "tpu")


# ---------------------------------------------------------------- texts and figures


def real_gpu():
    """The backend of a GPU that CuPy finds; without one the test is skipped."""
    try:
        return get_backend("cupy")
    except ValueError as refusal:
        pytest.skip(str(refusal))


@pytest.fixture(params=["strict", pytest.param("cupy", marks=pytest.mark.gpu)])
def device(request, pair):
    """(a backend, a folder of models): strict arrays with the tiny pair, or CuPy with the included
    one.
    """
    if request.param == "strict":
        return strict.backend(np.float32), pair
    return real_gpu(), MODELS_DIR


def test_texts_and_figures_are_those_of_numpy(device):
    """Logits to within float32's rounding; the same tokens in the same rounds."""
    backend, folder = device
    (host, draft), encoder = utils.load_models(["17M", "0.7M-17M"], folder, NUMPY)
    (target, draft_there), _ = utils.load_models(["17M", "0.7M-17M"], folder, backend)
    ids = encode_prompt("Once upon a time", encoder, host)
    expected, found = (model.read(ids, model.new_cache(), len(ids)) for model in (host, target))
    assert np.abs(found - expected).max() < 1e-3
    n_tokens = host.config.n_ctx // 2
    for options in ({}, {"coupled": True, "to_probs": SamplingParams(0.8)}):
        expected, found = (
            list(begin("speculative", *pair, encoder, ids, n_tokens, **options))
            for pair in ((host, draft), (target, draft_there))
        )
        assert found == expected and sum(len(this_round.draft) for this_round in found) > 0


@pytest.mark.gpu
def test_the_gpu_has_a_name():
    real_gpu()
    assert describe_machine("cupy")["gpu"]
