"""OpenAI's files: TensorFlow's checkpoint format ("tensor bundle"), read without TensorFlow.

model.ckpt.index is a sorted table, as LevelDB stores them. From its end:

    footer, 48 bytes    two handles (offset and size, as varints): of a block of metadata, which
                        is not read here, and of the index block; zeros; a magic number
    index block         an entry for each data block: a key no smaller than the last key of the
                        block, and its handle as the value
    data blocks         entries of key and value; a key is stored as the number of bytes that it
                        shares with the previous key, and its other bytes

After each block come its compression, one byte (0: TensorFlow compresses none), and its CRC. The
value under the key "" is a BundleHeaderProto. All other values are BundleEntryProtos. They say
where in model.ckpt.data-00000-of-00001 the tensor of that name lies. No CRC is read: damage shows
as tensors that do not fit the data or the model's shape.

Formats: github.com/google/leveldb doc/table_format.md;
tensorflow/core/protobuf/tensor_bundle.proto.
"""

import re
from io import BytesIO
from pathlib import Path
from typing import Any

from checkpoints.files import errors_about, read_text_file
from checkpoints.formats.tensor import Tensor, require_contiguous

MAGIC = 0xDB4775248B80FB57
FOOTER = 48
INDEX_LIMIT = 1 << 16  # bytes; GPT-2's largest has 20,000. Keys grow by what they share
# fields of a BundleEntryProto; of its shape, each dimension; of a dimension, its size
DTYPE, SHAPE, OFFSET, SIZE = 1, 2, 4, 5
DIMENSION, DIMENSION_SIZE = 2, 1
# tensorflow/core/framework/types.proto
TYPES = {1: "float32", 2: "float64", 3: "int32", 9: "int64", 14: "bfloat16", 19: "float16"}


def read_varint(stream: BytesIO) -> int:
    """Read an int that is stored in groups of seven bits, a byte each, the lowest first. A byte of
    128 or more says that another group follows. Raises ValueError for more than ten bytes, and if
    the stream ends within the number.
    """
    value = 0
    for shift in range(0, 70, 7):
        data = stream.read(1)
        if not data:
            raise ValueError("a number that is cut off")
        value |= (data[0] & 127) << shift
        if data[0] < 128:
            return value
    raise ValueError("a number of more than ten bytes")


def parse_fields(raw: bytes) -> list[tuple[int, Any]]:
    """Parse the bytes of a protobuf message: [(number of a field, value)], a value int or bytes.
    Raises ValueError for a number that is cut off, or a wire type (how a value is stored) that
    these files do not have.
    """
    stream, fields = BytesIO(raw), []
    while stream.tell() < len(raw):
        number, wire_type = divmod(read_varint(stream), 8)
        if wire_type == 0:  # a varint
            value: int | bytes = read_varint(stream)
        elif wire_type == 2:  # bytes, after their length
            value = stream.read(read_varint(stream))
        elif wire_type == 5:  # four bytes
            value = int.from_bytes(stream.read(4), "little")
        else:
            raise ValueError(f"a field of type {wire_type}")
        fields.append((number, value))
    return fields


def read_handle(stream: BytesIO) -> tuple[int, int]:
    """Read where a block lies in the table: (offset, size), in bytes. Raises ValueError if the
    stream ends.
    """
    offset = read_varint(stream)
    size = read_varint(stream)
    return offset, size


def parse_block(raw: bytes, offset: int, size: int) -> list[tuple[bytes, bytes]]:
    """The entries [(key, value)], all bytes, of the block of `size` bytes at `offset` in a table.

    raw: the bytes of the table. An entry is three varints (how many bytes its key shares with the
    key before, how many more it has, how many the value has), the key's other bytes, the value.
    Raises ValueError for a varint that is cut off; other damage gives other entries.
    """
    block = raw[offset : offset + size]
    # a block ends with 4 bytes for each entry whose key shares nothing, for a binary search, and
    # 4 bytes for their number
    n_restarts = int.from_bytes(block[-4:], "little")
    end = size - 4 * (n_restarts + 1)  # of the entries
    stream = BytesIO(block)
    key = b""
    entries = []
    while stream.tell() < end:
        n_shared = read_varint(stream)
        n_new = read_varint(stream)
        n_value = read_varint(stream)
        key = key[:n_shared] + stream.read(n_new)
        entries.append((key, stream.read(n_value)))
    return entries


