"""The checksum against its definition, and against published values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.formats.crc32c import crc32c


def plain_crc32c(data):
    """The checksum as its definition has it, a bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@given(st.binary(max_size=200))
def test_crc_of_short_data(data):
    assert crc32c(data) == plain_crc32c(data)


@pytest.mark.parametrize("n", [255, 256, 257, 32767, 32768, 32769, 3 * 32768 + 70])
def test_crc_of_rows_and_a_bit(n):
    data = np.random.default_rng(n).integers(256, size=n, dtype=np.uint8)
    assert crc32c(data) == plain_crc32c(data.tobytes())


def test_published_values():
    """RFC 3720, appendix B.4, has these four."""
    values = [bytes(32), b"\xff" * 32, bytes(range(32)), bytes(range(31, -1, -1))]
    assert [crc32c(value) for value in values] == [0x8A9136AA, 0x62A8AB43, 0x46DD794E, 0x113FDB5C]
