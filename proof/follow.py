"""Symbolic numbers in place of the sources of random numbers, while a program runs."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import sources
from .enumerate import Undecidable


@contextmanager
def followed() -> Iterator[None]:
    """Context manager: inside, the functions of numpy.random, random and torch (if it is imported)
    that draw give symbolic numbers, so that a run can be enumerated, and NumPy does not warn of
    arithmetic. At the end they are what they were; but torch has one thread from now on. Raises
    Undecidable if the program has replaced one of them itself.
    """
    replacements = list(sources.replacements())  # (owner, name, value)
    if torch := sys.modules.get("torch"):
        from . import noise_torch

        torch.set_num_threads(1)  # of tensors this small: 15 times faster
        replacements += noise_torch.replacements()
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in replacements]
    try:
        for owner, name, value in replacements:
            setattr(owner, name, value)
        with np.errstate(all="ignore"):
            yield
        for owner, name, value in replacements:
            if getattr(owner, name) is not value:
                raise Undecidable(f"it puts something else in the place of {name}")
    finally:
        for owner, name, value in reversed(originals):
            setattr(owner, name, value)


@contextmanager
def untouched() -> Iterator[None]:
    """Context manager: at its end, raise Undecidable if the block has used or seeded one of the
    global generators of random, numpy.random and torch; symbolic numbers leave them as they are. At
    its beginning each of them draws a number (torch's is seeded by chance), so that a program that
    seeds it cannot bring back the same state.
    """
    random._inst.random()  # type: ignore[attr-defined]
    np.random.mtrand._rand.random_sample()  # type: ignore[attr-defined]
    if torch := sys.modules.get("torch"):
        torch.default_generator.seed()
    before = generator_states()
    yield
    if generator_states() != before:
        raise Undecidable("it seeds or uses a random number generator that is not followed")


def generator_states() -> list[Any]:
    """The states of the global generators of random, numpy.random and, if it is imported, torch,
    each as something that can be compared by ==.
    """
    numpys = np.random.mtrand._rand.get_state()  # type: ignore[attr-defined]
    pythons = random._inst.getstate()  # type: ignore[attr-defined]
    states = [pythons, *(np.asarray(part).tobytes() for part in numpys)]
    if torch := sys.modules.get("torch"):
        states.append(torch.default_generator.get_state().numpy().tobytes())
    return states


def seed_generators(seed: int) -> None:
    """Seed the global generators of random, numpy.random and, if it is imported, torch: a program
    that draws from them does the same the next time.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)
