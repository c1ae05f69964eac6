"""The pictures of what is measured, made anew: python docs/pictures.py live race verify_cost ..."""

import argparse
import re
import shutil
import subprocess
import sys
from fractions import Fraction
from html import escape
from itertools import product
from math import log2, prod
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import backends.before_numpy  # noqa: F401, isort: skip: BLAS kernels and threads, before NumPy

import numpy as np

from bench.intervals import ratio, ratio_interval
from checkpoints.registry import MODELS_DIR
from cli.picture import painted
from cli.prompts import STORIES, read_prompts
from cli.trace import sources_of
from decoding.candidates import acceptance, acceptance_without_replacement, best_acceptance
from decoding.clocked import timed_rounds
from decoding.decode import load_pair
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
    """Write docs/NAME.svg, 1000 wide: `parts` on a card. Each shape has its colours as attributes,
    too.

    title: the name of the picture for those who do not see it
    style: more CSS, after STYLE
    parts: SVG elements, in the order in which they are drawn
    """
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

PROMPT, N_TOKENS, K, TURNS = "The wolf knew the", 20, 4, 15
PLAYED = 6  # seconds that autoregressive decoding takes in the picture, which plays once
LANE_WIDTH = 960  # pixels of the whole axis of time
LETTER = 8.6  # pixels from one character of a token to the next
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
    """Decode once, greedily. Returns of each round: (Round, seconds of drafting, of the whole)."""
    rounds = timed_rounds(decoder, *models, None, ids, N_TOKENS, K=K, to_probs=SamplingParams(0.0))
    next(rounds)  # the prefill
    return [(one.round, one.drafting, one.seconds) for one in rounds]


def race():
    """Draw both decoders on one axis of time, in docs/race.svg: the passes, what each brings, and
    the text.
    """
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
    rounds, times = {}, {}
    for decoder, turns in runs.items():
        rounds[decoder] = [this_round for this_round, _, _ in turns[0]]  # greedy: each turn's
        times[decoder] = []
        for of_round in zip(*turns):
            _, drafting, whole = zip(*of_round)
            times[decoder].append((median(drafting), median(whole)))
    autoregressive_time = sum(whole for _, whole in times["autoregressive"])
    scale = LANE_WIDTH / autoregressive_time
    parts = []
    for top, (decoder, what) in zip((20, 165), lanes.items()):
        title = f"{decoder.title()}: {what}"
        parts += draw_lane(encoder, rounds[decoder], times[decoder], scale, top, title)
    legend = [("accepted draft", "draft"), ("correction", "correction"), ("bonus", "bonus")]
    x = 20.0
    for words, source in [*legend, ("target alone", "target")]:
        parts += mark_token(x, 322, words, source)
        x += LETTER * len(words) + 14
    words = f"greedy: the same text; grey: drafting; times of {TURNS} runs"
    parts.append(f'<text x="980" y="322" class="soft small end">{words}</text>')
    counts = " and ".join(str(len(rounds[decoder])) for decoder in lanes)
    title = f"The same prompt, autoregressive and speculative: {counts} passes"
    write_picture("race", title, 340, RACE_STYLE, parts)


def draw_lane(encoder, rounds, times, scale, top, title):
    """The SVG elements of one decoder, to be drawn from `top` down. Each round is a group, which
    appears when it begins: its bars on the axis of time, and its tokens in the line of text.

    times: of each round, seconds of (drafting, the whole)
    scale: pixels per second
    """
    parts = [f'<text x="20" y="{top + 16}" class="title">{title}</text>']
    count = f'{len(rounds)}<tspan class="unit"> target passes</tspan>'
    parts.append(f'<text x="980" y="{top + 20}" class="count end">{count}</text>')
    begin = text_x = 20.0
    for this_round, (drafting, whole) in zip(rounds, times):
        middle = begin + drafting * scale
        end = begin + whole * scale
        delay = f"animation-delay: {(end - 20) / LANE_WIDTH * PLAYED:.2f}s"
        parts.append(f'<g class="part" style="{delay}">')
        for name, a, b in (("drafting", begin, middle), ("pass", middle, end)):
            bar = f'x="{a:.1f}" y="{top + 50}" width="{max(0.0, b - a - 1):.1f}" height="22"'
            parts.append(f'<rect class="{name}" {bar}/>')
        gain = f'<text x="{(middle + end) / 2:.1f}" y="{top + 44}" class="gain middle">'
        parts.append(f"{gain}+{len(this_round.tokens)}</text>")
        for token, source in zip(this_round.tokens, sources_of(this_round)):
            text = encoder.decode([token])
            parts += mark_token(text_x, top + 100, text, source)
            text_x += len(text) * LETTER
        parts.append("</g>")
        begin = end
    return parts


