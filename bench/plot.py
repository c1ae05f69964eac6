"""The picture of a benchmark, an SVG file: speedup against K, or against the number of texts in a
batch if there is only one K, with intervals.
"""

import math
from collections.abc import Callable
from html import escape
from operator import itemgetter

from bench.table import CASE, HEADINGS, is_told_apart, units_of_intervals, warning_of
from cli.picture import painted

COLOURS = ("#2f81f7", "#d9731a", "#2da44e", "#a86ae8", "#d6487e", "#12a5a5")
DASHES = ("none", "7 5", "2 4", "12 4", "7 3 2 3", "1 2")  # of temperatures, the highest first
STYLE = """
:root { --card: #fffefb; --ink: #1d2025; --soft: #5a5d66; --line: #e1dccf; }
@media (prefers-color-scheme: dark) {
  :root { --card: #1a1d23; --ink: #e9e7e2; --soft: #a6aab4; --line: #2e323b; } }
.card { fill: var(--card); stroke: var(--line); }
text { fill: var(--ink); font: 17px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
.soft { fill: var(--soft); } .middle { text-anchor: middle; } .end { text-anchor: end; }
.grid { stroke: var(--line); } .one { stroke: var(--soft); stroke-width: 2px; }
polyline, .bar { fill: none; stroke-width: 2.5px; } .bar { stroke-opacity: .45; }
circle { stroke-width: 2px; } .hollow { fill: var(--card); }
"""
LEFT, RIGHT, TOP, BOTTOM = 60, 620, 40, 360  # of the area between the axes
LEGEND, ROW, COLUMN = BOTTOM + 84, 28, 320  # of the legend: its y, from one entry to the next
SHORT = 26  # characters of an entry for which there may be two in a row
FONT_SIZE = 17  # pixels
LONG = FONT_SIZE * 50  # of an entry that just fits into a row: its characters times FONT_SIZE
SAMPLE, ENTRY = 40, 50  # of an entry of the legend: the width of its stroke, where its text begins
DROP = 6  # from the middle of a text down to its baseline
GREY = "#7a7f87"
WIDTH = RIGHT + 60
AXES = {"K": "K, tokens drafted per round", "batch_size": "texts in a batch"}


def sorted_values(rows: list[dict], column: str) -> list:
    """The different values of a column of rows, each once, from the smallest on."""
    return sorted({row[column] for row in rows})


def rows_by_entry(rows: list[dict], axis: str) -> dict[str, list[dict]]:
    """Group the rows of a benchmark into the lines of the picture: {entry of the legend: its rows,
    in order of the axis}. Rows of one line differ in the axis alone. An entry names the draft, then
    the temperature and what else differs between the lines: "eagle, T = 1".

    rows: dicts with "target", "draft", "temperature", "verification", "batch_size" and "K"
    axis: the column along the picture, "K" or "batch_size"
    """
    differing = [name for name in CASE if name != axis and len(sorted_values(rows, name)) > 1]
    lines: dict[str, list[dict]] = {}
    for row in sorted(rows, key=itemgetter(axis)):
        words = [row["draft"]]
        if "temperature" in differing:
            words.append(f"{HEADINGS['temperature']} = {row['temperature']:g}")
        for name in differing:
            if name not in ("draft", "temperature"):
                words.append(str(row[name]))
        lines.setdefault(", ".join(words), []).append(row)
    return lines


def axes(numbers: list[int], most: float, x_of: Callable, y_of: Callable) -> list[str]:
    """SVG elements: for each speedup 0, 0.5, 1, ... up to `most`, a line across, that of 1 a strong
    one, with the speedup to its left; and below the area the numbers of the other axis, of K or
    texts. x_of(number), y_of(speedup): where they lie in the picture
    """
    parts = []
    for tenths in range(0, int(10 * most) + 1, 5):  # a line for each half
        y = y_of(tenths / 10)
        name = "one" if tenths == 10 else "grid"  # the line of speedup 1 is a strong one
        parts.append(f'<line class="{name}" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="soft end" x="{LEFT - 8}" y="{y + DROP:.1f}">{tenths / 10:g}</text>'
        )
    for n in numbers:
        parts.append(f'<text class="soft middle" x="{x_of(n):.1f}" y="{BOTTOM + 24}">{n}</text>')
    return parts


