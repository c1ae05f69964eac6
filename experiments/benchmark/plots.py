"""The picture of a benchmark: speedup against K, with intervals. Only a picture imports this.

The background is transparent and every colour a middle tone, so that one file can be read on a
light page and on a dark one.
"""

from itertools import cycle

from checkpoints.errors import InputError
from checkpoints.output import create_atomically
from experiments.benchmark.tables import PAIR

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


def group_rows_by_line(rows):
    """Group rows (dicts of the results) into the lines of the picture. Returns {legend entry: list
    of rows sorted by K}. An entry names only what differs between the lines: "eagle · T=1".
    """
    # if nothing differs, the entry is the draft's name
    differing = [name for name in PAIR if len({row[name] for row in rows}) > 1] or ["draft"]
    lines = {}
    for row in sorted(rows, key=lambda row: row["K"]):
        in_words = row | {"temperature": f"T={row['temperature']:g}"}
        entry = " · ".join(in_words[name] for name in differing)
        lines.setdefault(entry, []).append(row)
    return lines


def plot_points(rows):
    """Return [(K, speedup, low, high, withheld)], a tuple for each of the rows (dicts of the
    results) whose speedup has an interval.

    low, high: the ends of the 95 % interval; withheld: whether the table hides the speedup
    """
    points = []
    for row in rows:
        if row["intervals"]["speedup_time"]:
            # not row["speedup_time"], which is None if it is withheld
            speedup = row["tokens_per_second"] / row["autoregressive_tokens_per_second"]
            low, high = row["intervals"]["speedup_time"]
            withheld = row["speedup_time"] is None
            points.append((row["K"], speedup, low, high, withheld))
    return points


def draw(result, path, title=""):
    """Draw the results of a benchmark (the JSON object, a dict) into a new file at `path`, whose
    suffix names the format. Raises InputError if the file exists.

    Markers of speedups that the table withholds are hollow. Rows with K auto have no place on the
    axis and are left out. path: a str; title: a text above the picture
    """
    lines = group_rows_by_line([row for row in result["rows"] if row["K"] != "auto"])
    with plt.rc_context(STYLES), create_atomically(path) as part:
        figure, axes = plt.subplots(layout="constrained")
        any_withheld = False
        for (name, rows), color, marker in zip(lines.items(), cycle(COLOURS), cycle("os^D")):
            look = {"color": color, "marker": marker}
            axes.plot([], [], label=name, **look)  # the legend's entry
            points = plot_points(rows)
            if points:
                Ks, speedups, lows, highs, _ = zip(*points)
                axes.plot(Ks, speedups, color=color)
                axes.fill_between(Ks, lows, highs, color=color, alpha=0.15, linewidth=0)
            for K, speedup, _, _, withheld in points:
                axes.plot(K, speedup, fillstyle="none" if withheld else "full", **look)
                any_withheld = any_withheld or withheld
        if any_withheld:
            hollow = {"marker": "o", "fillstyle": "none", "linestyle": "", "color": GREY}
            axes.plot([], [], label="hollow: withheld", **hollow)
        axes.axhline(1, color=GREY, linewidth=1)
        axes.set(xlabel="K, tokens drafted per round", ylabel="speedup", title=title)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(color=GREY, alpha=0.25, linewidth=0.6)
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        look = {"dpi": 160, "transparent": True, "bbox_inches": "tight"}  # tight: the whole legend
        figure.savefig(part, format=str(path).rpartition(".")[2], **look)
        plt.close(figure)
