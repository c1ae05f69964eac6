"""What the page asks the models for: both decoders taking turns at one text, once with the
likeliest tokens, once with tokens drawn at random.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from decoding.clocked import timed_rounds
from decoding.decode import begin, encode_prompt, options_of
from page.report import run_data
from page.rounds import LikeliestRng, RecordingRng, noted

N_TURNS = 5  # of both decoders
FEW_TURNS = 3  # where the first takes longer than LONG
LONG = 3.0  # seconds
RANDOM_TEMPERATURE = 0.8  # the temperature of the second run, where that of the first is 0
MAX_PROMPT = 4000  # characters


class Field(NamedTuple):
    """A number in the page's form."""

    label: str
    least: float
    most: float
    step: int | str  # 1 for whole numbers; "any"


FIELDS = {  # {flag: its Field}
    "n_tokens_to_generate": Field("Tokens", 1, 200, 1),
    "K": Field("Guesses (K)", 1, 12, 1),
    "temperature": Field("Temperature", 0, 10, "any"),
    "top_k": Field("Top-k", 0, 1_000_000, 1),
    "top_p": Field("Top-p", 0.000001, 1, "any"),
    "seed": Field("Seed", 0, 2**53, 1),
}
OTHERS = "The wolf knocked at the door", "A knight rode into the forest", "Far out in the ocean"


def form(settings: dict[str, Any]) -> dict[str, Any]:
    """The page's form, filled with the settings {flag: value}, for JSON. Returns {"prompt":
    {"value", "most": characters}, "prompts": others to choose, "fields": {flag: {"label", "least",
    "most", "step", "value"} of a number}}.
    """
    fields = {}
    for name, field in FIELDS.items():
        fields[name] = field._asdict() | {"value": settings[name]}
    prompt = {"value": settings["prompt"], "most": MAX_PROMPT}
    return {"prompt": prompt, "prompts": OTHERS, "fields": fields}


def parse(body: bytes, settings: dict[str, Any]) -> dict[str, Any]:
    """A copy of the settings {flag: value}, in which the prompt and the numbers of the page's form
    (FIELDS: n_tokens_to_generate, K, temperature, top_k, top_p and seed) are those of a request.
    body: JSON, {flag: value} of all of these; others are ignored. Raises ValueError for no JSON
    object, and for a value that is missing, of another type, or outside its limits.
    """
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):  # also of a number with more than 4,300 digits
        raise ValueError("the body: expected JSON, with numbers of a few digits") from None
    if not isinstance(request, dict):
        raise ValueError("the body: expected an object")
    prompt = request.get("prompt")
    if not isinstance(prompt, str) or len(prompt) > MAX_PROMPT:
        raise ValueError(f"prompt: expected a text of at most {MAX_PROMPT} characters")
    numbers = {name: read_number(name, request.get(name)) for name in FIELDS}
    return settings | {"prompt": prompt} | numbers


def read_number(name: str, value: Any) -> int | float:
    """The value that a request has for the number `name` of the page's form: an int if the step of
    its Field is 1, else a float. Raises ValueError if it is of another type or outside the limits.
    """
    field = FIELDS[name]
    kinds = int if field.step == 1 else (int, float)
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if not is_number or not field.least <= value <= field.most:  # NaN is in no range
        shown = json.dumps(value)[:40]
        kind = "whole number" if field.step == 1 else "number"
        raise ValueError(f"{name} {shown}: expected a {kind} from {field.least} to {field.most}")
    return value if field.step == 1 else float(value)


# ---------------------------------------------------------------- the runs


def take_turn(pair: tuple, ids: list[int], settings: dict, tell: Callable) -> dict[str, Any]:
    """Decode a text with the large model alone, then with the speculative decoder, by the clock.
    Returns {"tokens": those of the large model alone, "seconds": of each of them, "rounds":
    [seconds of drafting, of all else] of each speculative round}, all without the prefill.

    pair: (target, draft model, encoder); ids: of the prompt
    settings: {flag: value}, all flags of `generate`, such as K and temperature
    tell: tell() is called after each round; what it raises ends the turn
    """
    options = options_of(settings)
    tokens: list[int] = []
    seconds: list[float] = []
    alone = timed_rounds("autoregressive", *pair, ids, **options)
    next(alone)  # the prefill
    for one in alone:
        tokens += one.round.tokens
        seconds.append(one.seconds)
        tell()
    split: list[list[float]] = []
    together = timed_rounds("speculative", *pair, ids, **options)
    next(together)
    for one in together:
        split.append([one.drafting, one.seconds - one.drafting])
        tell()
    return {"tokens": tokens, "seconds": seconds, "rounds": split}


