"""The picture of a benchmark: speedup against K with what theory predicts, drafts against targets,
acceptance by position.

matplotlib is imported only here and only when asked for. The background is transparent and every
colour a middle tone, so that one file can be read on a light page and on a dark one.
"""

from experiments.data.files import whole
from utils import InputError

GREY = "#7a7f87"
FEW = 20  # drafts examined at a position, below which their acceptance is not drawn
COLOURS = ("#2f81f7", "#d9731a", "#2da44e", "#a86ae8", "#d6487e", "#12a5a5")
STYLES = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "text.color": GREY,
}
STYLES |= {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    "svg.fonttype": "none",
}


def check():
    """Raises InputError where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise InputError(
            "--plot: matplotlib is not installed; try pip install -r experiments/showing/requirements-plots.txt"
        ) from None
    matplotlib.use("Agg")


def lines_of(rows):
    """{name: rows by K} for each draft, target and temperature; a name says only what differs."""
    fields = [
        f for f in ("draft", "target", "temperature") if len({row[f] for row in rows}) > 1
    ] or ["draft"]
    found = {}
    for row in sorted(rows, key=lambda row: row["K"]):
        parts = [f"T={row[f]:g}" if f == "temperature" else row[f] for f in fields]
        found.setdefault(" · ".join(parts), []).append(row)
    return found


def speedups(axes, lines):
    """Measured speedup with its interval, withheld ones left out, and the predicted one, dashed."""
    for colour, (name, rows) in zip(colours(lines), lines.items()):
        told = [row for row in rows if row["speedup_time"] is not None]
        values = [row["speedup_time"] for row in told]
        ends = [row["intervals"]["speedup_time"] for row in told]
        error = [[max(0, v - low) for v, (low, _) in zip(values, ends)]]
        error += [[max(0, high - v) for v, (_, high) in zip(values, ends)]]
        Ks = [row["K"] for row in told]
        axes.errorbar(
            Ks,
            values,
            error if told else None,
            color=colour,
            marker="o",
            markersize=4,
            capsize=2,
            label=name,
        )
        theory = [
            (row["K"], row["predicted_speedup"])
            for row in rows
            if row["predicted_speedup"] is not None
        ]
        axes.plot(*zip(*theory) if theory else ([], []), "--", color=colour, linewidth=1)
    axes.plot([], [], "--", color=GREY, linewidth=1, label="theory")
    axes.axhline(1, color=GREY, linewidth=0.8)
    axes.set(title="speedup in time", xlabel="K, tokens drafted per round")


def positions(axes, lines):
    """How often a draft is accepted at each position of a round, of those examined there, at the
    largest K.
    """
    for colour, rows in zip(colours(lines), lines.values()):
        found = zip(rows[-1]["acceptance_by_position"], rows[-1]["examined_by_position"])
        shares = [share if n >= FEW else float("nan") for share, n in found]
        axes.plot(range(1, len(shares) + 1), shares, color=colour, marker="o", markersize=4)
    K = max(rows[-1]["K"] for rows in lines.values())
    axes.set(title=f"acceptance, K = {K}", xlabel="position in the round", ylim=(0, 1.03))


def heat_map(axes, rows):
    """Drafts against targets: the best speedup over all K, and at which."""
    from matplotlib.colors import TwoSlopeNorm

    drafts = [*dict.fromkeys(row["draft"] for row in rows)]
    columns = [*dict.fromkeys((row["target"], row["temperature"]) for row in rows)]
    best = {}
    for row in rows:
        key = drafts.index(row["draft"]), columns.index((row["target"], row["temperature"]))
        if row["speedup_time"] is not None and row["speedup_time"] > best.get(key, (0, 0))[0]:
            best[key] = row["speedup_time"], row["K"]
    grid = [
        [best.get((i, j), (float("nan"), 0))[0] for j in range(len(columns))]
        for i in range(len(drafts))
    ]
    norm = TwoSlopeNorm(1, 0, max([3.0, *(value for value, _ in best.values())]))
    image = axes.imshow(grid, cmap="PuOr", norm=norm, aspect="auto")
    for i in range(len(drafts)):
        for j in range(len(columns)):
            text = (
                "{:.2f}\nK = {}".format(*best[i, j]) if (i, j) in best else "too noisy\nor withheld"
            )
            dark = (i, j) in best and sum(image.to_rgba(grid[i][j])[:3]) < 1.5
            axes.text(
                j,
                i,
                text,
                ha="center",
                va="center",
                color="white" if dark else "black" if (i, j) in best else GREY,
            )
    axes.set_xticks(range(len(columns)), [f"{target}\nT={t:g}" for target, t in columns])
    axes.set_yticks(range(len(drafts)), drafts, rotation=90, va="center")
    axes.set(title="best speedup, draft × target")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def colours(lines):
    return [COLOURS[i % len(COLOURS)] for i in range(len(lines))]


def draw(result, path, title=""):
    """Draw a results object into a file; `title`, what must be said of all its figures, stands
    above.
    """
    import matplotlib.pyplot as plt

    rows = [row for row in result["rows"] if row["K"] != "auto"]
    lines, many = lines_of(rows), len({(row["draft"], row["target"]) for row in rows}) > 1
    with plt.rc_context(STYLES):
        figure, axes = plt.subplots(
            1, 2 + many, figsize=(10, 3.7 + 0.2 * bool(title)), layout="constrained"
        )
        speedups(axes[0], lines)
        positions(axes[1], lines)
        if many:
            heat_map(axes[2], rows)
        for one in axes[:2]:
            one.xaxis.get_major_locator().set_params(integer=True)
            one.grid(color=GREY, alpha=0.25, linewidth=0.6)
        figure.suptitle(title, fontweight="bold")
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False
        )
        with whole(path) as part:
            figure.savefig(part, format=str(path).rpartition(".")[2], dpi=160, transparent=True)
        plt.close(figure)
