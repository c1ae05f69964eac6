"""No two uses of a seed share a stream of random numbers."""

import numpy as np

from decoding.coupled import gumbel_noise
from decoding.streams import Purpose, stream


def test_streams_differ_by_purpose_by_number_and_from_that_of_the_seed_alone():
    numbers = [(), (0,), (1,), (0, 0), (0, 1), (1, 0)]
    seeds = [stream(purpose, 0, *which) for purpose in Purpose for which in numbers]
    by_hand = [0, [0, 1], [0, 0, 1], [0, 0, 0, 1]]
    state_of = lambda seed: str(np.random.default_rng(seed).bit_generator.state)
    states = [state_of(seed) for seed in [*seeds, *by_hand]]
    assert len({*states}) == len(states)
    assert [state_of(seed) for seed in seeds] == states[: len(seeds)]


def test_noise_has_a_stream_of_its_own():
    """Also that of seed 0, whose zeros NumPy would pad."""
    for position in range(5):
        by_hand = np.random.default_rng(position).gumbel(size=3)
        assert not np.array_equal(gumbel_noise(0, position, 3), by_hand)
