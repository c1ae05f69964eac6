"""The pictures of what is measured, made anew: python docs/pictures.py live race verify_cost ..."""

import argparse
import re
import shutil
import subprocess
import sys
from html import escape
from math import log2
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import backends.before_numpy  # noqa: F401, isort: skip: BLAS kernels and threads, before NumPy

from checkpoints.registry import MODELS_DIR
from cli.picture import painted
from decoding.clocked import Clocked
from decoding.decode import load_pair, timed
from decoding.theory import speedup
from sampling import NeuralDrafter, Rng, SamplingParams, autoregressive, speculative

STYLE = """
:root { --card: #fffefb; --ink: #1d2025; --soft: #5a5d66; --line: #e1dccf; --p: #5a48b5;
  --q: #7f838d; --draft: #0a6449; --draft-bg: #dff1e8; --correction: #9c3208;
  --correction-bg: #fbe4d8; --bonus: #1b54ac; --bonus-bg: #dfe9fa; --target: #625000;
  --target-bg: #f3ebc8; }
@media (prefers-color-scheme: dark) { :root { --card: #1a1d23; --ink: #e9e7e2; --soft: #a6aab4;
  --line: #2e323b; --p: #a396f5; --q: #828794; --draft: #7bdcb8; --draft-bg: #14352a;
  --correction: #ffab80; --correction-bg: #432214; --bonus: #9cc2ff; --bonus-bg: #1a2d4d;
  --target: #e6d075; --target-bg: #383311; } }
.card { fill: var(--card); stroke: var(--line); }
text { fill: var(--ink); font: 17px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
.soft { fill: var(--soft); } .middle { text-anchor: middle; } .end { text-anchor: end; }
.title { font-weight: 600; font-size: 19px; } .small { font-size: 15px; }
"""


def write_picture(name: str, title: str, height: int, style: str, parts: list[str]):
    """Write docs/NAME.svg, 1000 wide."""
    size = f'viewBox="0 0 1000 {height}" width="1000" height="{height}"'
    card = f'<rect x="1" y="1" width="998" height="{height - 2}" class="card" rx="12"/>'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}><title>{title}</title>']
    lines += [f"<style>{STYLE}{style}</style>", card, *parts, "</svg>\n"]
    Path(__file__).with_name(f"{name}.svg").write_text(painted("\n".join(lines)), encoding="utf-8")


def paint():
    """Give all pictures of docs/ their colours as attributes."""
    for path in Path(__file__).parent.rglob("*.svg"):
        path.write_text(painted(path.read_text(encoding="utf-8")), encoding="utf-8")


# ---------------------------------------------------------------- the race

PROMPT, N_TOKENS, K, TURNS = "The king promised that", 28, 4, 15
PLAYED = 6  # seconds that the slower decoder takes in the picture, which plays once
RACE_STYLE = """
.count { font-weight: 700; font-size: 30px; fill: var(--p); } .gain { font-size: 14px; }
.unit { font-weight: 400; font-size: 17px; fill: var(--soft); }
.pass { fill: var(--p); fill-opacity: .65; } .drafting { fill: var(--q); fill-opacity: .6; }
.token { font: 15px ui-monospace, Menlo, "DejaVu Sans Mono", monospace; }
rect.draft { fill: var(--draft-bg); } text.draft { fill: var(--draft); }
rect.correction { fill: var(--correction-bg); } text.correction { fill: var(--correction); }
rect.bonus { fill: var(--bonus-bg); } text.bonus { fill: var(--bonus); }
rect.target { fill: var(--target-bg); } text.target { fill: var(--target); }
line { stroke-width: 2px; } line.draft { stroke: var(--draft); }
line.correction { stroke: var(--correction); stroke-width: 4px; }
line.bonus { stroke: var(--bonus); stroke-dasharray: 5 3; }
line.target { stroke: var(--target); stroke-dasharray: 2 2; }
@keyframes appear { from { opacity: 0; } }
@media (prefers-reduced-motion: no-preference) { .part { animation: appear .1s backwards; } }
"""


