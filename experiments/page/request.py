"""What the page may ask for: the fields of its form, and a request's JSON object, checked against
them.

Every refusal is an InputError of one line. Nothing here names a file: the models are those the
server was started with.
"""

import json
from dataclasses import asdict, dataclass, field

from experiments.data.values import SettingError
from utils import InputError

MOST_BYTES = 16_384  # of a request
MOST_CHARACTERS = 2_000  # of a prompt
MOST_CHANGES = 50  # of coins, and of K or temperature


@dataclass(frozen=True)
class Field:
    """A number of the form. Whole if its value is; the page makes an input of it."""

    label: str
    value: int | float  # at the start
    least: int | float
    most: int | float

    @property
    def whole(self):
        return type(self.value) is int

    def check(self, name, value):
        """The value, if it can be used. Raises SettingError."""
        kinds, expected = ((int,), "a whole number") if self.whole else ((int, float), "a number")
        if type(value) not in kinds or not self.least <= value <= self.most:
            limits = f"from {self.least} to {self.most}"
            raise SettingError(name, f"{value!r:.50}: expected {expected} {limits}")
        return type(self.value)(value)


# the settings (experiments.decoding.settings.Settings) that the form has
FIELDS = {
    "n_tokens_to_generate": Field("Tokens", 60, 1, 200),
    "K": Field("K", 4, 1, 12),
    "temperature": Field("Temperature", 0.8, 0, 10),
    "top_k": Field("Top-k", 0, 0, 1_000_000),
    "top_p": Field("Top-p", 1.0, 0.000001, 1),
    "seed": Field("Seed", 123, 0, 2**53),
}
PROMPT = "Once upon a time"
FORM = {
    "characters": MOST_CHARACTERS,
    "prompt": PROMPT,
    "fields": {name: asdict(one) | {"whole": one.whole} for name, one in FIELDS.items()},
}
LABELS = {"prompt": "Prompt"} | {name: one.label for name, one in FIELDS.items()}
# what else a request may have: numbers to replace coins with, and changes from some rounds on
INDEX = Field("coin index", 0, 0, 1_000_000)
COIN = Field("coin", 0.0, 0, 0.999999)
CHANGE = {
    "round": Field("round", 0, 0, FIELDS["n_tokens_to_generate"].most),
    "K": FIELDS["K"],
    "temperature": FIELDS["temperature"],
}


@dataclass(frozen=True)
class Change:
    """K and temperature from one round on, rounds counted from 0."""

    round: int
    K: int
    temperature: float


@dataclass(frozen=True)
class Request:
    """A text to write.

    settings: {name: value} of the FIELDS
    coins: {index: u}, numbers to use in place of the seed's
    """

    prompt: str = PROMPT
    settings: dict = field(
        default_factory=lambda: {name: one.value for name, one in FIELDS.items()}
    )
    coins: dict = field(default_factory=dict)
    changes: tuple = ()


def numbers_of(values, fields, what):
    """The numbers of a JSON object that has these fields and no others."""
    if not isinstance(values, dict):
        raise InputError(f"{what}: expected an object")
    for name in fields:
        if name not in values:
            raise InputError(f"{what}: {name} is missing")
    for name in values:
        if name not in fields:
            raise InputError(f"{what}: {name[:50]!r} is unknown")
    return {name: one.check(name, values[name]) for name, one in fields.items()}


def items(values, name):
    """Take the list of that name out of the values; an absent one is empty."""
    found = values.pop(name, [])
    if not isinstance(found, list) or len(found) > MOST_CHANGES:
        raise InputError(f"{name}: expected a list of at most {MOST_CHANGES}")
    return found


def read_coins(pairs):
    """{index: u} of [[index, u], ...]."""
    coins = {}
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2):
            raise InputError("coins: expected pairs of an index and a number")
        index = INDEX.check("coin index", pair[0])
        coins[index] = COIN.check("coin", pair[1])
    return coins


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
    coins = read_coins(items(values, "coins"))
    found = [Change(**numbers_of(one, CHANGE, "changes")) for one in items(values, "changes")]
    changes = sorted(found, key=lambda change: change.round)
    if "prompt" not in values:
        raise InputError("the request: prompt is missing")
    prompt = values.pop("prompt")
    if not isinstance(prompt, str) or len(prompt) > MOST_CHARACTERS:
        problem = f"{prompt!r:.50}: expected a text of at most {MOST_CHARACTERS} characters"
        raise SettingError("prompt", problem)
    return Request(prompt, numbers_of(values, FIELDS, "the request"), coins, tuple(changes))
