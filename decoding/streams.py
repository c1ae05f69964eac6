"""Streams of random numbers: each use of a seed has a stream of its own, named by its Purpose.

If two uses shared a stream, their numbers would not be independent. (A coin that repeats the number
which chose a token would accept this token too often or too seldom.) A list as the seed would not
help, because NumPy pads seeds with zeros: `seed`, [seed, 0] and [seed, 0, 0] give one stream.

The text of a single run uses default_rng(seed). No Purpose has that stream.
"""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream is for. After the colon of each comment: the `numbers` given to `stream`."""

    TEXT = 1  # tokens and coins of a text of the benchmark: its batch, the repeat, its number
    SHARED_NOISE = 2  # the noise that draft and target share: the position
    VERDICT = 5  # verdicts by --synthetic_acceptance: the batch, the repeat
    ORDER_OF_TURNS = 7
    WEIGHTS = 9  # weights that training begins with
    PASSAGES = 11  # what a training step reads: the step
    VALIDATION = 12  # held-out texts
    WRITTEN = 13  # what the target writes during a training run: the first step that reads it


def stream(purpose: Purpose, seed: int, *numbers: int) -> np.random.SeedSequence:
    """The SeedSequence of one stream, a seed for numpy.random.default_rng or sampling.Rng.

    numbers: these tell apart the streams of one purpose
    Raises ValueError for a negative seed.
    """
    if seed < 0:
        raise ValueError(f"seed {seed}: expected 0 or more")
    return np.random.SeedSequence(seed, spawn_key=(purpose, *numbers))
