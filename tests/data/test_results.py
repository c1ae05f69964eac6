"""Results files: what they hold when a name is not UTF-8, and what is read from them."""

import csv
import json

import pytest
from toys import refusal

from experiments.data.results import read_rows, write_results

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


@pytest.mark.parametrize("content", ["[" * 200_000, "{}", "", '{"rows": [{"draft": "7M"}]}'])
def test_what_is_no_results_file(tmp_path, content):
    (tmp_path / "r.json").write_text(content)
    message = refusal(read_rows, tmp_path / "r.json")
    assert "r.json" in message and "expected" in message
