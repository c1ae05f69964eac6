"""The picture of a benchmark: speedup against K, with intervals.

matplotlib is imported only here, and only when a picture is asked for. The background is
transparent and every colour a middle tone, so that one file can be read on a light page and on a
dark one.
"""

from experiments.data.files import whole
from utils import InputError

GREY = "#7a7f87"
COLOURS = ("#2f81f7", "#d9731a", "#2da44e", "#a86ae8", "#d6487e", "#12a5a5")
STYLES = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 13,
    "svg.fonttype": "none",
    "text.color": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
}
MARKERS = ("o", "s", "^", "D")
PALE = 0.3  # the opacity of a speedup whose interval contains 1


def check():
    """Raises InputError where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise InputError(
            "--plot: matplotlib is not installed; try pip install matplotlib"
        ) from None
    matplotlib.use("Agg")


def lines_of(rows):
    """{name: rows by K} for each draft, target and temperature; a name says only what differs."""
    names = "draft", "target", "temperature", "verification"
    fields = [name for name in names if len({row[name] for row in rows}) > 1]
    lines = {}
    for row in sorted(rows, key=lambda row: row["K"]):
        parts = [in_words(name, row[name]) for name in fields or ["draft"]]
        lines.setdefault(" · ".join(parts), []).append(row)
    return lines


def in_words(field, value):
    return f"T={value:g}" if field == "temperature" else value


def looks(lines):
    """How each line is drawn: a colour for each pair, a marker for each temperature and rule."""
    firsts = [rows[0] for rows in lines.values()]
    pairs = [(row["draft"], row["target"]) for row in firsts]
    ways = [(row["temperature"], row["verification"]) for row in firsts]
    numbers = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    markers = {way: i for i, way in enumerate(dict.fromkeys(ways))}
    return [
        {
            "color": COLOURS[numbers[pair] % len(COLOURS)],
            "marker": MARKERS[markers[way] % len(MARKERS)],
            "markersize": 7,
            "markerfacecolor": "none" if markers[way] % 2 else None,
        }
        for pair, way in zip(pairs, ways)
    ]


# ---------------------------------------------------------------- the picture


def points(rows):
    """[(K, speedup, low, high, opacity)] of the rows that have an interval. A speedup whose
    interval contains 1, which the table withholds, is drawn pale.
    """
    found = []
    for row in rows:
        if row["intervals"]["speedup_time"] is None:
            continue
        low, high = row["intervals"]["speedup_time"]
        speedup = row["tokens_per_second"] / row["autoregressive_tokens_per_second"]
        found.append((row["K"], speedup, low, high, PALE if low <= 1 <= high else 1.0))
    return found


def draw(result, path, title=""):
    """Draw the results of a benchmark into a file.

    title: what must be said of all its figures stands above them
    """
    import matplotlib.pyplot as plt

    lines = lines_of([row for row in result["rows"] if row["K"] != "auto"])
    with plt.rc_context(STYLES):
        figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
        for look, (name, rows) in zip(looks(lines), lines.items()):
            axes.plot([], [], label=name, **look)  # the legend's entry
            found = points(rows)
            if not found:
                continue
            Ks, speedups, lows, highs, opacities = zip(*found)
            axes.plot(Ks, speedups, color=look["color"], alpha=PALE)
            axes.fill_between(Ks, lows, highs, color=look["color"], alpha=0.12, linewidth=0)
            for K, speedup, opacity in zip(Ks, speedups, opacities):
                axes.plot(K, speedup, linestyle="", alpha=opacity, **look)
        axes.axhline(1, color=GREY, linewidth=1)
        axes.set(xlabel="K, tokens drafted per round", ylabel="speedup", title=title)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(color=GREY, alpha=0.25, linewidth=0.6)
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        with whole(path) as part:
            file_format = str(path).rpartition(".")[2]
            figure.savefig(part, format=file_format, dpi=160, transparent=True)
        plt.close(figure)
