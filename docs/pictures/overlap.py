"""The picture of the rule: p and q of one place as two areas over the same tokens. What they share
is accepted, what q has too much is rejected, and what p lacks is filled from the residual.

    python -m docs.pictures.overlap overlap.svg
"""

import sys

import numpy as np

from docs.pictures.svg import LEFT, RIGHT, element, number, rect, text, write
from sampling import Filter
from utils import MODELS_DIR, get_backend, load_models

PROMPT = "The queen looked into the mirror and"
TARGET, DRAFT = "17M", "0.7M-17M"
FILTER = Filter(temperature=1.0, top_k=6)  # few tokens, so that all of them can be shown
FLOOR, HEIGHT = 322, 230  # where the areas stand, and how high the highest is
MEANINGS = {
    "accepted": "what both share, min(p, q)",
    "rejected": "what q has too much",
    "residual": "what p lacks: it replaces the rejected",
}

STYLE = """
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
HATCH = (
    '<defs><pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse">'
    '<path d="M0 8L8 0" class="hatch"/></pattern></defs>'
)


def rows():
    """(names of the tokens, their p, their q), from what q has most too much to what p has."""
    backend = get_backend(kernels="plain")
    models, encoder = load_models([TARGET, DRAFT], MODELS_DIR, backend)
    ids = encoder.encode(PROMPT)
    p, q = (FILTER(model.read(ids, model.new_cache()))[0] for model in models)
    tokens = sorted(np.flatnonzero(p + q), key=lambda token: p[token] - q[token])
    return [encoder.decode([token]).strip() for token in tokens], p[tokens], q[tokens]


def draw(names, p, q, path):
    """Write the picture of two distributions over the same few tokens."""
    wide, high = (RIGHT - LEFT) / len(names), HEIGHT / max(*p, *q)
    x, shared = LEFT + wide * np.arange(len(names)), np.minimum(p, q)
    parts, words = [HATCH], []
    parts.append(text("Two models, one next token", LEFT, 38, "title"))
    parts.append(text(f"after “{PROMPT}”", LEFT, 66, "soft"))
    # from which probability to which each area reaches, at each token
    areas = zip(MEANINGS, (0 * p, shared, shared), (shared, q, p))
    for kind, low, top in areas:
        for i in np.flatnonzero(top - low):
            parts.append(rect(x[i], FLOOR - high * top[i], wide, high * (top - low)[i], kind))
        i = np.argmax(top - low)  # its name stands where it is largest
        y = FLOOR - high * (low[i] + top[i]) / 2 + 6
        words.append(text(kind, x[i] + wide / 2, y, "inside"))
    for class_, heights in (("p", p), ("q", q)):
        steps = (f"V{number(FLOOR - high * h)}h{number(wide)}" for h in heights)
        parts.append(element("path", d=f"M{LEFT} {FLOOR}{''.join(steps)}V{FLOOR}", class_=class_))
    for i, name in enumerate(names):
        words.append(text(name, x[i] + wide / 2, FLOOR + 24, "name"))
    way = f"temperature {FILTER.temperature:g}, top-k {FILTER.top_k}"
    words.append(text(way, LEFT, FLOOR + 192, "soft"))
    parts += words + legend(shared.sum(), FLOOR + 62)
    write(path, FLOOR + 210, "p and q over the same tokens", STYLE, parts)


def legend(a, y):
    """What each line and each area is, and how much of all the probability."""
    parts = []
    lines = {"p": f"p, the target {TARGET}", "q": f"q, the draft model {DRAFT}"}
    for x, (class_, words) in zip((LEFT, LEFT + 280), lines.items()):
        parts.append(element("path", d=f"M{x} {y - 6}h30", class_=class_))
        parts.append(text(words, x + 40, y, "soft"))
    for kind, share in zip(MEANINGS, (a, 1 - a, 1 - a)):
        y += 32
        parts.append(rect(LEFT, y - 16, 30, 20, kind))
        parts.append(text(f"{kind} {share:.2f}", LEFT + 40, y, "label"))
        parts.append(text(MEANINGS[kind], LEFT + 185, y, "soft"))
    return parts


if __name__ == "__main__":
    draw(*rows(), sys.argv[1])
