"""The race of a saved run as an animated picture: both decoders write the same prompt's text on one
clock, slowed down, pass by pass.

    python main.py --prompt "The queen looked into the mirror and" --stop face. --report run.html
    python -m experiments.page.race run.html race.svg

A run that the live page saved has the seconds of every pass; in a report, those of the plain run
are equal shares of their total. Without animation the picture shows the end.
"""

import json
import re
from dataclasses import dataclass, field

from experiments.page.svg import command, element, text, write
from utils import InputError

WIDTH, LEFT, RIGHT = 600, 20, 580
CHARACTER, LINE = 12, 34  # a character of the text is so wide, a line so high
PER_LINE = (RIGHT - LEFT) // CHARACTER
BARS = 490  # the longer run, as bars
RACE, HOLD = 6.5, 2.5  # seconds of the picture: the longer run, then its end
PERIOD = RACE + HOLD

STYLE = """
.card { fill: var(--card); stroke: var(--line); }
text { fill: var(--ink); font: 19px var(--sans); }
.soft { fill: var(--soft); font-size: 18px; }
.title { font: 600 23px var(--serif); }
.count { font: 700 54px var(--serif); text-anchor: end; fill: var(--p); }
.right { text-anchor: end; }
.token { font: 20px var(--mono); }
.token.prompt, .token.ghost { fill: var(--soft); }
rect.prompt { fill: none; }
rect.ghost { fill: none; stroke: var(--edge); stroke-dasharray: 3 3; }
rect.target { fill: var(--target-bg); } .token.target { fill: var(--target); }
rect.draft { fill: var(--draft-bg); } .token.draft { fill: var(--draft); }
rect.correction { fill: var(--correction-bg); } .token.correction { fill: var(--correction); }
rect.bonus { fill: var(--bonus-bg); } .token.bonus { fill: var(--bonus); }
line { stroke-width: 2.5px; }
line.target { stroke: var(--target); stroke-dasharray: 2 2; }
line.draft { stroke: var(--draft); }
line.correction { stroke: var(--correction); stroke-width: 4px; }
line.bonus { stroke: var(--bonus); stroke-dasharray: 6 3; }
.of-target { fill: var(--p); } .of-draft { fill: var(--q); }
.weights { fill-opacity: .22; }
.until { opacity: 0; }
.read, .cover { transform: scaleX(0); }
.read { fill-opacity: .6; transform-box: fill-box; transform-origin: 0 0; }
.cover { fill: var(--card); transform-box: fill-box; transform-origin: 100% 0; }
"""


# ---------------------------------------------------------------- the run: who did what, and when


