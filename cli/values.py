"""The values of flags: lists, draft lengths, limits. What cannot be used is a SettingError."""

import math
import re

from checkpoints.errors import SettingError
from decoding.load import AUTO


def parse_list(name, text, kind=str):
    """The items of "A,B" as a list, each converted by `kind`. Raises SettingError for repeats."""
    try:
        items = [kind(part.strip()) for part in str(text).split(",")]
    except ValueError:
        raise SettingError(name, f"{text!r}: expected numbers separated by commas") from None
    if "" in items or len({*items}) < len(items):
        raise SettingError(name, f"{text!r}: expected items separated by commas, each once")
    return items


def parse_K(text):
    """The number of drafted tokens as an int, or "auto"."""
    if text == AUTO:
        return AUTO
    try:
        return int(text)
    except ValueError:
        raise SettingError("K", f"{text!r}: expected one whole number, or auto") from None


def parse_Ks(text, most=1000, why="", auto=False):
    """The draft lengths of "1..10", "1,2,4" or both, in that order, up to `most`; last "auto",
    where it may be. why: what sets that limit, if not the command itself.
    """
    Ks, parts = [], parse_list("K", text)
    for part in parts:
        if part == AUTO and auto:
            continue
        match = re.fullmatch(r"(\d{1,6})(?:\.\.(\d{1,6}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last:
            expected = "numbers or ranges from 1 up, such as 1,2,4 or 1..10" + ", or auto" * auto
            raise SettingError("K", f"{text!r}: expected {expected}")
        if last > most:
            raise SettingError("K", f"{text!r}: expected at most {most}{why and f', {why}'}")
        Ks += range(first, last + 1)
    if len({*Ks}) < len(Ks):
        raise SettingError("K", f"{text!r}: expected each K once")
    return Ks + [AUTO] * (AUTO in parts)


def parse_number(name, text, limits):
    """The number in the text of the flag `name`, as a float. Raises SettingError unless it is a
    number within these Limits.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan  # which no limits allow
    if not limits.allow(value):
        raise SettingError(name, f"{text!r}: expected {limits}")
    return value


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
        *others, last = choices
        expected = f"{', '.join(others)} or {last}" if others else last
        raise SettingError(name, f"{value!r}: expected {expected}")