def run(models, ids, decoder):
    """Decode once, greedily. Returns a list: (Round, seconds of drafting, seconds in all)."""
    target, draft_model = models
    to_probs, rng, result, drafting, seconds = SamplingParams(0.0), Rng(0), [], [], []
    if decoder == "autoregressive":
        rounds = autoregressive(target, ids, N_TOKENS, to_probs, rng)
    else:
        drafter = Clocked(NeuralDrafter(draft_model, to_probs, rng), "propose", drafting)
        rounds = speculative(target, drafter, ids, N_TOKENS, K, to_probs, rng)
    for this_round in timed(rounds, seconds):
        result.append((this_round, sum(drafting), seconds[-1]))
        drafting.clear()
    return result[1:]  # without the prefill


def race():
    """Draw both decoders on one axis of time: the passes, what each brings, and the text."""
    *models, encoder = load_pair("17M", "0.7M-17M", MODELS_DIR)
    ids = encoder.encode(PROMPT)
    lanes = {
        "autoregressive": "one token a pass",
        "speculative": f"{K} draft tokens, then one pass",
    }
    runs = {decoder: [] for decoder in lanes}
    for _ in range(TURNS):
        for decoder in lanes:
            runs[decoder].append(run(models, ids, decoder))
    parts, slowest, counts = [], 0.0, []
    for top, (decoder, what) in zip((20, 165), lanes.items()):
        turns = runs[decoder]
        rounds = [rounds_at[0][0] for rounds_at in zip(*turns)]
        times = [  # medians over the turns
            [median(turn[i] for turn in rounds_at) for i in (1, 2)] for rounds_at in zip(*turns)
        ]
        slowest = slowest or sum(whole for _, whole in times)
        parts += draw_lane(encoder, rounds, times, 960 / slowest, top, f"{decoder.title()}: {what}")
        counts.append(len(rounds))
    legend = [("accepted draft", "draft"), ("correction", "correction"), ("bonus", "bonus")]
    x = 20.0
    for words, source in [*legend, ("target alone", "target")]:
        parts += mark_token(x, 322, words, source, 8.6)
        x += 8.6 * len(words) + 14
    words = f"greedy: the same text; grey: drafting; times of {TURNS} runs"
    parts.append(f'<text x="980" y="322" class="soft small end">{words}</text>')
    title = f"The same prompt, autoregressive and speculative: {counts[0]} and {counts[1]} passes"
    write_picture("race", title, 340, RACE_STYLE, parts)


def draw_lane(encoder, rounds, times, scale, top, title):
    """The parts of one decoder. scale: pixels per second"""
    parts = [f'<text x="20" y="{top + 16}" class="title">{title}</text>']
    count = f'{len(rounds)}<tspan class="unit"> target passes</tspan>'
    parts.append(f'<text x="980" y="{top + 20}" class="count end">{count}</text>')
    x, text_x, width = 20.0, 20.0, 8.6
    for this_round, (drafting, whole) in zip(rounds, times):
        begin, middle, x = x, x + drafting * scale, x + whole * scale
        delay = f"animation-delay: {(x - 20) / 960 * PLAYED:.2f}s"
        parts.append(f'<g class="part" style="{delay}">')
        for name, a, b in (("drafting", begin, middle), ("pass", middle, x)):
            bar = f'x="{a:.1f}" y="{top + 50}" width="{max(0.0, b - a - 1):.1f}" height="22"'
            parts.append(f'<rect class="{name}" {bar}/>')
        gain = f'<text x="{(middle + x) / 2:.1f}" y="{top + 44}" class="gain middle">'
        parts.append(f"{gain}+{len(this_round.tokens)}</text>")
        for token, source in zip(this_round.tokens, this_round.sources):
            text = encoder.decode([token])
            parts += mark_token(text_x, top + 100, text, source, width)
            text_x += len(text) * width
        parts.append("</g>")
    return parts


