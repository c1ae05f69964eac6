"""The rows of a benchmark as a Markdown table."""

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter

HEADINGS = {
    "target": "target",
    "draft": "draft",
    "temperature": "T",
    "verification": "rule",
    "batch_size": "texts",
    "K": "K",
    "plain_tokens_per_second": "plain",
    "tokens_per_second": "tok/s",
    "speedup": "speedup",
    "predicted": "predicted",
    "tokens_per_target_pass": "per pass",
    "acceptance_rate": "a",
    "draft_cost": "c",
    "verify_cost": "v",
}
CASE = ["target", "draft", "temperature", "verification", "batch_size", "K"]
LEGEND = {  # what the headings of figures mean; {units}: of the intervals
    "plain": "tokens per second of all texts without drafts",
    "tok/s": "tokens per second of all texts with drafts",
    "speedup": "tok/s over plain, with its 95 % interval over {units}; ≈ 1: it contains 1, so the\n"
    "  two are not told apart; bold: the fastest K, which luck helps to choose, if it is",
    "predicted": "the speedup that follows from a, c and v",
    "per pass": "tokens per pass of the target",
    "a": "the acceptance rate",
    "c": "the time to draft a token, in passes of the target over one token",
    "v": "the time of the target's pass over K + 1 tokens, in passes over one",
}


def number(value: float | int | str | None) -> str:
    """Return a value as text: a float with one decimal from 10 on, with two from 1 on, else with
    three; None as a dash.

    >>> number(12.345), number(1.2345), number(0.12345), number(None)
    ('12.3', '1.23', '0.123', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, float):
        if value >= 10:
            return f"{value:.1f}"
        if value >= 1:
            return f"{value:.2f}"
        return f"{value:.3f}"
    return str(value)


def cell(row: dict, column: str, best: list[dict]) -> str:
    """Return the text of a row of the table in a column: the row's value as `number` writes it, a
    dash for None. A speedup has its interval behind it, "1.5 [1.4, 1.6]", and then "≈ 1" if that
    contains 1; else it is bold if the row is one of `best`.

    row: {name of a column: its value, ..., "intervals": {"speedup": (low, high)}}
    column: a key of HEADINGS; best: rows, as `fastest` returns them
    """
    if column == "temperature":
        return f"{row[column]:g}"
    if column == "speedup" and row["speedup"] is not None:  # then it has an interval, too
        low, high = row["intervals"]["speedup"]
        text = f"{number(row['speedup'])} [{number(low)}, {number(high)}]"
        if not is_told_apart(row):
            return f"{text} ≈ 1"
        return f"**{text}**" if row in best else text
    return number(row[column])


def is_told_apart(row: dict) -> bool:
    """Return whether a row, a dict, has a "speedup", not None, and an interval of it, (low, high)
    in row["intervals"]["speedup"], that does not contain 1.
    """
    interval = row["intervals"]["speedup"]
    if row["speedup"] is None or interval is None:
        return False
    low, high = interval
    return not low <= 1 <= high


def fastest(rows: list[dict]) -> list[dict]:
    """Return the row with the fastest K, the most "tokens_per_second", of each group of two rows or
    more in which only K differs: "target", "draft", "temperature", "verification" and "batch_size"
    are the same. rows: dicts with these keys
    """
    cases: dict[tuple, list[dict]] = {}
    for row in rows:
        case = tuple(row[name] for name in CASE if name != "K")
        cases.setdefault(case, []).append(row)
    speed = itemgetter("tokens_per_second")
    return [max(of_case, key=speed) for of_case in cases.values() if len(of_case) > 1]


def markdown_table(header: list[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns. header, lines: the texts of the cells of the
    header, and of each row
    """
    widths = [max(map(len, column)) for column in zip(header, *lines)]  # of each column
    rule = ["-" * width for width in widths]
    table = []
    for cells in [header, rule, *lines]:
        padded = [text.ljust(width) for text, width in zip(cells, widths)]
        table.append(f"| {' | '.join(padded)} |")
    return "\n".join(table)


