"""Models and encoders from folders, on a backend."""

import os

import numpy as np
import pytest
from command_line import python
from toys import NUMPY, refusal, write_checkpoint

import utils
from checkpoints.registry import SIZES
from decoding.random_models import config_of, random_models
from gpt2 import Config

# ---------------------------------------------------------------- memory


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="no /proc on this system")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_loading_takes_little_more_memory_than_the_weights(tmp_path, dtype):
    """1.2 times: one tensor at a time is there twice, and its pages in the file count. Of 124M,
    too, the embedding is a third.
    """
    config = Config(16000, 64, 512, 8, 6)
    tensors = {name: np.full(shape, 0.1, dtype) for name, shape in config.shapes().items()}
    write_checkpoint(tmp_path / "m", config, tensors)
    script = f"""
import backends.before_numpy, math, pathlib, utils

def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

before = status("VmRSS")
backend = utils.get_backend()
folder = pathlib.Path({str(tmp_path / "m")!r})
config = utils.read_config(folder)
model = utils.build_model(config, utils.stored_weights(folder, config), backend)
n_weights = sum(map(math.prod, model.config.shapes().values()))
print((status("VmHWM") - before) / (4 * n_weights))
"""
    # of this process
    own = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    assert 0.9 < float(python("-c", script, environment=own).stdout) < 1.2


@pytest.mark.parametrize("sizes, n_bytes, fits", [
    (["774M"], 7e9, True),
    (["1558M", "124M"], 7e9, False),
    (["124M"], 6e8, True),  # 0.5 GB of weights, and a cache of 79 MB
    (["124M"], 5.5e8, False),
])  # fmt: skip
def test_what_cannot_fit_is_refused(monkeypatch, sizes, n_bytes, fits):
    monkeypatch.setattr(utils, "available_bytes", lambda: n_bytes)
    configs = [SIZES[size] for size in sizes]
    if fits:
        utils.require_memory(configs)
    else:
        assert "GB are available; use a smaller model" in refusal(utils.require_memory, configs)


@pytest.mark.parametrize(
    "limit, expected", [("5000", 2500), ("max", 4096), ("90000", 4096), (None, 4096)]
)
def test_how_much_memory_a_machine_and_its_container_have(tmp_path, limit, expected):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    4 kB\n")
    if limit:
        files = {"max": limit, "current": "3000", "stat": "anon 1\ninactive_file 500\n"}
        for name, text in files.items():
            (tmp_path / f"memory.{name}").write_text(text)
    assert utils.available_bytes(str(tmp_path), str(tmp_path)) == expected
    assert utils.available_bytes(str(tmp_path / "none")) == float("inf")  # as on macOS


# ---------------------------------------------------------------- backends


def test_random_weights_need_no_models_where_the_models_are_kept(tmp_path):
    """GPT2_MODELS_DIR may lack the included models: their tokenizer is the project's own."""
    folder = write_checkpoint(tmp_path / "shape")
    (model,), encoder = random_models([str(folder)], str(tmp_path), NUMPY)
    ids = encoder.encode("Once upon a time")
    assert ids and max(ids) < model.config.n_vocab


def test_a_size_has_its_shape_beside_what_a_download_left(tmp_path):
    (tmp_path / "124M").mkdir()
    assert config_of("124M", str(tmp_path)) == SIZES["124M"]


def test_a_single_name_in_place_of_a_list_of_sizes():
    with pytest.raises(ValueError, match=r"sizes '17M': expected a list, such as \['17M'\]"):
        utils.load_models("17M", "models", NUMPY)
    with pytest.raises(ValueError, match=r"sizes \[\]: expected a list, such as \['17M'\]"):
        utils.load_models([], "models", NUMPY)
