"""The race of a saved run as an animated picture: both decoders write the same prompt's text on one
clock, slowed down, pass by pass.

    python main.py --prompt "The queen looked into the mirror and" --stop face. --report run.html
    python -m docs.pictures.race run.html race.svg

A run that the live page saved has the seconds of every pass; in a report, those of the plain run
are equal shares of their total.

One number moves, the time --t. Everything that comes or goes carries its own --begin and --end, and
the style sheet says what that means. Without animation --t stands at the end.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from docs.pictures.svg import LEFT, RIGHT, command, element, rect, text, write
from utils import InputError

CHARACTER, LINE = 12, 34  # a character of the text is so wide, a line so high
PER_LINE = (RIGHT - LEFT) // CHARACTER
BARS = 490  # the longer run, as bars
RACE, HOLD = 6.5, 2.5  # seconds of the picture: the longer run, then its end
CLAIM = {  # where a line of it stands
    36: "A pass of the target reads all of its weights. That takes",
    62: "the time, for one token or for five.",
}
KINDS = {"ghost": "drafted", "draft": "accepted", "correction": "corrected", "bonus": "bonus"}

STYLE = (
    """
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
.read { fill-opacity: .6; }
.cover { fill: var(--card); }
"""
    + f"""
@property --t {{ syntax: "<number>"; inherits: true; initial-value: {RACE + HOLD}; }}
svg {{ --t: {RACE + HOLD}; }}
@keyframes race {{ from {{ --t: 0; }} to {{ --t: {RACE + HOLD}; }} }}
.from {{ opacity: calc(1e4 * (var(--t) - var(--begin))); }}
.until {{ opacity: calc(1e4 * min(var(--t) - var(--begin), var(--end) - var(--t))); }}
.grows, .shrinks {{ transform-box: fill-box; --part: calc((var(--t) - var(--begin)) /
  (var(--end) - var(--begin))); }}
