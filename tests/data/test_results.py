"""Results files: three of them, and none overwritten."""

import csv
import json

import pytest

from experiments.data.results import check_results_output, read_rows, write_results
from utils import InputError

ROWS = [{"draft": "0.7M-17M", "target": "17M", "K": 1, "intervals": {"acceptance_rate": None}}]


def test_three_files(tmp_path):
    path = tmp_path / "r.json"
    check_results_output(path)
    write_results({"rows": ROWS}, "a table\n", path)
    assert json.loads(path.read_text()) == {"rows": ROWS}
    with path.with_suffix(".csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert json.loads(row["intervals"]) == ROWS[0]["intervals"] and row["draft"] == "0.7M-17M"
    assert path.with_suffix(".md").read_text() == "a table\n"
    assert len([*tmp_path.iterdir()]) == 3
    (found,) = read_rows(path)
    assert (found.draft, found.target, found.K, found.acceptance_rate) == (
        "0.7M-17M",
        "17M",
        1,
        None,
    )


def test_a_name_that_is_not_utf_8(tmp_path):
    path, draft = tmp_path / "r.json", "m\udcff"  # the byte 0xff, as Python reads it
    write_results({"rows": [ROWS[0] | {"draft": draft}]}, f"| {draft} |\n", path)
    assert json.loads(path.read_text())["rows"][0]["draft"] == draft
    assert path.with_suffix(".md").read_text() == "| m\\udcff |\n"
    assert "m\\udcff" in path.with_suffix(".csv").read_text()


@pytest.mark.parametrize("name", ["r.json", "r.csv", "r.md"])
def test_what_is_there_is_not_overwritten(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=f"--out: .*{name}' is there already"):
        check_results_output(tmp_path / "r.json")
    assert (tmp_path / name).read_text() == "mine"
