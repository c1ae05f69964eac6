"""The tables and pictures of a benchmark, from rows that were never measured."""

import pytest

from experiments.benchmark import plots
from experiments.benchmark.tables import remarks_on, table


def row(draft="eagle", K=2, speed=15.0, verification="token", **more):
    intervals = {"speedup_over_token": [1.01, 1.07], "speedup_time": [1.4, 1.6]}
    return {
        "draft": draft,
        "target": "17M",
        "temperature": 1.0,
        "K": K,
        "verification": verification,
        "tokens_per_second": speed,
        "autoregressive_tokens_per_second": 10.0,
        "speedup_time": 1.5,
        "speedup_over_token": None,
        "tokens_per_pass_over_token": None,
        "intervals": intervals,
        "withheld": {},
        "flags": [],
    } | more


def test_cells():
    one = row(acceptance_by_position=[0.754, 0.5, None])
    columns = ["speedup_time", "acceptance_by_position", "tokens_per_second"]
    lines = table([one], columns).splitlines()
    assert lines[0] == "| speedup           | acceptance by position | tok/s |"
    assert lines[2] == "| 1.50 [1.40, 1.60] | 0.75 0.50 –            | 15.0  |"


def test_what_a_rule_gains_is_a_remark():
    assert remarks_on(row()) == []
    (remark,) = remarks_on(row(verification="block", speedup_over_token=1.04))
    assert "1.04 [1.01, 1.07] times as fast as the token rule" in remark
    (remark,) = remarks_on(row(withheld={"speedup_over_token": "too noisy"}))
    assert remark == "speedup over the token rule: withheld, as too noisy"


# ---------------------------------------------------------------- pictures


def with_interval(low_high, **more):
    return row(intervals={"speedup_time": low_high}, **more)


def test_a_line_is_named_by_what_differs():
    lines = plots.group_rows_by_line([row(K=4), row(K=2)])
    assert [*lines] == ["eagle"] and [one["K"] for one in lines["eagle"]] == [2, 4]
    several = [row(temperature=0.0), row(), row("ngram")]
    assert [*plots.group_rows_by_line(several)] == ["eagle · T=0", "eagle · T=1", "ngram · T=1"]


def test_a_speedup_that_is_withheld_is_hollow_and_one_without_an_interval_is_not_there():
    rows = [row(K=1), row(K=2, speedup_time=None), with_interval(None, K=3)]
    assert plots.plot_points(rows) == [(1, 1.5, 1.4, 1.6, False), (2, 1.5, 1.4, 1.6, True)]


@pytest.mark.filterwarnings("error")
def test_lines_with_and_without_figures(tmp_path):
    rows = [row(K=3), with_interval(None, draft="ngram", K=3), row(K="auto")]
    plots.draw({"rows": rows}, tmp_path / "p.svg", "a title")
    text = (tmp_path / "p.svg").read_text()
    assert "hollow" not in text
    plots.draw({"rows": [row(K=2, speedup_time=None)]}, tmp_path / "hollow.svg")
    assert "hollow: withheld" in (tmp_path / "hollow.svg").read_text()
    assert all(part in text for part in ("eagle", "ngram", "a title", "K, tokens drafted"))
