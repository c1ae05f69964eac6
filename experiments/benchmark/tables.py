"""The rows of a benchmark as Markdown tables."""

# the headings of figures that their names are not
HEADINGS = {
    "temperature": "T",
    "verification": "rule",
    "autoregressive_tokens_per_second": "plain tok/s",
    "tokens_per_second": "tok/s",
    "speedup_time": "speedup in time",
    "acceptance_rate": "acceptance",
    "draft_cost": "c",
    "verify_cost": "v",
    "predicted_speedup": "predicted",
    "measured_over_predicted": "measured / predicted",
    "tokens_per_target_pass": "tokens per pass",
    "predicted_K": "predicted K",
    "fastest_K": "fastest K",
    "milliseconds": "ms",
    "gb_per_s": "GB/s",
}
CONTENDER_COLUMNS = ["draft", "target", "temperature", "K", "verification"]
COLUMNS = """
    autoregressive_tokens_per_second tokens_per_second speedup_time tokens_per_target_pass
    acceptance_rate draft_cost verify_cost predicted_speedup measured_over_predicted notes
""".split()
COLUMNS_OF_BEST = """
    draft target temperature verification acceptance_rate draft_cost verify_cost predicted_K
    predicted_speedup fastest_K acceptance_by_position tokens_per_target_pass speedup_time
""".split()
COLUMNS_OF_BATCHES = "batch_size autoregressive of_one speculative speedup".split()
COLUMNS_OF_PROGRAMS = """
    program decoder tokens_per_second against_ours tokens_per_target_pass same_texts
    cost_of_all_rows
""".split()
WITH_INTERVAL = "speedup_time", "speedup_over_token"


def as_text(value):
    """A value of a row; a measured one with one to three decimals."""
    if value is None:
        return "–"
    if isinstance(value, dict):  # a median with its range
        value, low, high = (as_text(value[name]) for name in ("value", "low", "high"))
        return f"{value} [{low}, {high}]"
    if isinstance(value, list):
        return " ".join(map(as_text, value))
    if isinstance(value, float):
        digits = 1 if value >= 10 else 2 if value >= 1 else 3
        return f"{value:.{digits}f}"
    return str(value)


def cell(row, name):
    """A value of a row, with its interval if there is one to show."""
    value = row[name]
    if value is not None and name == "temperature":
        return f"{value:g}"
    if value is not None and name in WITH_INTERVAL:
        low, high = row["intervals"][name]
        value = {"value": value, "low": low, "high": high}
    return as_text(value)


def aligned(header, lines):
    """A Markdown table of values, its columns aligned."""
    lines = [[as_text(value) for value in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(header, *lines)]
    lines = [header, ["-" * width for width in widths], *lines]
    padded = [[text.ljust(width) for text, width in zip(cells, widths)] for cells in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in padded)


def heading(name):
    return HEADINGS.get(name, name.replace("_", " "))


def table(rows, columns):
    """The table of these columns of rows."""
    return aligned([*map(heading, columns)], [[cell(row, x) for x in columns] for row in rows])


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


def noted(rows):
    """(the rows with the numbers of their remarks, the remarks as a numbered list)."""
    numbers, with_notes = {}, []  # {remark: its number}
    for row in rows:
        of_row = [numbers.setdefault(remark, len(numbers) + 1) for remark in remarks_on(row)]
        with_notes.append(row | {"notes": ", ".join(map(str, sorted(of_row)))})
    return with_notes, "\n".join(f"{number}. {remark}" for remark, number in numbers.items())


def paragraphs(result):
    """The tables of a result, how they were measured, and what else there is to say."""
    settings, where, rows = result["settings"], result["machine"], result["rows"]
    if label(settings):
        yield f"**{label(settings)}**"
    if settings["batch_size"]:
        yield table(rows, CONTENDER_COLUMNS + COLUMNS_OF_BATCHES)
        yield "Tokens per second of all texts together, prefill apart."
    elif settings["programs"]:
        yield table(rows, COLUMNS_OF_PROGRAMS)
        yield (
            f"{settings['target_model_size']}, {settings['weights']} weights, float32, greedy, "
            f"K = {settings['K']}, {result['prompts']} prompts, prefill included; medians of turns "
            "with their range."
        )
        yield f"Versions: {'; '.join(where['versions'].values())}."
        for name, why in where["missing"].items():
            yield f"{name}: not run, {why} is not installed."
    else:
        with_notes, remarks = noted(rows)
        yield table(with_notes, CONTENDER_COLUMNS + COLUMNS)
        yield remarks
        if rows:
            yield "The best K, predicted and measured. Here c and v are of single rounds with it:"
            yield table(result["best_K"], COLUMNS_OF_BEST)
        counts = {row["target"]: (row["prompts"], row["skipped_prompts"]) for row in rows}
        for target, (n, n_skipped) in counts.items():
            yield f"{target}: {n} prompts ({n_skipped} skipped: too long), with 95 % intervals."
    cpu = f"{where['cpu']}, {where['threads']} threads"
    if "workers" in where:
        workers = where["workers"].items()
        cpu = "Workers: " + ", ".join(f"{n} x {name}" for name, n in workers)
    length = f"{settings['n_tokens_to_generate']} tokens each, median of {settings['repeats']}"
    yield f"{length}. {cpu}, {settings['backend']}, {where['date']}."
    for name, why in result.get("failed", {}).items():
        yield f"Not measured: {name} ({why})."


def markdown(result):
    return "\n\n".join(filter(None, paragraphs(result))) + "\n"
