"""python main.py profile: what it reports, and what it refuses."""

import shutil
import sys

import numpy as np
import pytest
import strict
from command_line import assert_refused

import utils
from experiments.commands.profile import ProfileSettings
from experiments.drafting.load import load
from experiments.measuring import passes
from gpt2 import Config

WEIGHTS_BYTES = 4 * (259 * 16 + 2 * (12 * 16 * 16 + 13 * 16) + 2 * 16)  # all but the positions


@pytest.fixture
def profile(cli):
    """A function (*flags) -> what profile did."""
    return lambda *flags: cli("--repeats=1", *flags, command=["profile"])


@pytest.fixture
def profiled(as_json):
    """A function (*flags) -> the JSON object of profile."""
    return lambda *flags: as_json("--repeats=1", *flags, command=["profile"])


@pytest.fixture(autouse=True)
def little_to_stream(monkeypatch):
    monkeypatch.setattr(passes, "STREAMED", 1 << 20)


def test_json_has_the_figures_of_the_table(profiled):
    result = profiled("--rows=1,3")
    assert [*result] == "bandwidth_gb_per_s weights_bytes rows prefill kernels breakdown".split()
    assert [row["rows"] for row in result["rows"]] == [1, 3]
    for row in result["rows"]:
        assert row["gb_per_s"] == pytest.approx(result["weights_bytes"] / row["milliseconds"] / 1e6)
    assert result["prefill"]["tokens"] == 64 and result["prefill"]["milliseconds"] > 0
    assert result["weights_bytes"] == WEIGHTS_BYTES
    shapes = "attn.c_attn 16x48", "attn.c_proj 16x16", "mlp.c_fc 16x64", "mlp.c_proj 64x16"
    assert result["kernels"] == dict.fromkeys([*shapes, "head 16x259"], "plain")
    parts = {"attention", "layer norm", "GELU", "matrix products", "output head"}
    assert parts <= result["breakdown"].keys() and min(result["breakdown"].values()) > 0


def test_random_weights_need_only_a_shape(profile, profiled, pair, tmp_path):
    """A folder with nothing but a config.json."""
    shutil.copy(pair / "17M" / "config.json", tmp_path)
    size = f"--target_model_size={tmp_path}"
    assert profiled(size, "--weights=random")["weights_bytes"] == WEIGHTS_BYTES
    assert_refused(profile(size), str(tmp_path))


COMPARE = ["--compare_kernels=17M", "--kernels=auto"]


@pytest.mark.parametrize(
    "flags, shown",
    [
        (["--rows=0"], "--rows 0"),
        (["--rows=65"], "--rows 65: expected at most 64"),
        (["--repeats=0"], "--repeats 0"),
        (["--weights=random", "--target_model_size=9M"], "'9M'"),
        (["--texts", "--n_tokens_to_generate=33"], "33: expected at most 32"),
        (["--texts", "--n_tokens_to_generate=0"], "--n_tokens_to_generate 0"),
        (["--texts", "--backend=cupy"], "CuPy"),
        ([*COMPARE, "--rows=65"], "--rows 65: expected at most 64"),
        ([*COMPARE, "--dtype=float16"], "with --dtype"),
        (["--compare_kernels=4x512", "--kernels=auto"], "'4x512'"),
        ([*COMPARE, "--compare_kernels=1x16x33", "--rows=1025"], "at most 1024"),
    ],
)
def test_what_makes_no_sense_is_refused(profile, flags, shown):
    assert_refused(profile(*flags), shown)


# ---------------------------------------------------------------- texts


@pytest.fixture
def small_draft(monkeypatch):
    """In place of GPT-2 124M; and no transformers, which is slow to import."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(utils.SIZES, passes.DRAFT, Config(300, 64, 16, 2, 1))


def test_texts_are_compared_and_timed(profile, profiled, small_draft):
    result = profiled("--texts", "--n_tokens_to_generate=8")
    assert result["machine"]["gpu"] is None
    (same,), (row,) = result["parity"], result["speeds"]
    assert same == {
        "dtype": "float32",
        "largest_difference": pytest.approx(0, abs=1e-3),
        "same_texts": {"greedy": True, "coupled": True},
    }
    assert row["plain"] > 0 and row["speculative"] > 0 and row["rows_ratio"] > 0
    assert 0 < row["launch_share"] <= 1 and row[passes.PEER] is None
    # passes may fill the context
    done = profile("--texts", "--n_tokens_to_generate=8", "--rows=64")
    assert done.code == 0 and done.out.startswith("17M, checkpoint weights, float32, numpy\n")
    assert "Streaming read" in done.out and "Same text: greedy True, coupled True" in done.out
    assert "speculative, tokens of 124M" in done.out


def test_texts_on_arrays_that_refuse_what_a_gpu_refuses(pair, small_draft, monkeypatch):
    backend = strict.backend(np.float32)
    monkeypatch.setattr(ProfileSettings, "get_backend", lambda settings: backend)
    settings = ProfileSettings(models_dir=pair, n_tokens_to_generate=4, repeats=1)
    result = passes.measure_texts(load("17M", [], pair, backend).target, settings)
    (same,), (row,) = result["parity"], result["speeds"]
    assert same["same_texts"] == {"greedy": True, "coupled": True}
    assert same["largest_difference"] < 1e-5 and row["plain"] > 0 and row["speculative"] > 0


def test_a_backend_that_computes_something_else_is_seen(profiled, small_draft, monkeypatch):
    """With a layer norm that is off, texts and logits differ."""
    load, loaded = passes.load, []

    def second_is_off(*arguments):
        loaded.append(load(*arguments))
        if len(loaded) == 2:
            loaded[1].target.params["ln_f"]["weight"] += 1
        return loaded[-1]

    monkeypatch.setattr(passes, "load", second_is_off)
    (same,) = profiled("--texts", "--n_tokens_to_generate=1")["parity"]
    assert same["largest_difference"] > 1e-3 and not same["same_texts"]["coupled"]


def test_kernels_are_compared_shape_by_shape(profile, profiled):
    flags = "--compare_kernels=17M,1x16x33", "--rows=1,3", "--kernels=auto"
    found = profiled(*flags)
    assert found.keys() == {"17M", "1x16x33"}
    for of_shape in found.values():
        assert of_shape.keys() == set(passes.KERNELS) >= {"auto", "plain", "64x1", "128x1"}
        assert all(seconds.keys() == {"1", "3"} for seconds in of_shape.values())
    _, _, *lines = profile(*flags).out.splitlines()
    shape, rows, auto, best, name, ratio = map(str.strip, lines[0].strip("|").split("|"))
    assert (len(lines), shape, rows) == (4, "17M", "1") and name in passes.KERNELS[1:]
    # three decimals of a millisecond are printed, two of the ratio
    assert float(auto) > 0 and float(best) > 0 and float(ratio) > 0
