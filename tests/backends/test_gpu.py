"""The CuPy backend. Where there is no GPU, NumPy stands in for CuPy, with kernels that run on the
CPU, and strict arrays for its arrays (see also test_gpt2.py); the tests marked gpu run where CuPy
finds a device.
"""

import importlib
import math
import sys
from dataclasses import replace

import emulated_cupy
import numpy as np
import pytest
import strict
from toys import NUMPY, refusal

import backends
import gpt2
import utils
from backends.backend import get_backend
from checkpoints.registry import MODELS_DIR
from cli.machine import describe_machine
from decoding import random_models
from decoding.batching import read_together
from decoding.decode import begin, encode_prompt
from decoding.eagle import EagleConfig
from decoding.heads import build_head
from decoding.medusa import MedusaConfig
from gpt2 import Config
from sampling import SamplingParams

CONFIG = Config(300, 32, 64, 4, 2)


def forget():
    """Let the next import of backends.gpu see the CuPy of then."""
    sys.modules.pop("backends.gpu", None)
    vars(backends).pop("gpu", None)


@pytest.fixture
def cupy(monkeypatch):
    module = emulated_cupy.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    forget()
    yield module
    forget()


def real_gpu():
    """The backend of a GPU that CuPy finds; without one the test is skipped."""
    try:
        return get_backend("cupy")
    except ValueError as refusal:
        pytest.skip(str(refusal))


def logits(model):
    return model.read(list(range(20)), model.new_cache(), n_last=5)


# ---------------------------------------------------------------- kernels, and the definitions


@pytest.fixture(params=["emulated", pytest.param("real", marks=pytest.mark.gpu)])
def gpu(request):
    """The module backends.gpu."""
    if request.param == "emulated":
        request.getfixturevalue("cupy")
    else:
        real_gpu()
    return importlib.import_module("backends.gpu")


rng_of = np.random.default_rng
rng = rng_of(0)


def assert_close(gpu, found, expected):
    """found: on the GPU, in float32."""
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_allclose(gpu.cupy.asnumpy(found), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.elsewhere
@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 64, 100, 1600])
@pytest.mark.parametrize("n_rows", [0, 1, 5])
def test_layer_norm(gpu, n, n_rows):
    x = 3 + 10 * rng.standard_normal((2 * n_rows, n))
    gain, bias = rng.standard_normal((2, 1, n))
    on_gpu = [gpu.asarray(array) for array in (x, gain, bias)]
    x, on_gpu[0] = x[::2], on_gpu[0][::2]  # every other row lies in memory
    expected = gpt2.layer_norm(x, gain, bias, 1e-5, np)
    found = gpu.layer_norm(*on_gpu, epsilon=1e-5, xp=gpu.cupy)
    assert_close(gpu, found, expected)
    assert np.array_equal(gpu.cupy.asnumpy(on_gpu[0]), x.astype(np.float32))  # the caller keeps it


@pytest.mark.elsewhere
@pytest.mark.parametrize("n_head, n_new, n_read", [
    (1, 1, 0), (4, 1, 31), (4, 1, 32), (3, 5, 0), (3, 2, 64), (2, 17, 20), (12, 1, 1023),
])  # fmt: skip
@pytest.mark.parametrize("size", [1, 100])
def test_attention_and_its_softmax(gpu, n_head, n_new, n_read, size):
    """Of keys and values in a longer cache; of scores too, whose exp is more than a float holds."""
    n_total, d_head = n_read + n_new, 6
    q, v = rng.standard_normal((2, n_head, n_total + 9, d_head))
    k = size * rng.standard_normal((n_head, d_head, n_total + 9))
    cut = lambda q, k, v: (q[:, :n_new], k[..., :n_total], v[:, :n_total])
    expected = gpt2.dot_product_attention(*cut(q, k, v), np)
    found = gpu.dot_product_attention(*cut(*map(gpu.asarray, (q, k, v))), gpu.cupy)
    assert np.abs(found - gpu.asarray(expected)).max() < 1e-5 * size


@pytest.mark.elsewhere
@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (5, 77)])
def test_gelu(gpu, shape):
    """Of an array, and of a product with the bias that it waits for."""
    x, w, bias = 4 * rng.standard_normal(shape), rng.standard_normal((shape[1], 9)), np.ones((1, 9))
    probability = np.vectorize(lambda x: 0.5 * math.erfc(-x * math.sqrt(0.5)), otypes=[float])
    for kernel, formula in (
        (gpu.gelu, lambda x: gpt2.gelu(x, np)),
        (gpu.exact_gelu, lambda x: x * probability(x)),
    ):
        assert_close(gpu, kernel(gpu.asarray(x), gpu.cupy), formula(x))
        product = gpu.asarray(x) @ gpu.Weight(w)
        product += gpu.asarray(bias)
        assert_close(gpu, kernel(product, gpu.cupy), formula(x @ w + 1))


