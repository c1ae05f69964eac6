"""Results files: what they hold when a name is not UTF-8, and what is read from them."""

import csv
import json

import pytest
from toys import refusal

from experiments.benchmark.results import read_rows, write_results

ROW = {"draft": "m\udcff", "target": "17M", "K": 1, "intervals": {"acceptance_rate": None}}


def test_three_files(tmp_path):
    """Of a draft whose name has the byte 0xff, as Python reads it."""
    path = tmp_path / "r.json"
    write_results({"rows": [ROW]}, f"| {ROW['draft']} |\n", path)
    with path.with_suffix(".csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert json.loads(row["intervals"]) == ROW["intervals"] and row["draft"] == "m\\udcff"
    assert path.with_suffix(".md").read_text() == "| m\\udcff |\n"
    (found,) = read_rows(path)
    assert found.items() >= ROW.items() and found["acceptance_rate"] is None


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
    rows = [ROW, ROW | {"draft_cost": 0.1, "verify_cost": None}, ROW | fields]
    (tmp_path / "r.json").write_text(json.dumps({"rows": rows}))
    message = refusal(read_rows, tmp_path / "r.json")
    assert "row 3: " + next(iter(fields)) in message or "no number of JSON" in message


NOT_RESULTS = """{} [] null {"rows":null} {"rows":[1]} {"rows":[{"draft":"7M"}]}
    {"rows":[],"settings":3} {"rows":[],"log":3}""".split()


@pytest.mark.parametrize("content", ["[" * 200_000, "", *NOT_RESULTS])
def test_what_is_no_results_file(tmp_path, content):
    (tmp_path / "r.json").write_text(content)
    message = refusal(read_rows, tmp_path / "r.json")
    assert "r.json" in message and "expected" in message
