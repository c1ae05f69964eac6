"""The picture of a benchmark: speedup against K, with intervals. Only a picture imports this."""

from itertools import cycle

import numpy as np

from experiments.data.files import whole
from utils import InputError

try:
    from matplotlib.figure import Figure
except ModuleNotFoundError:
    raise InputError("--plot: matplotlib is not installed; use pip install matplotlib") from None


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
    """[(K, speedup, how far its interval reaches down, and up)] of the rows that have one."""
    found = []
    for row in rows:
        if row["intervals"]["speedup_time"]:
            low, high = row["intervals"]["speedup_time"]
            speedup = row["tokens_per_second"] / row["autoregressive_tokens_per_second"]
            found.append((row["K"], speedup, speedup - low, high - speedup))
    return found


def draw(result, path, title=""):
    """Draw the results of a benchmark into a file.

    title: what must be said of all its figures stands above them
    """
    lines = lines_of([row for row in result["rows"] if row["K"] != "auto"])
    figure = Figure(layout="constrained")
    axes = figure.subplots()
    for (name, rows), marker in zip(lines.items(), cycle("os^D")):
        Ks, speedups, below, above = np.reshape(points(rows), (-1, 4)).T
        axes.errorbar(Ks, speedups, [below, above], marker=marker, capsize=3, label=name)
    axes.axhline(1, color="grey", linewidth=1)
    axes.set(xlabel="K, tokens drafted per round", ylabel="speedup", title=title)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    with whole(path) as part:
        figure.savefig(part, format=str(path).rpartition(".")[2], dpi=160)
