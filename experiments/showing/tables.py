"""The rows of a benchmark as a Markdown table."""

COLUMNS = {
    "draft": "draft",
    "target": "target",
    "temperature": "T",
    "K": "K",
    "autoregressive_tokens_per_second": "plain tok/s",
    "tokens_per_second": "tok/s",
    "speedup_time": "speedup in time",
    "speedup_target_passes": "in target passes",
    "acceptance_rate": "acceptance",
    "draft_cost": "c",
    "verify_cost": "v",
    "predicted_speedup": "predicted",
    "measured_over_predicted": "measured / predicted",
}
DIGITS = {
    "autoregressive_tokens_per_second": 1,
    "tokens_per_second": 1,
    "acceptance_rate": 3,
    "draft_cost": 3,
}
MISSING = "–"


def format_cell(name, value):
    """A figure of a row, as text."""
    if value is None:
        return MISSING
    if name == "temperature":
        return f"{value:g}"
    if isinstance(value, float):
        return f"{value:.{DIGITS.get(name, 2)}f}"
    return str(value)


def label(settings):
    """What every table and picture must say of figures that are not a real pair's; "" for a real
    one.
    """
    parts = []
    if settings["weights"] == "random":
        parts.append("random weights")
    if settings["synthetic_acceptance"]:
        parts.append(f"synthetic acceptance {settings['synthetic_acceptance']}")
    return ", ".join(parts)


def remarks_on(row):
    """What a reader has to know of a row: what was withheld, and its flags."""
    remarks = []
    for name in ("speedup_time", "predicted_speedup"):
        if name in row["withheld"]:
            remarks.append(f"no {COLUMNS[name]}: {row['withheld'][name]}")
    return remarks + row["flags"]


def cells_of(row):
    """The cells of a row, the notes apart."""
    cells = {name: format_cell(name, row[name]) for name in COLUMNS}
    if row["speedup_time"] is not None:
        cells["speedup_time"] += " [{:.2f}, {:.2f}]".format(*row["intervals"]["speedup_time"])
    return [*cells.values()]


def aligned(table):
    """The lines of a Markdown table, from lists of cells of which the first is the header."""
    widths = [max(map(len, column)) for column in zip(*table)]
    header, *rows = table
    rule = ["-" * width for width in widths]
    lines = []
    for cells in (header, rule, *rows):
        padded = [text.ljust(width) for text, width in zip(cells, widths)]
        lines.append(f"| {' | '.join(padded)} |")
    return lines


def how_measured(result):
    """A sentence on how the figures came about."""
    first, settings, where = result["rows"][0], result["settings"], result["machine"]
    return (
        f"{first['prompts']} prompts ({first['skipped_prompts']} skipped: too long), "
        f"{settings['n_tokens_to_generate']} tokens each, median of {settings['repeats']}; "
        f"speedup with its 95 % interval. "
        f"{where['cpu']}, {where['threads']} threads, {settings['backend']}, {where['date']}."
    )


def markdown(result):
    """The rows as a table; below it how they were measured, and the notes that its last column
    numbers.
    """
    notes = {}  # {remark: its number}
    table = [[*COLUMNS.values(), "notes"]]
    for row in result["rows"]:
        numbers = [notes.setdefault(remark, len(notes) + 1) for remark in remarks_on(row)]
        table.append([*cells_of(row), ", ".join(map(str, sorted(numbers)))])
    parts = ["\n".join(aligned(table)), how_measured(result)]
    if label(result["settings"]):
        parts.insert(0, f"**{label(result['settings'])}**")
    if notes:
        parts.append("\n".join(f"{number}. {note}" for note, number in notes.items()))
    return "\n\n".join(parts) + "\n"
