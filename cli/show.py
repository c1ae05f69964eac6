"""What is printed of a text. `at_end`, and `stream` and `trace` in trace.py, are generators: they
pass the Rounds of a loop on, and show them.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from tqdm import tqdm

from decoding.decode import decode
from encoder import Encoder
from sampling import Round


def progress(rounds: Iterator[Round]) -> Iterator[Round]:
    """Pass Rounds on, and show a bar on a terminal if the text takes longer than a second."""
    return iter(tqdm(rounds, unit=" rounds", delay=1, leave=False, disable=None))


def at_end(encoder: Encoder, opening: str, rounds: Iterator[Round]) -> Iterator[Round]:
    """Pass the Rounds of a text on, show a bar, and at its end print the text behind `opening`."""
    ids: list[int] = []
    for this_round in progress(rounds):
        ids += this_round.tokens
        yield this_round
    print(f"{opening}{encoder.decode(encoder.without_end(ids))}")


def first_text(
    decoder: str, rounds: Iterator[Round], encoder: Encoder, flags: Mapping[str, Any]
) -> dict[str, Any]:
    """Decode the Rounds of a text and print it under a title; with the flag json, only show a bar.
    flags: those of `generate`, {flag: value}; trace and stream say how the text is printed. Returns
    what decoding.decode.decode does.
    """
    if flags["json"]:
        return decode(rounds, encoder, progress)
    watch = at_end
    if flags["trace"] and decoder == "speculative":
        from cli.trace import trace as watch
    elif flags["stream"]:
        from cli.trace import stream as watch
    title = f"{decoder.capitalize()} Decode"
    print(f"{title}\n{'-' * len(title)}")
    result = decode(rounds, encoder, partial(watch, encoder, f"Text = {flags['prompt']}"))
    print()
    return result


def comparison(results: Mapping[Any, dict[str, Any]], compared: dict[str, Any]) -> None:
    """Print the times of each text; of a speculative one how many drafted tokens were accepted, and
    tokens per pass; of two texts the speedup and whether they are equal.

    results: {decoder: what decoding.decode.decode returned}
    compared: what decoding.decode.compare returned of these, {} of a single text
    """
    for decoder, result in results.items():
        line = "Time = {seconds:.2f}s {}, {tokens_per_second:.1f} tokens/s"
        line += " after {prefill_seconds:.2f}s of prefill"
        print(line.format(decoder, **result))
    if "speculative" in results:
        speculated = results["speculative"]
        print_drafts(speculated)
        if compared:
            print_speedup(compared, speculated["tokens_per_target_pass"])
            print_verdict(compared)


def print_drafts(speculated: dict[str, Any]) -> None:
    """Print acceptance rate, advice on K and tokens per target pass of what `decode` returned."""
    if speculated["drafted"]:
        line = "Acceptance rate = {acceptance_rate:.3f} ({accepted} of {examined} examined, "
        line += "of {drafted} drafted tokens)"
        print(line.format(**speculated))
    else:
        print("Acceptance rate: nothing was drafted")
    if speculated["drafted"] > 2 * speculated["examined"]:
        print("Most drafted tokens were not examined: a smaller K wastes less.")
    print("Tokens per target pass = {tokens_per_target_pass:.2f}".format(**speculated))


def print_speedup(compared: dict[str, Any], most: float) -> None:
    """Print the median speedup of the turns. None can be above `most`, the tokens per target pass:
    if the median is, it counts as not measured; if only a turn is, a line says it was disturbed.
    compared: {"speedup": the median, "speedups": those of the turns}
    """
    median, turns = compared["speedup"], compared["speedups"]
    how = "one turn"
    if len(turns) > 1:
        how = f"median of {len(turns)} turns, {min(turns):.2f} to {max(turns):.2f}"
    if median <= most:
        print(f"Speedup = {median:.2f} ({how})")
        if max(turns) > most:
            print(f"A turn above {most:.2f} was disturbed: other programs keep this machine busy.")
    else:
        print(f"Speedup: not measured. {median:.2f} ({how}) is more than the tokens per")
        print("target pass allow: other programs kept this machine busy. Run it again.")


def print_verdict(compared: dict[str, Any]) -> None:
    """Print whether two texts are "identical"; if not, the "difference", which samples may lack."""
    if compared["identical"]:
        print("The two texts are identical.")
    elif "difference" in compared:
        line = "The two texts differ from token {position} on, which is a {verdict}: "
        line += "the two scores there are {gap:.2g} apart, rounding errors {float_error:.2g}."
        print(line.format(**compared["difference"]))
    else:
        print("The two texts differ, as two samples from one distribution do.")
