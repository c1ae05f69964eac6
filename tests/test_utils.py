"""Models and encoders from folders, on a backend."""

import dataclasses
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from edits import SMALL, logits
from toys import NUMPY, TINY, refusal, write_checkpoint

import utils
from backends import memory, tiles
from experiments.data.machine import kernels_of
from gpt2 import Config


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "model", SMALL)


# ---------------------------------------------------------------- what a loaded model is made of


def leaves(tree):
    for branch in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(branch, (dict, list)):
            yield from leaves(branch)
        else:
            yield branch


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_dtype_throughout(folder, dtype):
    """One float64 constant would turn the whole residual stream, and cost a factor of four, in
    silence.
    """
    model = utils.load_model(folder, NUMPY, dtype)
    arrays = list(leaves(model.params))
    assert len(arrays) == len(SMALL.shapes()) + 1  # the head
    assert {array.dtype for array in arrays} == {np.dtype(dtype)}
    assert logits(model).dtype == model.new_cache().k.dtype == dtype


def test_embedding_and_head_are_one_array(folder):
    """154 MB of GPT-2 124M that need not exist twice."""
    params = utils.load_model(folder, NUMPY).params
    if not isinstance(params["head"], np.ndarray):
        pytest.skip("this backend keeps the head in a layout of its own")
    assert np.shares_memory(params["wte"], params["head"])


def test_random_models_are_reproducible():
    a, b, other = (
        logits(utils.random_model(SMALL, NUMPY, seed=seed, scale=0.3)) for seed in (1, 1, 2)
    )
    assert np.array_equal(a, b) and not np.allclose(a, other)


def test_random_layer_norms_scale_by_about_one():
    """By about nothing, and every random model would compute the same: little."""
    blocks = utils.random_model(SMALL, NUMPY).params["blocks"]
    assert all(
        np.abs(block[ln]["weight"] - 1).max() < 0.2 for block in blocks for ln in ("ln_1", "ln_2")
    )


# ---------------------------------------------------------------- memory


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="no /proc on this system")
@pytest.mark.parametrize(
    "kernels, dtype",
    [("plain", "float32"), ("64x2", "float32"), ("auto", "float32"), ("auto", "float16")],
)
def test_loading_takes_little_more_memory_than_the_weights(tmp_path, kernels, dtype):
    """At its peak, 1.25 times: one tensor at a time is there twice, and its pages in the file count
    as well.
    """
    config = Config(6000, 64, 512, 8, 6)
    tensors = {name: np.full(shape, 0.1, dtype) for name, shape in config.shapes().items()}
    write_checkpoint(tmp_path / "m", config, tensors)
    script = f"""
import backends.blas, math, pathlib, utils

def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

before = status("VmRSS")
backend = utils.get_backend("numpy", {kernels!r})
model = utils.load_model(pathlib.Path({str(tmp_path / "m")!r}), backend)
n_weights = sum(map(math.prod, model.config.shapes().values()))
print((status("VmHWM") - before) / (4 * n_weights))
"""
    # one, of this process
    mine = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(utils.__file__).parent,
        env=mine,
        capture_output=True,
        text=True,
        check=True,
    )
    assert 0.9 < float(done.stdout) < 1.25


def test_what_cannot_fit_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 7e9)
    with pytest.raises(utils.InputError, match=r"need 7\.\d GB of memory, 7\.0 GB are available"):
        utils.require_memory([utils.SIZES["1558M"], utils.SIZES["124M"]], NUMPY)
    utils.require_memory([utils.SIZES["774M"]], NUMPY)


@pytest.mark.parametrize("n_texts", [3000, 10**22, 10**400])
def test_texts_together_are_weighed_by_their_caches(monkeypatch, n_texts):
    config = utils.SIZES["124M"]  # a cache of 79 MB
    monkeypatch.setattr(memory, "available", lambda: 7e9)
    utils.require_memory([config], NUMPY, n_texts=85, loaded=True)
    utils.require_memory([config], NUMPY, n_texts=80)
    with pytest.raises(utils.InputError, match="7.0 GB are available; use a smaller --batch_size"):
        utils.require_memory([config], NUMPY, n_texts, loaded=True)
    with pytest.raises(utils.InputError, match="7.0 GB are available; use a smaller model"):
        utils.require_memory([config], NUMPY, n_texts)


def test_random_weights_are_weighed_before_they_are_sampled(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 6e9)
    monkeypatch.setattr(np.random, "default_rng", None)
    with pytest.raises(utils.InputError, match=r"need 6\.\d GB of memory, 6\.0 GB are available"):
        utils.random_model(utils.SIZES["1558M"], NUMPY)


