"""Safetensors: a length, a JSON header {name: dtype, shape, offsets}, then the raw bytes. Also
models in several files. A file that does not match the format raises InputError.
"""

import re

from checkpoints.errors import InputError
from checkpoints.files import read_json, strict_json
from checkpoints.formats.tensor import Tensor, require_contiguous

NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
HEADER_LIMIT = 100_000_000  # bytes; that of the format's own library
SHARD = r"[\w.-]{1,200}\.safetensors"  # a name that leads to no other folder


def read_table(path):
    """Read the header of a .safetensors file, and return {name: Tensor}. Raises InputError if it is
    damaged, or if the tensors do not fill the file.
    """
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
        raise InputError(f"{path}: has a damaged header; fetch it again") from None
    require_contiguous(path, table.values(), begin)
    return table


def read_header(path):
    """Read the header of a .safetensors file, and return (entries, metadata, begin). Raises
    InputError if it is truncated or no such header.

    entries: {name: {"dtype", "shape", "data_offsets"}}, as they are stored. metadata: {name: text}.
    begin: the byte of the file at which the tensors begin
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = strict_json(file.read(min(length, HEADER_LIMIT)))
        metadata = header.pop("__metadata__", {})
        if not all(type(text) is str for text in metadata.values()):
            raise TypeError("metadata that is no text")
        return header, metadata, 8 + length
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path}: is truncated or no safetensors file; fetch it again") from None


def read_shard_paths(path):
    """Read a model.safetensors.index.json, and return {name of a tensor: Path of its file}. Raises
    InputError unless every file that it names is a .safetensors file in the index's own folder.
    """
    names = read_json(path).get("weight_map")
    is_valid = isinstance(names, dict) and all(
        re.fullmatch(SHARD, str(file), re.ASCII) for file in names.values()
    )
    if not is_valid:
        raise InputError(
            f"{path}: expected a weight_map from tensors to .safetensors files beside it; "
            "fetch it again"
        )
    return {name: path.with_name(file) for name, file in names.items()}


def read_sharded(path):
    """Read the headers of a model in several files, and return {name: Tensor}. Raises InputError if
    a file is damaged or lacks a tensor.

    path: of its model.safetensors.index.json
    """
    file_of = read_shard_paths(path)
    tables = {file: read_table(file) for file in {*file_of.values()}}
    try:
        return {name: tables[file][name] for name, file in file_of.items()}
    except KeyError as missing:
        raise InputError(f"{path}: no file has {missing}, which it names; fetch it again") from None