.grows {{ transform: scaleX(clamp(0, var(--part), 1)); }}
.shrinks {{ transform-origin: 100% 0; transform: scaleX(clamp(0, 1 - var(--part), 1)); }}
@media (prefers-reduced-motion: no-preference) {{
  svg {{ animation: race {RACE + HOLD}s linear infinite; }}
}}
"""
)


# ---------------------------------------------------------------- the run: who did what, and when


def read_run(path):
    """The data of a saved page. Raises InputError."""
    try:
        page = Path(path).read_text(encoding="utf-8")
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

    def of(self, model):
        """[(begin, end)] of the passes of a model."""
        return [(begin, end) for name, begin, end in self.passes if name == model]


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
    end = x + len(token) * CHARACTER - 1
    under = element("line", x1=x, x2=end, y1=y + 26, y2=y + 26, class_=kind)
    letters = token.lstrip(" ")
    begin = x + (len(token) - len(letters)) * CHARACTER
    # whatever the font, a letter is as wide as planned
    length = len(letters) * CHARACTER
    written = text(letters, begin, y + 19, f"token {kind}", textLength=length) if letters else ""
    return rect(x, y, end - x, 26, kind, rx=3) + under + written


# ---------------------------------------------------------------- the parts of the picture


@dataclass
class Picture:
    """The parts drawn so far. slower: seconds of the picture for one of the run."""

    slower: float
    parts: list = field(default_factory=list)

    def timed(self, how, begin, end=None):
        """The attributes of what is seen .from `begin` on or .until `end`, or .grows meanwhile."""
        style = f"--begin:{begin * self.slower:.3f}"
        if end is not None:
            style += f";--end:{end * self.slower:.3f}"
        return {"class_": how, "style": style}

    def lane(self, lane, prompt, sizes, top):
        """Draw a lane. Returns where it ends."""
        self.parts.append(text(lane.heading, LEFT, top + 24, "title"))
        self.parts.append(text(lane.below, LEFT, top + 52, "soft"))
        self.count(lane, top + 34)
        self.weights(lane, sizes, top + 68)
        self.passes(lane, top + 104)
        return top + 128 + LINE * self.words(lane, prompt, top + 128)

    def count(self, lane, y):
        """How many passes of the target have ended: one number after the other in one place."""
        self.parts.append(text("target passes", RIGHT, y + 25, "soft right"))
        ends = [0.0] + [end for _, end in lane.of("target")]
        for n, (begin, end) in enumerate(zip(ends, [*ends[1:], None])):
            how = "count from" if end is None else "count until"
            self.parts.append(text(n, RIGHT, y, **self.timed(how, begin, end)))

    def weights(self, lane, sizes, y):
        """The weights of each model as an area; while a pass reads them, they fill."""
        x = LEFT
        for model, size in sizes.items():
            width = 260 * size / sizes["target"]
            if spans := lane.of(model):
                self.parts.append(rect(x, y, width, 28, f"weights of-{model}"))
                for begin, end in spans:
                    filling = rect(
                        x, y, width, 28, **self.timed(f"read of-{model} grows", begin, end)
                    )
                    self.parts.append(element("g", filling, **self.timed("until", begin, end)))
                beside = x + 8 if width > 100 else x + width + 8
                self.parts.append(text(f"{model}: {size:g}M weights", beside, y + 20, "label"))
            x += width + 12

    def passes(self, lane, y):
        """Every pass as a bar as long as it took, up to now."""
        x = lambda seconds: LEFT + BARS * seconds * self.slower / RACE
        for model, begin, end in lane.passes:
            width = max(1.0, x(end) - x(begin) - 1)
            self.parts.append(rect(x(begin), y, width, 12, f"of-{model}"))
        all_of_it = self.timed("cover shrinks", 0, RACE / self.slower)
        self.parts.append(rect(LEFT - 1, y - 1, BARS + 2, 14, **all_of_it))
        took = f"{1e3 * lane.end:.0f} ms"
        self.parts.append(text(took, x(lane.end) + 8, y + 13, **self.timed("soft from", lane.end)))

    def words(self, lane, prompt, top):
        """The prompt, each token from its pass on, and each guess until it is judged. Returns the
        number of lines.
        """
        begin = re.findall(r"\s*\S+", prompt)
        tokens = [shown for shown, _, _ in lane.tokens]
        places = laid_out(begin + tokens)
        n_lines = places[-1][-1] + 1
        self.parts += [chip(*place, top, "prompt") for place in places[: len(begin)]]
        for n_before, ghosts, judged in lane.ghosts:
            before = begin + tokens[:n_before]
            guesses = laid_out(before + [shown for shown, _ in ghosts])[len(before) :]
            for place, (_, drafted) in zip(guesses, ghosts):
                if place[-1] < n_lines:  # of the last round, a guess may lie behind the end
                    when = self.timed("until", drafted, judged)
                    self.parts.append(element("g", chip(*place, top, "ghost"), **when))
        for place, (_, source, end) in zip(places[len(begin) :], lane.tokens):
            self.parts.append(element("g", chip(*place, top, source), **self.timed("from", end)))
        return n_lines

    def legend(self, y):
        """One chip for each kind of token of the speculative run."""
        column = 0
        for kind, name in KINDS.items():
            self.parts.append(chip(name, column, 0, y, kind))
            column += len(name) + 2


def draw(run, path):
    """Write the picture of a run, the data of a saved page."""
    lanes, settings = (plain_lane(run), speculative_lane(run)), run["settings"]
    sizes = {model: millions(settings[f"{model}_model_size"]) for model in ("target", "draft")}
    picture = Picture(RACE / max(lane.end for lane in lanes))
    for y, words in CLAIM.items():
        picture.parts.append(text(words, LEFT, y, "label"))
    y = 84
    for lane in lanes:
        y = 22 + picture.lane(lane, run["prompt"], sizes, y)
    picture.legend(y)
    way = "greedy" if settings["temperature"] == 0 else f"temperature {settings['temperature']:g}"
    same = ", same text" if run["plain"]["tokens"] == run["figures"]["token_ids"] else ""
    caption = f"{way}, K = {settings['K']}{same}; measured, {picture.slower:.0f} times slower"
    picture.parts.append(text(caption, LEFT, y + 58, "soft"))
    passes = [len(lane.of("target")) for lane in lanes]
    title = "The same prompt, plain and speculative: {} and {} passes of the target".format(*passes)
    write(path, y + 76, title, STYLE, picture.parts)


def millions(size):
    """The parameters that a model's name gives: 0.7 of 0.7M-17M."""
    found = re.match(r"([\d.]+)M", size)
    if not found:
        raise InputError(f"model {size!r}: expected a size such as 17M; save a run of such a pair")
    return float(found[1])


if __name__ == "__main__":
    command(lambda page, path: draw(read_run(page), path), "a saved page", "the picture to write")
