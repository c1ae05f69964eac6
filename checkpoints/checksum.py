"""The checksum of files: their SHA-256, by which a download and a head's target are known."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def sha256_of(files: Iterable[Path]) -> str:
    """The SHA-256 of the contents of files, one after the other, in hexadecimal."""
    state = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                state.update(block)
    return state.hexdigest()