def mark_token(x, y, text, name, width):
    """A token on its ground, with a line below. width: of a character"""
    end = x + width * len(text)
    box = f'x="{x:.1f}" y="{y - 16}" width="{end - x - 1:.1f}" height="22"'
    shown = escape(text.replace("\n", "¶"))
    length = f'textLength="{end - x - 1:.1f}" xml:space="preserve"'
    return [
        f'<rect class="{name}" {box} rx="3"/>',
        f'<text x="{x:.1f}" y="{y}" class="token {name}" {length}>{shown}</text>',
        f'<line class="{name}" x1="{x:.1f}" x2="{end - 2:.1f}" y1="{y + 7}" y2="{y + 7}"/>',
    ]


# ---------------------------------------------------------------- v over rows

ROWS = (1, 2, 3, 5, 9, 17, 33, 65)
H100 = 989 / 3.35  # rows whose arithmetic takes as long as reading the weights: TFLOP/s, TB/s
COST_STYLE = """
.grid { stroke: var(--line); } .mark { stroke: var(--q); stroke-dasharray: 2 4; }
polyline { fill: none; stroke-width: 2.5px; } .cpu { stroke: var(--p); } circle { fill: var(--p); }
.h100 { stroke: var(--draft); } .four { stroke: var(--bonus); stroke-dasharray: 8 4; }
.each { stroke: var(--q); stroke-width: 1.5px; stroke-dasharray: 3 4; }
"""


def measure_passes(turns=15):
    """{rows: seconds of a pass of 17M over them, the median of several turns}"""
    target, _, _ = load_pair("17M", "ngram", MODELS_DIR)
    ids = [i % 1000 for i in range(64 + max(ROWS))]
    cache, seconds = target.new_cache(), {n: [] for n in ROWS}
    target.read(ids[:64], cache)
    for _ in range(turns + 1):
        for n in ROWS:
            start = perf_counter()
            target.read(ids[: 64 + n], cache, n_last=n)
            seconds[n].append(perf_counter() - start)
    return {n: median(of_turns[1:]) for n, of_turns in seconds.items()}


def verify_cost():
    """Draw the time of a pass over its rows, relative to a pass over one, for three machines."""
    seconds = measure_passes()
    cpu = [(n, seconds[n] / seconds[1]) for n in ROWS]
    x_of = lambda rows: 70 + 560 * log2(rows) / 10
    y_of = lambda time: 350 - 280 * log2(max(time, 1)) / 4  # below 1 is noise
    line = lambda points: " ".join(f"{x_of(n):.1f},{y_of(time):.1f}" for n, time in points)
    question = "How many times as long as a pass over one row does a pass over several take?"
    parts = [f'<text x="20" y="30" class="title">{question}</text>']
    for i in range(5):
        y = y_of(2**i)
        parts.append(f'<line class="grid" x1="70" x2="630" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="60" y="{y + 6:.1f}" class="soft end">{2**i}</text>')
    for i in range(11):
        parts.append(f'<text x="{x_of(2**i):.1f}" y="374" class="soft middle">{2**i}</text>')
    parts.append('<text x="350" y="400" class="middle">rows of the pass</text>')
    for batch in (1, 8, 32, 64):
        x = x_of(5 * batch)
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="66" y2="350"/>')
        parts.append(f'<text x="{x:.1f}" y="60" class="soft small middle">{batch}</text>')
    words = "texts with K = 4: batch × (K + 1) rows"
    parts.append(f'<text x="650" y="60" class="soft small">{words}</text>')
    bend = (ROWS[-1] - 1) / (cpu[-1][1] - 1)
    curves = [
        ("each", [(1, 1), (16, 16)], "a pass for each row", "no gain"),
        ("cpu", cpu, "17M on two CPU cores", f"measured; bends at about {bend:.0f} rows"),
        ("four", roofline(H100 / 4), "H100, weights of 4 bits", "computed; bends at 74 rows"),
        ("h100", roofline(H100), "H100, weights of 16 bits", "computed; bends at 295 rows"),
    ]
    for i, (name, points, words, note) in enumerate(curves):
        y = 110 + 60 * i
        parts.append(f'<polyline class="{name}" points="{line(points)}"/>')
        parts.append(f'<polyline class="{name}" points="650,{y - 6} 690,{y - 6}"/>')
        parts.append(f'<text x="700" y="{y}">{words}</text>')
        parts.append(f'<text x="700" y="{y + 22}" class="soft small">{note}</text>')
    parts += [f'<circle cx="{x_of(n):.1f}" cy="{y_of(t):.1f}" r="4"/>' for n, t in cpu]
    write_picture("verify_cost", "The time of a pass over its rows", 414, COST_STYLE, parts)