# ---------------------------------------------------------------- backends


def test_an_unknown_backend():
    message = refusal(utils.get_backend, "torch")
    assert "'torch'" in message and "numpy" in message and "cupy" in message


@pytest.mark.parametrize(
    "kernels", ["", "fast", "64", "64x", "x2", "0x2", "64x0", "-64x2", "64x2x2", "64x2\n"]
)
def test_unknown_kernels(kernels):
    message = refusal(utils.get_backend, "numpy", kernels)
    assert repr(kernels) in message and "64x2" in message


def test_a_model_larger_than_the_memory(folder):
    def plan(config, dtype):
        raise MemoryError("the model needs 6.2 GB, 4.0 GB are free")

    message = refusal(utils.load_model, folder, dataclasses.replace(NUMPY, plan=plan))
    assert "6.2 GB" in message and "smaller model" in message


@pytest.fixture
def install_cupy(monkeypatch):
    """A function that puts something in CuPy's place, also for those who have CuPy."""

    def install(module):
        monkeypatch.setitem(sys.modules, "cupy", module)
        monkeypatch.delitem(sys.modules, "backends.gpu", raising=False)
        monkeypatch.delattr("backends.gpu", raising=False)

    return install


def test_cupy_that_is_not_installed(install_cupy):
    install_cupy(None)
    message = refusal(utils.get_backend, "cupy")
    assert "'cupy'" in message and "not installed" in message and "pip install" in message


def test_cupy_without_a_gpu(install_cupy):
    """A driver's error of several lines still becomes one."""

    class NoGPU:
        def __getattr__(self, name):
            return self

        def __call__(self):
            raise RuntimeError("cudaErrorNoDevice: no device\nis detected")

    install_cupy(NoGPU())
    message = refusal(utils.get_backend, "cupy")
    assert "cudaErrorNoDevice" in message and "--backend numpy" in message


# ---------------------------------------------------------------- processes

FORKED = """
import os, pathlib, signal, sys
import backends.blas
backends.blas.N_THREADS = 2  # also on one core
import utils
signal.alarm(60)  # of this process and, set again, of its child: a hang ends
folder, backend = pathlib.Path(sys.argv[1]), utils.get_backend("numpy", "64x2")
if sys.argv[2] == "loaded":
    model = utils.load_model(folder, backend)
    model.read(list(range(64)), model.new_cache())
child = os.fork()
signal.alarm(60)
model = utils.load_model(folder, backend)
model.read(list(range(64)), model.new_cache())
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("before", ["loaded", "imported"])
def test_a_forked_process_can_load_a_model(tmp_path, before):
    """As multiprocessing and preloading servers do it: threads do not survive a fork."""
    folder = write_checkpoint(tmp_path / "model", Config(259, 64, 128, 4, 1))  # worth two threads
    command = [sys.executable, "-c", FORKED, str(folder), before]
    done = subprocess.run(command, cwd=Path(utils.__file__).parent, timeout=120)
    assert done.returncode == 0


@pytest.mark.parametrize(
    "kernel",
    [
        tiles.Kernel(tiles.ALL, (1, 1, 1)),
        tiles.Kernel(7, (1, 1, 1)),
        tiles.Kernel(7, (1, 1, 1), by_column=True),
    ],
)
def test_a_model_survives_pickle(monkeypatch, kernel):
    monkeypatch.setattr(utils.autotune, "kernel_named", lambda name: kernel)
    model = utils.random_model(TINY, utils.get_backend())
    again = pickle.loads(pickle.dumps(model))
    ids = [1, 2, 3, 4, 5]
    expected = model.read(ids, model.new_cache(), 3)
    assert np.array_equal(again.read(ids, again.new_cache(), 3), expected)
    assert kernels_of(again) == kernels_of(model)
    if isinstance(model.params["head"], tiles.Tiles):
        assert again.params["wte"].weight is again.params["head"]
        _, _, to_next_row, to_next_column = again.params["head"].tiles.strides
        assert (to_next_row < to_next_column) == kernel.by_column


def test_random_weights_need_no_models_where_the_models_are_kept(tmp_path, monkeypatch):
    """GPT2_MODELS_DIR may name a folder without the included models: their tokenizer is the
    project's own.
    """
    monkeypatch.setattr(utils, "MODELS_DIR", str(tmp_path))
    folder = write_checkpoint(tmp_path / "shape")
    (model,), encoder = utils.load_models([str(folder)], str(tmp_path), NUMPY, weights="random")
    ids = encoder.encode("Once upon a time")
    assert ids and max(ids) < model.config.n_vocab
