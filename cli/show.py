"""What is printed of a text. `text`, and `stream` and `trace` in trace.py, are generators: they
pass the Rounds of a loop on, and show them.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from tqdm import tqdm

from cli.trace import stream, trace
from decoding.decode import decode
from encoder import Encoder
from sampling import Round


def progress(rounds: Iterator[Round]) -> Iterator[Round]:
    """Pass Rounds on, and show a bar on a terminal if the text takes longer than a second."""
    # disable=None: on a terminal only
    return iter(tqdm(rounds, unit=" rounds", delay=1, leave=False, disable=None))


def text(encoder: Encoder, opening: str, rounds: Iterator[Round]) -> Iterator[Round]:
    """Pass the Rounds of a text on, show a bar, and at its end print the text behind `opening`."""
    ids: list[int] = []
    for this_round in progress(rounds):
        ids += this_round.tokens
        yield this_round
    print(f"{opening}{encoder.decode(encoder.without_end(ids))}")


def first_text(
    decoder: str, rounds: Iterator[Round], encoder: Encoder, flags: Mapping[str, Any]
) -> dict[str, Any]:
    """Decode a text, and print it under a title: at its end; with flags["trace"] round by round, if
    the decoder is speculative; else with flags["stream"] while it is written. With flags["json"],
    print nothing. Returns what decoding.decode.decode does.

    rounds: of the text; flags: of `generate`; its prompt is printed before the text
    """
    if flags["json"]:
        return decode(rounds, encoder, progress)
    watch = text
    if flags["trace"] and decoder == "speculative":
        watch = trace
    elif flags["stream"]:
        watch = stream
    title = f"{decoder.capitalize()} Decode"
    print(f"{title}\n{'-' * len(title)}")
    result = decode(rounds, encoder, partial(watch, encoder, f"Text = {flags['prompt']}"))
    print()
    return result


def comparison(results: Mapping[Any, dict[str, Any]], compared: dict[str, Any]) -> None:
    """Print the times, what the drafts were good for, and of two texts the speedup and whether they
    are equal.

    results: {decoder: what decoding.decode.decode returned}; compared: what `compare` returned
    """
    for decoder, result in results.items():
        speed = f"{result['tokens_per_second']:.1f} tokens/s"
        after = f"after {result['prefill_seconds']:.2f}s of prefill"
        print(f"Time = {result['seconds']:.2f}s {decoder}, {speed} {after}")
    if "speculative" in results:
        speculated = results["speculative"]
        drafts(speculated)
        if compared:
            speedup(compared, speculated["tokens_per_target_pass"])
            verdict(compared)


def drafts(speculated: dict[str, Any]) -> None:
    """Print what the drafts of a text were good for: the acceptance rate and its counts, whether
    more than half of the drafted tokens were wasted, and the tokens per target pass.

    speculated: what decoding.decode.decode returned for the speculative decoder
    """
    drafted, examined = speculated["drafted"], speculated["examined"]
    if drafted:
        counts = f"{speculated['accepted']} of {examined} examined, of {drafted} drafted tokens"
        print(f"Acceptance rate = {speculated['acceptance_rate']:.3f} ({counts})")
    else:
        print("Acceptance rate: nothing was drafted")
    if drafted > 2 * examined:
        print("Most drafted tokens came after a rejection: a smaller K wastes less.")
    print(f"Tokens per target pass = {speculated['tokens_per_target_pass']:.2f}")


def speedup(compared: dict[str, Any], most: float) -> None:
    """Print the median speedup of the turns. One above `most`, the tokens per pass, cannot be: it
    is called not measured, and a single turn above that disturbed.

    compared: {"speedup": the median, "speedups": of each turn}
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


def verdict(compared: dict[str, Any]) -> None:
    """Print whether the two texts are equal, and if not what the difference is.

    compared: {"identical": whether they are equal, "difference": what explain_difference returned}
        of decoding/text_difference.py; without a difference, the texts need not be equal
    """
    if compared["identical"]:
        print("The two texts are identical.")
    elif "difference" in compared:
        found = compared["difference"]
        gaps = f"{found['gap']:.2g} apart, rounding errors {found['float_error']:.2g}"
        print(
            f"The two texts differ from token {found['position']} on, which is a "
            f"{found['verdict']}: the two scores there are {gaps}."
        )
    else:
        print("The two texts differ, as two samples from one distribution do.")
