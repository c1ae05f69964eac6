"""Safetensors: the length of a header in eight bytes, the header, then the numbers. The header is
JSON, {name of a tensor: {"dtype", "shape", "data_offsets": [first byte, end]}}, counted from behind
it; under "__metadata__" it may have texts, {name: text}.
"""

import json
from pathlib import Path

from checkpoints.files import TABLE_LIMIT, errors_about
from checkpoints.formats.tensor import Tensor, require_contiguous

# {safetensors' name: one of tensor.DTYPES}
DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
DTYPES |= {"I64": "int64", "I32": "int32", "U8": "uint8", "BOOL": "bool"}


def read_table(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file by name, whose numbers are not read yet. Raises ValueError
    if its header is damaged, has another dtype than DTYPES, or does not describe all bytes behind.
    """
    header, _metadata, begin = read_header(path)
    table = {}
    with errors_about(path):
        for name, entry in header.items():
            first, end = entry["data_offsets"]
            code = entry["dtype"]
            if code not in DTYPES:
                its_type = f"safetensors' {code}"
                raise ValueError(f'{name!r} is of type "{its_type}", which cannot be read')
            tensor = Tensor(path, name, DTYPES[code], tuple(entry["shape"]), begin + first)
            if tensor.size != end - first:
                raise ValueError(f"{name!r} has {end - first} bytes, not {tensor.size}")
            table[name] = tensor
    require_contiguous(path, table.values(), begin)
    return table


def read_header(path: Path) -> tuple[dict[str, dict], dict[str, str], int]:
    """The header of a .safetensors file: (entries by name, metadata, first byte of the numbers).
    Raises ValueError if it is damaged, or longer than TABLE_LIMIT; entries are not looked into.
    """
    with errors_about(path), path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > TABLE_LIMIT:
            raise ValueError(f"says its header has {length:,} bytes, more than {TABLE_LIMIT:,}")
        header = json.loads(file.read(length))
        metadata = header.pop("__metadata__", None) or {}
        if not all(type(text) is str for text in metadata.values()):
            raise ValueError("has metadata that is no text")
        return header, metadata, 8 + length
