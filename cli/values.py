"""The values of flags: lists, K, limits. What cannot be used is a SettingError."""

from checkpoints.errors import SettingError
from decoding.load import AUTO


def parse_list(name, text, convert=str):
    """Split "A,B" to the list [convert("A"), convert("B")]; convert: a function of a str.

    Raises SettingError for the flag `name` if an item is empty, repeated or cannot be converted.
    """
    try:
        items = [convert(part.strip()) for part in str(text).split(",")]
    except ValueError:
        raise SettingError(name, f"{text!r}: expected numbers separated by commas") from None
    if "" in items or len({*items}) < len(items):
        raise SettingError(name, f"{text!r}: expected items separated by commas, each once")
    return items


def parse_K(text):
    """The number of drafted tokens as an int, or "auto". Raises SettingError."""
    if text == AUTO:
        return AUTO
    try:
        return int(text)
    except ValueError:
        raise SettingError("K", f"{text!r}: expected one whole number, or auto") from None


def check_number(name, value, limits):
    """Raise SettingError for the flag `name` if a number is outside its limits."""
    if not limits.allow(value):
        raise SettingError(name, f"{value}: expected {limits}")


def check_length(name, n_tokens, room):
    """Raise SettingError for the flag `name` if n_tokens exceeds `room`, a number of tokens."""
    if room < 1:
        raise SettingError(name, f"{n_tokens}: expected a model with a longer context")
    if n_tokens > room:
        raise SettingError(name, f"{n_tokens}: expected at most {room}, what the context leaves")


def check_choice(name, value, *choices):
    """Raise SettingError for the flag `name` if its value is none of the choices."""
    if value not in choices:
        expected = ", ".join(choices[:-1]) + (" or " if choices[1:] else "") + choices[-1]
        raise SettingError(name, f"{value!r}: expected {expected}")
