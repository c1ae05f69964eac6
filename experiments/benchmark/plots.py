"""The picture of a benchmark: speedup against K, with intervals. Only a picture imports this.

The background is transparent and every colour a middle tone, so that one file can be read on a
light page and on a dark one.
"""

from itertools import cycle

from cli.files import whole
from utils import InputError

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    raise InputError("--plot: matplotlib is not installed; use pip install matplotlib") from None

GREY = "#7a7f87"
COLOURS = ("#2f81f7", "#d9731a", "#2da44e", "#a86ae8", "#d6487e", "#12a5a5")
STYLES = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 13,
    "svg.fonttype": "none",  # letters stay letters
    "text.color": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
}
PALE = 0.3  # the opacity of a speedup that the table withholds


def lines_of(rows):
    """{name: rows by K} for each draft, target and temperature; a name says only what differs."""
    names = "draft", "target", "temperature", "verification"
    fields = [name for name in names if len({row[name] for row in rows}) > 1] or ["draft"]
    lines = {}
    for row in sorted(rows, key=lambda row: row["K"]):
        in_words = row | {"temperature": f"T={row['temperature']:g}"}
        lines.setdefault(" · ".join(in_words[name] for name in fields), []).append(row)
    return lines


def points(rows):
    """[(K, speedup, low, high, opacity)] of the rows that have an interval."""
    shown = []
    for row in rows:
        if row["intervals"]["speedup_time"]:
            speedup = row["tokens_per_second"] / row["autoregressive_tokens_per_second"]
            opacity = PALE if row["speedup_time"] is None else 1.0
            shown.append((row["K"], speedup, *row["intervals"]["speedup_time"], opacity))
    return shown


def draw(result, path, title=""):
    """Draw the results of a benchmark into a file.

    title: what must be said of all its figures stands above them
    """
    lines = lines_of([row for row in result["rows"] if row["K"] != "auto"])
    with plt.rc_context(STYLES), whole(path) as part:
        figure, axes = plt.subplots(layout="constrained")
        for (name, rows), color, marker in zip(lines.items(), cycle(COLOURS), cycle("os^D")):
            look = {"color": color, "marker": marker}
            axes.plot([], [], label=name, **look)  # the legend's entry
            if shown := points(rows):
                Ks, speedups, lows, highs, _ = zip(*shown)
                axes.plot(Ks, speedups, color=color, alpha=PALE)
                axes.fill_between(Ks, lows, highs, color=color, alpha=0.12, linewidth=0)
            for K, speedup, *_, opacity in shown:
                axes.plot(K, speedup, linestyle="", alpha=opacity, **look)
        axes.axhline(1, color=GREY, linewidth=1)
        axes.set(xlabel="K, tokens drafted per round", ylabel="speedup", title=title)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(color=GREY, alpha=0.25, linewidth=0.6)
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(part, format=str(path).rpartition(".")[2], dpi=160, transparent=True)
        plt.close(figure)
