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
import sys
from pathlib import Path

from docs.pictures.svg import LEFT, RIGHT, element, rect, text, write

CHARACTER, LINE = 12, 34  # a character of the text is so wide, a line so high
PER_LINE = (RIGHT - LEFT) // CHARACTER
BARS = 490  # the longer run, as bars
RACE, HOLD = 6.5, 2.5  # seconds of the picture: the longer run, then its end
CLAIM = {  # where a line of it stands
    36: "A pass of the target reads all of its weights. That takes",
    62: "the time; five tokens take little more than one.",
}
HEADINGS = {
    "Plain decoding": "each pass writes one token",
    "Speculative decoding": "one pass checks several drafted tokens",
}
KINDS = {"ghost": "drafted", "draft": "accepted", "correction": "corrected", "bonus": "bonus"}

STYLE = """
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
@property --t { syntax: "<number>"; inherits: true; initial-value: END; }
svg { --t: END; }
@keyframes race { from { --t: 0; } to { --t: END; } }
.from { opacity: calc(1e4 * (var(--t) - var(--begin))); }
.until { opacity: calc(1e4 * min(var(--t) - var(--begin), var(--end) - var(--t))); }
.grows, .shrinks { transform-box: fill-box; --part: calc((var(--t) - var(--begin)) /
  (var(--end) - var(--begin))); }
.grows { transform: scaleX(clamp(0, var(--part), 1)); }
.shrinks { transform-origin: 100% 0; transform: scaleX(clamp(0, 1 - var(--part), 1)); }
@media (prefers-reduced-motion: no-preference) {
  svg { animation: race ENDs linear infinite; }
}
""".replace("END", str(RACE + HOLD))


# ---------------------------------------------------------------- the run: who did what, and when


def read_run(path):
    """The data of a saved page."""
    page = Path(path).read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', page)[1])


def rounds_of(run):
    """The rounds of both decoders; one of plain decoding is a pass of the target alone."""
    alone = {"draft": [], "passes": [], "sources": ["target"]}
    passes = zip(run["plain"]["shown"], run["plain"]["seconds"])
    plain = [alone | {"shown": [shown], "seconds": (0, took, 0)} for shown, took in passes]
    return plain, run["rounds"]


def seconds_of(rounds):
    return sum(sum(one["seconds"]) for one in rounds)


class Lane:
    """One decoder's run, in seconds of the picture from its start.

    words: {id: its text}; slower: seconds of the picture for one of the run
    passes  {model: [(begin, end)]}, of "target" and "draft"
    tokens  [(text, source, end)]: a token appears when its pass has ended
    ghosts  [(number of tokens before, [(text, drafted at)], end)]: a draft until it is judged
    """

    def __init__(self, rounds, words, slower):
        self.passes, self.tokens, self.ghosts = {"target": [], "draft": []}, [], []
        self.end, self.seconds = 0.0, seconds_of(rounds)
        for one in rounds:
            drafting, verifying, rest = (slower * part for part in one["seconds"])
            judging, now, ghosts = self.end + drafting, self.end, []
            for token, seconds in zip(one["draft"], one["passes"]):
                self.passes["draft"].append((now, now + slower * seconds))
                now += slower * seconds
                ghosts.append((words[str(token)], now))
            self.end = judging + verifying
            self.passes["target"].append((judging, self.end))
            self.ghosts.append((len(self.tokens), ghosts, self.end))
            for shown, source in zip(one["shown"], one["sources"]):
                self.tokens.append((shown, source, self.end))
            self.end += rest  # the rule and the loop take their time, too


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


def timed(how, begin, end=None):
    """The attributes of what is seen .from `begin` on or .until `end`, or .grows meanwhile."""
    until = "" if end is None else f";--end:{end:.3f}"
    return {"class_": how, "style": f"--begin:{begin:.3f}{until}"}


def count(lane, y):
    """How many passes of the target have ended: one number after the other in one place."""
    yield text("target passes", RIGHT, y + 25, "soft right")
    times = [0.0] + [end for _, end in lane.passes["target"]]
    for n, (begin, end) in enumerate(zip(times, times[1:])):
        yield text(n, RIGHT, y, **timed("count until", begin, end))
    yield text(len(times) - 1, RIGHT, y, **timed("count from", times[-1]))


