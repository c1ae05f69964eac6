"""The rows of a benchmark as Markdown tables."""

# the headings of figures that their names are not
HEADINGS = {
    "temperature": "T",
    "verification": "rule",
    "autoregressive_tokens_per_second": "plain tok/s",
    "tokens_per_second": "tok/s",
    "speedup_time": "speedup in time",
    "speedup_target_passes": "in target passes",
    "speedup_over_token": "speedup over the token rule",
    "acceptance_rate": "acceptance",
    "draft_cost": "c",
    "verify_cost": "v",
    "predicted_speedup": "predicted",
    "measured_over_predicted": "measured / predicted",
    "tokens_per_target_pass": "tokens per pass",
    "batch_size": "texts",
    "autoregressive": "plain tok/s",
    "speculative": "tok/s",
    "milliseconds_of_1_row": "1 row ms",
    "milliseconds_of_all_rows": "K + 1 rows ms",
    "cost_of_all_rows": "ratio",
    "milliseconds": "ms",
    "gb_per_s": "GB/s",
}
WHAT = ["draft", "target", "temperature", "K", "verification"]
COLUMNS = """
    autoregressive_tokens_per_second tokens_per_second speedup_time speedup_target_passes
    acceptance_rate draft_cost verify_cost predicted_speedup measured_over_predicted
""".split()
# of the fastest K of each draft
COLUMNS_OF_BEST = "acceptance_by_position draft_cost tokens_per_target_pass speedup_time".split()
COLUMNS_OF_BATCHES = "batch_size autoregressive of_one speculative speedup".split()
COLUMNS_OF_PROGRAMS = """
    program decoder tokens_per_second against_ours tokens_per_target_pass same_texts
    milliseconds_of_1_row milliseconds_of_all_rows cost_of_all_rows
""".split()
DIGITS = dict.fromkeys(["autoregressive", "speculative", "gb_per_s"], 1)
DIGITS |= dict.fromkeys(["autoregressive_tokens_per_second", "tokens_per_second"], 1)
DIGITS |= dict.fromkeys(["acceptance_rate", "draft_cost", "bits_per_byte", "milliseconds"], 3)
DIGITS |= dict.fromkeys(["break_even_acceptance", "needs_acceptance"], 3)
DIGITS["expected_acceptance"] = 4
WITH_INTERVAL = "speedup_time", "speedup_over_token"


def format_value(name, value):
    """A value of a row, as text."""
    if value is None:
        return "–"
    if name == "temperature":
        return f"{value:g}"
    if isinstance(value, dict):  # a median with its range
        return "{value} [{low}, {high}]".format(
            **{key: format_value(name, one) for key, one in value.items()}
        )
    if isinstance(value, list):
        return " ".join(format_value(name, one) for one in value)
    if isinstance(value, float):
        return f"{value:.{DIGITS.get(name, 2)}f}"
    return str(value)


def cell(row, name):
    """A value of a row, with its interval if there is one to show."""
    text = format_value(name, row[name])
    if name in WITH_INTERVAL and row[name] is not None:
        text += " [{:.2f}, {:.2f}]".format(*row["intervals"][name])
    return text


def aligned(header, lines):
    """A Markdown table of cells, its columns aligned."""
    widths = [max(map(len, column)) for column in zip(header, *lines)]
    lines = [header, ["-" * width for width in widths], *lines]
    padded = [[text.ljust(width) for text, width in zip(cells, widths)] for cells in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in padded)


def heading(name):
    return HEADINGS.get(name, name.replace("_", " "))


def table(rows, columns, notes=()):
    """The table of these columns of rows. notes: a last cell for each row, if given."""
    header, lines = [*map(heading, columns)], [[cell(row, x) for x in columns] for row in rows]
    if notes:
        return aligned([*header, "notes"], [[*line, note] for line, note in zip(lines, notes)])
    return aligned(header, lines)


def label(settings):
    """What must be said of figures that are not a real pair's; "" of a real one's."""
    parts = []
    if settings["weights"] == "random":
        parts.append("random weights")
    if settings["synthetic_acceptance"]:
        parts.append(f"synthetic acceptance {settings['synthetic_acceptance']}")
    return ", ".join(parts)


