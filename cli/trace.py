"""What is printed of a text while it is written: --stream, or its rounds, --trace."""

import os
import sys
from collections.abc import Iterator

from cli.messages import printable
from encoder import Encoder
from sampling import Round

# {source of a token: (its name, what stands before it and after it, its colour: ESC [ ... m)}
SOURCES = {
    "draft": ("accepted draft", "", "|", "32"),
    "correction": ("correction", "[", "]", "1;31"),
    "bonus": ("bonus", "(", ")", "1;34"),
    "target": ("target alone", "{", "}", "1;33"),
}


def stream(encoder: Encoder, opening: str, rounds: Iterator[Round]) -> Iterator[Round]:
    """Pass the Rounds of a text on, and print it while it is written, behind `opening`."""
    decode = encoder.incremental_decoder()
    for this_round in rounds:
        if this_round.tokens:  # the prefill has none; of a text that fails at once nothing is shown
            words = opening + decode(encoder.without_end(this_round.tokens))
            print(words, end="", flush=True)
            opening = ""
        yield this_round
    print(opening + decode([], final=True))


def trace(encoder: Encoder, opening: str, rounds: Iterator[Round]) -> Iterator[Round]:
    """Pass the Rounds of a text on, and print a line for each, with every token marked by where it
    came from; then the text, behind `opening`. In colour on a terminal, unless NO_COLOR is set.
    """
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")  # no-color.org
    decode = encoder.incremental_decoder()

    def paint(text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if coloured else text

    def mark(text: str, source: str) -> str:
        _, before, after, colour = SOURCES[source]
        return paint(f"{before}{printable(text)}{after}", colour)

    legend = [mark(name, source) for source, (name, _, _, _) in SOURCES.items()]
    print("round  accepted  text    " + "  ".join(legend))
    ids: list[int] = []
    for n, this_round in enumerate(rounds):
        ids += this_round.tokens
        if this_round.tokens:  # the prefill has none
            line = ""
            for token, source in zip(this_round.tokens, this_round.sources):
                line += mark(decode([token]), source)
            for token in this_round.draft[this_round.accepted : this_round.examined]:
                line += paint(f'  not "{printable(encoder.decode([token]))}"', "2")  # faint
            print(f"{n:>5}  {this_round.accepted:>6}/{this_round.examined}  {line}", flush=True)
        yield this_round
    print(f"{opening}{encoder.decode(encoder.without_end(ids))}")
