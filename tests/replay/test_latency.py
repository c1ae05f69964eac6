"""Costs of rounds: what is read from a results file, and what lies between known points."""

import json

import pytest
from toys import refusal

from experiments.replay.latency import Latency, read_latencies, read_rows


def row(K, c, v, **more):
    return {"draft": "0.7M", "target": "7M", "K": K, "draft_cost": c, "verify_cost": v} | more


def test_the_cost_of_a_round():
    """A round of three drafts lies between those of two and four."""
    latency = Latency({2: (0.1, 1.2), 4: (0.1, 1.6)}, "no more")
    assert latency.why_unknown(4) is None and latency.why_unknown(5) == "no more"
    expected = [0.0 + 1.0, 0.1 + 1.1, 0.2 + 1.2, 0.3 + 1.4, 0.4 + 1.6]
    assert [latency.of_round(n, 4) for n in range(5)] == pytest.approx(expected)


def test_costs_from_a_file(tmp_path):
    """Of this draft, target and rule; a row that names no rule is of the token rule."""
    rows = [row(1, 0.1, 1.1), row(3, 0.3, 1.3), row(3, 0.5, 1.5), row("auto", 0.9, None)]
    rows += [row(1, 0.7, 1.7, verification="block")]
    (tmp_path / "r.json").write_text(json.dumps({"rows": rows}))
    read = lambda *of: read_latencies(tmp_path / "r.json", ["0.7M", "ngram"], *of)
    latency, of_ngrams = read("7M", "token").values()
    assert [latency.draft_cost(K) for K in (1, 2, 3)] == pytest.approx([0.1, 0.25, 0.4])
    assert [latency.verify_cost(K) for K in (1, 2, 3)] == pytest.approx([1.1, 1.25, 1.4])
    assert "no costs of draft 0.7M" in latency.why_unknown(4)
    assert "no costs of draft ngram" in of_ngrams.why_unknown(1)
    assert read("7M", "block")["0.7M"].points == {1: (0.7, 1.7)}
    assert read("17M", "token")["0.7M"].why_unknown(1).endswith("for 17M with the token rule")
    # a log that names no target may use the only one
    assert read(None, "token")["0.7M"].why_unknown(3) is None


# ---------------------------------------------------------------- files that are refused

ROW = row(1, 0.1, 1.1)


@pytest.mark.parametrize(
    "fields",
    [
        {"verify_cost": -1},
        {"verify_cost": 0},
        {"verify_cost": float("nan")},
        {"verify_cost": 1e999},
        {"verify_cost": "1"},
        {"draft_cost": -0.1},
        {"draft_cost": True},
        {"K": None},
        {"K": 0},
        {"K": 1.5},
        {"K": [1]},
        {"target": ["17M"]},
        {"draft": None},
    ],
    ids=json.dumps,
)
def test_a_row_that_cannot_be_is_refused(tmp_path, fields):
    rows = [ROW, ROW | {"verify_cost": None}, ROW | fields]
    (tmp_path / "r.json").write_text(json.dumps({"rows": rows}))
    message = refusal(read_rows, tmp_path / "r.json")
    assert "row 3: " + next(iter(fields)) in message or "no number of JSON" in message


NOT_RESULTS = """{} [] null {"rows":null} {"rows":[1]} {"rows":[{"draft":"7M"}]}
    {"rows":[],"settings":3}""".split()


@pytest.mark.parametrize("content", ["[" * 200_000, "", *NOT_RESULTS])
def test_what_is_no_results_file(tmp_path, content):
    (tmp_path / "r.json").write_text(content)
    message = refusal(read_rows, tmp_path / "r.json")
    assert "r.json" in message and "expected" in message
