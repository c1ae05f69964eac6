"""Safetensors: a length, a JSON header {name: dtype, shape, offsets}, then the raw bytes. Also
models in several files.
"""

import json
import math

import numpy as np

from checkpoints.formats.tensor import DTYPES, InputError, Tensor, read_json

NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
HEADER_LIMIT = 100_000_000  # bytes; that of the format's own library


def read_table(path):
    """{name: Tensor} of a .safetensors file. Raises InputError for a header that does not match the
    file.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size - 8, HEADER_LIMIT):
            raise InputError(f"{path}: is truncated or no safetensors file; fetch it again")
        raw = file.read(length)
    try:
        header = json.loads(raw)
        header.pop("__metadata__", None)
        spans = sorted(span(path, name, entry, size - 8 - length) for name, entry in header.items())
        ends = [0, *(end for _, end in spans)]
        if [begin for begin, _ in spans] != ends[:-1] or ends[-1] != size - 8 - length:
            raise InputError(
                f"{path}: its tensors overlap or leave gaps in its {size - 8 - length} bytes; fetch it again"
            )
        table = {}
        for name, entry in header.items():
            dtype = NAMES.get(entry["dtype"], entry["dtype"])
            table[name] = Tensor(
                path, name, dtype, tuple(entry["shape"]), 8 + length + entry["data_offsets"][0]
            )
        return table
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        what = (
            error
            if isinstance(error, InputError)
            else f"{path}: has a damaged header; fetch it again"
        )
        raise InputError(str(what)) from None


def span(path, name, entry, n_bytes):
    """Where a tensor begins and ends in the n_bytes after the header, checked."""
    begin, end = entry["data_offsets"]
    if not {type(n) for n in [begin, end, *entry["shape"]]} <= {int}:
        raise TypeError
    known = entry["dtype"] in NAMES
    width = np.dtype(DTYPES[NAMES[entry["dtype"]]]).itemsize if known else 0
    if end > n_bytes:
        raise InputError(
            f"{path}: is truncated: {name!r} ends at byte {end} of {n_bytes}; fetch it again"
        )
    if not 0 <= begin <= end or (known and end - begin != width * math.prod(entry["shape"])):
        raise InputError(f"{path}: {name!r} has impossible offsets; fetch the file again")
    return begin, end


def shards(path):
    """The paths of the files that model.safetensors.index.json names: {name of a tensor: path}.
    Raises InputError.
    """
    names = read_json(path).get("weight_map")
    plain = isinstance(names, dict) and all(
        isinstance(n, str) and n.endswith(".safetensors") for n in names.values()
    )
    if not plain or any("/" in n or "\\" in n for n in names.values()):
        raise InputError(
            f"{path}: expected a weight_map from tensors to .safetensors files beside it; fetch it again"
        )
    return {name: path.with_name(file) for name, file in names.items()}


def read_sharded(path):
    """{name: Tensor} of all the files of a model that is cut into several. Raises InputError."""
    where, table = shards(path), {}
    for file in sorted(set(where.values())):
        if not file.is_file():
            raise InputError(f"{file}: is missing, but {path.name} names it; fetch it")
        found = read_table(file)
        if found.keys() != {name for name in where if where[name] == file}:
            raise InputError(
                f"{file}: does not hold the tensors that {path.name} says; fetch both again"
            )
        table |= found
    return table
