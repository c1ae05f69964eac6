"""python main.py profile: what it reports, and what it refuses."""

import shutil

import pytest
from command_line import assert_refused

from experiments.benchmark import passes

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
    monkeypatch.setattr(passes, "STREAMED_BYTES", 1 << 20)


def test_json_has_the_figures_of_the_table(profiled):
    result = profiled("--rows=1,3")
    keys = "machine bandwidth_gb_per_s weights_bytes rows prefill kernels breakdown"
    assert [*result] == keys.split() and result["machine"]["cpu"]
    assert [row["rows"] for row in result["rows"]] == [1, 3]
    for row in result["rows"]:
        assert row["gb_per_s"] == pytest.approx(result["weights_bytes"] / row["milliseconds"] / 1e6)
    assert result["prefill"]["tokens"] == 64 and result["prefill"]["milliseconds"] > 0
    assert result["weights_bytes"] == WEIGHTS_BYTES
    shapes = "attn.c_attn 16x48", "attn.c_proj 16x16", "mlp.c_fc 16x64", "mlp.c_proj 64x16"
    assert result["kernels"] == dict.fromkeys([*shapes, "head 16x259"], "plain")
    parts = {"attention", "layer norm", "GELU", "matrix products", "output head"}
    assert parts <= result["breakdown"].keys() and min(result["breakdown"].values()) > 0


def test_a_short_and_a_full_context(profile, profiled, monkeypatch):
    """The cost of rows is that of rows after as many tokens."""
    monkeypatch.setattr(passes, "CONTEXT_TOKENS", 10)
    rows = profiled("--rows=1,3")["rows"]
    assert [(row["past"], row["rows"]) for row in rows] == [(10, 1), (10, 3), (61, 1), (61, 3)]
    table = profile("--rows=1,3").out.split("| after")[1].splitlines()[2:6]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert [line[0] for line in cells] == ["10", "10", "61", "61"]
    assert [line[-1] for line in cells if line[1] == "1"] == ["1.00", "1.00"]


def test_random_weights_need_only_a_shape(profile, profiled, pair, tmp_path):
    """A folder with nothing but a config.json."""
    shutil.copy(pair / "17M" / "config.json", tmp_path)
    size = f"--target_model_size={tmp_path}"
    assert profiled(size, "--weights=random")["weights_bytes"] == WEIGHTS_BYTES
    assert_refused(profile(size), str(tmp_path))


@pytest.mark.parametrize(
    "flags, shown",
    [
        (["--rows=0"], "--rows 0"),
        (["--rows=65"], "--rows 65: expected at most 64"),
        (["--repeats=0"], "--repeats 0"),
        (["--weights=random", "--target_model_size=9M"], "'9M'"),
        (["--backend=cupy"], "CuPy"),
    ],
)
def test_what_makes_no_sense_is_refused(profile, flags, shown):
    assert_refused(profile(*flags), shown)