def mark_token(x, y, text, source):
    """The SVG elements of a token at x, its text on the line y: a box, the text, a line below, all
    of the CSS class `source`, which says where the token comes from.
    """
    end = x + LETTER * len(text)
    box = f'x="{x:.1f}" y="{y - 16}" width="{end - x - 1:.1f}" height="22"'
    shown = escape(text.replace("\n", "¶"))
    length = f'textLength="{end - x - 1:.1f}" xml:space="preserve"'
    return [
        f'<rect class="{source}" {box} rx="3"/>',
        f'<text x="{x:.1f}" y="{y}" class="token {source}" {length}>{shown}</text>',
        f'<line class="{source}" x1="{x:.1f}" x2="{end - 2:.1f}" y1="{y + 7}" y2="{y + 7}"/>',
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
    """{n: seconds of a pass of 17M over n rows, after 64 tokens}, the median of so many turns. One
    more turn before them warms up.
    """
    target, _, _ = load_pair("17M", "ngram", MODELS_DIR)
    ids = [i % 1000 for i in range(64 + max(ROWS))]
    cache, seconds = target.new_cache(), {n: [] for n in ROWS}
    target.read(ids[:64], cache)
    for _ in range(turns + 1):
        for n in ROWS:
            start = perf_counter()
            # it computes the last n again, whatever the cache holds of them
            target.read(ids[: 64 + n], cache, n_last=n)
            seconds[n].append(perf_counter() - start)
    return {n: median(warm) for n, (_, *warm) in seconds.items()}


def verify_cost():
    """Draw the time of a pass over its rows, relative to a pass over one, in docs/verify_cost.svg:
    for three machines, and for comparison that of a pass for each row.
    """
    seconds = measure_passes()
    cpu = [(n, seconds[n] / seconds[1]) for n in ROWS]
    x_of = lambda rows: 70 + 560 * log2(rows) / 10
    y_of = lambda time: 350 - 280 * log2(max(time, 1)) / 4  # below 1 is noise
    path = lambda points: " ".join(f"{x_of(n):.1f},{y_of(time):.1f}" for n, time in points)
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
    marks = "texts with K = 4: batch × (K + 1) rows"
    parts.append(f'<text x="650" y="60" class="soft small">{marks}</text>')
    curves = [
        ("each", [(1, 1), (16, 16)], "a pass for each row", "no gain"),
        ("cpu", cpu, "17M on two CPU cores", f"measured; {cpu[-1][1]:.1f} at {ROWS[-1]} rows"),
        ("four", roofline(H100 / 4), "H100, weights of 4 bits", "computed; bends at 74 rows"),
        ("h100", roofline(H100), "H100, weights of 16 bits", "computed; bends at 295 rows"),
    ]
    for i, (name, points, label, note) in enumerate(curves):
        y = 110 + 60 * i
        parts.append(f'<polyline class="{name}" points="{path(points)}"/>')
        parts.append(f'<polyline class="{name}" points="650,{y - 6} 690,{y - 6}"/>')
        parts.append(f'<text x="700" y="{y}">{label}</text>')
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
    expected speedup, in docs/draft_design.svg.
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
        points = []  # of each cost the lowest rate with this speedup at the best K
        for c in costs:
            enough = [a for a in rates if fastest(a, c) >= tenths / 10]
            if enough and 0.4 < enough[0] < 0.8:  # inside the picture
                points.append((x_of(c), y_of(enough[0])))
        if points:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            x, y = points[-1]
            parts.append(f'<polyline points="{path}"/>')
            parts.append(
                f'<text x="{x + 6:.1f}" y="{y + 5:.1f}" class="soft small">{tenths / 10:g}</text>'
            )
    for name, a, c in rows:
        x, y = x_of(float(c)), y_of(float(a))
        # the name above the point or below it, so that those of neighbours do not meet
        below = 24 if " x " in name else -12
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        parts.append(f'<text x="{x:.1f}" y="{y + below:.1f}" class="middle">{escape(name)}</text>')
    parts.append('<text x="680" y="80">dashed: equal speedup,</text>')
    parts.append('<text x="680" y="102" class="soft small">by theory at the best K</text>')
    write_picture("draft_design", "Drafts: acceptance rate against cost", 446, DESIGN_STYLE, parts)


def fastest(a, c):
    """The expected speedup at the best K, if each token of a draft adds 0.1 to the pass."""
    return max(speedup(a, K, c, 1 + 0.1 * K) for K in range(1, 9))


# ---------------------------------------------------------------- several candidates


def candidates():
    """Print how often one of several candidates for a place is accepted, as in trees.md: the exact
    mean over the pair's rows at temperature 1 and top_k 20. The last column is the best that a rule
    can do whose candidates are independent samples of q.
    """
    print("| candidates | with replacement | without | at most, if independent |")
    rows = list(pair_rows(SamplingParams(1.0, top_k=20), 20))
    for k in (1, 2, 3):
        functions = acceptance, acceptance_without_replacement, best_acceptance
        rates = [[function(p, q, k) for function in functions] for p, q in rows]
        print(f"| {k} | {' | '.join(f'{mean:.3f}' for mean in np.mean(rates, axis=0))} |")


def pair_rows(to_probs, n_tokens):
    """Yield p and q, [n_vocab] each, of the included pair: after each opening of STORIES its target
    writes n_tokens, and there are n_tokens + 1 places, one before each of them and one at the end.
    to_probs makes p and q of logits.
    """
    target, draft_model, encoder = load_pair("17M", "0.7M-17M", MODELS_DIR)
    for seed, opening in enumerate(read_prompts(STORIES)):
        ids = encoder.encode(opening)
        for this_round in autoregressive(target, ids, n_tokens, to_probs, Rng(seed)):
            ids = ids + this_round.tokens
        rows_of = lambda model: to_probs(model.read(ids, model.new_cache(), n_last=n_tokens + 1))
        yield from zip(rows_of(target), rows_of(draft_model))


# ---------------------------------------------------------------- acceptance by place

PLACES, TEXT_LENGTH = 8, 120
PLACES_STYLE = """
.grid { stroke: var(--line); } polyline { fill: none; stroke-width: 2.5px; }
polyline.one { stroke: var(--p); } polyline.zero { stroke: var(--draft); stroke-dasharray: 8 4; }
circle.one { fill: var(--p); } circle.zero { fill: var(--draft); }
"""


def places():
    """Draw how often a draft token is accepted at each place of a draft of PLACES, if all before it
    were, in docs/places.svg. The axis shows rates from 0.5 to 1.
    """
    x_of = lambda place: 100 + 70 * place
    y_of = lambda rate: 330 - 560 * (rate - 0.5)
    question = "How often is a draft token accepted, if all before it were?"
    parts = [f'<text x="20" y="30" class="title">{question}</text>']
    for tenths in range(5, 11):
        y = y_of(tenths / 10)
        parts.append(f'<line class="grid" x1="70" x2="630" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="60" y="{y + 6:.1f}" class="soft end">{tenths / 10:g}</text>')
    for place in range(PLACES):
        parts.append(f'<text x="{x_of(place)}" y="356" class="soft middle">{place + 1}</text>')
    parts.append('<text x="350" y="384" class="middle">place in the draft</text>')
    for name, temperature, y in (("zero", 0.0, 110), ("one", 1.0, 180)):
        examined, accepted = by_place(temperature)
        points = [(x_of(i), y_of(rate)) for i, rate in enumerate(accepted / examined)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="{name}" points="{line}"/>')
        parts += [f'<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>' for x, y in points]
        parts.append(f'<polyline class="{name}" points="650,{y - 6} 690,{y - 6}"/>')
        parts.append(f'<text x="700" y="{y}">temperature {temperature:g}</text>')
        counts = f"{examined[0]:.0f} drafts, {examined[-1]:.0f} to the last place"
        parts.append(f'<text x="700" y="{y + 22}" class="soft small">{counts}</text>')
    write_picture("places", "Acceptance by place in a draft of eight", 400, PLACES_STYLE, parts)


def by_place(temperature):
    """In how many rounds the draft token at each place was examined, and in how many accepted:
    (examined, accepted), [PLACES] each. Counted in texts after the openings of STORIES, in rounds
    with room for a whole draft.
    """
    examined, accepted = np.zeros(PLACES), np.zeros(PLACES)
    to_probs = SamplingParams(temperature)
    for _, one in whole_drafts(read_prompts(STORIES), TEXT_LENGTH, PLACES, to_probs):
        examined[: one.examined] += 1
        accepted[: one.accepted] += 1
    return examined, accepted


def whole_drafts(openings, n_tokens, K, to_probs):
    """Yield (number of the opening, Round) for each round with K drafted tokens, as the included
    pair continues openings by n_tokens each, with the token rule.
    """
    target, draft_model, encoder = load_pair("17M", "0.7M-17M", MODELS_DIR)
    for seed, opening in enumerate(openings):
        ids, rng = encoder.encode(opening), Rng(seed)
        drafter = NeuralDrafter(draft_model, to_probs, rng)
        for one in speculative(target, drafter, ids, n_tokens, K, to_probs, rng):
            if len(one.draft) == K:
                yield seed, one


# ---------------------------------------------------------------- weights of a block

BLOCK_STYLE = ".grid { stroke: var(--q); } .bar { fill: var(--draft-bg); stroke: var(--draft); }"


def block_weights():
    """Draw, on the example of block.md, the weights of the block rule against the products of the
    token rule, after one token and after two of each draft, in docs/block_weights.svg.
    """
    p, q = (1 / 3, 2 / 3), (2 / 3, 1 / 3)
    words = "After the first token of each draft, and after the second"
    parts = [f'<text x="20" y="30" class="title">{words}</text>']
    left, right = 90, 540  # the columns of the two rules
    for x, heading in ((left, "token rule: the product of min(1, p/q)"), (right, "block rule: w")):
        parts.append(f'<text x="{x}" y="66" class="soft">{heading}</text>')
    for row, draft in enumerate(product((0, 1), repeat=2)):
        y = 84 + 66 * row
        parts.append(f'<text x="30" y="{y + 28}">{" ".join("AB"[token] for token in draft)}</text>')
        ratios = [p[token] / q[token] for token in draft]
        for place, (chance, weight) in enumerate(after_each(ratios)):
            top = y + 22 * place
            for x, length in ((left, chance), (right, weight)):
                size = f'y="{top}" width="{300 * length:.0f}" height="18"'
                parts.append(f'<rect class="bar" x="{x}" {size}/>')
                share = Fraction(length).limit_denominator(100)
                label = f'<text x="{x + 8 + 300 * length:.0f}" y="{top + 15}" class="small">'
                parts.append(f"{label}{share}</text>")
        share = Fraction(prod(q[token] for token in draft)).limit_denominator(100)
        parts.append(f'<text x="980" y="{y + 28}" class="soft small end">drafted {share}</text>')
    write_picture("block_weights", words, 356, BLOCK_STYLE, parts)


def after_each(ratios):
    """Yield after each token of a draft, from the ratios p / q: (the product of min(1, p / q), the
    weight w of block.md). The means of their sums are what token rule and block rule accept.
    """
    chance = w = 1.0
    for r in ratios:
        chance, w = chance * min(1, r), min(1, w * r)
        yield chance, w


def block_gain():
    """Print how many tokens of a draft the rules accept on average, as in block.md, and how many
    more the block rule does, with its 95 % interval over prompts: of the same drafts, after the
    first 64 prompts of paragraphs.jsonl (benchmarks.md says which), 60 tokens each.
    """
    prompts = read_prompts("paragraphs.jsonl")[:64]
    print("| K | drafts | token rule | block rule | more |")
    for K in (4, 6, 8):
        # of each prompt: how many drafts, and how many of their tokens each rule accepts on average
        drafts, by_token, by_block = np.zeros((3, len(prompts)))
        for n, one in whole_drafts(prompts, 60, K, SamplingParams(1.0)):
            at = range(K), one.draft
            chances, weights = zip(*after_each(one.p[at] / one.q[at]))
            drafts[n] += 1
            by_token[n] += sum(chances)
            by_block[n] += sum(weights)
        low, high = ratio_interval(by_block - by_token, drafts)
        means = " | ".join(f"{ratio(accepted, drafts):.2f}" for accepted in (by_token, by_block))
        more = f"{ratio(by_block - by_token, drafts):.3f} [{low:.3f}, {high:.3f}]"
        print(f"| {K} | {sum(drafts):.0f} | {means} | {more} |")


# ---------------------------------------------------------------- the time of a round

TIME_STYLE = ".pass { fill: var(--p); fill-opacity: .65; } .drafting { fill: var(--q); }"


def round_time():
    """Draw the time of a round, K c + v, beside that of as many tokens of plain decoding, in
    docs/round_time.svg.
    """
    a, K, c, v = 0.8, 4, 0.1, 1.15
    n_tokens = sum(a**n for n in range(K + 1))
    parts = [f'<text x="20" y="34" class="title">One round, K = {K}, c = {c}, v = {v}</text>']
    steps, x = row_of_boxes(48, [*[("drafting", c, "c")] * K, ("pass", v, "v")])
    time = K * c + v
    words = f"{n_tokens:.2f} tokens in K c + v = {time:g}"
    parts += [*steps, f'<text x="{x + 12:.0f}" y="71">{words}</text>']
    parts.append('<text x="20" y="130" class="title">As many tokens without drafts</text>')
    whole = int(n_tokens)  # the last pass is drawn in part
    passes, _ = row_of_boxes(144, [*[("pass", 1, "1")] * whole, ("pass", n_tokens - whole, "")])
    parts += passes
    words = f"{n_tokens:.2f}: the round is {n_tokens / time:.2f} times as fast"
    parts.append(f'<text x="20" y="206">{words}</text>')
    write_picture("round_time", "The time of a round", 224, TIME_STYLE, parts)


def row_of_boxes(y, boxes):
    """A row of boxes, with y their upper edge. Returns (SVG elements, x at the end of the row).

    boxes: (CSS class, time, text in it) of each; the unit of time is a pass of the target
    """
    parts, x = [], 20.0
    for name, time, words in boxes:
        width = 250 * time
        box = f'x="{x:.1f}" y="{y}" width="{width - 3:.1f}" height="34"'
        middle = f'<text x="{x + width / 2 - 2:.1f}" y="{y + 23}" class="middle">'
        parts += [f'<rect class="{name}" {box}/>', f"{middle}{words}</text>"]
        x += width
    return parts, x


# ---------------------------------------------------------------- the live page


def live():
    """Save the live page, and a picture of it at the end of the first speculative round, in
    docs/live.html and docs/live.png. It needs Playwright and a Chromium.
    """
    from playwright.sync_api import sync_playwright  # pip install --group browser

    docs = Path(__file__).parent
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder, "live.html")
        subprocess.run(
            [sys.executable, docs.parent / "main.py", "play", "--save", page, "--seed", "161"],
            check=True,
        )
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        tab = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
        tab.goto(page.as_uri())
        tab.evaluate("showMoment(race.lanes[1].fetches[0].end)")  # lane 1 is the speculative one
        tab.screenshot(path=docs / "live.png")
        browser.close()
        shutil.copyfile(page, docs / "live.html")


PICTURES = {
    one.__name__: one
    for one in (live, race, verify_cost, draft_design, places, block_weights, round_time)
}
COMMANDS = PICTURES | {"candidates": candidates, "block_gain": block_gain, "paint": paint}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=COMMANDS)
    for name in parser.parse_args().names:
        COMMANDS[name]()