def to_markdown(rows: list[dict]) -> str:
    """Return the rows of a benchmark as Markdown: a warning if the models mean nothing, what all
    rows have in common (draft and K are always columns), the table, why it has dashes, what its
    headings mean, and how it was measured.

    rows: dicts with a value, or None, for each key of HEADINGS, and with "intervals", "withheld",
        "prompts", "settings" and "machine", as bench.benchmark writes them with --out
    """
    best = fastest(rows)
    common = []  # what all rows have in common, in words
    columns = {}  # {heading of a column that differs: its texts, one for each row}
    for name, heading in HEADINGS.items():
        texts = [cell(row, name, best) for row in rows]
        n_different = len(set(texts))
        if n_different == 1 and name in CASE and name not in ("draft", "K"):
            common.append(f"{heading} {texts[0]}")
        elif n_different > 1 or texts[0] != "–":  # a column of dashes says nothing
            columns[heading] = texts
    lines = list(zip(*columns.values()))  # columns to rows
    units = units_of_intervals(rows)
    meanings = [
        f"- {name}: {LEGEND[name].format(units=units)}" for name in columns if name in LEGEND
    ]
    parts = [
        warning_of(rows[0]["settings"]),
        f"All rows: {', '.join(common)}." if common else "",
        markdown_table(list(columns), lines),
        "\n".join(remarks(rows)),
        "\n".join(meanings),
        how_measured(rows),
    ]
    return "\n\n".join(part for part in parts if part)


def units_of_intervals(rows: list[dict]) -> str:
    """Return over what the intervals of these rows are: "prompts", or "batches" if one has several
    prompts.
    """
    return "prompts" if all(row["batch_size"] == 1 for row in rows) else "batches"


def counted(n: int, what: str) -> str:
    """Return a count in words: "1 prompt", "2 prompts"."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def how_measured(rows: list[dict]) -> str:
    """Return a line about the benchmark that these rows are of: how many prompts (the fewest and
    the most, if rows differ), tokens for each and repeats, and on which machine and backend, when.

    rows: dicts with "prompts", a number, and with "settings" and "machine", two dicts, which are
        the same in all rows
    """
    settings, machine = rows[0]["settings"], rows[0]["machine"]
    counts = [row["prompts"] for row in rows]
    least, most = min(counts), max(counts)
    prompts = counted(most, "prompt")
    if least < most:
        prompts = f"{least} to {prompts}"
    return (
        f"{prompts}, {counted(settings['n_tokens_to_generate'], 'token')} each, medians of "
        f"{settings['repeats']}. {machine['cpu']}, {counted(machine['threads'], 'thread')}, "
        f"{settings['backend']}, {machine['date']}."
    )


def warning_of(settings: dict) -> str:
    """Return a warning, in bold, if the figures of a benchmark are no real ones; else "".

    settings: of its rows; "weights" is "random" or not, "synthetic_acceptance" the probability to
        accept any drafted token, or 0
    """
    parts = ["random weights"] if settings["weights"] == "random" else []
    if settings["synthetic_acceptance"]:
        parts.append(f"synthetic acceptance {settings['synthetic_acceptance']}")
    return f"**{', '.join(parts)}: the texts mean nothing**" if parts else ""


def remarks(rows: list[dict]) -> list[str]:
    """Return a line for each reason why the table has a dash in place of a figure: "- speedup –:
    too few prompts for an interval (2 of 6 rows)", in the order in which the reasons come.

    rows: dicts with "withheld", {name of the figure, a key of HEADINGS: the reason}
    """
    reasons: Counter[str] = Counter()
    for row in rows:
        for column, reason in row["withheld"].items():
            reasons[f"- {HEADINGS[column]} –: {reason}"] += 1
    return [f"{reason} ({n} of {len(rows)} rows)" for reason, n in reasons.items()]
