"""Safetensors: a length, a JSON header {name: dtype, shape, offsets}, then the raw bytes. A file
that does not match the format raises ValueError.
"""

import json
from pathlib import Path

from checkpoints.files import blame
from checkpoints.formats.tensor import Tensor, require_contiguous

NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
NAMES |= {"I64": "int64", "I32": "int32", "U8": "uint8", "BOOL": "bool"}
HEADER_LIMIT = 100_000_000  # bytes; that of the format's own library


def read_table(path: Path) -> dict[str, Tensor]:
    """Read the header of a .safetensors file: its tensors by name."""
    header, _, begin = read_header(path)
    table = {}
    with blame(path):
        for name, entry in header.items():
            first, end = entry["data_offsets"]  # counted from `begin`
            dtype = NAMES.get(entry["dtype"], f"safetensors' {entry['dtype']}")
            table[name] = Tensor(path, name, dtype, tuple(entry["shape"]), begin + first)
            if table[name].size != end - first:
                raise ValueError(f"{name!r} has {end - first} bytes, not {table[name].size}")
    require_contiguous(path, table.values(), begin)
    return table


def read_header(path: Path) -> tuple[dict[str, dict], dict[str, str], int]:
    """Read the header of a .safetensors file: (entries, metadata, begin). entries are {name:
    {"dtype", "shape", "data_offsets"}}; the tensors begin at the byte `begin` of the file.
    """
    with blame(path), path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(length, HEADER_LIMIT)))
        metadata = header.pop("__metadata__", None) or {}
        if not all(type(text) is str for text in metadata.values()):
            raise ValueError("has metadata that is no text")
        return header, metadata, 8 + length
