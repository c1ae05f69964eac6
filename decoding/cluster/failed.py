"""The stand-in for a result: one prompt of many may fail, and the others go on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Failed:
    """Stands for the result of a prompt that failed."""

    reason: str  # the error, in one line
