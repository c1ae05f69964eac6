"""Reading what people give: sizes, packing, JSON by the standard."""

import bz2
import gzip
import os

import pytest

from experiments.data import reading
from experiments.data.reading import load_json, read_bytes
from utils import InputError


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs /dev/zero")
def test_an_endless_file_is_refused():
    with pytest.raises(InputError, match="/dev/zero: is longer than 1 MiB"):
        read_bytes("/dev/zero", most=1 << 20)


@pytest.mark.parametrize("name", ["a", "a.gz", "a.bz2"])
def test_a_file_may_be_as_long_as_the_limit(tmp_path, name):
    pack = {"a": bytes, "a.gz": gzip.compress, "a.bz2": bz2.compress}[name]
    for n, fits in ((1000, True), (1001, False)):
        (tmp_path / name).write_bytes(pack(bytes(n)))
        if fits:
            assert read_bytes(tmp_path / name, most=1000) == bytes(n)
        else:
            with pytest.raises(InputError, match="is longer than"):
                read_bytes(tmp_path / name, most=1000)


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path, monkeypatch):
    """Eight gigabytes of zeros in some kilobytes: as many streams, one after the other."""
    monkeypatch.setattr(reading, "MOST_BYTES", 1 << 20)
    (tmp_path / "a.bz2").write_bytes(8000 * bz2.compress(bytes(1 << 20)))
    with pytest.raises(InputError, match="a.bz2: is longer than 1 MiB"):
        read_bytes(tmp_path / "a.bz2", reading.MOST_BYTES)


@pytest.mark.parametrize("text", ["NaN", "[-Infinity]", "1e999", "[" * 200_000, "x", ""])
def test_json_by_the_standard(text):
    with pytest.raises(ValueError):
        load_json(text)
