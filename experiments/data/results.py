"""Results files: what benchmark and replay store, and what other commands read from it."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

from experiments.data.files import all_whole, check_output
from experiments.data.reading import parse_json, read_bytes
from experiments.data.values import AUTO
from utils import InputError


def files_of(out):
    """FILE.json, and the files beside it that hold the same results: CSV and Markdown."""
    return [Path(out).with_suffix(suffix) for suffix in (".json", ".csv", ".md")]


def check_results_output(out):
    """Raises InputError unless FILE.json and its neighbours can be written and are not there."""
    check_output("out", out, (".json",))
    for path in files_of(out)[1:]:
        check_output("out", path, (path.suffix,))


def is_nested(value):
    return isinstance(value, (list, dict))


def write_results(result, table, out):
    """FILE.json with the whole result, FILE.csv with its rows, FILE.md with the table."""
    # the name of a folder may have bytes that are not UTF-8
    escaped = {"encoding": "utf-8", "errors": "backslashreplace"}
    with all_whole(*files_of(out)) as (part, part_csv, part_md):
        with part_csv.open("w", newline="", **escaped) as file:
            writer = csv.DictWriter(file, result["rows"][0].keys())
            writer.writeheader()
            for row in result["rows"]:
                nested = {name: json.dumps(one) for name, one in row.items() if is_nested(one)}
                writer.writerow(row | nested)
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


def stored_row(row, settings, sampling):
    """The StoredRow of a JSON object. settings, sampling: of all rows of the file.

    Raises LookupError, TypeError, AttributeError or ValueError for what is no row.
    """
    K, draft, histogram = row["K"], row["draft"], row.get("accepted_histogram")
    numbers = {name: row.get(name) for name in LIMITS}
    known = [(value, *LIMITS[name]) for name, value in numbers.items() if value is not None]
    in_limits = all(least <= value <= most for value, least, most in known)
    if not (in_limits and isinstance(draft, str) and (K == AUTO or K >= 1)):
        raise ValueError("what no row has")
    return StoredRow(
        draft,
        row["target"],
        K,
        **numbers,
        acceptance_interval=row.get("intervals", {}).get("acceptance_rate"),
        n_rounds=sum(histogram) if histogram else None,
        verification=row.get("verification") or settings.get("verification") or "token",
        top_k=sampling.get("top_k"),
        top_p=sampling.get("top_p"),
        is_real=row.get("weights") != "random" and row.get("synthetic_acceptance") is None,
    )


def read_rows(path):
    """The rows of a results file of benchmark or replay. Raises InputError."""
    result = parse_json(read_bytes(path), path)
    try:
        settings = result.get("settings") or {}
        # the texts of a replay were sampled as its log says
        sampling = result.get("log", {}).get("settings") or settings
        return [stored_row(row, settings, sampling) for row in result["rows"]]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise InputError(f"{path}: expected a results file of benchmark or replay") from None
