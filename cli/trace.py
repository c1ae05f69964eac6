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
    """A watcher of Run.finish that prints a line for each round, below a legend."""

    def __init__(self, encoder):
        self.encoder = encoder
        # no-color.org
        self.coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self.decode = encoder.incremental_decoder()
        self.n_rounds = 0
        legend = "  ".join(self.marked(about[0], source) for source, about in SOURCES.items())
        print(f"round  accepted  text    {legend}", flush=True)

    def paint(self, text, colour):
        """Colour a text (str) for the terminal, if it shows colours. colour: a code, as "1;31"."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.coloured else text

    def marked(self, text, source):
        """Put the marks and the colour of a token's source, a key of SOURCES, on a text (str)."""
        _, before, after, colour = SOURCES[source]
        return self.paint(before + text + after, colour)

    def __call__(self, this_round, *moment):
        if this_round is not None:
            self.n_rounds += 1
            print(self.line(this_round), flush=True)
            return
        unfinished = printable(self.decode([], final=True))  # bytes of a character
        if unfinished:
            print(INDENT + unfinished)

    def line(self, this_round):
        """The line (str) of a Round: its number, how many of the examined drafted tokens were
        accepted, the text of its tokens with marks, and the rejected tokens. Advances the
        decoder of the text: call it once a round.
        """
        counts = f"{this_round.accepted}/{this_round.examined}"
        line = f"{self.n_rounds:>5}  {counts:>8}  "
        for token, source in zip(this_round.tokens, this_round.sources):
            text = self.decode([token])  # with a character that an earlier token has begun
            line += self.marked(printable(text), source)
        for token in this_round.draft[this_round.accepted : this_round.examined]:
            rejected = printable(self.encoder.decode([token]))  # alone: it is not in the text
            line += self.paint(f'  not "{rejected}"', ASIDE)
        return line
