"""What the page may ask for: a request's JSON object, checked field by field.

Every refusal is an InputError of one line. Nothing here names a file: the models are those the
server was started with.
"""

import json
import math
from dataclasses import dataclass, field

from experiments.decoding.settings import SettingError
from utils import InputError

MOST_BYTES = 16_384  # of a request
MOST_CHARACTERS = 2_000  # of a prompt
MOST_TOKENS = 200
MOST_K = 12
MOST_TEMPERATURE = 10
MOST_CHANGES = 50  # of coins, and of K or temperature
# what the page calls the fields of its form
FIELDS = {
    "prompt": "Prompt",
    "n_tokens_to_generate": "Tokens",
    "K": "K",
    "temperature": "Temperature",
    "top_k": "Top-k",
    "top_p": "Top-p",
    "seed": "Seed",
}
LIMITS = {"characters": MOST_CHARACTERS, "tokens": MOST_TOKENS, "K": MOST_K}


@dataclass(frozen=True)
class Change:
    """K and temperature from one round on, rounds counted from 0."""

    round: int
    K: int
    temperature: float


@dataclass(frozen=True)
class Request:
    """A text to write.

    settings: {name: value} of experiments.decoding.settings.Settings
    coins: {index: u}, numbers to use in place of the seed's
    """

    prompt: str
    settings: dict
    coins: dict = field(default_factory=dict)
    changes: tuple = ()


def whole_number(values, name, low, high):
    value = values[name]
    if type(value) is not int or not low <= value <= high:
        raise SettingError(name, f"{value!r:.50}: expected a whole number from {low} to {high}")
    return value


def number(values, name, low, high):
    value = values[name]
    if type(value) not in (int, float) or not low <= value <= high or not math.isfinite(value):
        raise SettingError(name, f"{value!r:.50}: expected a number from {low} to {high}")
    return float(value)


def items(values, name):
    """The list of that name; an absent one is empty."""
    found = values.get(name, [])
    if not isinstance(found, list) or len(found) > MOST_CHANGES:
        raise InputError(f"{name}: expected a list of at most {MOST_CHANGES}")
    return found


def read_coins(values):
    """{index: u} of [[index, u], ...]."""
    coins = {}
    for item in items(values, "coins"):
        if not (isinstance(item, list) and len(item) == 2):
            raise InputError("coins: expected pairs of an index and a number")
        named = {"coin index": item[0], "coin": item[1]}
        index = whole_number(named, "coin index", 0, 1_000_000)
        coins[index] = number(named, "coin", 0, 0.999999)
    return coins


def read_changes(values):
    changes = []
    for item in items(values, "changes"):
        if not isinstance(item, dict) or item.keys() != {"round", "K", "temperature"}:
            raise InputError("changes: expected objects of round, K and temperature")
        change = Change(
            round=whole_number(item, "round", 0, MOST_TOKENS),
            K=whole_number(item, "K", 1, MOST_K),
            temperature=number(item, "temperature", 0, MOST_TEMPERATURE),
        )
        changes.append(change)
    return tuple(sorted(changes, key=lambda change: change.round))


def read_settings(values):
    return {
        "n_tokens_to_generate": whole_number(values, "n_tokens_to_generate", 1, MOST_TOKENS),
        "K": whole_number(values, "K", 1, MOST_K),
        "temperature": number(values, "temperature", 0, MOST_TEMPERATURE),
        "top_k": whole_number(values, "top_k", 0, 1_000_000),
        "top_p": number(values, "top_p", 0.000001, 1),
        "seed": whole_number(values, "seed", 0, 2**53),
    }


OPTIONAL = ("coins", "changes")


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def parse(body):
    """The Request of a request's body, bytes of JSON. Raises InputError."""
    try:
        values = json.loads(body, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise InputError("the request is not JSON") from None
    if not isinstance(values, dict):
        raise InputError("the request: expected an object")
    for name in FIELDS:
        if name not in values:
            raise InputError(f"the request: {name} is missing")
    for name in values:
        if name not in (*FIELDS, *OPTIONAL):
            raise InputError(f"the request: {name[:50]!r} is unknown")
    prompt = values["prompt"]
    if not isinstance(prompt, str) or len(prompt) > MOST_CHARACTERS:
        problem = f"{prompt!r:.50}: expected a text of at most {MOST_CHARACTERS} characters"
        raise SettingError("prompt", problem)
    return Request(prompt, read_settings(values), read_coins(values), read_changes(values))
