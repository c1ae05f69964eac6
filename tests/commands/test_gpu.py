"""The gpu command, on NumPy in place of a GPU and with small shapes in place of GPT-2's."""

import json
from types import SimpleNamespace

import pytest
from command_line import assert_refused

import main
from gpt2 import Config
from utils import SIZES


@pytest.fixture
def small_shapes(monkeypatch):
    monkeypatch.setitem(SIZES, "124M", Config(300, 128, 32, 2, 1))
    monkeypatch.setitem(SIZES, "355M", Config(300, 128, 32, 2, 2))


@pytest.fixture
def gpu(pair, small_shapes, capsys):
    def call(*arguments):
        common = ["--backend=numpy", "--dtypes=float32", "--repeats=1", f"--models_dir={pair}"]
        code = main.main(["gpu", *common, "--n_tokens_to_generate=8", *arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return call


def test_what_is_measured(gpu):
    done = gpu("--shapes=124M,355M", "--json")
    result = json.loads(done.out)
    assert done.code == 0
    (parity,) = result["parity"]
    assert parity["largest_difference"] <= 1e-3
    assert parity["same_texts"] == {"greedy": True, "coupled": True}
    small, large = result["speeds"]
    # 124M drafts for larger shapes only
    assert "speculative" not in small and large["speculative"] > 0
    for row in (small, large):
        assert row["plain"] > 0 and row["rows_ratio"] > 0 and 0 < row["launch_share"] <= 1


def test_the_table(gpu):
    done = gpu("--shapes=355M")
    assert done.code == 0 and "float32: logits differ" in done.out and "(ok)" in done.out
    assert done.out.count("\n355M ") == 1


@pytest.mark.parametrize(
    "arguments, named",
    [
        (["--shapes=1M"], "1M"),
        (["--dtypes=int8"], "int8"),
        (["--dtypes=float16"], "float16"),
        (["--backend=mps"], "mps"),
        (["--repeats=0"], "repeats"),
        (["--n_tokens_to_generate=2000"], "2000"),
        (["--backend=cupy"], "CuPy"),
    ],
)
def test_bad_values(gpu, arguments, named):
    assert_refused(gpu(*arguments), named)