def line_through(
    rows: list[dict], xs: list[float], colour: str, stroke: str, y_of: Callable, most: float
) -> list[str]:
    """SVG elements: a line through the speedups of rows, and at each of them an upright bar for its
    interval, if it has one, and a marker, hollow if the speedup is not told apart from 1. A bar
    that goes on above the area, beyond the speedup `most`, ends in an arrow.

    rows: of a benchmark, from left to right; xs: the x of each
    colour: of bars and markers; stroke: the attributes of the line, with its colour and dashes
    y_of(speedup): its y; TOP from `most` on
    """
    ys = [y_of(row["speedup"]) for row in rows]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys))
    parts = [f'<polyline points="{path}" {stroke}/>']
    for row, x, y in zip(rows, xs, ys):
        interval = row["intervals"]["speedup"]
        if interval:
            low, high = interval
            ends = f'y1="{y_of(low):.1f}" y2="{y_of(high):.1f}"'
            parts.append(f'<line class="bar" stroke="{colour}" x1="{x:.1f}" x2="{x:.1f}" {ends}/>')
            if high > most:  # y_of(high) is TOP, where the area ends
                tip = f"{x - 5:.1f},{TOP + 7} {x:.1f},{TOP} {x + 5:.1f},{TOP + 7}"
                parts.append(f'<polyline class="bar" stroke="{colour}" points="{tip}"/>')
        parts.append(marker(x, y, colour, hollow=not is_told_apart(row)))
    return parts


def most_shown(rows: list[dict]) -> float:
    """The speedup at the upper edge of the picture: where the highest interval of the rows ends, if
    that is at most 1.3 times the highest speedup, else that (a wide interval is cut off); and in
    any case at least 1.5.
    """
    highest = max(row["speedup"] for row in rows)
    ends = [highest]
    for row in rows:
        interval = row["intervals"]["speedup"]
        if interval:
            _low, high = interval
            ends.append(high)
    return max(1.5, min(max(ends), 1.3 * highest))


