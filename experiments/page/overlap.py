"""The picture of the rule: p and q of one place as two areas over the same tokens. What they share
is accepted, what q has too much is rejected, and what p lacks is filled from the residual.

    python -m experiments.page.overlap overlap.svg
"""

import numpy as np

from experiments.page.svg import command, element, step_line, text, write
from sampling import Filter
from utils import MODELS_DIR, get_backend, load_pair

PROMPT = "The queen looked into the mirror and"
TARGET, DRAFT = "17M", "0.7M-17M"
FILTER = Filter(temperature=1.0, top_k=6)  # few tokens, so that all of them can be shown

WIDTH, LEFT, RIGHT = 600, 20, 580
FLOOR, HEIGHT = 322, 230  # where the areas stand, and how high the highest is

STYLE = """
.card { fill: var(--card); stroke: var(--line); }
text { fill: var(--ink); font: 19px var(--sans); }
.title { font: 600 23px var(--serif); }
.soft { fill: var(--soft); font-size: 18px; }
.name { font-size: 17px; text-anchor: middle; }
.inside { font-size: 16px; text-anchor: middle; stroke: var(--card); stroke-width: 5px;
  stroke-opacity: .7; paint-order: stroke; }
.accepted { fill: var(--draft); fill-opacity: .3; }
.rejected { fill: url(#hatch); }
.residual { fill: var(--correction); fill-opacity: .3; }
.hatch { stroke: var(--q); stroke-width: 1.2; }
.p, .q { fill: none; stroke-width: 3; }
.p { stroke: var(--p); }
.q { stroke: var(--q); stroke-dasharray: 7 4; }
"""
HATCH = element(
    "pattern",
    element("path", d="M0 8L8 0", class_="hatch"),
    id="hatch",
    width=8,
    height=8,
    patternUnits="userSpaceOnUse",
)


def rows():
    """(names of the tokens, their p, their q), from what q has most too much to what p has."""
    target, draft, encoder = load_pair(TARGET, DRAFT, MODELS_DIR, get_backend(kernels="plain"))
    ids = encoder.encode(PROMPT)
    p, q = (FILTER(model.read(ids, model.new_cache()))[0] for model in (target, draft))
    tokens = sorted(np.flatnonzero(p + q), key=lambda token: p[token] - q[token])
    return [encoder.decode([token]).strip() for token in tokens], p[tokens], q[tokens]


def draw(names, p, q, path):
    """Write the picture of two distributions over the same few tokens."""
    wide, high = (RIGHT - LEFT) / len(names), HEIGHT / max(*p, *q)
    x = LEFT + wide * np.arange(len(names) + 1)
    # kind: from which probability to which it reaches, at each token
    shared = np.minimum(p, q)
    areas = {"accepted": (0 * p, shared), "rejected": (shared, q), "residual": (shared, p)}
    parts = [
        element("defs", HATCH),
        text("Two models, one next token", LEFT, 38, "title"),
        text(f"after “{PROMPT}”", LEFT, 66, "soft"),
    ]
    for kind, (low, top) in areas.items():
        for i in np.flatnonzero(top - low):
            box = {"x": x[i], "y": FLOOR - high * top[i], "width": wide}
            parts.append(element("rect", **box, height=high * (top - low)[i], class_=kind))
    parts += [
        step_line(x, FLOOR - high * p, FLOOR, "p"),
        step_line(x, FLOOR - high * q, FLOOR, "q"),
    ]
    # a word in the largest area of each kind
    for kind, (low, top) in areas.items():
        i = np.argmax(top - low)
        y = FLOOR - high * (low[i] + top[i]) / 2 + 6
        parts.append(text(kind, x[i] + wide / 2, y, "inside"))
    for i, name in enumerate(names):
        parts.append(text(name, x[i] + wide / 2, FLOOR + 24, "name"))
    parts += draw_legend(shared.sum(), FLOOR + 62)
    way = f"temperature {FILTER.temperature:g}, top-k {FILTER.top_k}"
    parts.append(text(way, LEFT, FLOOR + 192, "soft"))
    write(path, WIDTH, FLOOR + 210, "p and q over the same tokens", STYLE, parts)


def draw_legend(a, y):
    """What each line and each area is, and how much of all the probability."""
    parts = []
    for i, (name, words) in enumerate(
        (("p", f"p, the target {TARGET}"), ("q", f"q, its draft {DRAFT}"))
    ):
        x = LEFT + 280 * i
        parts.append(element("path", d=f"M{x} {y - 6}h30", class_=name))
        parts.append(text(words, x + 40, y, "soft"))
    lines = (
        ("accepted", f"{a:.2f}", "what both share, min(p, q)"),
        ("rejected", f"{1 - a:.2f}", "what q has too much"),
        ("residual", f"{1 - a:.2f}", "what p lacks: it replaces the rejected"),
    )
    for kind, share, words in lines:
        y += 32
        parts.append(element("rect", x=LEFT, y=y - 16, width=30, height=20, class_=kind))
        parts.append(text(f"{kind} {share}", LEFT + 40, y, "label"))
        parts.append(text(words, LEFT + 185, y, "soft"))
    return parts


if __name__ == "__main__":
    command(["the picture to write"], lambda path: draw(*rows(), path))
