"""Safetensors: a length, a JSON header {name: dtype, shape, offsets}, then the raw bytes. Also
models in several files.
"""

import math

from checkpoints.errors import InputError
from checkpoints.files import parse_json, read_json
from checkpoints.formats.tensor import MOST_AXES, Tensor

NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
BITS = {  # of every dtype the format has
    **{"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6},
    **{"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8},
    **{"F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8},
    **{"I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32},
    **{"I64": 64, "U64": 64, "F64": 64, "C64": 64},
}
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
    begin = 8 + length
    n_bytes = size - begin
    try:
        header = parse_json(raw)
        header.pop("__metadata__", None)
        spans = sorted(span(path, name, entry, n_bytes) for name, entry in header.items())
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{path}: has a damaged header; fetch it again") from None
    # one tensor begins where the one before ends, from the first byte to the last
    ends = [0, *(end for _, end in spans)]
    if [first for first, _ in spans] != ends[:-1] or ends[-1] != n_bytes:
        raise InputError(
            f"{path}: its tensors overlap or leave gaps in its {n_bytes} bytes; fetch it again"
        )
    table = {}
    for name, entry in header.items():
        dtype = NAMES.get(entry["dtype"], entry["dtype"])
        offset = begin + entry["data_offsets"][0]
        table[name] = Tensor(path, name, dtype, tuple(entry["shape"]), offset)
    return table


def span(path, name, entry, n_bytes):
    """Where a tensor begins and ends in the n_bytes after the header, checked."""
    begin, end = entry["data_offsets"]
    dtype, shape = entry["dtype"], entry["shape"]
    if not {type(n) for n in [begin, end, *shape]} <= {int} or len(shape) > MOST_AXES:
        raise TypeError
    if dtype not in BITS:
        raise InputError(
            f"{path}: {name!r} is {dtype!r}; expected a dtype of safetensors, such as 'F32'; "
            "fetch it again"
        )
    if end > n_bytes:
        raise InputError(
            f"{path}: is truncated: {name!r} ends at byte {end} of {n_bytes}; fetch it again"
        )
    fits = 8 * (end - begin) == BITS[dtype] * math.prod(shape)
    if not 0 <= begin <= end or not fits or any(n < 0 for n in shape):
        raise InputError(f"{path}: {name!r} has impossible offsets; fetch the file again")
    return begin, end


def shards(path):
    """The paths of the files that model.safetensors.index.json names: {name of a tensor: path}.
    Raises InputError.
    """
    names = read_json(path).get("weight_map")
    if not isinstance(names, dict) or not all(is_plain(file) for file in names.values()):
        raise InputError(
            f"{path}: expected a weight_map from tensors to .safetensors files beside it; "
            "fetch it again"
        )
    return {name: path.with_name(file) for name, file in names.items()}


def is_plain(file):
    """Whether this is the name of a safetensors file that leads to no other folder."""
    if not isinstance(file, str) or "/" in file or "\\" in file:
        return False
    # 255 bytes: what file systems allow a name
    return file.endswith(".safetensors") and file.isprintable() and len(file.encode()) <= 255


def read_sharded(path):
    """{name: Tensor} of all the files of a model that is cut into several. Raises InputError."""
    where = shards(path)
    table = {}
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
