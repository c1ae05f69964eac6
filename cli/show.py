"""What is printed of a text. `text`, `stream` and `trace` are generators: they pass the Rounds of a
loop on, and show them.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from tqdm import tqdm

from cli.command import printable
from decoding.decode import decode
from encoder import Encoder
from sampling import Round

# {source of a token: (its name, what stands before it and after it, its colour: ESC [ ... m)}
SOURCES = {
    "draft": ("accepted draft", "", "|", "32"),
    "correction": ("correction", "[", "]", "1;31"),
    "bonus": ("bonus", "(", ")", "1;34"),
    "target": ("target alone", "{", "}", "1;33"),
}


def progress(rounds: Iterator[Round]) -> Iterator[Round]:
    """Show a bar on a terminal, if the text takes longer than a second."""
    return iter(tqdm(rounds, unit=" rounds", delay=1, leave=False, disable=None))


def text(encoder: Encoder, opening: str, rounds: Iterator[Round]) -> Iterator[Round]:
    """Print the text at its end, behind `opening`."""
    ids: list[int] = []
    for this_round in progress(rounds):
        ids += this_round.tokens
        yield this_round
    print(f"{opening}{encoder.decode(encoder.without_end(ids))}")


def stream(encoder: Encoder, opening: str, rounds: Iterator[Round]) -> Iterator[Round]:
    """Print the text while it is written."""
    decode = encoder.incremental_decoder()
    for this_round in rounds:
        if this_round.tokens:  # the prefill has none; of a text that fails at once nothing is shown
            words = opening + decode(encoder.without_end(this_round.tokens))
            print(words, end="", flush=True)
            opening = ""
        yield this_round
    print(opening + decode([], final=True))


def trace(encoder: Encoder, opening: str, rounds: Iterator[Round]) -> Iterator[Round]:
    """Print a line for each round, with every token marked by where it came from; then the text."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")  # no-color.org
    decode = encoder.incremental_decoder()

    def paint(text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if coloured else text

    def mark(text: str, source: str) -> str:
        _, before, after, colour = SOURCES[source]
        return paint(f"{before}{printable(text)}{after}", colour)

    print("round  accepted  text    " + "  ".join(mark(SOURCES[s][0], s) for s in SOURCES))
    ids: list[int] = []
    for n, this_round in enumerate(rounds):
        ids += this_round.tokens
        if this_round.tokens:  # the prefill has none
            pairs = zip(this_round.tokens, this_round.sources)
            line = "".join(mark(decode([token]), source) for token, source in pairs)
            for token in this_round.draft[this_round.accepted : this_round.examined]:
                line += paint(f'  not "{printable(encoder.decode([token]))}"', "2")
            print(f"{n:>5}  {this_round.accepted:>6}/{this_round.examined}  {line}", flush=True)
        yield this_round
    print(f"{opening}{encoder.decode(encoder.without_end(ids))}")


def first_text(
    decoder: str, rounds: Iterator[Round], encoder: Encoder, flags: Mapping[str, Any]
) -> dict[str, Any]:
    """Decode a text, and print it under a title, as the flags prompt, trace, stream and json of
    `generate` say. Returns what decoding.decode.decode does.
    """
    if flags["json"]:
        return decode(rounds, encoder, progress)
    traced = flags["trace"] and decoder == "speculative"
    watch = trace if traced else stream if flags["stream"] else text
    title = f"{decoder.capitalize()} Decode"
    print(f"{title}\n{'-' * len(title)}")
    result = decode(rounds, encoder, partial(watch, encoder, f"Text = {flags['prompt']}"))
    print()
    return result


def comparison(results: Mapping[Any, dict[str, Any]], compared: dict[str, Any]) -> None:
    """Print the times, what the drafts were good for, and whether the two texts are equal.
    A speedup that cannot be is none.

    results: {decoder: what decoding.decode.decode returned}; compared: what `compare` returned
    """
    for decoder, result in results.items():
        line = "Time = {seconds:.2f}s {}, {tokens_per_second:.1f} tokens/s"
        print((line + " after {prefill_seconds:.2f}s of prefill").format(decoder, **result))
    if speculated := results.get("speculative"):
        if speculated["drafted"]:
            line = "Acceptance rate = {acceptance_rate:.3f} ({accepted} of {examined} examined, "
            print((line + "of {drafted} drafted tokens)").format(**speculated))
        else:
            print("Acceptance rate: nothing was drafted")
        if speculated["drafted"] > 2 * speculated["examined"]:
            print("Most drafted tokens came after a rejection: a smaller K wastes less.")
        print("Tokens per target pass = {tokens_per_target_pass:.2f}".format(**speculated))
    if not compared:
        return
    speedups = sorted(compared["speedups"])
    turns = f"median of {len(speedups)} turns, {speedups[0]:.2f} to {speedups[-1]:.2f}"
    how = turns if len(speedups) > 1 else "one turn"
    if compared["speedup"] <= results["speculative"]["tokens_per_target_pass"]:
        print(f"Speedup = {compared['speedup']:.2f} ({how})")
    else:
        print(
            f"Speedup: not measured. {compared['speedup']:.2f} ({how}) is more than the tokens per"
        )
        print("target pass allow: other programs kept this machine busy. Run it again.")
    if compared["identical"]:
        print("The two texts are identical.")
    elif "difference" in compared:
        line = (
            "The two texts differ from token {position} on, which is a {verdict}: the two scores "
        )
        line += "there are {gap:.2g} apart, rounding errors {float_error:.2g}."
        print(line.format(**compared["difference"]))
    else:
        print("The two texts differ, as two samples from one distribution do.")