def draw(rows: list[dict]) -> str:
    """Draw the rows of a benchmark, and return the text of an SVG file: speedup against K, or
    against batch_size if there is only one K and several of these. A marker is hollow where the
    speedup is not told apart from 1. Rows whose "speedup" is None, withheld, are left out.

    rows: dicts, as bench.table.to_markdown takes them, of at most six temperatures (DASHES)
    """
    shown = [row for row in rows if row["speedup"] is not None]
    if not shown:
        title = "every speedup is withheld: the table says why"
        return framed([], title, axis=AXES["K"], warning="", height=LEGEND)  # without a legend
    axis = "K"
    if len(sorted_values(shown, "K")) == 1 and len(sorted_values(shown, "batch_size")) > 1:
        axis = "batch_size"
    numbers = sorted_values(shown, axis)
    most = most_shown(shown)

    def x_of(number: int) -> float:
        return LEFT + (RIGHT - LEFT) * (numbers.index(number) + 0.5) / len(numbers)

    def y_of(speedup: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * min(speedup, most) / most

    parts = axes(numbers, most, x_of, y_of)
    by_entry = rows_by_entry(shown, axis)  # a line of the picture for each entry of the legend
    entries = list(by_entry)
    looks = []
    # each line a little further to the side, so that bars can be told apart; all within half of
    # the way to the next number
    step = min(5, (RIGHT - LEFT) / len(numbers) / 2 / len(entries))
    for i, line_rows in enumerate(by_entry.values()):
        xs = [x_of(row[axis]) + step * i for row in line_rows]
        colour, stroke = look_of(line_rows[0], shown)  # of all its rows
        parts += line_through(line_rows, xs, colour, stroke, y_of, most)
        looks.append((colour, stroke))
    parts += legend(entries, looks, units_of_intervals(shown))
    height = end_of_legend(entries) + 30
    warning = escape(warning_of(rows[0]["settings"]).strip("*"))  # "" if the figures are real ones
    title = "speedup over plain decoding"
    return framed(parts, title, axis=AXES[axis], warning=warning, height=height)


def legend(entries: list[str], looks: list[tuple[str, str]], units: str) -> list[str]:
    """SVG elements below the axes, in rows of entries_in_a_row from y = LEGEND on. An entry is a
    level stroke, SAMPLE wide, with a filled marker in its middle and a text to its right, which is
    smaller if it is long. In a last row a grey, hollow marker and a text say what hollow markers
    and bars mean.

    entries: the text for each line of the picture, not yet escaped
    looks: for each line its colour, which is the marker's, and the SVG attributes of its stroke
    units: over what the intervals are, "prompts" or "batches"
    """
    parts = []
    in_a_row = entries_in_a_row(entries)
    for i, entry in enumerate(entries):
        colour, stroke = looks[i]
        x = LEFT + COLUMN * (i % in_a_row)
        y = LEGEND + ROW * (i // in_a_row)
        parts.append(f'<polyline points="{x},{y} {x + SAMPLE},{y}" {stroke}/>')
        parts.append(marker(x + SAMPLE // 2, y, colour, hollow=False))
        size = min(FONT_SIZE, LONG / len(entry))  # the longer, the smaller: it fits into its row
        place = f'x="{x + ENTRY}" y="{y + DROP}" style="font-size: {size:.3g}px"'
        parts.append(f"<text {place}>{escape(entry)}</text>")
    y = end_of_legend(entries)
    words = f"not told apart from 1. Bars: 95 % intervals over {units}"
    parts.append(marker(LEFT + SAMPLE // 2, y, GREY, hollow=True))
    parts.append(f'<text class="soft" x="{LEFT + ENTRY}" y="{y + DROP}">{words}</text>')
    return parts


def entries_in_a_row(entries: list[str]) -> int:
    """How many entries of the legend, texts, stand side by side: two if all are short, else one."""
    return 2 if max(map(len, entries)) <= SHORT else 1


def end_of_legend(entries: list[str]) -> int:
    """The y of the last row of the legend, which follows those of the entries, texts."""
    n_rows = math.ceil(len(entries) / entries_in_a_row(entries))
    return LEGEND + ROW * n_rows


def look_of(row: dict, rows: list[dict]) -> tuple[str, str]:
    """How the line of a row is drawn: (its colour, the SVG attributes of its stroke). Lines of the
    same target, draft and rule have one colour; if K is the axis, only those of one batch size.
    Colours are those of COLOURS, or as many hues as needed if there are more than six. Lines of one
    temperature have one of DASHES, the highest temperature the first.

    row: any of the line; rows: all that are drawn
    """
    names = ["target", "draft", "verification"]
    if len(sorted_values(rows, "K")) > 1:  # else the batch size is the axis
        names.append("batch_size")
    case_of = itemgetter(*names)
    cases = list(dict.fromkeys(case_of(one) for one in rows))  # each once, in order
    i_case = cases.index(case_of(row))
    colour = f"hsl({360 * i_case // len(cases)} 65% 50%)"
    if len(cases) <= len(COLOURS):
        colour = COLOURS[i_case]
    temperatures = sorted_values(rows, "temperature")
    n_higher = len(temperatures) - 1 - temperatures.index(row["temperature"])
    return colour, f'stroke="{colour}" stroke-dasharray="{DASHES[n_higher]}"'


def framed(parts: list[str], title: str, axis: str, warning: str, height: float) -> str:
    """The text of an SVG file: a card of this height, on it the title, the name of the axis below
    the area between the axes, and the parts, SVG elements. A warning that is not "" is put under
    them, in a row of its own, by which the card is higher. All texts are escaped already. Colours
    stand in each element, too, for renderers that know no CSS variables (`painted`).
    """
    if warning:
        baseline = height + DROP  # the row's middle is the lower edge of the card without it
        parts = [*parts, f'<text x="{LEFT}" y="{baseline}">{warning}</text>']
        height += ROW
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    middle = f'x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 50}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
        f"<title>{title} {warning}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" rx="12"/>',
        f'<text x="{LEFT}" y="26">{title}</text>',
        f'<text class="soft middle" {middle}>{axis}</text>',
    ]
    return painted("\n".join([*lines, *parts, "</svg>\n"]))


def marker(x: float, y: float, colour: str, hollow: bool) -> str:
    """Return a point of a line, an SVG circle: empty inside, or filled with the colour."""
    name = 'class="hollow"' if hollow else f'fill="{colour}"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {name} stroke="{colour}"/>'
