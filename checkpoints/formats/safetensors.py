"""Safetensors: a length, a JSON header {name: dtype, shape, offsets}, then the raw bytes. Also
models in several files.
"""

from checkpoints.errors import InputError
from checkpoints.files import parse_json, read_json
from checkpoints.formats.tensor import Tensor, require_fit

NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
HEADER_LIMIT = 100_000_000  # bytes; that of the format's own library


def read_table(path):
    """{name: Tensor} of a .safetensors file. Raises InputError for a header that does not match the
    file.
    """
    header, _, begin = read_header(path)
    try:
        table = {name: read_entry(path, name, begin, header[name]) for name in header}
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{path}: has a damaged header; fetch it again") from None
    require_fit(path, table.values(), begin)
    missing = path.stat().st_size - begin - sum(tensor.size for tensor in table.values())
    if missing:
        raise InputError(f"{path}: {missing} of its bytes are no tensor's; fetch it again")
    return table


def read_header(path):
    """(the entries, the metadata, where the tensors begin). Raises InputError for what is no JSON
    object.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size - 8, HEADER_LIMIT):
            raise InputError(f"{path}: is truncated or no safetensors file; fetch it again")
        raw = file.read(length)
    try:
        header = parse_json(raw)
        metadata = header.pop("__metadata__", None)
        return header, metadata, 8 + length
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path}: has a damaged header; fetch it again") from None


def read_entry(path, name, begin, entry):
    """The Tensor of an entry of the header. Raises ValueError, TypeError or KeyError."""
    dtype, shape, (first, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if {type(n) for n in [first, end, *shape]} != {int} or type(dtype) is not str:
        raise TypeError
    # by another name, it may be there but is not read
    dtype = NAMES.get(dtype, f"safetensors' {dtype!r}")
    return Tensor(path, name, dtype, tuple(shape), begin + first, end - first)


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