def read_run(path):
    """The data of a saved page. Raises InputError."""
    try:
        page = open(path, encoding="utf-8").read()
        (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
        run = json.loads(found)
        if not run["plain"]:
            raise InputError(f"{path}: holds no plain run; save one with --mode both")
        return run
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{path}: expected a page that --report or the live page saved") from None


@dataclass
class Lane:
    """One decoder's run, in seconds from its start.

    heading, below: what it is called, and a line on it
    passes  [(model, begin, end)]: "target" or "draft"
    tokens  [(text, source, end)]: a token appears when its pass has ended
    ghosts  [(number of tokens before, [(text, drafted at)], end)]: a draft until it is judged
    """

    heading: str
    below: str
    passes: list = field(default_factory=list)
    tokens: list = field(default_factory=list)
    ghosts: list = field(default_factory=list)
    end: float = 0.0

    def add(self, model, seconds):
        self.passes.append((model, self.end, self.end + seconds))
        self.end += seconds

    @property
    def target_passes(self):
        return [(begin, end) for model, begin, end in self.passes if model == "target"]


def plain_lane(run):
    lane = Lane("Plain decoding", "each pass writes one token")
    for shown, seconds in zip(run["plain"]["shown"], run["plain"]["seconds"]):
        lane.add("target", seconds)
        lane.tokens.append((shown, "target", lane.end))
    return lane


def speculative_lane(run):
    lane = Lane("Speculative decoding", "one pass checks several drafted tokens")
    for one in run["rounds"]:
        drafting, verifying, rest = one["seconds"]
        begin, ghosts = lane.end, []
        for token, seconds in zip(one["draft"], one["passes"]):
            lane.add("draft", seconds)
            ghosts.append((run["words"][str(token)], lane.end))
        lane.end = begin + drafting
        lane.add("target", verifying)
        lane.ghosts.append((len(lane.tokens), ghosts, lane.end))
        for shown, source in zip(one["shown"], one["sources"]):
            lane.tokens.append((shown, source, lane.end))
        lane.end += rest  # the rule and the loop take their time, too
    return lane


# ---------------------------------------------------------------- when something is seen


class Clock:
    """Seconds of a run as moments of the picture. Its classes animate what carries them."""

    def __init__(self, seconds):
        self.slower = RACE / seconds
        self.classes = {}

    def x(self, seconds):
        """Where the bar of a pass that begins then begins."""
        return LEFT + BARS * seconds * self.slower / RACE

    def percent(self, seconds):
        return f"{100 * seconds * self.slower / PERIOD:.2f}%"

    def name(self, frames, timing):
        return self.classes.setdefault((frames, timing), f"k{len(self.classes)}")

    def seen(self, begin, end=None):
        """The class of what is there from `begin` on, up to `end`."""
        frames = f"0%{{opacity:0}}{self.percent(begin)}{{opacity:1}}"
        if end is not None:
            frames += f"{self.percent(end)}{{opacity:0}}"
        return self.name(frames, "step-end")

    def grows(self, spans):
        """The class of what grows from nothing during each (begin, end), and is gone between."""
        frames = "".join(
            f"{self.percent(begin)}{{transform:scaleX(0)}}"
            f"{self.percent(begin + 0.98 * (end - begin))}{{transform:scaleX(1)}}"
            f"{self.percent(end)}{{transform:scaleX(0)}}"
            for begin, end in spans
        )
        return self.name(frames, "linear")

    def shrinks(self):
        """The class of what covers the whole race at first, and less and less of it."""
        end = f"{100 * RACE / PERIOD:.2f}%"
        return self.name(f"0%{{transform:scaleX(1)}}{end}{{transform:scaleX(0)}}", "linear")

    def style(self):
        rules = [
            f"@keyframes {name}{{{frames}}}.{name}{{animation:{name} {PERIOD}s {timing} infinite}}"
            for (frames, timing), name in self.classes.items()
        ]
        # a reader who asks for no motion sees the end
        return "\n".join(["@media (prefers-reduced-motion: no-preference) {", *rules, "}"])


# ---------------------------------------------------------------- where a text lies


def laid_out(tokens):
    """[(text, column, line)] of tokens. A line ends before a word that does not fit, and at a
    newline; a space that would begin a line is left out.
    """
    found, column, line = [], 0, 0
    for i, token in enumerate(tokens):
        word = re.match(r"\s?\S*", "".join(tokens[i:]))[0]
        if token.startswith(" ") and column + len(word) > PER_LINE:
            column, line = 0, line + 1
        if column == 0:
            token = token.removeprefix(" ")
        found.append((token.replace("\n", "⏎"), column, line))
        column += len(token)
        if token.endswith("\n"):
            column, line = 0, line + 1
    return found


def chip(token, column, line, top, kind):
    """A token: its letters, on a ground and over a line that say what kind it is."""
    x, y = LEFT + column * CHARACTER, top + line * LINE
    width, letters = len(token) * CHARACTER, token.strip(" ")
    parts = [
        element("rect", x=x, y=y, width=width - 1, height=26, rx=3, class_=kind),
        element("line", x1=x, x2=x + width - 1, y1=y + 26, y2=y + 26, class_=kind),
    ]
    if letters:
        begin = x + (len(token) - len(token.lstrip(" "))) * CHARACTER
        # whatever the font, a letter is as wide as planned
        length = len(letters) * CHARACTER
        parts.append(text(letters, begin, y + 19, f"token {kind}", textLength=length))
    return "".join(parts)


# ---------------------------------------------------------------- the parts of the picture


def draw_text(lane, prompt, top, clock):
    """The prompt, each token from its pass on, and each guess until it is judged. Returns the parts
    and the number of lines.
    """
    begin = re.findall(r"\s*\S+", prompt)
    tokens = [shown for shown, _, _ in lane.tokens]
    places = laid_out(begin + tokens)
    n_lines = places[-1][-1] + 1
    parts = [chip(*place, top, "prompt") for place in places[: len(begin)]]
    for n_before, ghosts, judged in lane.ghosts:
        before = begin + tokens[:n_before]
        guesses = laid_out(before + [shown for shown, _ in ghosts])[len(before) :]
        for place, (_, drafted) in zip(guesses, ghosts):
            if place[-1] < n_lines:  # of the last round, a guess may lie behind the end
                seen = f"until {clock.seen(drafted, judged)}"
                parts.append(element("g", chip(*place, top, "ghost"), class_=seen))
    for place, (_, source, end) in zip(places[len(begin) :], lane.tokens):
        parts.append(element("g", chip(*place, top, source), class_=clock.seen(end)))
    return parts, n_lines


def draw_count(lane, y, clock):
    """How many passes of the target have ended: one number after the other in the same place."""
    ends = [0.0] + [end for _, end in lane.target_passes]
    parts = [text("target passes", RIGHT, y + 25, "soft right")]
    for n, (begin, end) in enumerate(zip(ends, ends[1:])):
        parts.append(text(n, RIGHT, y, f"count until {clock.seen(begin, end)}"))
    parts.append(text(len(ends) - 1, RIGHT, y, f"count {clock.seen(ends[-1])}"))
    return parts


def draw_weights(lane, sizes, y, clock):
    """The weights of each model as an area; while a pass reads them, they fill."""
    parts, x = [], LEFT
    for model in ("target", "draft"):
        spans = [(begin, end) for name, begin, end in lane.passes if name == model]
        if not spans:
            continue
        width = 260 * sizes[model] / sizes["target"]
        area = {"x": x, "y": y, "width": width, "height": 28}
        parts.append(element("rect", **area, class_=f"weights of-{model}"))
        parts.append(element("rect", **area, class_=f"read of-{model} {clock.grows(spans)}"))
        words = f"{model}: {sizes[model]:g}M weights"
        inside = width > 100
        parts.append(text(words, x + (8 if inside else width + 8), y + 20, "label"))
        x += width + 12
    return parts


def draw_passes(lane, y, clock):
    """Every pass as a bar as long as it took, up to now."""
    parts = []
    for model, begin, end in lane.passes:
        x, width = clock.x(begin), max(1.0, clock.x(end) - clock.x(begin) - 1)
        parts.append(element("rect", x=x, y=y, width=width, height=12, class_=f"of-{model}"))
    cover = {"x": LEFT - 1, "y": y - 1, "width": BARS + 2, "height": 14}
    parts.append(element("rect", **cover, class_=f"cover {clock.shrinks()}"))
    x, took = clock.x(lane.end) + 8, f"{1e3 * lane.end:.0f} ms"
    parts.append(text(took, x, y + 13, f"soft {clock.seen(lane.end)}"))
    return parts


def draw_lane(lane, prompt, sizes, top, clock):
    """(parts, where the lane ends)"""
    parts = [text(lane.heading, LEFT, top + 24, "title"), text(lane.below, LEFT, top + 52, "soft")]
    parts += draw_count(lane, top + 34, clock)
    parts += draw_weights(lane, sizes, top + 68, clock)
    parts += draw_passes(lane, top + 104, clock)
    more, n_lines = draw_text(lane, prompt, top + 128, clock)
    return parts + more, top + 128 + n_lines * LINE


def draw_legend(y):
    """One chip for each kind of token of the speculative run."""
    names = {"ghost": "drafted", "draft": "accepted", "correction": "corrected", "bonus": "bonus"}
    parts, column = [], 0
    for kind, name in names.items():
        parts.append(chip(name, column, 0, y, kind))
        column += len(name) + 2
    return parts


def draw(run, path):
    """Write the picture of a run, the data of a saved page."""
    lanes = plain_lane(run), speculative_lane(run)
    clock, settings = Clock(max(lane.end for lane in lanes)), run["settings"]
    sizes = {model: millions(settings[f"{model}_model_size"]) for model in ("target", "draft")}
    parts = [
        text("A pass of the target reads all of its weights. That takes", LEFT, 36, "label"),
        text("the time, for one token or for five.", LEFT, 62, "label"),
    ]
    y = 84
    for lane in lanes:
        more, y = draw_lane(lane, run["prompt"], sizes, y, clock)
        parts += more
        y += 22
    parts += draw_legend(y)
    way = "greedy" if settings["temperature"] == 0 else f"temperature {settings['temperature']:g}"
    same = ", same text" if run["plain"]["tokens"] == run["figures"]["token_ids"] else ""
    caption = f"{way}, K = {settings['K']}{same}; measured, {clock.slower:.0f} times slower"
    parts.append(text(caption, LEFT, y + 58, "soft"))
    passes = [len(lane.target_passes) for lane in lanes]
    title = "The same prompt, plain and speculative: {} and {} passes of the target".format(*passes)
    write(path, WIDTH, y + 76, title, STYLE + clock.style(), parts)


def millions(size):
    """The parameters that a model's name gives: 0.7 of 0.7M-17M."""
    found = re.match(r"([\d.]+)M", size)
    if not found:
        raise InputError(f"model {size!r}: expected a size such as 17M; save a run of such a pair")
    return float(found[1])


if __name__ == "__main__":
    command(["a saved page", "the picture to write"], lambda run, path: draw(read_run(run), path))
