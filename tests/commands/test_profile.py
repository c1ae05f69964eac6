"""python main.py profile: what it reports, and what it refuses."""

import dataclasses
import json

import pytest
from toys import TINY, write_checkpoint

import main
from experiments.measuring import passes


@pytest.fixture
def cli(tmp_path, monkeypatch, capfd):
    """A function: arguments -> (exit code, stdout, stderr), on a tiny model and little memory to
    stream.
    """
    write_checkpoint(tmp_path / "17M", dataclasses.replace(TINY, n_ctx=80))
    monkeypatch.setattr(passes, "STREAMED", 1 << 20)

    def call(*arguments):
        code = main.main(["profile", "--models_dir", str(tmp_path), *arguments])
        return code, *capfd.readouterr()

    return call


def test_json_has_the_figures_of_the_table(cli):
    code, out, err = cli("--rows", "1,3", "--repeats", "2", "--json", "--kernels", "plain")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert result.keys() == {
        "bandwidth_gb_per_s",
        "weights_bytes",
        "rows",
        "prefill",
        "kernels",
        "breakdown",
    }
    assert [row["rows"] for row in result["rows"]] == [1, 3]
    for row in result["rows"]:
        assert row["gb_per_s"] == pytest.approx(result["weights_bytes"] / row["milliseconds"] / 1e6)
    assert result["prefill"]["tokens"] == 80 and result["prefill"]["milliseconds"] > 0
    # every parameter but the positions is read in a pass, 4 bytes each
    assert result["weights_bytes"] == 4 * (259 * 16 + 2 * (12 * 16 * 16 + 13 * 16) + 2 * 16)
    assert result["kernels"] == dict.fromkeys(
        (
            "attn.c_attn 16x48",
            "attn.c_proj 16x16",
            "mlp.c_fc 16x64",
            "mlp.c_proj 64x16",
            "head 16x259",
        ),
        "plain",
    )
    assert {"attention", "layer norm", "GELU", "matrix products", "output head"} <= result[
        "breakdown"
    ].keys()


def test_passes_may_fill_the_context(cli):
    code, out, _ = cli("--rows", "80", "--repeats", "1", "--json")
    assert code == 0 and json.loads(out)["rows"][0]["rows"] == 80


def test_the_table_names_its_weights(cli):
    code, out, _ = cli("--repeats", "1")
    assert (
        code == 0
        and out.startswith("17M, checkpoint weights, float32, numpy\n")
        and "Streaming read" in out
    )


def test_random_weights_need_only_a_shape(cli, tmp_path):
    """A folder with nothing but a config.json, by its path and by its name in models_dir."""
    folder = tmp_path / "shape"
    folder.mkdir()
    (folder / "config.json").write_text((tmp_path / "17M" / "config.json").read_text())
    for size in ("shape", str(folder)):
        arguments = ["--target_model_size", size, "--weights", "random"]
        code, out, err = cli(*arguments, "--repeats", "1", "--rows", "1,3", "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["weights_bytes"] == 4 * (
            259 * 16 + 2 * (12 * 16 * 16 + 13 * 16) + 32
        )
    code, _, err = cli("--target_model_size", str(folder), "--repeats", "1")
    assert code == 2 and err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, shown",
    [
        (["--rows", "1,x"], "'1,x'"),
        (["--rows", "0"], "--rows 0"),
        (["--rows", "99"], "--rows 99"),
        (["--repeats", "0"], "--repeats 0"),
        (["--weights", "made up"], "'made up'"),
        (["--weights", "random", "--target_model_size", "9M"], "'9M'"),
        (["--rows", "1,1"], "'1,1'"),
        (["--kernels", "fast"], "'fast'"),
        (["--K", "4"], "'--K'"),
        (["--compare_kernels", "124M", "--dtype", "float16"], "with --dtype"),
        (["--compare_kernels", "124M", "--exact"], "with --exact"),
    ],
)
def test_what_makes_no_sense_is_refused(cli, arguments, shown):
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "") and err.count("\n") == 1 and shown in err and "expected" in err


def test_kernels_are_compared_shape_by_shape(cli):
    arguments = ("--compare_kernels", "1x16x33,2x64x50", "--rows", "1,3", "--repeats", "1")
    code, out, err = cli(*arguments, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "") and found.keys() == {"1x16x33", "2x64x50"}
    for of_shape in found.values():
        assert of_shape.keys() == set(passes.KERNELS) >= {"auto", "plain", "64x1", "128x1"}
        assert all(seconds.keys() == {"1", "3"} for seconds in of_shape.values())
    code, out, err = cli(*arguments)
    lines = out.splitlines()
    assert (code, err, len(lines)) == (0, "", 5)
    shape, rows, auto, best, name, ratio = lines[1].split()
    assert (shape, rows) == ("1x16x33", "1") and name in passes.KERNELS[1:]
    # three decimals of a millisecond are printed, two of the ratio
    assert float(auto) > 0 and float(best) > 0 and float(ratio) > 0


@pytest.mark.parametrize(
    "shapes",
    ["1x16", "124", "1x0x9", "1x193x9", "axbxc", "17M", "1x64x1", "1x1x64", "100000000x64x100"],
)
def test_shapes_that_make_no_sense(cli, shapes):
    code, out, err = cli("--compare_kernels", shapes)
    assert (code, out) == (2, "") and f"--compare_kernels {shapes!r}: expected" in err


def test_more_rows_than_the_context_of_a_shape(cli):
    code, out, err = cli("--compare_kernels", "1x16x33", "--rows", "1025")
    assert (code, out) == (2, "") and "--rows 1025: expected at most 1024" in err
