"""Symbolic numbers in place of the sources of random numbers, while a program runs."""

import random
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

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
    with ExitStack() as stack, np.errstate(all="ignore"):
        for owner, name, value in replacements:
            stack.enter_context(patch.object(owner, name, value))
        yield
        for owner, name, value in replacements:
            if getattr(owner, name) is not value:
                raise Undecidable(f"it puts something else in the place of {name}")


@contextmanager
def untouched() -> Iterator[None]:
    """Context manager: at its end, raise Undecidable if the block has used or seeded one of the
    global generators of random, numpy.random and torch; symbolic numbers leave them as they are. At
    its beginning they are seeded by chance, so that a program that seeds one cannot bring back the
    same state.
    """
    seed_generators(secrets.randbits(32))
    before = generator_states()
    yield
    if generator_states() != before:
        raise Undecidable("it seeds or uses a random number generator that is not followed")


def generator_states() -> list[Any]:
    """The states of the global generators of random, numpy.random and, if it is imported, torch,
    each as something that can be compared by ==.
    """
    _, numbers, *others = np.random.get_state()
    states = [random.getstate(), numbers.tobytes(), others]
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
