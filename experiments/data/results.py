"""Results files: what benchmark and replay store, and what other commands read from it."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

from experiments.data.files import all_whole, check_output
from experiments.data.reading import parse_json, read_bytes
from experiments.data.values import AUTO
from utils import InputError


def neighbours(out):
    """The files beside FILE.json that hold the same results: CSV and Markdown."""
    path = Path(out)
    return path.with_suffix(".csv"), path.with_suffix(".md")


def check_results_output(out):
    """Raises InputError unless FILE.json and its neighbours can be written and are not there."""
    check_output("out", out, (".json",))
    for path in neighbours(out):
        check_output("out", path, (path.suffix,))


def as_cell(value):
    """A value of a row, as CSV has it: lists and objects are JSON."""
    return json.dumps(value) if isinstance(value, (list, dict)) else value


def write_results(result, table, out):
    """FILE.json with the whole result, FILE.csv with its rows, FILE.md with the table."""
    path_csv, path_md = neighbours(out)
    # the name of a folder may have bytes that are not UTF-8
    escaped = {"encoding": "utf-8", "errors": "backslashreplace"}
    with all_whole(out, path_csv, path_md) as (part, part_csv, part_md):
        with part_csv.open("w", newline="", **escaped) as file:
            writer = csv.DictWriter(file, result["rows"][0].keys())
            writer.writeheader()
            for row in result["rows"]:
                writer.writerow({name: as_cell(value) for name, value in row.items()})
        part_md.write_text(table, **escaped)
        part.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class StoredRow:
    """What other commands use of a row; None where the file does not say."""

    draft: str
    target: str | None
    K: int | str
    temperature: float | None = None
    draft_cost: float | None = None
    verify_cost: float | None = None
    acceptance_rate: float | None = None
    acceptance_interval: list | None = None
    drafted: int | None = None
    n_rounds: int | None = None
    verification: str = "token"
    top_k: int | None = None
    top_p: float | None = None
    is_real: bool = True  # real models, whose agreement was counted


# of the numbers that a row may have: the least and the largest that make sense
LIMITS = {
    "temperature": (0, 1e9),
    "draft_cost": (0, 1e6),
    "verify_cost": (1e-6, 1e6),
    "acceptance_rate": (0, 1),
    "drafted": (0, 1e12),
}


def is_number(value, least=0, most=1e9):
    return type(value) in (int, float) and least <= value <= most


def is_list(value, most=1e9):
    return isinstance(value, list) and all(is_number(one, most=most) for one in value)


def stored_row(row, settings):
    """The StoredRow of a JSON object. Raises ValueError for values that no row has.

    settings: of all rows of the file
    """
    K, histogram = row["K"], row.get("accepted_histogram")
    numbers = {name: row.get(name) for name in LIMITS}
    interval = row.get("intervals", {}).get("acceptance_rate")
    makes_sense = [
        isinstance(row["draft"], str) and isinstance(row["target"], str | None),
        K == AUTO or type(K) is int and K >= 1,
        all(one is None or is_number(one, *LIMITS[name]) for name, one in numbers.items()),
        interval is None or is_list(interval, most=1) and len(interval) == 2,
        histogram is None or is_list(histogram) and sum(histogram) > 0,
    ]
    if not all(makes_sense):
        raise ValueError("what no row has")
    return StoredRow(
        row["draft"],
        row["target"],
        K,
        **numbers,
        acceptance_interval=interval,
        n_rounds=sum(histogram) if histogram else None,
        verification=row.get("verification") or settings["verification"] or "token",
        top_k=settings["top_k"],
        top_p=settings["top_p"],
        is_real=row.get("weights") != "random" and row.get("synthetic_acceptance") is None,
    )


def settings_of(result):
    """What all rows of a file share. The texts of a replay were sampled as its log says."""
    part = lambda whole, name: whole[name] if isinstance(whole.get(name), dict) else {}
    own = part(result, "settings")
    sampling = part(part(result, "log"), "settings") or own
    return {
        "verification": own.get("verification"),
        "top_k": sampling.get("top_k"),
        "top_p": sampling.get("top_p"),
    }


def read_rows(path):
    """The rows of a results file of benchmark or replay. Raises InputError."""
    result = parse_json(read_bytes(path), path)
    rows = result.get("rows") if isinstance(result, dict) else None
    expected = "expected a results file of benchmark or replay"
    if not isinstance(rows, list):
        raise InputError(f"{path}: has no rows; {expected}")
    settings, found = settings_of(result), []
    for number, row in enumerate(rows, 1):
        try:
            found.append(stored_row(row, settings))
        except (ValueError, LookupError, TypeError, AttributeError):
            raise InputError(f"{path}: row {number} makes no sense; {expected}") from None
    return found