def remarks_on(row):
    """What a reader has to know of a row: what was withheld, and its flags."""
    remarks = [
        f"{heading(name)}: withheld, as {row['withheld'][name]}"
        for name in ("speedup_time", "predicted_speedup", "speedup_over_token")
        if name in row["withheld"]
    ]
    if row["speedup_over_token"] is not None:
        gain = cell(row, "speedup_over_token")
        remarks.append(f"in the same turns {gain} times as fast as the token rule")
    return remarks + row["flags"]


def best_rows(rows):
    """The row with the fastest K of each draft, target, temperature and rule, of several K."""
    groups = {}
    for row in rows:
        key = row["draft"], row["target"], row["temperature"], row["verification"]
        groups.setdefault(key, []).append(row)
    fastest = [max(group, key=lambda row: row["tokens_per_second"]) for group in groups.values()]
    return fastest if len(fastest) < len(rows) else []


def how_measured(result):
    """A sentence on how the figures came about."""
    settings, where = result["settings"], result["machine"]
    length = f"{settings['n_tokens_to_generate']} tokens each, median of {settings['repeats']}"
    if settings["batch_size"]:
        how = f"{length}, tokens per second of all texts together, prefill apart"
    elif settings["programs"]:
        how = (
            f"{settings['target_model_size']}, {settings['weights']} weights, float32, greedy, "
            f"K = {settings['K']}, {result['prompts']} prompts, {length} turns with their range, "
            "prefill included"
        )
    else:
        how = f"{count_prompts(result['rows'])}, {length}; speedup with its 95 % interval"
    cpu = f"{where['cpu']}, {where['threads']} threads"
    if "workers" in where:
        workers = where["workers"].items()
        cpu = "Workers: " + ", ".join(f"{n} x {name}" for name, n in workers)
    return f"{how}. {cpu}, {settings['backend']}, {where['date']}."


def count_prompts(rows):
    """How many there were; the context of a target decides how many are too long."""
    counts = {row["target"]: (row["prompts"], row["skipped_prompts"]) for row in rows}
    return "; ".join(
        f"{target}: {n} prompts ({n_skipped} skipped: too long)"
        for target, (n, n_skipped) in counts.items()
    )


def tables_of(result):
    """The tables, and what is to be said of single rows or programs."""
    settings, rows = result["settings"], result["rows"]
    if settings["batch_size"]:
        return [table(rows, WHAT + COLUMNS_OF_BATCHES)], []
    if settings["programs"]:
        where = result["machine"]
        remarks = [f"Versions: {'; '.join(where['versions'].values())}."]
        remarks += [
            f"{name}: not run, {why} is not installed." for name, why in where["missing"].items()
        ]
        return [table(rows, COLUMNS_OF_PROGRAMS)], remarks
    numbers = {}  # {remark: its number}
    notes = []
    for row in rows:
        of_row = [numbers.setdefault(remark, len(numbers) + 1) for remark in remarks_on(row)]
        notes.append(", ".join(map(str, sorted(of_row))))
    found = [table(rows, WHAT + COLUMNS, notes)]
    if best := best_rows(rows):
        found.append(table(best, WHAT + COLUMNS_OF_BEST))
    return found, ["\n".join(f"{number}. {note}" for note, number in numbers.items())]


def markdown(result):
    """The tables of a result, how they were measured, and what else there is to say."""
    (first, *more), remarks = tables_of(result)
    parts = [first, how_measured(result), *more]
    if label(result["settings"]):
        parts.insert(0, f"**{label(result['settings'])}**")
    for target, bits in result.get("bits_per_byte", {}).items():
        parts.append(f"{target}: {format_value('bits_per_byte', bits)} bits per held-out byte.")
    failed = result.get("failed", {}).items()
    parts.append("\n".join(f"Not measured: {name} ({why})." for name, why in failed))
    return "\n\n".join(filter(None, [*parts, *remarks])) + "\n"
