"""What the page may ask for: the fields of its form, and a request read with their limits. Nothing
in a request names a file: the models are those the server was started with.
"""

import json
from dataclasses import asdict, dataclass, field

from experiments.data.values import check_numbers
from utils import InputError


@dataclass(frozen=True)
class Field:
    """A number of the form, of the type of the value that it begins with."""

    label: str
    value: int | float
    least: int | float
    most: int | float
    step: int | str = 1


# settings of experiments.decoding.settings, by their names there
FIELDS = {
    "n_tokens_to_generate": Field("Tokens", 60, 1, 200),
    "K": Field("K", 4, 1, 12),
    "temperature": Field("Temperature", 0.8, 0, 10, "any"),
    "top_k": Field("Top-k", 0, 0, 1_000_000),
    "top_p": Field("Top-p", 1.0, 0.000001, 1, "any"),
    "seed": Field("Seed", 123, 0, 2**53),
}
PROMPT = "Once upon a time"
FORM = {"prompt": PROMPT, "fields": {name: asdict(one) for name, one in FIELDS.items()}}
LABELS = {"prompt": "Prompt"} | {name: one.label for name, one in FIELDS.items()}


@dataclass(frozen=True)
class Request:
    """A text to write.

    settings: {name: value} of the FIELDS
    coins: {index: u}, random numbers to use in place of the seed's
    changes: {round: {"K", "temperature"}}, from that round on, rounds counted from 0
    """

    prompt: str = PROMPT
    settings: dict = field(
        default_factory=lambda: {name: one.value for name, one in FIELDS.items()}
    )
    coins: dict = field(default_factory=dict)
    changes: dict = field(default_factory=dict)


def read(values, *names):
    """These settings of a JSON object. Raises SettingError for one outside its limits."""
    for name in names:
        check_numbers(FIELDS[name].least, FIELDS[name].most, **{name: values[name]})
    return {name: type(FIELDS[name].value)(values[name]) for name in names}


def parse(body):
    """The Request of bytes of JSON. Raises InputError."""
    try:
        values = json.loads(body)
        return Request(
            prompt=str(values["prompt"]),
            settings=read(values, *FIELDS),
            coins={int(index): float(u) for index, u in values.get("coins", [])},
            changes={
                int(one["round"]): read(one, "K", "temperature")
                for one in values.get("changes", [])
            },
        )
    except InputError:
        raise
    except (KeyError, TypeError, ValueError):
        raise InputError("the request is none that the page makes") from None
