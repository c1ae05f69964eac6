"""Symbolic numbers in place of the sources of random numbers, while a program runs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from proof import noise


@contextmanager
def followed() -> Iterator[None]:
    """Context manager: replace the sources of random numbers, so that a run can be enumerated."""
    found = list(noise.replacements())
    if torch := sys.modules.get("torch"):
        from proof import noise_torch

        torch.set_num_threads(1)  # of tensors this small: 15 times faster
        found += noise_torch.replacements()
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in found]
    try:
        for owner, name, value in found:
            setattr(owner, name, value)
        with np.errstate(all="ignore"):
            yield
    finally:
        for owner, name, value in reversed(originals):
            setattr(owner, name, value)
