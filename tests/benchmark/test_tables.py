"""The tables and pictures of a benchmark, from rows that were never measured."""

import pytest

from experiments.benchmark import plots
from experiments.benchmark.tables import (
    paragraphs_of_batches,
    paragraphs_of_best_K,
    paragraphs_of_programs,
    remarks_on,
    table,
)


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


def both(**values):
    """Two rows that differ in target, temperature and rule."""
    first = row("0.7M-17M", 12, target="1558M", temperature=0.75, **values)
    return [first, first | {"target": "17M", "temperature": 0.0, "verification": "block"}]


def test_the_widest_tables_fit_100_columns():
    rows = both(
        acceptance_rate=0.812,
        acceptance_by_position=[0.8] * 12,
        draft_cost=0.123,
        fastest_K="auto",
        predicted_K=12,
        predicted_speedup=12.3,
        verify_cost=1.23,
    )
    batches = both(
        batch_size=128,
        autoregressive=1234.5,
        of_one=12.3,
        speculative=1234.5,
        speedup=0.987,
        tokens_per_target_pass=3.45,
    )
    spread = {"value": 1234.5, "low": 1234.5, "high": 1234.5}
    program = {
        "program": "llama.cpp's server",
        "decoder": "speculative",
        "tokens_per_second": spread,
        "against_ours": spread,
        "tokens_per_target_pass": 3.45,
        "same_texts": 1000,
    }
    result = {
        "rows": [program],
        "settings": {"target_model_size": "1558M", "weights": "random", "K": "12"},
        "machine": {"versions": {}, "missing": {}},
        "prompts": 1000,
    }
    every = [*paragraphs_of_best_K(rows), *paragraphs_of_batches(batches)]
    every += paragraphs_of_programs(result)
    lines = [line for text in every for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 4 * 3 + 2 * 2 + 2 and max(map(len, lines)) <= 100


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
