"""Safetensors: a length, a JSON header {name: dtype, shape, offsets}, then the raw bytes. A file
that does not match the format raises ValueError.
"""

import json
from pathlib import Path

from checkpoints.formats.tensor import Tensor, require_contiguous

NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
HEADER_LIMIT = 100_000_000  # bytes; that of the format's own library


def read_table(path: Path) -> dict[str, Tensor]:
    """Read the header of a .safetensors file: its tensors by name."""
    header, _, begin = read_header(path)
    table = {}
    try:
        for name, entry in header.items():
            first, end = entry["data_offsets"]  # counted from `begin`
            stored_as, shape = entry["dtype"], tuple(entry["shape"])
            # a tensor of any other dtype may be in the file, but cannot be read
            dtype = NAMES.get(stored_as, f"safetensors' {stored_as!r}")
            table[name] = Tensor(path, name, dtype, shape, begin + first, end - first)
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"{path}: has a damaged header; fetch it again") from None
    require_contiguous(path, table.values(), begin)
    return table


def read_header(path: Path) -> tuple[dict[str, dict], dict[str, str], int]:
    """Read the header of a .safetensors file: (entries, metadata, begin). entries are {name:
    {"dtype", "shape", "data_offsets"}}; the tensors begin at the byte `begin` of the file.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, HEADER_LIMIT)))
        metadata = header.pop("__metadata__", {})
        if not all(type(text) is str for text in metadata.values()):
            raise TypeError("metadata that is no text")
        return header, metadata, 8 + length
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path}: is truncated or no safetensors file; fetch it again") from None