def parse_entries(raw: bytes) -> dict[bytes, bytes]:
    """All entries {key: value}, all bytes, of a table as LevelDB stores them: TensorFlow's index.

    raw: the bytes of the table, which end with a footer of FOOTER bytes: the handle (offset, size)
    of a block that is not read, the handle of the index block, zeros, and MAGIC in eight bytes. The
    values in the index block are the handles of the blocks with the entries.

    Raises ValueError if raw does not end with MAGIC, if these blocks together are larger than raw,
    and for a number that is cut off. Other damage gives other entries.
    """
    if int.from_bytes(raw[-8:], "little") != MAGIC:
        raise ValueError("is no index of TensorFlow, or a truncated one")
    footer = BytesIO(raw[-FOOTER:])
    read_handle(footer)  # of the block that is not read
    index_offset, index_size = read_handle(footer)
    blocks = []  # (offset, size) of each block with entries
    for _key, handle in parse_block(raw, index_offset, index_size):
        blocks.append(read_handle(BytesIO(handle)))
    # a damaged index could name the same large block thousands of times
    if sum(size for _offset, size in blocks) > len(raw):
        raise ValueError("blocks that overlap")
    entries: dict[bytes, bytes] = {}
    for offset, size in blocks:
        entries.update(parse_block(raw, offset, size))
    return entries


def common_name(name: str) -> str:
    """The name in gpt2.Config.shapes() for OpenAI's name of a tensor: without model/, with dots for
    slashes, h.10 for h10, and at the end weight for w or g, bias for b; an embedding, whose name
    has no such end, gets weight.

    >>> common_name("model/h10/attn/c_attn/w"), common_name("model/wte")
    ('h.10.attn.c_attn.weight', 'wte.weight')
    """
    path = re.sub(r"^h(\d+)/", r"h/\1/", name.removeprefix("model/"))
    path = re.sub("/[wg]$", "/weight", path)
    path = re.sub("/b$", "/bias", path)
    if not path.endswith(("/weight", "/bias")):  # an embedding
        path += "/weight"
    return path.replace("/", ".")


def parse_entry(name: str, value: bytes, path: Path) -> Tensor:
    """Parse `value`, the bytes of a protobuf message that says where an array lies, into a Tensor
    of this name in the file at `path`. Its fields are the type of numbers (one of TYPES), the shape
    (`parse_shape`), and the array's offset and size in bytes. Raises ValueError or TypeError if
    they are damaged, for a type of numbers that cannot be read, and for a size in bytes that is not
    that of the shape.
    """
    entry = dict(parse_fields(value))  # a field that is 0 is not stored
    number: Any = entry.get(DTYPE)
    if number not in TYPES:
        raise ValueError(f'{name!r} is of type "TensorFlow\'s {number}", which cannot be read')
    shape = parse_shape(entry.get(SHAPE, b""))
    tensor = Tensor(path, name, TYPES[number], shape, entry.get(OFFSET, 0))
    if tensor.size != entry.get(SIZE, 0):
        raise ValueError(f"{name} has {entry.get(SIZE)} bytes, not {tensor.size}")
    return tensor


def parse_shape(value: bytes) -> tuple:
    """The shape in the bytes of a protobuf message, in which each dimension is a message with its
    size. [1, n, m], a convolution, becomes (n, m): so OpenAI stores a matrix.
    """
    sizes = []
    for field, dimension in parse_fields(value):
        if field == DIMENSION:
            of_dimension = dict(parse_fields(dimension))
            sizes.append(of_dimension.get(DIMENSION_SIZE, 0))  # a size of 0 is not stored
    if len(sizes) == 3 and sizes[0] == 1:
        sizes = sizes[1:]
    return tuple(sizes)


def index_names(folder: Path) -> list[str]:
    """The names that TensorFlow's index in a folder may have: that of the newest checkpoint, if a
    file `checkpoint` says which that is; else of all *.index that are there, sorted; else
    model.ckpt.index, as OpenAI's is named. Raises ValueError if `checkpoint` is too long.
    """
    note = folder / "checkpoint"
    text = ""
    if note.is_file():
        with errors_about(note):
            text = read_text_file(note).decode(errors="replace")
    # one name, without its folders, or none
    newest = re.findall(r'^model_checkpoint_path: "(?:.*[/\\])?(.+)"', text)
    if newest:
        return [f"{name}.index" for name in newest]
    there = sorted(path.name for path in folder.glob("[!.]*.index"))
    return there or ["model.ckpt.index"]


def data_of(index: Path) -> Path:
    """The path of the data, the file with the numbers, beside an index NAME.index: where they lie
    in a single file, as in OpenAI's checkpoints.
    """
    return index.with_name(f"{index.stem}.data-00000-of-00001")


def read_table(path: Path) -> dict[str, Tensor]:
    """The tensors that the .index file of a checkpoint lists, by their names in Config.shapes();
    their numbers, in the data beside it, are not read yet. Raises ValueError if the index is
    damaged, or the data is missing or has another size.
    """
    with errors_about(path), path.open("rb") as file:
        entries = parse_entries(file.read(INDEX_LIMIT))
        del entries[b""]  # the BundleHeaderProto; raises KeyError without one
        table = {}
        for key, entry in entries.items():
            name = key.decode()
            table[common_name(name)] = parse_entry(name, entry, data_of(path))
    require_contiguous(data_of(path), table.values())
    return table
