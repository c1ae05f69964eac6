"""Flags that several commands share: lists, draft lengths, filters, and their checks."""

import math
import re

from sampling import Filter
from utils import InputError

MOST = 10**9  # of anything that is counted


def parse_list(flag, text, kind=str):
    """The items of "A,B", each once. Raises InputError."""
    try:
        items = [kind(part.strip()) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--{flag} {text!r}: expected numbers separated by commas") from None
    if "" in items or len({*items}) < len(items):
        raise InputError(f"--{flag} {text!r}: expected items separated by commas, each once")
    return items


def parse_K(text, most, why="", auto=False):
    """The draft lengths of "1..10", "1,2,4" or both, in that order, up to `most`; last "auto",
    where it may be.

    why: what sets that limit, if not the command itself. Raises InputError.
    """
    found, parts = [], [part.strip() for part in text.split(",")]
    for part in parts:
        if part == "auto" and auto:
            continue
        match = re.fullmatch(r"\s*(\d{1,6})(?:\.\.(\d{1,6}))?\s*", part)
        if not match:
            expected = "whole numbers such as 1,2,4 or 1..10" + (", or auto" if auto else "")
            raise InputError(f"--K {text!r}: expected {expected}")
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= first <= last:
            raise InputError(
                f"--K {text!r}: {part.strip()} is no range upwards from 1; expected such as 1..10"
            )
        if last > most:
            raise InputError(f"--K {text!r}: expected at most {most}{why and f', {why}'}")
        found += range(first, last + 1)
    if len({*found}) < len(found) or parts.count("auto") > 1:
        raise InputError(f"--K {text!r}: expected each K once")
    return found + ["auto"] * parts.count("auto")


def parse_filters(temperature, top_k, top_p):
    """{temperature: Filter}. Raises InputError."""
    try:
        return {t: Filter(t, top_k, top_p) for t in parse_list("temperature", temperature, float)}
    except ValueError as error:
        raise InputError(str(error) if isinstance(error, InputError) else f"--{error}") from None


def check_numbers(least, most=MOST, **flags):
    """Raises InputError for a flag that is not within these limits."""
    for name, value in flags.items():
        if value < least:
            raise InputError(f"--{name} {value}: expected {least} or more")
        if value > most:
            raise InputError(f"--{name} {value}: expected at most {most}")


def check_seed(seed):
    """Raises InputError for a seed that NumPy would not take."""
    check_numbers(0, math.inf, seed=seed)


def check_length(flag, n_tokens, room):
    """Raises InputError for more tokens than a context has room for."""
    if room < 1:
        raise InputError(f"--{flag} {n_tokens}: expected a model with a longer context")
    if n_tokens > room:
        raise InputError(f"--{flag} {n_tokens}: expected at most {room}, what the context leaves")


def longest_prompt(n_ctx, n_tokens):
    """The most tokens of a prompt that n_tokens can follow. Raises InputError for none."""
    check_length("n_tokens_to_generate", n_tokens, n_ctx - 1)
    return n_ctx - n_tokens


def check_choice(flag, value, *choices):
    """Raises InputError for a flag that is none of its choices."""
    if value not in choices:
        raise InputError(f"--{flag} {value!r}: expected {' or '.join(choices)}")


def parse_probability(flag, text):
    """A number from 0 to 1, or None for "". Raises InputError."""
    try:
        if not text or 0 <= float(text) <= 1:
            return float(text) if text else None
    except ValueError:
        pass
    raise InputError(f"--{flag} {text!r}: expected a number from 0 to 1")