@pytest.mark.elsewhere
@pytest.mark.parametrize("dtype, error", [("float32", 1e-5), ("float16", 0.03)])
@pytest.mark.parametrize("n_rows", [0, 1, 5])
def test_a_product_and_what_it_goes_into(gpu, dtype, error, n_rows):
    x, w, bias = (rng.standard_normal(shape) for shape in ((n_rows, 8), (8, 12), (1, 12)))
    residual, weight = rng.standard_normal((n_rows, 12)), gpu.Weight(w, np.dtype(dtype))
    product = lambda: gpt2.linear(gpu.asarray(x), weight, gpu.asarray(bias))
    for found, expected in (
        (gpu.asarray(residual) + product(), residual + (x @ w + bias)),
        (product().reshape(n_rows, 3, 4), (x @ w + bias).reshape(n_rows, 3, 4)),
        (gpu.asarray(gpu.to_host(gpu.asarray(x) @ weight)), x @ w),
    ):
        assert found.dtype == np.float32
        assert np.allclose(gpu.cupy.asnumpy(found), expected, rtol=0, atol=error)


# ---------------------------------------------------------------- a pass


@pytest.mark.elsewhere
@pytest.mark.parametrize("exact", [False, True])
def test_float32_is_the_same_pass(cupy, exact):
    config = replace(CONFIG, exact_gelu=exact)
    model = random_models.random_model(config, get_backend("cupy"), scale=0.1)
    expected = logits(random_models.random_model(config, NUMPY, scale=0.1))
    assert logits(model).dtype == np.float32
    assert np.allclose(logits(model), expected, rtol=0, atol=1e-5)
    assert np.shares_memory(model.params["wte"], model.params["head"].weight)


@pytest.mark.elsewhere
def test_float16_weights_in_a_float32_pass(cupy):
    model = random_models.random_model(CONFIG, get_backend("cupy-float16"), scale=0.1)
    weights = [model.params["blocks"][0]["mlp"][name]["weight"] for name in ("c_fc", "c_proj")]
    assert model.backend.name == "cupy-float16"  # differences of texts are judged by it
    for weight in (*weights, model.params["head"]):
        assert weight.weight.dtype == np.float16
    plain = random_models.random_model(CONFIG, NUMPY, scale=0.1)
    found, expected = logits(model), logits(plain)
    assert found.dtype == np.float32
    assert 0 < abs(found - expected).max() < 0.02 * expected.std()


@pytest.mark.elsewhere
@pytest.mark.parametrize("name, error", [("cupy", 1e-5), ("cupy-float16", 0.02)])
def test_several_texts_and_heads(cupy, name, error):
    """What else multiplies by the target's weights."""
    found = []
    for backend in (NUMPY, get_backend(name)):
        model = random_models.random_model(CONFIG, backend, scale=0.1)
        texts, caches = [[1, 2, 3], [4, 5, 6, 7, 8]], [model.new_cache() for _ in range(2)]
        found.append(list(read_together(model, texts, caches, [1, 2])))
        eagle_config = EagleConfig(**vars(CONFIG) | {"n_embd": 16, "n_layer": 1}, n_hidden=64)
        medusa_config = MedusaConfig(300, 32, 64, 3)
        eagle, medusa = (
            build_head(config, random_models.random_weights(config, scale=0.1), model)
            for config in (eagle_config, medusa_config)
        )
        cache = eagle.new_cache()
        cache.known = model.backend.asarray(rng_of(0).standard_normal((3, 64), np.float32))
        found[-1] += [eagle.read(ids, cache) for ids in ([1, 2, 3], [1, 2, 3, 4])]
        found[-1].append(medusa.logits(cache.known))
    for expected, logits in zip(*found, strict=True):
        assert logits.dtype == np.float32
        assert np.allclose(logits, expected, rtol=0, atol=error * expected.std())


@pytest.mark.elsewhere
def test_layer_norm_of_what_float16_cannot_square(cupy):
    """Trained models have activations in the thousands, whose squares float16 cannot hold."""
    read = random_models.random_weights(CONFIG)
    longer = lambda name: read(name) * np.float32(150_000 if name == "wpe.weight" else 1)
    backend = get_backend("cupy-float16")
    assert np.isfinite(logits(utils.build_model(CONFIG, longer, backend))).all()


def test_no_driver_is_one_line(cupy):
    def fail():
        raise Exception("cudaErrorInsufficientDriver: CUDA driver version\nis insufficient")

    cupy.cuda.runtime.getDeviceCount = fail
    message = refusal(get_backend, "cupy-float16")
    assert "'cupy-float16'" in message
    assert "cudaErrorInsufficientDriver" in message and "--backend numpy" in message


def test_cupy_that_is_not_installed(cupy, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    message = refusal(get_backend, "cupy-float16")
    assert "'cupy-float16'" in message and "pip install" in message


def test_an_unknown_backend():
    assert "'tpu': expected numpy, cupy or cupy-float16" in refusal(get_backend, "tpu")


# ---------------------------------------------------------------- texts and figures


@pytest.fixture(params=[
    "strict",
    pytest.param("emulated", marks=pytest.mark.elsewhere),
    pytest.param("real", marks=pytest.mark.gpu),
])  # fmt: skip
def device(request, pair):
    """(a backend, a folder of models): strict arrays or the emulated CuPy with the tiny pair, or
    CuPy with the included one.
    """
    if request.param == "strict":
        return strict.backend(np.float32), pair
    if request.param == "emulated":
        request.getfixturevalue("cupy")
        return get_backend("cupy"), pair
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
