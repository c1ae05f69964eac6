"""OpenAI's files: TensorFlow's checkpoint format ("tensor bundle"), read without TensorFlow.

model.ckpt.index is a sorted table, as LevelDB stores them. From its end:

    footer, 48 bytes    two handles (offset and size, as varints): of a block of metadata, which
                        nobody reads, and of the index block; zeros; a magic number
    index block         an entry for each data block: a key no smaller than its last, its handle
    data blocks         entries: key -> value; a key is how many bytes it shares with the previous
                        key, and the rest

After each block come its compression, one byte (0: TensorFlow compresses none), and its CRC. The
value under the key "" is a BundleHeaderProto, all others BundleEntryProtos, which say where in
model.ckpt.data-00000-of-00001 the tensor of that name lies, and its CRC-32C, rotated and shifted by
a constant ("masked"). The CRCs of blocks are passed over: damage there shows as tensors that do not
fit the data, the model's shape, or their own CRC.

Formats: github.com/google/leveldb doc/table_format.md;
tensorflow/core/protobuf/tensor_bundle.proto.
"""

import re
from io import BytesIO

from checkpoints.errors import InputError
from checkpoints.formats.tensor import Tensor, require_contiguous
from checkpoints.registry import TF_DATA

MAGIC = 0xDB4775248B80FB57
FOOTER = 48
TRAILER = 5  # bytes after a block: compression and CRC
# Keys grow by what they share, so a small file can claim much. GPT-2's largest index has 20,000
# bytes, its longest key 23.
INDEX_LIMIT = 1 << 20
MAX_KEY_BYTES = 100
# tensorflow/core/framework/types.proto
TYPES = {1: "float32", 2: "float64", 14: "bfloat16", 19: "float16"}
LEAVES = {"w": "weight", "g": "weight", "b": "bias"}


def varint(stream):
    """A number stored in groups of seven bits, the lowest first. Raises ValueError at the end."""
    value = 0
    for shift in range(0, 70, 7):
        (byte,) = stream.read(1)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("a number of more than ten bytes")


def parse_fields(raw):
    """[(number, value)] of a protobuf message; a value is an int, or bytes."""
    stream, pairs = BytesIO(raw), []
    while stream.tell() < len(raw):
        number, kind = divmod(varint(stream), 8)
        if kind == 0:
            value = varint(stream)
        elif kind == 2:
            value = stream.read(varint(stream))
        elif kind == 5:
            value = int.from_bytes(stream.read(4), "little")
        else:
            raise ValueError(f"a field of type {kind}")
        pairs.append((number, value))
    return pairs


def unmask(crc):
    """The CRC-32C behind a masked one: subtract the constant, then rotate left by 15 bits."""
    crc = crc - 0xA282EAD8 & 0xFFFFFFFF
    return (crc << 15 | crc >> 17) & 0xFFFFFFFF


def read_block(raw, offset, size):
    """[(key, value)] of one block of the table. Raises ValueError where it is damaged."""
    block = raw[offset : offset + size]
    # at the end: where keys are stored whole, for a binary search, and how many such places
    n_restarts = int.from_bytes(block[-4:], "little")
    end = size - 4 * (n_restarts + 1)  # of the entries
    stream = BytesIO(block)
    key, entries = b"", []
    while stream.tell() < end:
        shared, rest, length = varint(stream), varint(stream), varint(stream)
        if shared + rest > MAX_KEY_BYTES:
            raise ValueError(f"a key of {shared + rest} bytes")
        key = key[:shared] + stream.read(rest)
        entries.append((key, stream.read(length)))
    return entries


def read_entries(raw):
    """{key: value} of a whole table. Raises ValueError for one that is damaged."""
    footer = BytesIO(raw[-FOOTER:])
    if int.from_bytes(raw[-8:], "little") != MAGIC:
        raise ValueError("no table, or a truncated one")
    # the handle of the metadata, which nobody reads, and of the index
    _, _, offset, size = (varint(footer) for _ in range(4))
    entries, end = {}, 0
    for _, value in read_block(raw, offset, size):
        handle = BytesIO(value)
        offset, size = varint(handle), varint(handle)
        if offset != end:  # many handles to one block would be as many blocks to read
            raise ValueError("blocks that are not side by side")
        entries |= read_block(raw, offset, size)
        end = offset + size + TRAILER
    return entries


def common_name(name):
    """OpenAI's name of a tensor in the words of gpt2.Config.shapes().

    >>> common_name("model/h10/attn/c_attn/w"), common_name("model/wte")
    ('h.10.attn.c_attn.weight', 'wte.weight')
    """
    *path, leaf = re.sub(r"^h(\d+)/", r"h/\1/", name.removeprefix("model/")).split("/")
    return ".".join([*path, LEAVES[leaf]] if leaf in LEAVES else [*path, leaf, "weight"])


def read_entry(name, value, path):
    """The Tensor of a BundleEntryProto. Raises ValueError or TypeError."""
    # protobuf leaves out what is 0
    entry = {1: 0, 2: b"", 4: 0, 5: 0, 6: 0} | dict(parse_fields(value))
    dtype, shape, offset, size, crc = (entry[number] for number in (1, 2, 4, 5, 6))
    dims = [dict(parse_fields(dim)).get(1, 0) for number, dim in parse_fields(shape) if number == 2]
    if len(dims) == 3 and dims[0] == 1:  # OpenAI's matrices are convolutions of width 1
        dims = dims[1:]
    dtype = TYPES.get(dtype, f"TensorFlow's type {dtype}")
    return Tensor(path, name, dtype, tuple(dims), offset, size, unmask(crc))


def read_table(path):
    """{name as in Config.shapes(): Tensor} of a checkpoint, given the path of its .index file.

    Raises InputError for an index that is damaged, or does not match the data beside it.
    """
    data = path.with_name(TF_DATA)
    try:
        with path.open("rb") as file:
            entries = read_entries(file.read(INDEX_LIMIT))
        del entries[b""]
        tensors = [read_entry(name.decode(), value, data) for name, value in entries.items()]
        table = {common_name(tensor.name): tensor for tensor in tensors}
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InputError(
            f"{path}: is no TensorFlow index, or a damaged one ({error}); fetch it again"
        ) from None
    require_contiguous(data, table.values())
    return table
