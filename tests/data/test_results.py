"""Results files: what they hold when a name is not UTF-8, and what is read from them."""

import csv
import json

from experiments.data.results import read_rows, write_results

ROW = {"draft": "0.7M-17M", "target": "17M", "K": 1, "intervals": {"acceptance_rate": None}}


def test_three_files(tmp_path):
    path = tmp_path / "r.json"
    write_results({"rows": [ROW]}, "a table\n", path)
    with path.with_suffix(".csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert json.loads(row["intervals"]) == ROW["intervals"] and row["draft"] == "0.7M-17M"
    (found,) = read_rows(path)
    assert (found.draft, found.K, found.acceptance_rate) == ("0.7M-17M", 1, None)


def test_a_name_that_is_not_utf_8(tmp_path):
    path, draft = tmp_path / "r.json", "m\udcff"  # the byte 0xff, as Python reads it
    write_results({"rows": [ROW | {"draft": draft}]}, f"| {draft} |\n", path)
    assert json.loads(path.read_text())["rows"][0]["draft"] == draft
    assert path.with_suffix(".md").read_text() == "| m\\udcff |\n"
    assert "m\\udcff" in path.with_suffix(".csv").read_text()
