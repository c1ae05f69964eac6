"""The picture of a benchmark, drawn from results that were never measured."""

import pytest

from experiments.measuring import plots

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def row(draft="0.7M-17M", temperature=0.0, K=1, speedup=1.5):
    interval = None if speedup is None else [speedup - 0.1, speedup + 0.1]
    return {
        "draft": draft,
        "target": "17M",
        "temperature": temperature,
        "K": K,
        "verification": "token",
        "tokens_per_second": 100 * (speedup or 1),
        "autoregressive_tokens_per_second": 100,
        "intervals": {"speedup_time": interval},
    }


def test_a_line_is_named_by_what_differs():
    lines = plots.lines_of([row(K=4), row(K=2)])
    assert [*lines] == ["0.7M-17M"] and [one["K"] for one in lines["0.7M-17M"]] == [2, 4]
    several = [row(temperature=0.0), row(temperature=0.8), row(draft="ngram", temperature=0.8)]
    assert [*plots.lines_of(several)] == ["0.7M-17M · T=0", "0.7M-17M · T=0.8", "ngram · T=0.8"]


def test_a_speedup_whose_interval_contains_1_is_pale_and_one_without_is_not_there():
    rows = [row(K=1, speedup=1.5), row(K=2, speedup=1.05), row(K=3, speedup=None)]
    assert [(K, opacity) for K, *_, opacity in plots.points(rows)] == [(1, 1.0), (2, plots.PALE)]


@pytest.mark.filterwarnings("error")
def test_lines_with_and_without_figures(tmp_path):
    rows = [row(K=3, speedup=0.4), row(draft="ngram", K=3, speedup=None), row() | {"K": "auto"}]
    plots.check()
    plots.draw({"rows": rows}, tmp_path / "p.svg", "a title")
    text = (tmp_path / "p.svg").read_text()
    assert all(part in text for part in ("0.7M-17M", "ngram", "a title", "K, tokens drafted"))
