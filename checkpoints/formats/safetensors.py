"""Safetensors: a length, a JSON header {name: dtype, shape, offsets}, then the raw bytes. Also
models in several files. What does not match the format or the file raises InputError.
"""

import re

from checkpoints.errors import InputError
from checkpoints.files import read_json, strict_json
from checkpoints.formats.tensor import Tensor, require_contiguous

NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
HEADER_LIMIT = 100_000_000  # bytes; that of the format's own library
SHARD = r"[\w.-]{1,200}\.safetensors"  # a name that leads to no other folder


def read_table(path):
    """{name: Tensor} of a .safetensors file."""
    header, _, begin = read_header(path)
    table = {}
    try:
        for name, entry in header.items():
            dtype, (first, end) = entry["dtype"], entry["data_offsets"]
            # by another name, it may be there but is not read
            dtype = NAMES.get(dtype, f"safetensors' {dtype!r}")
            shape = tuple(entry["shape"])
            table[name] = Tensor(path, name, dtype, shape, begin + first, end - first)
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{path}: has a damaged header; fetch it again") from None
    require_contiguous(path, table.values(), begin)
    return table


def read_header(path):
    """(the entries, the metadata, where the tensors begin): the metadata is {name: text}."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = strict_json(file.read(min(length, HEADER_LIMIT)))
        metadata = header.pop("__metadata__", {})
        if {type(text) for text in metadata.values()} - {str}:
            raise TypeError
        return header, metadata, 8 + length
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path}: is truncated or no safetensors file; fetch it again") from None


def shards(path):
    """{name of a tensor: path of its file}, as model.safetensors.index.json says."""
    names = read_json(path).get("weight_map")
    if not isinstance(names, dict) or not all(
        re.fullmatch(SHARD, str(file), re.ASCII) for file in names.values()
    ):
        raise InputError(
            f"{path}: expected a weight_map from tensors to .safetensors files beside it; "
            "fetch it again"
        )
    return {name: path.with_name(file) for name, file in names.items()}


def read_sharded(path):
    """{name: Tensor} of all the files of a model that is cut into several."""
    where = shards(path)
    tables = {file: read_table(file) for file in {*where.values()}}
    try:
        return {name: tables[file][name] for name, file in where.items()}
    except KeyError as missing:
        raise InputError(f"{path}: no file has {missing}, which it names; fetch it again") from None
