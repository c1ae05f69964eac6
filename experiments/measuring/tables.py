"""The rows of a benchmark as Markdown tables."""

COLUMNS = {
    "draft": "draft",
    "target": "target",
    "temperature": "T",
    "K": "K",
    "verification": "rule",
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
# of the fastest K of each draft
COLUMNS_OF_BEST = {
    "draft": "draft",
    "target": "target",
    "temperature": "T",
    "verification": "rule",
    "K": "best K",
    "acceptance_by_position": "acceptance by position",
    "draft_cost": "c",
    "tokens_per_target_pass": "tokens per pass",
    "speedup_time": "speedup in time",
}
COLUMNS_OF_BATCHES = {
    "draft": "draft",
    "target": "target",
    "temperature": "T",
    "K": "K",
    "verification": "rule",
    "batch_size": "texts",
    "autoregressive": "plain tok/s",
    "of_one": "of one",
    "speculative": "tok/s",
    "speedup": "speedup",
}
COLUMNS_OF_PROGRAMS = {
    "program": "program",
    "decoder": "decoder",
    "tokens_per_second": "tok/s",
    "against_ours": "against ours",
    "tokens_per_target_pass": "per pass",
    "same_texts": "same texts",
    "milliseconds_of_1_row": "1 row ms",
    "milliseconds_of_all_rows": "K + 1 rows ms",
    "cost_of_all_rows": "ratio",
}
DIGITS = {
    "autoregressive": 1,
    "speculative": 1,
    "autoregressive_tokens_per_second": 1,
    "tokens_per_second": 1,
    "acceptance_rate": 3,
    "draft_cost": 3,
    "bits_per_byte": 3,
}
MISSING = "–"


def format_cell(name, value):
    """A figure of a row, as text."""
    if value is None:
        return MISSING
    if name == "temperature":
        return f"{value:g}"
    if isinstance(value, dict):  # a median with its range
        return "{value} [{low}, {high}]".format(
            **{key: format_cell(name, one) for key, one in value.items()}
        )
    if isinstance(value, list):
        return " ".join(format_cell(name, one) for one in value)
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
            remarks.append(f"{COLUMNS[name]}: withheld, as {row['withheld'][name]}")
    if reason := row["withheld"].get("speedup_over_token"):
        remarks.append(f"speedup over the token rule: withheld, as {reason}")
    if row["speedup_over_token"] is not None:
        gain = with_interval(row, "speedup_over_token")
        remarks.append(f"in the same turns {gain} times as fast as the token rule")
    return remarks + row["flags"]


def with_interval(row, name):
    """A figure of a row with its interval, as text."""
    text = format_cell(name, row[name])
    if row[name] is not None:
        text += " [{:.2f}, {:.2f}]".format(*row["intervals"][name])
    return text


def cells_of(row, columns=COLUMNS):
    """The cells of a row, the notes apart."""
    cells = {name: format_cell(name, row[name]) for name in columns}
    cells["speedup_time"] = with_interval(row, "speedup_time")
    return [*cells.values()]


def best_rows(rows):
    """Of each draft, target, temperature and rule the row with the fastest K; none where no other K
    was measured.
    """
    groups = {}
    for row in rows:
        key = row["draft"], row["target"], row["temperature"], row["verification"]
        groups.setdefault(key, []).append(row)
    fastest = [max(group, key=lambda row: row["tokens_per_second"]) for group in groups.values()]
    return fastest if len(fastest) < len(rows) else []


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
    settings, where = result["settings"], result["machine"]
    # the context of a target decides how many prompts are too long
    prompts_of = {
        row["target"]: f"{row['prompts']} prompts ({row['skipped_prompts']} skipped: too long)"
        for row in result["rows"]
    }
    prompts = list(dict.fromkeys(prompts_of.values()))
    if len(prompts) > 1:
        prompts = [f"{target}: {count}" for target, count in prompts_of.items()]
    return (
        f"{'; '.join(prompts)}, {settings['n_tokens_to_generate']} tokens each, "
        f"median of {settings['repeats']}; speedup with its 95 % interval. "
        f"{measured_on(where)}, {settings['backend']}, {where['date']}."
    )


def measured_on(where):
    """The machine in a few words; the workers, where there were any."""
    if "workers" not in where:
        return f"{where['cpu']}, {where['threads']} threads"
    return "Workers: " + ", ".join(f"{n} x {name}" for name, n in where["workers"].items())


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
    if best := best_rows(result["rows"]):
        cells = [cells_of(row, COLUMNS_OF_BEST) for row in best]
        parts.append("\n".join(aligned([[*COLUMNS_OF_BEST.values()], *cells])))
    if label(result["settings"]):
        parts.insert(0, f"**{label(result['settings'])}**")
    for target, bits in result.get("bits_per_byte", {}).items():
        parts.append(f"{target}: {format_cell('bits_per_byte', bits)} bits per held-out byte.")
    if failed := result.get("failed"):
        parts.append("\n".join(f"Not measured: {name} ({why})." for name, why in failed.items()))
    if notes:
        parts.append("\n".join(f"{number}. {note}" for note, number in notes.items()))
    return "\n\n".join(parts) + "\n"


# ---------------------------------------------------------------- batches, and other programs


def plain(rows, columns):
    """A table of these columns of the rows, {name: heading}."""
    cells = [[format_cell(name, row[name]) for name in columns] for row in rows]
    return "\n".join(aligned([[*columns.values()], *cells]))


def of_batches(result):
    """Tokens per second of several texts at once."""
    settings = result["settings"]
    notes = [
        f"{settings['n_tokens_to_generate']} tokens each, median of {settings['repeats']}, tokens "
        f"per second of all texts together, prefill apart. {measured_on(result['machine'])}."
    ]
    if label(settings):
        notes.insert(0, f"**{label(settings)}**")
    return "\n\n".join([*notes[:-1], plain(result["rows"], COLUMNS_OF_BATCHES), notes[-1]]) + "\n"


def of_programs(result):
    """The speed of each program, and whether its texts are ours."""
    settings, where = result["settings"], result["machine"]
    notes = [
        f"{settings['target_model_size']}, {settings['weights']} weights, float32, greedy, K = "
        f"{settings['K']}, {result['prompts']} prompts, {settings['n_tokens_to_generate']} tokens "
        f"each, median of {settings['repeats']} turns with their range, prefill included. "
        f"{measured_on(where)}.",
        f"Versions: {'; '.join(where['versions'].values())}.",
    ]
    notes += [f"{name}: not run, {why} is not installed." for name, why in where["missing"].items()]
    return "\n\n".join([plain(result["rows"], COLUMNS_OF_PROGRAMS), *notes]) + "\n"
