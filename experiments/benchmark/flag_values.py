"""The values of flags that only benchmark and replay have: lists of K, probabilities."""

import math
import re

from cli.values import AUTO, parse_list

from checkpoints.errors import SettingError


def parse_Ks(text, max_K=1000, why_max="", allow_auto=False):
    """Return the values of --K, a list: ints in the order of the text, then "auto" if the text has
    it. Raises SettingError for other texts, for a K above max_K, and for a K that comes twice.

    text: numbers, ranges and, if allow_auto, "auto", separated by commas
    why_max: what sets max_K, a text for the message
    >>> parse_Ks("1..3,8")
    [1, 2, 3, 8]
    """
    Ks = []
    parts = parse_list("K", text)
    numbers = [part for part in parts if not (part == AUTO and allow_auto)]
    for part in numbers:
        match = re.fullmatch(r"(\d{1,6})(\.\.(\d{1,6}))?", part)  # a number, or first..last
        # (0, 0), for other texts, is refused in the next line
        first, last = (int(match[1]), int(match[3] or match[1])) if match else (0, 0)
        if not 1 <= first <= last:
            expected = "numbers or ranges from 1 up, such as 1,2,4 or 1..10"
            if allow_auto:
                expected += ", or auto"
            raise SettingError("K", f"{text!r}: expected {expected}")
        if last > max_K:
            reason = f", {why_max}" if why_max else ""
            raise SettingError("K", f"{text!r}: expected at most {max_K}{reason}")
        Ks += range(first, last + 1)
    if len({*Ks}) < len(Ks):
        raise SettingError("K", f"{text!r}: expected each K once")
    if len(numbers) < len(parts):
        Ks.append(AUTO)
    return Ks


def parse_number(name, text, limits):
    """Return the float in the text that was given for the flag `name`. Raises SettingError unless
    it is a number within the Limits `limits`.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan  # which no limits allow
    if not limits.allow(value):
        raise SettingError(name, f"{text!r}: expected {limits}")
    return value