def weights(lane, sizes, y):
    """The weights of each model as an area; while a pass reads them, they fill."""
    x = LEFT
    for model, spans in lane.passes.items():
        if spans:
            width = 260 * sizes[model] / sizes["target"]
            yield rect(x, y, width, 28, f"weights of-{model}")
            for span in spans:
                yield rect(x, y, width, 28, **timed(f"read of-{model} until grows", *span))
            beside = x + 8 if width > 100 else x + width + 8
            yield text(f"{model}: {sizes[model]:g}M weights", beside, y + 20, "label")
            x += width + 12


def bars(lane, y):
    """Every pass as a bar as long as it took, up to now."""
    x = lambda seconds: LEFT + BARS * seconds / RACE
    for model, spans in lane.passes.items():
        for begin, end in spans:
            yield rect(x(begin), y, max(1.0, x(end) - x(begin) - 1), 12, f"of-{model}")
    yield rect(LEFT - 1, y - 1, BARS + 2, 14, **timed("cover shrinks", 0, RACE))
    took = f"{1e3 * lane.seconds:.0f} ms"
    yield text(took, x(lane.end) + 8, y + 13, **timed("soft from", lane.end))


def chips(lane, begin, y):
    """The prompt, each guess until it is judged, and each token from its pass on.

    begin: the words of the prompt
    """
    tokens = [shown for shown, _, _ in lane.tokens]
    places = laid_out(begin + tokens)
    for place in places[: len(begin)]:
        yield chip(*place, y, "prompt")
    for n_before, ghosts, judged in lane.ghosts:
        before = begin + tokens[:n_before]
        guesses = laid_out(before + [shown for shown, _ in ghosts])[len(before) :]
        for place, (_, drafted) in zip(guesses, ghosts):
            if place[-1] <= places[-1][-1]:  # a guess of the last round may lie behind the end
                yield element("g", chip(*place, y, "ghost"), **timed("until", drafted, judged))
    for place, (_, source, end) in zip(places[len(begin) :], lane.tokens):
        yield element("g", chip(*place, y, source), **timed("from", end))


def legend(y):
    """One chip for each kind of token of the speculative run."""
    column = 0
    for kind, name in KINDS.items():
        yield chip(name, column, 0, y, kind)
        column += len(name) + 2


def draw(run, path):
    """Write the picture of a run, the data of a saved page."""
    settings, begin = run["settings"], re.findall(r"\s*\S+", run["prompt"])
    sizes = {model: millions(settings[f"{model}_model_size"]) for model in ("target", "draft")}
    both = rounds_of(run)
    slower = RACE / max(map(seconds_of, both))
    parts = [text(words, LEFT, y, "label") for y, words in CLAIM.items()]
    passes, y = [len(rounds) for rounds in both], 84
    for rounds, (heading, below) in zip(both, HEADINGS.items()):
        lane = Lane(rounds, run["words"], slower)
        parts += text(heading, LEFT, y + 24, "title"), text(below, LEFT, y + 52, "soft")
        parts += count(lane, y + 34)
        parts += weights(lane, sizes, y + 68)
        parts += bars(lane, y + 104)
        parts += chips(lane, begin, y + 128)
        last_line = laid_out(begin + [shown for shown, _, _ in lane.tokens])[-1][-1]
        y += 150 + LINE * (last_line + 1)
    parts += legend(y)
    way = "greedy" if settings["temperature"] == 0 else f"temperature {settings['temperature']:g}"
    same = ", same text" if run["plain"]["tokens"] == run["figures"]["token_ids"] else ""
    caption = f"{way}, K = {settings['K']}{same}; measured times × {slower:.0f}"
    parts.append(text(caption, LEFT, y + 58, "soft"))
    title = "The same prompt, plain and speculative: {} and {} passes of the target".format(*passes)
    write(path, y + 76, title, STYLE, parts)


def millions(size):
    """The parameters that a model's name gives: 0.7 of 0.7M-17M."""
    return float(re.match(r"([\d.]+)M", size)[1])


if __name__ == "__main__":
    page, picture = sys.argv[1:]
    draw(read_run(page), picture)
