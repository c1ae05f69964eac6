"""Reading what people give: sizes, packing, JSON."""

import bz2
import gzip
import os

import pytest
from toys import refusal

from experiments.data.reading import load_json, read_bytes

PACK = {"a": bytes, "a.gz": gzip.compress, "a.bz2": bz2.compress}


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs /dev/zero")
def test_an_endless_file_is_refused():
    assert "/dev/zero: is longer than 1 MiB" in refusal(read_bytes, "/dev/zero", 1 << 20)


@pytest.mark.parametrize("name", PACK)
def test_a_file_may_be_as_long_as_the_limit(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(PACK[name](bytes(1000)))
    assert read_bytes(path, 1000) == bytes(1000)
    assert "is longer than" in refusal(read_bytes, path, 999)


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path):
    """Eight gigabytes of zeros in some kilobytes: as many streams, one after the other."""
    (tmp_path / "a.bz2").write_bytes(8000 * bz2.compress(bytes(1 << 20)))
    assert "a.bz2: is longer than 1 MiB" in refusal(read_bytes, tmp_path / "a.bz2", 1 << 20)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "x", ""])
def test_what_is_no_json(text):
    with pytest.raises(ValueError):
        load_json(text)
