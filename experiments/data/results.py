"""Results files: what benchmark and replay store, and what other commands read from it."""

import csv
import json
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from experiments.data.files import check_output, whole
from experiments.data.reading import parse_json, read_bytes
from utils import InputError

# FILE.json, and the files beside it that hold the same results
SUFFIXES = (".json", ".csv", ".md")


def check_results_output(out):
    """Raises InputError unless FILE.json and its neighbours can be written and are not there."""
    check_output("out", out, SUFFIXES[:1])
    for suffix in SUFFIXES[1:]:
        check_output("out", Path(out).with_suffix(suffix), (suffix,))


def write_results(result, table, out):
    """FILE.json with the whole result, FILE.csv with its rows, FILE.md with the table."""
    # the name of a folder may have bytes that are not UTF-8
    escaped = {"encoding": "utf-8", "errors": "backslashreplace"}
    with ExitStack() as stack:
        # the last to be entered appears first, and no other can take it back
        paths = map(Path(out).with_suffix, reversed(SUFFIXES))
        part_md, part_csv, part = (stack.enter_context(whole(path)) for path in paths)
        with part_csv.open("w", newline="", **escaped) as file:
            writer = csv.DictWriter(file, result["rows"][0].keys())
            writer.writeheader()
            for row in result["rows"]:
                nested = {name: x for name, x in row.items() if isinstance(x, (list, dict))}
                writer.writerow(row | {name: json.dumps(x) for name, x in nested.items()})
        part_md.write_text(table, **escaped)
        part.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def read_rows(path):
    """The rows of a results file of benchmark or replay, each with the rule and the sampling
    parameters that its file states for all; what it does not say is None. Raises InputError.
    """
    result = parse_json(read_bytes(path), path)
    try:
        settings = result.get("settings") or {}
        # the texts of a replay were sampled as its log says
        sampling = result.get("log", {}).get("settings") or settings
        same = {name: sampling.get(name) for name in ("top_k", "top_p")}
        same["verification"] = settings.get("verification") or "token"
        rows = [defaultdict(lambda: None, same | row) for row in result["rows"]]
        if all(row.keys() >= {"draft", "target", "K"} for row in rows):
            return rows
    except (LookupError, TypeError, AttributeError):
        pass
    raise InputError(f"{path}: expected a results file of benchmark or replay")
