"""Results files: what benchmark and replay store, and what other commands read from it."""

import csv
import json
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from checkpoints.output import check_output, create_atomically
from cli.reading import (
    check_fields,
    integer,
    is_object,
    is_text,
    list_of,
    number,
    optional,
    parse_json,
    read_bytes,
)
from cli.values import AUTO, MAX_COST, MAX_COUNT

# FILE.json, and the files beside it that hold the same results
SUFFIXES = (".json", ".csv", ".md")

# what other commands read of a file, and of a row
FIELDS = {
    "settings": optional(is_object),
    "log": optional(is_object),
    "rows": list_of(is_object),
}
is_K = integer(1, MAX_COUNT)
ROW_FIELDS = {
    "draft": is_text,
    "target": optional(is_text),  # a log of another program names none
    "K": lambda K: K == AUTO or is_K(K),
    "draft_cost": optional(number(0, MAX_COST)),
    "verify_cost": optional(number(1 / MAX_COST, MAX_COST)),
}


def check_results_output(out):
    """Raise InputError if FILE.json, FILE.csv or FILE.md exists already or cannot be written."""
    check_output("out", out, SUFFIXES[:1])
    for suffix in SUFFIXES[1:]:
        check_output("out", Path(out).with_suffix(suffix), (suffix,))


def write_results(result, table, out):
    """Write FILE.json (the whole result), FILE.csv (its rows) and FILE.md (the table), atomically.

    result: a dict with a list of dicts under "rows"; table: Markdown; out: the path of FILE.json
    """
    # the name of a folder may have bytes that are not UTF-8
    escaped = {"encoding": "utf-8", "errors": "backslashreplace"}
    with ExitStack() as stack:
        # a stack closes in reverse: FILE.json, entered last, is renamed first, and stays even if
        # another file fails
        paths = map(Path(out).with_suffix, reversed(SUFFIXES))
        part_md, part_csv, part = (stack.enter_context(create_atomically(path)) for path in paths)
        with part_csv.open("w", newline="", **escaped) as file:
            writer = csv.DictWriter(file, result["rows"][0].keys())
            writer.writeheader()
            for row in result["rows"]:
                nested = {name: x for name, x in row.items() if isinstance(x, (list, dict))}
                writer.writerow(row | {name: json.dumps(x) for name, x in nested.items()})
        part_md.write_text(table, **escaped)
        part.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def read_rows(path):
    """Read the rows of a results file of benchmark or replay. Raises InputError if it is not one.

    Returns a list of dicts, in which a missing key gives None. Each row also has the verification
    rule, top_k and top_p that the file states once for all rows.
    """
    result = parse_json(read_bytes(path), path)
    expected = "expected results of benchmark or replay"
    check_fields(result, FIELDS, path, expected)
    settings, log = result.get("settings") or {}, result.get("log") or {}
    check_fields(log, {"settings": optional(is_object)}, path, expected)
    for i, row in enumerate(result["rows"], 1):
        check_fields(row, ROW_FIELDS, f"{path}, row {i}", expected)
    # the texts of a replay were sampled as its log says
    sampling = log.get("settings") or settings
    shared = {name: sampling.get(name) for name in ("top_k", "top_p")}
    shared["verification"] = settings.get("verification") or "token"
    return [defaultdict(lambda: None, shared | row) for row in result["rows"]]
