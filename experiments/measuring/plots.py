"""The picture of a benchmark: speedup against K beside the prediction, acceptance by position, and
drafts against targets.

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
    "font.size": 10,
    "svg.fonttype": "none",
    "text.color": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
}
MARKERS = ("o", "s", "^", "D")
FEW = 20  # drafts examined at a position, below which their acceptance is not drawn


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
            "markersize": 5,
            "markerfacecolor": "none" if markers[way] % 2 else None,
        }
        for pair, way in zip(pairs, ways)
    ]


# ---------------------------------------------------------------- the parts of the picture


def speedups(axes, lines):
    """Measured speedup with its interval, without rows whose speedup is withheld; the prediction,
    dashed.
    """
    for look, (name, rows) in zip(looks(lines), lines.items()):
        shown = [row for row in rows if row["speedup_time"] is not None]
        values = [row["speedup_time"] for row in shown]
        intervals = [row["intervals"]["speedup_time"] for row in shown]
        below = [max(0, value - low) for value, (low, _) in zip(values, intervals)]
        above = [max(0, high - value) for value, (_, high) in zip(values, intervals)]
        axes.errorbar(
            [row["K"] for row in shown],
            values,
            [below, above],
            capsize=2,
            label=name,
            **look,
        )
        predicted = [row for row in rows if row["predicted_speedup"] is not None]
        axes.plot(
            [row["K"] for row in predicted],
            [row["predicted_speedup"] for row in predicted],
            "--",
            color=look["color"],
            linewidth=1,
        )
    # one entry of the legend for all dashed lines
    axes.plot([], [], "--", color=GREY, linewidth=1, label="theory")
    axes.axhline(1, color=GREY, linewidth=0.8)
    axes.set(title="speedup in time", xlabel="K, tokens drafted per round")


def positions(axes, lines):
    """How often a draft is accepted at each position of a round, of those examined there, at the
    largest K.
    """
    for look, rows in zip(looks(lines), lines.values()):
        longest = rows[-1]
        pairs = zip(longest["acceptance_by_position"], longest["examined_by_position"])
        shares = [share if n >= FEW else float("nan") for share, n in pairs]
        axes.plot(range(1, len(shares) + 1), shares, **look)
    K = max(rows[-1]["K"] for rows in lines.values())
    axes.set(title=f"acceptance, K = {K}", xlabel="position in the round", ylim=(0, 1.03))


def best_speedups(rows):
    """{(draft, target, temperature): (the best speedup over all K, that K)} where one was told."""
    best = {}
    for row in rows:
        key = row["draft"], row["target"], row["temperature"]
        speedup = row["speedup_time"]
        if speedup is not None and (key not in best or speedup > best[key][0]):
            best[key] = speedup, row["K"]
    return best


def heat_map(axes, rows):
    """Drafts against targets: the best speedup over all K, and at which."""
    from matplotlib.colors import TwoSlopeNorm

    drafts = [*dict.fromkeys(row["draft"] for row in rows)]
    columns = [*dict.fromkeys((row["target"], row["temperature"]) for row in rows)]
    best = best_speedups(rows)
    nothing = float("nan"), None
    cells = [[best.get((draft, *column), nothing) for column in columns] for draft in drafts]
    # a speedup of 1 is the middle of the colours
    fastest = max([3.0, *(speedup for speedup, _ in best.values())])
    values = [[speedup for speedup, _ in line] for line in cells]
    image = axes.imshow(values, cmap="PuOr", norm=TwoSlopeNorm(1, 0, fastest), aspect="auto")
    for i, line in enumerate(cells):
        for j, (speedup, K) in enumerate(line):
            if K is None:
                text, colour = "too noisy\nor withheld", GREY
            else:
                dark = sum(image.to_rgba(speedup)[:3]) < 1.5
                text, colour = f"{speedup:.2f}\nK = {K}", "white" if dark else "black"
            axes.text(j, i, text, ha="center", va="center", color=colour)
    axes.set_xticks(range(len(columns)), [f"{target}\nT={t:g}" for target, t in columns])
    axes.set_yticks(range(len(drafts)), drafts)
    axes.set(title="best speedup, draft × target")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


# ---------------------------------------------------------------- the picture


def draw(result, path, title=""):
    """Draw the results of a benchmark into a file.

    title: what must be said of all its figures stands above them
    """
    import matplotlib.pyplot as plt

    rows = [row for row in result["rows"] if row["K"] != "auto"]
    lines = lines_of(rows)
    several_pairs = len({(row["draft"], row["target"]) for row in rows}) > 1
    n_parts = 3 if several_pairs else 2
    height = 3.9 if title else 3.7
    with plt.rc_context(STYLES):
        figure, axes = plt.subplots(1, n_parts, figsize=(10, height), layout="constrained")
        speedups(axes[0], lines)
        positions(axes[1], lines)
        if several_pairs:
            heat_map(axes[2], rows)
        for part in axes[:2]:
            part.xaxis.get_major_locator().set_params(integer=True)
            part.grid(color=GREY, alpha=0.25, linewidth=0.6)
        figure.suptitle(title, fontweight="bold")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
        with whole(path) as part:
            file_format = str(path).rpartition(".")[2]
            figure.savefig(part, format=file_format, dpi=160, transparent=True)
        plt.close(figure)
