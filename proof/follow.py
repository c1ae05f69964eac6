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
    that draw give Numbers (noise.py) while a run is enumerated, which stand for random numbers; and
    NumPy does not warn of arithmetic. At the end, also of a block that raises, they are what they
    were; but torch has one thread from now on. Raises Undecidable, at the end, if the block itself
    has set one of them to something else.
    """
    replacements = list(sources.replacements())  # (owner, name, value)
    torch = sys.modules.get("torch")
    if torch is not None:
        from . import noise_torch  # which imports torch

        torch.set_num_threads(1)  # of tensors this small: 15 times faster
        replacements += noise_torch.replacements()
    # the end of the stack, also by an error, ends each patch
    with ExitStack() as stack, np.errstate(all="ignore"):
        for owner, name, value in replacements:
            stack.enter_context(patch.object(owner, name, value))
        yield  # an error of the block comes up here, and passes: nothing is compared then
        for owner, name, value in replacements:
            if getattr(owner, name) is not value:
                raise Undecidable(f"it puts something else in the place of {name}")


@contextmanager
def untouched() -> Iterator[None]:
    """Context manager: at its end, raise Undecidable if the block has drawn from one of the global
    generators of random, numpy.random and torch, or seeded it, or if compiled code has drawn from
    one that is followed (UNUSED of sources.py); a run that is enumerated leaves them as they are.
    If the block raises, that error passes, and nothing is compared. At the beginning the global
    generators are seeded by chance, so that no seed in the block gives the same state again; they
    stay so.
    """
    seed_generators(secrets.randbits(32))
    before = generator_states()
    yield
    if generator_states() != before:
        raise Undecidable("it seeds or uses a random number generator that is not followed")


def generator_states() -> list[Any]:
    """The states of the global generators of random, numpy.random and, if it is imported, torch,
    and of UNUSED, each as something that can be compared by ==.
    """
    name, keys, position, has_gauss, gauss = np.random.get_state()
    as_bytes = np.asarray(keys).tobytes()  # an array has no ==
    of_numpy = name, as_bytes, position, has_gauss, gauss
    states = [random.getstate(), of_numpy, sources.UNUSED.state]
    torch = sys.modules.get("torch")
    if torch is not None:
        states.append(torch.default_generator.get_state().numpy().tobytes())
    return states


def seed_generators(seed: int) -> None:
    """Seed the global generators of random, numpy.random and, if it is imported, torch: a program
    that draws from them does the same the next time. seed: 0 or more
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)  # it takes no larger ones
    torch = sys.modules.get("torch")
    if torch is not None:
        # + 1: with the same seed, its generator gives numpy.random's bits
        torch.manual_seed((seed + 1) % 2**63)
