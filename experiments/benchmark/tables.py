"""The rows of a benchmark as Markdown tables."""

# the headings of figures that their names are not
HEADINGS = {
    "temperature": "T",
    "verification": "rule",
    "autoregressive_tokens_per_second": "plain",
    "autoregressive": "plain",
    "speculative": "tok/s",
    "batch_size": "texts",
    "tokens_per_second": "tok/s",
    "speedup_time": "speedup",
    "speedup_over_token": "speedup over the token rule",
    "acceptance_rate": "acceptance",
    "draft_cost": "c",
    "verify_cost": "v",
    "predicted_speedup": "predicted",
    "tokens_per_target_pass": "tokens/pass",
    "predicted_K": "best K",
    "fastest_K": "best K",
    "past": "after",
    "milliseconds": "ms",
    "gb_per_s": "GB/s",
    "against_the_first": "cost",
}
# what a column means, where its heading does not say it
LEGEND = {
    "temperature": "T: temperature, 0 is greedy decoding",
    "K": "K: tokens drafted per round",
    "autoregressive_tokens_per_second": "plain, tok/s: tokens per second without and with drafts",
    "autoregressive": "plain, tok/s: tokens per second of all texts, without and with drafts",
    "of_one": "of one: the plain speed, over that of one text",
    "draft_cost": "c: the time to draft a token, in passes of the target over one token",
    "verify_cost": "v: the time of a pass of the target over K + 1 tokens, over that of one token",
    "predicted_speedup": "predicted: the speedup that follows from acceptance, c and v",
    "acceptance_by_position": "by position: of the 1st, ... 6th drafted tokens that were examined",
    "of_streaming": "of streaming: GB/s, over the speed at which this machine streams memory",
    "past": "after: how many tokens the text has before the pass",
    "against_the_first": "cost: the time, over that of the first line after as many tokens",
}
MAX_POSITIONS = 6  # in a column, so that a table fits 100 columns
VARIANT = ["draft", "target", "temperature", "K", "verification"]
SPEEDS = ["autoregressive_tokens_per_second", "tokens_per_second", "speedup_time"]
SPEEDS += ["predicted_speedup", "notes"]
CAUSES = ["tokens_per_target_pass", "acceptance_rate", "draft_cost", "verify_cost"]
PAIR = ["draft", "target", "temperature", "verification"]
BEST_PREDICTED = ["predicted_K", "predicted_speedup", "acceptance_rate", "draft_cost"]
BEST_PREDICTED += ["verify_cost"]
BEST_MEASURED = ["fastest_K", "speedup_time", "acceptance_by_position"]
BATCHES = ["batch_size", "autoregressive", "of_one", "speculative", "speedup"]
BATCHES += ["tokens_per_target_pass"]
PROGRAM_SPEEDS = ["program", "decoder", "tokens_per_second", "against_ours"]
PROGRAM_TEXTS = ["program", "decoder", "tokens_per_target_pass", "same_texts"]
# what is missing in a table, with the reason
NOTED = "speedup_time", "predicted_speedup", "verify_cost", "speedup_over_token"
NOTED += ("tokens_per_pass_over_token",)
WITH_INTERVAL = "speedup_time", "verify_cost", "speedup_over_token", "tokens_per_pass_over_token"


def as_text(value):
    """Return a value of a row as text: a float has one to three decimals, None is a dash, a dict
    {"value", "low", "high"} is a number with its range. A list of floats or None has two decimals
    each, and ends after MAX_POSITIONS with "…".

    >>> as_text(12.345), as_text([0.5, None]), as_text({"value": 2.0, "low": 1.5, "high": 3.0})
    ('12.3', '0.50 –', '2.00 [1.50, 3.00]')
    """
    if value is None:
        return "–"
    if isinstance(value, dict):  # a median with its range
        median, low, high = as_text(value["value"]), as_text(value["low"]), as_text(value["high"])
        return f"{median} [{low}, {high}]"
    if isinstance(value, list):
        texts = ["–" if share is None else f"{share:.2f}" for share in value[:MAX_POSITIONS]]
        if len(value) > MAX_POSITIONS:
            texts.append("…")
        return " ".join(texts)
    if isinstance(value, float):
        if value >= 10:
            return f"{value:.1f}"
        return f"{value:.2f}" if value >= 1 else f"{value:.3f}"
    return str(value)


