"""Reading what people give: a size that fits, packed or not."""

import bz2
import gzip

import pytest
from toys import refusal

from experiments.data.reading import read_bytes

PACK = {"a": bytes, "a.gz": gzip.compress, "a.bz2": bz2.compress}


@pytest.mark.parametrize("name", PACK)
def test_a_file_may_be_as_long_as_the_limit(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(PACK[name](bytes(1000)))
    assert read_bytes(path, 1000) == bytes(1000)
    assert "is longer than" in refusal(read_bytes, path, 999)
