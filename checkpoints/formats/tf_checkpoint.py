"""OpenAI's files: TensorFlow's checkpoint format ("tensor bundle"), read without TensorFlow.

model.ckpt.index is a sorted table, as LevelDB stores them. From its end:

    footer, 48 bytes    two handles (offset and size, as varints), the second the index block's; zeros; a magic number
    index block         one entry for each data block: a key no smaller than the block's last, and its handle
    data blocks         entries: key -> value, the key as how much of it the previous key has already, and the rest

After each block come its compression, one byte (0 is none), and its CRC. The value under the key ""
is a BundleHeaderProto, all others BundleEntryProtos, which say where in
model.ckpt.data-00000-of-00001 the tensor of that name lies, and its CRC. CRCs are CRC-32C, rotated
and shifted by a constant ("masked").

Formats: github.com/google/leveldb doc/table_format.md;
tensorflow/core/protobuf/tensor_bundle.proto.
"""

import math
import re

import numpy as np

from checkpoints.errors import InputError
from checkpoints.formats.crc32c import crc32c
from checkpoints.formats.tensor import DTYPES, Tensor

MAGIC = 0xDB4775248B80FB57
FOOTER = 48
INDEX_LIMIT = 1 << 26  # bytes; that of GPT-2's largest is 20,000
# tensorflow/core/framework/types.proto
TYPES = {1: "float32", 2: "float64", 14: "bfloat16", 19: "float16"}
LEAVES = {"w": "weight", "g": "weight", "b": "bias"}