def notes_of(
    pair: tuple, ids: list[int], settings: dict, random_temperature: float
) -> Iterator[dict]:
    """Decode a text with the speculative decoder, and yield of each of its rounds, as it comes,
    what the page shows of it, a dict (page.rounds.note_of). At temperature 0, p and q would be 0
    and 1: there the same tokens are written, but p and q are those at random_temperature.

    pair: (target, draft model, encoder). ids: of the prompt. settings: {flag: value}
    """
    target, draft_model, encoder = pair
    options = options_of(settings)
    rng: Any  # what makes the random choices; None for the decoder's own
    if options["to_probs"].greedy:
        # The coupled rule accepts a draft that the rng samples from p, too. A LikeliestRng samples
        # the likeliest token, so that is what the token rule does at temperature 0.
        rng, rule = LikeliestRng(settings["seed"]), "token"
        options |= {"coupled": True, "verification": "token"}
        options["to_probs"] = replace(options["to_probs"], temperature=random_temperature)
    elif settings["coupled"]:
        rng, rule = None, "coupled"
    else:
        rng, rule = RecordingRng(settings["seed"]), settings["verification"]
    rounds = begin("speculative", target, draft_model, encoder, ids, **options, rng=rng)
    return noted(rounds, rng, rule)


def times_of(turn: dict[str, Any]) -> list[float]:
    """[seconds of the large model alone, of drafting, of the rest of speculative decoding] in a
    turn, as take_turn returned it.
    """
    drafting = sum(seconds for seconds, _rest in turn["rounds"])
    rest = sum(seconds for _drafting, seconds in turn["rounds"])
    return [sum(turn["seconds"]), drafting, rest]


def speedup_of(turn: dict[str, Any]) -> float:
    """The seconds of the large model alone over those of the speculative decoder, in a turn as
    take_turn returned it: the speedup, if both texts are equally long; else it only tells which of
    several turns at the same two texts was faster.
    """
    alone, drafting, rest = times_of(turn)
    return alone / (drafting + rest)


def race(pair: tuple, defaults: dict, settings: dict, tell: Callable) -> dict[str, Any]:
    """Let both decoders take turns at the text of the settings, five, or three if the first takes
    longer than 3 seconds (LONG). Returns page.report.run_data of the turn with the median speedup,
    with the times of all turns; and under "other" the same of a second run, at temperature 0.8 if
    that of the settings is 0, else at 0. Raises ValueError for a prompt that is too long, and what
    `tell` raises.

    pair: (target, draft model, encoder); settings: {flag: value} of the run
    defaults: {flag: value} that the command of the run leaves out
    tell: called as tell(row=run_data of the first turn alone), after each turn as tell(done=,
        total=) in turns, and as tell() after each round, so that it can raise an error if nobody
        waits
    """
    target, _, encoder = pair
    ids = encode_prompt(settings["prompt"], encoder, target)
    if options_of(settings)["to_probs"].greedy:
        random_temperature = RANDOM_TEMPERATURE
        other = settings | {"temperature": RANDOM_TEMPERATURE}
    else:
        random_temperature = settings["temperature"]
        other = settings | {"temperature": 0.0}
    runs: list[dict] = []
    n_turns = N_TURNS  # of each of the two runs; fewer if the first turn is slow
    n_done = 0  # turns of both
    for run_settings in (settings, other):
        notes: list[dict] = []
        for note in notes_of(pair, ids, run_settings, random_temperature):
            notes.append(note)
            tell()

        # report(the turn to show, the times of all turns): what the page shows of this run
        report = partial(run_data, pair, ids, run_settings, defaults, random_temperature, notes)
        turns: list[dict] = []
        while len(turns) < n_turns:
            turn = take_turn(pair, ids, run_settings, tell)
            turns.append(turn)
            n_done += 1
            if n_done == 1:  # of the first run: it tells how long all take, and is shown at once
                times = times_of(turn)
                if sum(times) > LONG:
                    n_turns = FEW_TURNS
                tell(row=report(turn, [times]))
            tell(done=n_done, total=2 * n_turns)
        by_speedup = sorted(turns, key=speedup_of)
        median = by_speedup[n_turns // 2]
        runs.append(report(median, [times_of(turn) for turn in turns]))
    first_run, other_run = runs
    return first_run | {"other": other_run}
