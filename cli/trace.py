"""What is printed of a text while it is written: --stream, or its rounds, --trace."""

import os
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cli.messages import printable
from encoder import Encoder
from sampling import Round


class Look(NamedTuple):
    """How a token is printed that comes from one source."""

    name: str  # of the source, in the legend
    before: str  # what stands before the token
    after: str
    colour: str  # of a terminal: ESC [ ... m


SOURCES = {  # as sources_of names them
    "draft": Look("accepted draft", "", "|", "32"),
    "correction": Look("correction", "[", "]", "1;31"),
    "bonus": Look("bonus", "(", ")", "1;34"),
    "target": Look("target alone", "{", "}", "1;33"),
}


def sources_of(this_round: Round) -> list[str]:
    """Where each token of a Round came from: "draft" for an accepted one; the target's own is a
    "bonus" if all drafted tokens were accepted, a "correction" if one was rejected, and "target" if
    nothing was drafted.
    """
    if not this_round.draft:
        own = "target"
    elif this_round.accepted == len(this_round.draft):
        own = "bonus"
    else:
        own = "correction"
    sources = this_round.accepted * ["draft"] + [own]
    return sources[: len(this_round.tokens)]  # a text that ends at a draft has no token after it


def stream(encoder: Encoder, opening: str, rounds: Iterator[Round]) -> Iterator[Round]:
    """Pass the Rounds of a text on, and print the text while it is written, after `opening`. A text
    that fails in its prefill prints nothing. encoder: of the text
    """
    decode = encoder.incremental_decoder()
    waiting = opening  # until there is a token
    for this_round in rounds:
        if this_round.tokens:  # the prefill has none
            print(waiting + decode(encoder.without_end(this_round.tokens)), end="", flush=True)
            waiting = ""
        yield this_round
    print(waiting + decode([], final=True))


def in_colour(text: str, colour: str) -> str:
    """The text with the codes around it by which a terminal prints it in a colour, such as "32"."""
    return f"\x1b[{colour}m{text}\x1b[0m"


def without_colour(text: str, colour: str) -> str:
    """The text as it is."""
    return text


def marked(text: str, source: str, paint: Callable) -> str:
    """The text of a token with the marks and the colour of its source, one of SOURCES, such as
    "[ cat]" for a correction. paint: in_colour or without_colour
    """
    look = SOURCES[source]
    return paint(f"{look.before}{printable(text)}{look.after}", look.colour)


def line_of(this_round: Round, encoder: Encoder, decode: Callable, paint: Callable) -> str:
    """The tokens of a Round in one line, each marked by its source, then the drafted token that was
    rejected, if one was.

    decode: the text's incremental decoder, which knows the tokens before this Round, and gets these
    paint: in_colour or without_colour
    """
    line = ""
    for token, source in zip(this_round.tokens, sources_of(this_round)):
        line += marked(decode([token]), source, paint)
    rejected = this_round.draft[this_round.accepted : this_round.examined]  # one or none
    for token in rejected:
        line += paint(f'  not "{printable(encoder.decode([token]))}"', "2")  # faint
    return line


def trace(encoder: Encoder, opening: str, rounds: Iterator[Round]) -> Iterator[Round]:
    """Pass the Rounds of a text on, and print a legend; a line for each, with every token marked by
    where it came from; then the text, behind `opening`. In colour on a terminal, unless NO_COLOR is
    set.
    """
    has_colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")  # no-color.org
    paint = in_colour if has_colours else without_colour
    legend = [marked(look.name, source, paint) for source, look in SOURCES.items()]
    print("round  accepted  text    " + "  ".join(legend))
    decode = encoder.incremental_decoder()  # a character may be split over tokens and rounds
    ids: list[int] = []
    for n, this_round in enumerate(rounds):
        ids += this_round.tokens
        if this_round.tokens:  # the prefill has none
            counts = f"{this_round.accepted:>6}/{this_round.examined}"
            line = line_of(this_round, encoder, decode, paint)
            print(f"{n:>5}  {counts}  {line}", flush=True)
        yield this_round
    print(f"{opening}{encoder.decode(encoder.without_end(ids))}")