def varint(raw, at):
    """(value, position after it) of a number stored in groups of seven bits, the lowest first."""
    value = 0
    for shift in range(0, 70, 7):
        byte, at = raw[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number of more than ten bytes")


def varints(raw, at, count):
    """(the values of `count` numbers, position after them)."""
    values = []
    for _ in range(count):
        value, at = varint(raw, at)
        values.append(value)
    return values, at


def piece(raw, at, length):
    """That many bytes. Raises ValueError where there are fewer: a slice would only be shorter."""
    if at + length > len(raw):
        raise ValueError(f"{length} bytes at {at} of {len(raw)}")
    return raw[at : at + length]


def fields(raw):
    """[(number, value)] of a protobuf message; a value is an int, or bytes."""
    at, found = 0, []
    while at < len(raw):
        tag, at = varint(raw, at)
        if tag & 7 == 0:
            value, at = varint(raw, at)
        elif tag & 7 == 2:
            length, at = varint(raw, at)
            value, at = piece(raw, at, length), at + length
        elif tag & 7 in (1, 5):
            length = 8 if tag & 7 == 1 else 4
            value, at = int.from_bytes(piece(raw, at, length), "little"), at + length
        else:
            raise ValueError(f"a field of type {tag & 7}")
        found.append((tag >> 3, value))
    return found


def unmask(crc):
    """A CRC as it is, from how it is stored."""
    crc = crc - 0xA282EAD8 & 0xFFFFFFFF
    return (crc << 15 | crc >> 17) & 0xFFFFFFFF


def read_block(raw, offset, size):
    """[(key, value)] of one block of the table. Raises ValueError, also for one that its CRC does
    not match.
    """
    block, trailer = piece(raw, offset, size), piece(raw, offset + size, 5)
    if unmask(int.from_bytes(trailer[1:], "little")) != crc32c(block + trailer[:1]):
        raise ValueError("a block that does not match its checksum")
    if trailer[0]:
        raise ValueError("a compressed block")
    # places where a key is stored whole, for a binary search
    n_restarts = int.from_bytes(block[-4:], "little")
    at, end, key, found = 0, size - 4 * (n_restarts + 1), b"", []
    while at < end:
        (shared, rest, length), at = varints(block, at, 3)
        key, at = piece(key, 0, shared) + piece(block, at, rest), at + rest
        found.append((key, piece(block, at, length)))
        at += length
    if at != end:
        raise ValueError("a block of another length than its entries")
    return found


def read_entries(raw):
    """{key: value} of a whole table. Raises ValueError or IndexError for one that is damaged."""
    footer = piece(raw, len(raw) - FOOTER, FOOTER)
    if len(raw) < FOOTER or int.from_bytes(footer[-8:], "little") != MAGIC:
        raise ValueError("no table, or a truncated one")
    (_, _, offset, size), _ = varints(footer, 0, 4)
    found = []
    for _, handle in read_block(raw, offset, size):
        found += read_block(raw, *varints(handle, 0, 2)[0])
    if any(a >= b for (a, _), (b, _) in zip(found, found[1:])):
        raise ValueError("keys that are not in order")
    return dict(found)


def common_name(name):
    """OpenAI's name of a tensor in the words of gpt2.Config.shapes().

    >>> common_name("model/h10/attn/c_attn/w"), common_name("model/wte")
    ('h.10.attn.c_attn.weight', 'wte.weight')
    """
    *path, leaf = re.sub(r"^h(\d+)/", r"h/\1/", name.removeprefix("model/")).split("/")
    return ".".join([*path, LEAVES[leaf]] if leaf in LEAVES else [*path, leaf, "weight"])


def read_entry(name, value, shards):
    """(path, begin, end, Tensor) of a tensor from its BundleEntryProto. Raises ValueError or
    IndexError.
    """
    # protobuf leaves out what is 0
    entry = {1: 0, 2: b"", 3: 0, 4: 0, 5: 0, 6: 0} | dict(fields(value))
    dtype, shape, shard, offset, size, crc = (entry[number] for number in range(1, 7))
    if 7 in entry:
        raise ValueError(f"{name} in slices")
    dims = [dict(fields(dim)).get(1, 0) for number, dim in fields(shape) if number == 2]
    path, available = shards[shard]
    if offset + size > available:
        raise InputError(
            f"{path}: is truncated: {name} ends at byte {offset + size} of {available}; fetch it again"
        )
    known = dtype in TYPES
    if known and math.prod(dims) * np.dtype(DTYPES[TYPES[dtype]]).itemsize != size:
        raise ValueError(f"{name} of shape {dims} in {size} bytes")
    if len(dims) == 3 and dims[0] == 1:  # OpenAI's matrices are convolutions of width 1
        dims = dims[1:]
    dtype = TYPES[dtype] if known else f"TensorFlow's type {dtype}"
    return path, offset, offset + size, Tensor(path, name, dtype, tuple(dims), offset, unmask(crc))


def read_table(path, data=None):
    """{name as in Config.shapes(): Tensor} of a checkpoint, given the path of its .index file.

    Every block's CRC is checked; those of the tensors are there for Tensor.verify. `data` says
    where the only data file is, if not beside the index. Raises InputError for an index that is
    damaged, or does not match its data files.
    """
    try:
        if path.stat().st_size > INDEX_LIMIT:
            raise ValueError(f"more than {INDEX_LIMIT} bytes")
        entries = read_entries(path.read_bytes())
        header = {1: 0, 2: 0} | dict(fields(entries.pop(b"")))
        if header[2] or not 1 <= header[1] <= 1000:
            raise ValueError("big-endian data, or an absurd number of data files")
        files = [path.with_suffix(f".data-{i:05d}-of-{header[1]:05d}") for i in range(header[1])]
        files = [data] if data else files
        if missing := [file for file in files if not file.is_file()]:
            raise InputError(f"{missing[0]}: is missing, but {path.name} needs it; fetch it")
        shards = [(file, file.stat().st_size) for file in files]
        found = sorted(
            (read_entry(name.decode(), value, shards) for name, value in entries.items()),
            key=lambda one: one[:3],
        )
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        what = f"{path}: is no TensorFlow index, or a damaged one ({error}); fetch it again"
        what = error if isinstance(error, InputError) else what
        raise InputError("\\n".join(str(what).splitlines())) from None
    for (a, _, end, one), (b, begin, _, other) in zip(found, found[1:]):
        if a == b and begin < end:
            raise InputError(
                f"{path}: {one.name} and {other.name} overlap in the data; fetch it again"
            )
    table = {common_name(tensor.name): tensor for *_, tensor in found}
    if len(table) < len(found):
        raise InputError(
            f"{path}: has two tensors under names that mean the same; expected OpenAI's names"
        )
    return table
