"""The trace in the terminal: a line for each round, every token marked by where it came from."""

import os
import sys

from checkpoints.errors import printable

# {source of a token: (its name, what stands before it and after it, its colour: ESC [ ... m)}
SOURCES = {
    "draft": ("accepted draft", "", "|", "32"),
    "correction": ("correction", "[", "]", "1;31"),
    "bonus": ("bonus", "(", ")", "1;34"),
    "target": ("target alone", "{", "}", "1;33"),
}
ASIDE = "2"  # the colour of what was rejected
INDENT = " " * 17  # the width of a round's number and counts


class Trace:
    """A watcher of Run.finish that prints each round as it comes."""

    def __init__(self, encoder):
        self.encoder = encoder
        # no-color.org
        self.coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self.decode = encoder.incremental_decoder()
        self.n_rounds = 0
        legend = "  ".join(self.marked(name, source) for source, (name, *_) in SOURCES.items())
        print(f"round  accepted  text    {legend}", flush=True)

    def paint(self, text, colour):
        return f"\x1b[{colour}m{text}\x1b[0m" if self.coloured else text

    def marked(self, text, source):
        _, before, after, colour = SOURCES[source]
        return self.paint(before + text + after, colour)

    def __call__(self, this_round, *moment):
        if this_round is not None:
            self.n_rounds += 1
            print(self.line(this_round), flush=True)
            return
        # the bytes of a character that was never finished
        rest = printable(self.decode([], final=True))
        if rest:
            print(INDENT + rest)

    def line(self, this_round):
        line = f"{self.n_rounds:>5}  {f'{this_round.accepted}/{this_round.examined}':>8}  "
        for token, source in zip(this_round.tokens, this_round.sources):
            line += self.marked(printable(self.decode([token])), source)
        for token in this_round.draft[this_round.accepted : this_round.examined]:
            rejected = printable(self.encoder.decode([token]))
            line += self.paint(f'  not "{rejected}"', ASIDE)
        return line
