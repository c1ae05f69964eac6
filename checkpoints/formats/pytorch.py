"""pytorch_model.bin: a pickle that names tensors, and their numbers. It is read without torch, and
nothing that the pickle names is run.

A pickle is a program for a small stack machine. Two of its instructions can do harm: one looks up
any function of Python, the other calls it. Here, the first finds only the names that torch.save
writes, which stand for functions that just note what they are given; and an instruction that
torch.save never writes is refused.

torch 1.6 and later write a zip file: NAME/data.pkl, and for each storage NAME/data/KEY,
uncompressed, so that a tensor is mapped where it lies. Before, the file had five pickles (magic
number, version, machine, tensors, keys of the storages) and then, for each key, a count in eight
bytes and that many numbers.
"""

import io
import math
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from checkpoints.files import blame
from checkpoints.formats.tensor import DTYPES, Tensor

MAX_PICKLE = 1 << 24  # bytes; that of 1558M has 70,000
MAGIC = 0x1950A86A20F9469CFC6C
OPCODES = b"\x80}])ch(jqrXUTJKMGN\x88\x89\x8aQt\x85\x86\x87Rsuaeb.\x8c\x93\x94\x95"
STORAGES = {  # {torch's name: dtype}
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}
Machine: Any = pickle._Unpickler  # Python's own, with a table of instructions; C's has none
Places = dict[str, tuple[int, int]]  # {key of a storage: its offset and size in the file}


class View(NamedTuple):
    """A tensor as the pickle has it: numbers of a storage, from `first` on. The storage is (dtype,
    key, how many numbers).
    """

    storage: tuple[str, str, int]
    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Names(dict):
    """A dict whose keys are texts: others could be such that their hash takes for ever."""

    def __setitem__(self, key, value):
        if type(key) is not str:
            raise ValueError(f"a key that is {type(key).__name__}")
        super().__setitem__(key, value)


class Unpickler(Machine):
    dispatch = {code: run for code, run in Machine.dispatch.items() if code in OPCODES}
    dispatch |= {
        pickle.EMPTY_DICT[0]: lambda self: self.append(Names()),
        pickle.BUILD[0]: lambda self: self.stack.pop(),  # attributes of an object: not wanted
    }

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in STORAGES:
            return name
        found = {
            "collections.OrderedDict": lambda: Names(),
            "torch._utils._rebuild_tensor": lambda *view: View(*view[:4]),
            "torch._utils._rebuild_tensor_v2": lambda *view: View(*view[:4]),
            "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
        }
        if f"{module}.{name}" not in found:
            raise ValueError(f"names {module}.{name}, which no file of weights needs")
        return found[f"{module}.{name}"]

    def persistent_load(self, pid: Any) -> tuple[str, str, int]:
        _, name, key, _device, n_numbers, *_ = pid
        return STORAGES[name], key, n_numbers


def read_table(path: Path) -> dict[str, Tensor]:
    """Read what a pytorch_model.bin names: its tensors by name. Raises ValueError for any other
    file, and for a pickle that does more than to name tensors.
    """
    with (
        blame(path, "expected what torch.save(model.state_dict()) writes"),
        path.open("rb") as file,
    ):
        is_zip = file.read(4) == b"PK\3\4"
        file.seek(0)
        views, places = read_zip(file) if is_zip else read_old(file)
        n_bytes = file.seek(0, io.SEEK_END)
        return {name: locate(path, name, view, places, n_bytes) for name, view in views.items()}


def read_zip(file: BinaryIO) -> tuple[dict[str, View], Places]:
    """The views in a zip file, and where their storages are."""
    places: Places = {}
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            name = info.filename.partition("/")[2]
            if info.compress_type or info.compress_size != info.file_size or name in places:
                raise ValueError(f"{info.filename} is compressed, or there twice")
            file.seek(info.header_offset + 26)
            n_name, n_extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
            places[name] = info.header_offset + 30 + n_name + n_extra, info.file_size
    offset, size = places["data.pkl"]
    if size > MAX_PICKLE:
        raise ValueError(f"a pickle of {size} bytes")
    file.seek(offset)
    views = Unpickler(io.BytesIO(file.read(size))).load()
    return views, {name.removeprefix("data/"): place for name, place in places.items()}


def read_old(file: BinaryIO) -> tuple[dict[str, View], Places]:
    """The same of a file from before torch 1.6."""
    head = io.BytesIO(file.read(MAX_PICKLE))
    if Unpickler(head).load() != MAGIC:
        raise ValueError("no magic number")
    _version, machine, views, keys = (Unpickler(head).load() for _ in range(4))
    if not machine["little_endian"]:
        raise ValueError("written by a big-endian machine")
    dtypes = {key: dtype for (dtype, key, _), *_ in views.values()}
    places, offset = {}, head.tell()
    for key in keys:
        file.seek(offset)
        size = int.from_bytes(file.read(8), "little") * itemsize(dtypes[key])
        places[key] = offset + 8, size
        offset += 8 + size
    return views, places


def locate(path: Path, name: str, view: View, places: Places, n_bytes: int) -> Tensor:
    """The Tensor of a View in a file of n_bytes."""
    if type(view) is not View:
        raise ValueError(f"{name!r} is no tensor, as in a checkpoint of a training")
    (dtype, key, n_numbers), first, shape, strides = view
    offset, size = places[key]
    tensor = Tensor(path, name, dtype, tuple(shape), offset + first * itemsize(dtype))
    end = tensor.offset + tensor.size
    if size != n_numbers * itemsize(dtype) or not offset <= tensor.offset <= end <= offset + size:
        raise ValueError(f"{name!r} lies outside the {n_numbers} numbers of its storage")
    if offset + size > n_bytes:
        raise ValueError(f"{name!r} lies behind the end of the file")
    if tuple(strides) == strides_of(shape):
        return tensor
    is_transposed = tuple(strides[::-1]) == strides_of(shape[::-1])
    return replace(tensor, order="F" if is_transposed else None)


def itemsize(dtype: str) -> int:
    return np.dtype(DTYPES[dtype]).itemsize


def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """How far two neighbours are apart along each axis, where rows follow one another."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