def cell(row, name):
    """Return the text for the column `name` of a row (a dict of the results): its value, with the
    95 % interval if it has one and the column is in WITH_INTERVAL.
    """
    value = row[name]
    if value is None:  # withheld: its interval is not shown either
        return as_text(None)
    if name == "temperature":
        return f"{value:g}"
    if name in WITH_INTERVAL and row["intervals"].get(name):
        low, high = row["intervals"][name]
        return as_text({"value": value, "low": low, "high": high})
    return as_text(value)


def markdown_table(header, lines):
    """Return a Markdown table with aligned columns, a text.

    header: the headings, a list of texts
    lines: for each line a list of values: numbers, texts or whatever as_text takes
    """
    lines = [[as_text(value) for value in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(header, *lines)]
    lines = [header, ["-" * width for width in widths], *lines]
    padded = [[text.ljust(width) for text, width in zip(cells, widths)] for cells in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in padded)


def heading(name):
    """Return the heading of the column `name`, a text: "T" for "temperature"."""
    return HEADINGS.get(name, name.replace("_", " "))


def nonempty_columns(rows, columns):
    """Return the list of those columns in which some row (a dict) has a cell that is not empty."""
    return [name for name in columns if any(cell(row, name) not in ("", "–") for row in rows)]


def table(rows, columns):
    """Return a Markdown table of these columns (a list of names) of rows (dicts), without the
    columns that are empty in all rows.
    """
    columns = nonempty_columns(rows, columns)
    lines = [[cell(row, name) for name in columns] for row in rows]
    return markdown_table([heading(name) for name in columns], lines)


def legend(rows, columns):
    """Return a Markdown list, a text, with a line for each of these columns (a list of names) that
    is explained in LEGEND, and not empty in all rows (dicts of the results).
    """
    explained = [name for name in nonempty_columns(rows, columns) if name in LEGEND]
    return "\n".join(f"- {LEGEND[name]}" for name in explained)


def split_common_columns(rows, columns):
    """Split columns (a list of names) into those whose value is the same in all rows (dicts), and
    the others. "draft" and "K" always count among the others.

    Returns (a sentence with the shared values, "" if there are none; the list of other columns).
    """
    common, differing = [], []
    for name in columns:
        values = {str(row[name]) for row in rows}
        if len(values) > 1 or name in ("draft", "K"):
            differing.append(name)
        else:
            common.append(f"{heading(name)} {cell(rows[0], name)}")
    sentence = f"All rows: {', '.join(common)}." if common else ""
    return sentence, differing


def label(settings):
    """Return a warning for figures of random weights or synthetic acceptance; "" for real ones.

    settings: {name of a flag of benchmark: its value}; --synthetic_acceptance is a text, such as
        "0.8", or "" if it is not given
    """
    parts = []
    if settings["weights"] == "random":
        parts.append("random weights")
    if settings["synthetic_acceptance"]:
        parts.append(f"synthetic acceptance {settings['synthetic_acceptance']}")
    return ", ".join(parts)


def remarks_on(row):
    """Return a list of remarks (texts) on a row (a dict): which figures are withheld and why, what
    a rule gains over the token rule, and warnings about the texts.
    """
    remarks = [
        f"{heading(name)}: withheld, as {row['withheld'][name]}"
        for name in NOTED
        if name in row["withheld"]
    ]
    gains = {
        "speedup_over_token": "times as fast",
        "tokens_per_pass_over_token": "times as many tokens per pass",
    }
    for name, gain in gains.items():
        if row[name] is not None:
            remarks.append(f"in the same turns {cell(row, name)} {gain} as the token rule")
    return remarks + row["flags"]


def number_remarks(rows):
    """Number the remarks (texts) that `remarks_on` finds in rows, a list of dicts. Equal ones get
    the same number.

    Returns (new rows with another column "notes", such as "1, 3"; the remarks as a Markdown list,
    a text).
    """
    numbers = {}  # {remark: its number}
    rows_with_notes = []
    for row in rows:
        # a remark that has no number yet is given the next one
        notes = [numbers.setdefault(remark, len(numbers) + 1) for remark in remarks_on(row)]
        rows_with_notes.append(row | {"notes": ", ".join(map(str, sorted(notes)))})
    remarks = [f"{number}. {remark}" for remark, number in numbers.items()]
    return rows_with_notes, "\n".join(remarks)


def paragraphs(result):
    """Yield the Markdown paragraphs (texts) of the JSON object of benchmark: its label, tables,
    remarks and legends, and how it was measured. A paragraph may be "".
    """
    settings, machine, rows = result["settings"], result["machine"], result["rows"]
    if label(settings):
        yield f"**{label(settings)}**"
    if settings["batch_size"]:
        yield from paragraphs_of_batches(rows)
    elif settings["programs"]:
        yield from paragraphs_of_programs(result)
    else:
        yield from paragraphs_of_K(rows)
        yield from paragraphs_of_best_K(result["best_K"])
        yield from prompt_paragraphs(rows)
    length = f"{settings['n_tokens_to_generate']} tokens each, median of {settings['repeats']}"
    cpu = f"{machine['cpu']}, {machine['threads']} threads"
    yield f"{length}. {cpu}, {settings['backend']}, {machine['date']}."


def paragraphs_of_K(rows):
    """Yield the paragraphs (texts) about rows of the results, a list of dicts: the table of speeds,
    its remarks, the table of the causes (acceptance and costs), and a legend.
    """
    rows, remarks = number_remarks(rows)
    common, differing = split_common_columns(rows, VARIANT)
    yield common
    yield table(rows, differing + SPEEDS)
    yield remarks
    yield table(rows, differing + CAUSES)
    yield legend(rows, differing + SPEEDS + CAUSES)


def paragraphs_of_best_K(rows):
    """Yield the paragraphs (texts) about the best K of each draft: a table of the predicted K, a
    table of the fastest K, and a legend. rows: the list "best_K" of the results (dicts)
    """
    _, differing = split_common_columns(rows, PAIR)
    # those of a row are means over all rounds of its texts
    yield "The best K by theory. Here c and v are of single rounds:"
    yield table(rows, differing + BEST_PREDICTED)
    yield "The K that was fastest:"
    yield table(rows, differing + BEST_MEASURED)
    # paragraphs_of_K has explained the other columns
    yield legend(rows, columns=["acceptance_by_position"])


def prompt_paragraphs(rows):
    """Yield a sentence for each target: how many prompts there were. rows: dicts of the results"""
    counts = {row["target"]: (row["prompts"], row["skipped_prompts"]) for row in rows}
    has_intervals = any(row["intervals"]["speedup_time"] for row in rows)
    ending = ", with 95 % intervals" if has_intervals else ""
    for target, (n_prompts, n_skipped) in counts.items():
        yield f"{target}: {n_prompts} prompts ({n_skipped} skipped: too long){ending}."


def paragraphs_of_batches(rows):
    """Yield the paragraphs (texts) about batches: a table of speeds, and a legend. rows: the
    rows of the results, a list of dicts
    """
    common, differing = split_common_columns(rows, VARIANT)
    yield common
    yield table(rows, differing + BATCHES)
    yield legend(rows, differing + BATCHES)
    yield "Tokens per second of all texts together, prefill apart."


def paragraphs_of_programs(result):
    """Yield the paragraphs about --programs: a table of speeds, a table that compares the texts
    with ours, and how it was measured. result: the JSON object of benchmark, a dict
    """
    settings, machine, rows = result["settings"], result["machine"], result["rows"]
    yield table(rows, PROGRAM_SPEEDS)
    yield table(rows, PROGRAM_TEXTS)
    yield legend(rows, PROGRAM_TEXTS)
    yield (
        f"{settings['target_model_size']}, {settings['weights']} weights, float32, greedy, "
        f"K = {settings['K']}, {result['prompts']} prompts, prefill included; medians of turns "
        "with their range."
    )
    yield f"Versions: {'; '.join(machine['versions'].values())}."
    for program, module in machine["missing"].items():
        yield f"{program}: not run, {module} is not installed."


def to_markdown(result):
    """Return the JSON object of benchmark (a dict) as Markdown text, with a final line end."""
    return "\n\n".join(text for text in paragraphs(result) if text) + "\n"
