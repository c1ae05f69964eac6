"""The rows of a benchmark as a Markdown table."""

import math
from collections import Counter
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
LEGEND = """\
- plain, tok/s: tokens per second of all texts without and with drafts
- speedup: tok/s over plain, with its 95 % interval over prompts; ≈ 1: the interval contains 1, so
  the two are not told apart; bold: the fastest K, which luck helps to choose, if it is
- per pass: tokens per pass of the target
- a: the acceptance rate. c, v: the time to draft a token, and of the target's pass over K + 1
  tokens, in passes over one
- predicted: the speedup that follows from a, c and v"""


def number(value: float | int | str | None) -> str:
    """Return a value as text: a float with one to three decimals, None as a dash.

    >>> number(12.345), number(1.2345), number(0.12345), number(None)
    ('12.3', '1.23', '0.123', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, float):
        n_decimals = 1 if value >= 10 else 2 if value >= 1 else 3
        return f"{value:.{n_decimals}f}"
    return str(value)


def cell(row: dict, column: str, best: list[dict]) -> str:
    """Return the text of a row for a column: a speedup has its interval and, if that contains 1,
    "≈ 1". best: the rows whose speedup, if told apart from 1, is bold
    """
    if column == "temperature":
        return f"{row[column]:g}"
    if column == "speedup" and row["speedup"]:
        low, high = row["intervals"]["speedup"]
        text = f"{number(row['speedup'])} [{number(low)}, {number(high)}]"
        if not is_told_apart(row):
            return f"{text} ≈ 1"
        return f"**{text}**" if row in best else text
    return number(row[column])


def is_told_apart(row: dict) -> bool:
    """Return whether a row has a speedup, not withheld, whose interval does not contain 1."""
    low, high = row["intervals"]["speedup"] or (0, math.inf)  # without one, it may be anything
    return row["speedup"] is not None and not low <= 1 <= high


def fastest(rows: list[dict]) -> list[dict]:
    """Return the row with the most tokens per second of each case that has several K, even if its
    speedup is withheld or not told apart from 1. Rows are of one case if they differ only in K, of
    all that was chosen: target, draft, temperature, rule and batch size.
    """
    cases: dict[tuple, list[dict]] = {}
    for row in rows:
        case = tuple(row[name] for name in CASE if name != "K")
        cases.setdefault(case, []).append(row)
    speed = itemgetter("tokens_per_second")
    return [max(of_case, key=speed) for of_case in cases.values() if len(of_case) > 1]


def markdown_table(header: list[str], lines: list[list[str]]) -> str:
    """Return a Markdown table with aligned columns. lines: the texts of the cells of each row"""
    columns = zip(header, *lines)
    widths = [max(map(len, column)) for column in columns]
    lines = [header, ["-" * width for width in widths], *lines]
    padded = [[text.ljust(width) for text, width in zip(cells, widths)] for cells in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in padded)


def to_markdown(rows: list[dict]) -> str:
    """Return the rows of a benchmark as Markdown: what all have in common, the table, which figures
    are withheld and why, and a legend.
    """
    best = fastest(rows)
    texts = {name: [cell(row, name, best) for row in rows] for name in HEADINGS}
    common = [name for name in CASE if name not in ("draft", "K") and len({*texts[name]}) == 1]
    columns = [name for name in HEADINGS if name not in common and {*texts[name]} != {"–"}]
    lines = [[texts[name][i] for name in columns] for i in range(len(rows))]
    parts = [
        label(rows[0]["settings"]),
        f"All rows: {', '.join(f'{HEADINGS[name]} {texts[name][0]}' for name in common)}.",
        markdown_table([HEADINGS[name] for name in columns], lines),
        "\n".join(remarks(rows)),
        LEGEND,
        how_measured(rows),
    ]
    return "\n\n".join(part for part in parts if part)


def how_measured(rows: list[dict]) -> str:
    """Return a line with the number of prompts, tokens and repeats of all rows, and the machine."""
    settings, machine = rows[0]["settings"], rows[0]["machine"]
    counts = sorted({row["prompts"] for row in rows})
    prompts = " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
    prompts += " prompt" if counts[-1] == 1 else " prompts"
    return (
        f"{prompts}, {settings['n_tokens_to_generate']} tokens each, medians of "
        f"{settings['repeats']}. {machine['cpu']}, {machine['threads']} threads, "
        f"{settings['backend']}, {machine['date']}."
    )


def label(settings: dict) -> str:
    """Return a warning for figures of random weights or synthetic acceptance; "" for real ones."""
    parts = ["random weights"] if settings["weights"] == "random" else []
    if settings["synthetic_acceptance"]:
        parts.append(f"synthetic acceptance {settings['synthetic_acceptance']}")
    return f"**{', '.join(parts)}: the texts mean nothing**" if parts else ""


def remarks(rows: list[dict]) -> list[str]:
    """Return a line for each reason for which figures are withheld."""
    reasons = Counter(
        f"- {HEADINGS[column]} –: {reason}"
        for row in rows
        for column, reason in row["withheld"].items()
    )
    return [f"{reason} ({n} of {len(rows)} rows)" for reason, n in reasons.items()]
