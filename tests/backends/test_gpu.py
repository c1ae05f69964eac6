"""The CuPy backend without a GPU: NumPy stands in for CuPy. Strict arrays: test_gpt2.py."""

import sys
import types

import numpy as np
import pytest
from toys import NUMPY, refusal

import backends
import utils
from experiments.data.machine import kernels_of
from gpt2 import Config

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
    stream = types.SimpleNamespace(synchronize=lambda: None)
    module.cuda = types.SimpleNamespace(runtime=runtime, get_current_stream=lambda: stream)
    monkeypatch.setitem(sys.modules, "cupy", module)
    forget()
    yield module
    forget()


def logits(model):
    return model.read(list(range(20)), model.new_cache(), n_last=5)


def test_float32_is_the_same_pass(cupy):
    model = utils.random_model(CONFIG, utils.get_backend("cupy"), scale=0.1)
    assert np.array_equal(logits(model), logits(utils.random_model(CONFIG, NUMPY, scale=0.1)))
    assert np.shares_memory(model.params["wte"], model.params["head"])
    model.backend.synchronize()


def test_float16_weights_in_a_float32_pass(cupy):
    model = utils.random_model(CONFIG, utils.get_backend("cupy", dtype="float16"), scale=0.1)
    weights = [part["weight"] for part in model.params["blocks"][0]["mlp"].values()]
    for weight in (*weights, model.params["head"]):
        assert weight.weight.dtype == np.float16
    plain = utils.random_model(CONFIG, NUMPY, scale=0.1)
    found, expected = logits(model), logits(plain)
    assert found.dtype == np.float32
    assert 0 < abs(found - expected).max() < 0.02 * expected.std()
    assert kernels_of(model).keys() == kernels_of(plain).keys()


def test_layer_norm_of_what_float16_cannot_square(cupy):
    """Trained models have activations in the thousands, whose squares float16 cannot hold."""
    read = utils.random_weights(CONFIG)
    longer = lambda name: read(name) * np.float32(150_000 if name == "wpe.weight" else 1)
    backend = utils.get_backend("cupy", dtype="float16")
    assert np.isfinite(logits(utils.build_model(CONFIG, longer, backend, np.float32))).all()


def test_no_driver_is_one_line(cupy):
    def fail():
        raise Exception("cudaErrorInsufficientDriver: CUDA driver version\nis insufficient")

    cupy.cuda.runtime.getDeviceCount = fail
    message = refusal(utils.get_backend, "cupy")
    assert "cudaErrorInsufficientDriver" in message and "--backend numpy" in message


def test_cupy_that_is_not_installed(cupy, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert "pip install" in refusal(utils.get_backend, "cupy")


@pytest.mark.parametrize("arguments, message", [
    (("numpy", "auto", False, "float16"), "float16 with --backend cupy"),
    (("cupy", "auto", False, "float64"), "float16 with --backend cupy"),
    (("cupy", "auto", True), "exact: expected --backend numpy"),
    (("tpu",), "expected numpy or cupy"),
])  # fmt: skip
def test_what_a_backend_cannot_do(cupy, arguments, message):
    assert message in refusal(utils.get_backend, *arguments)