def roofline(balance):
    """Points of max(1, rows / balance), for up to 1024 rows."""
    return [(1, 1), (balance, 1), (1024, 1024 / balance)]


# ---------------------------------------------------------------- drafts of several shapes

DESIGN_STYLE = """
.grid { stroke: var(--line); } circle { fill: var(--p); }
polyline { fill: none; stroke: var(--q); stroke-width: 1.5px; stroke-dasharray: 3 4; }
"""


def draft_design():
    """Draw the acceptance rates and costs of the table in draft_design.md, on lines of equal
    expected speedup.
    """
    page = Path(__file__).with_name("draft_design.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (.+?) \| [\d,]+ \| ([\d.]+) \| ([\d.]+) \|", page)
    x_of = lambda c: 70 + 560 * c / 0.2
    y_of = lambda a: 380 - 320 * (a - 0.4) / 0.4
    parts = ['<text x="20" y="30" class="title">How often accepted, and how dear?</text>']
    for tenths in range(4, 9):
        y = y_of(tenths / 10)
        parts.append(f'<line class="grid" x1="70" x2="630" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="60" y="{y + 6:.1f}" class="soft end">0.{tenths}</text>')
    for hundredths in range(0, 21, 4):
        x = x_of(hundredths / 100)
        parts.append(f'<text x="{x:.1f}" y="404" class="soft middle">{hundredths / 100:g}</text>')
    parts.append('<text x="350" y="430" class="middle">c, passes of the target per token</text>')
    parts.append('<text x="74" y="56">a, acceptance rate at T = 1</text>')
    rates, costs = [a / 1000 for a in range(400, 801)], [c / 1000 for c in range(0, 201, 5)]
    for tenths in range(12, 23, 2):
        # of each cost the lowest rate with this speedup at the best K
        points = [(c, next((a for a in rates if fastest(a, c) >= tenths / 10), 1)) for c in costs]
        points = [(x_of(c), y_of(a)) for c, a in points if 0.4 < a < 0.8]
        if points:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            x, y = points[-1]
            parts.append(f'<polyline points="{path}"/>')
            parts.append(
                f'<text x="{x + 6:.1f}" y="{y + 5:.1f}" class="soft small">{tenths / 10:g}</text>'
            )
    for name, a, c in rows:
        x, y = x_of(float(c)), y_of(float(a))
        below = 24 if " x " in name else -12  # where names of points that are near do not meet
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        parts.append(f'<text x="{x:.1f}" y="{y + below:.1f}" class="middle">{escape(name)}</text>')
    parts.append('<text x="680" y="80">dashed: equal speedup,</text>')
    parts.append('<text x="680" y="102" class="soft small">by theory at the best K</text>')
    write_picture("draft_design", "Drafts: acceptance rate against cost", 446, DESIGN_STYLE, parts)


def fastest(a, c):
    """The expected speedup at the best K, if each token of a draft adds 0.1 to the pass."""
    return max(speedup(a, K, c, 1 + 0.1 * K) for K in range(1, 9))


# ---------------------------------------------------------------- the live page


def live():
    """Save the live page, and a picture of its first round; needs Playwright and a Chromium."""
    from playwright.sync_api import sync_playwright  # pip install --group browser

    docs = Path(__file__).parent
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder, "live.html")
        subprocess.run(
            [sys.executable, docs.parent / "main.py", "play", "--save", page], check=True
        )
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        tab = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
        tab.goto(page.as_uri())
        tab.evaluate("showMoment(race.lanes[1].deliveries[0].end)")
        tab.screenshot(path=docs / "live.png")
        browser.close()
        shutil.copyfile(page, docs / "live.html")


PICTURES = {one.__name__: one for one in (live, race, verify_cost, draft_design, paint)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=PICTURES)
    for name in parser.parse_args().names:
        PICTURES[name]()
