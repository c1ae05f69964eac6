"""The limits of numbers: in flags, in files of results and recordings, in requests of the page."""

import math
from typing import NamedTuple


class Limits(NamedTuple):
    """The numbers that a value may be: from `low` to `high`, both included."""

    low: float
    high: float = 10**9
    whole: bool = False

    def allow(self, value):
        """Whether a value is an int, or a float unless `whole`, within the limits; not a bool."""
        is_number = type(value) is int or (type(value) is float and not self.whole)
        return is_number and self.low <= value <= self.high

    def __str__(self):
        """As a message says it: "a whole number from 1 to 12"."""
        number = "a whole number" if self.whole else "a number"
        if self.high == math.inf:
            return f"{number} of {self.low} or more"
        return f"{number} from {self.low} to {self.high}"


COUNT = Limits(0, whole=True)  # of anything
POSITIVE = Limits(1, whole=True)
PROBABILITY = Limits(0, 1)
TEMPERATURE = Limits(0)
