"""pytorch_model.bin: a pickle that names tensors, and their numbers. It is read without torch, and
nothing that the pickle names is run.

A pickle is a program for a small stack machine. Two of its instructions can do harm: one looks up
any function of Python, the other calls it. Here, the first finds only the names that torch.save
writes, which stand for functions that just note what they are given; and an instruction that
torch.save never writes is refused.

The numbers lie in *storages*, of which a tensor is a view. torch 1.6 and later write a zip file:
NAME/data.pkl, and for each storage NAME/data/KEY, uncompressed, so that a tensor is mapped where it
lies. Before, the file had five pickles (magic number, version, machine, tensors, keys of the
storages) and then, for each key, a count in eight bytes and that many numbers.
"""

import io
import math
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from checkpoints.files import TABLE_LIMIT, errors_about
from checkpoints.formats.tensor import MAX_AXES, Tensor, itemsize

MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of an old file
# the instructions that torch.save writes, a byte each, such as } for an empty dict
OPCODES = b"\x80}])ch(jqrXUTJKMGN\x88\x89\x8aQt\x85\x86\x87Rsuaeb.\x8c\x93\x94\x95"
STORAGES = {  # {torch's name: one of tensor.DTYPES}
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}
# before its content, a file in a zip has a header, its name and a field; their two lengths stand in
# the header, of two bytes each
ZIP_HEADER, ZIP_LENGTHS = 30, 26  # bytes; where the lengths begin
Machine: Any = pickle._Unpickler  # Python's own, with a table of instructions; C's has none
Places = dict[str, tuple[int, int]]  # {key of a storage: its first byte in the file, its bytes}


class Storage(NamedTuple):
    """A storage as the pickle names it: numbers of one dtype, found by a key."""

    dtype: str
    key: str
    n_numbers: int


class View(NamedTuple):
    """A tensor as the pickle has it: numbers of a storage, from the number `first` on."""

    storage: Storage
    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class SmallReads(io.BufferedReader):
    """A file of which no more than TABLE_LIMIT bytes are read at once: zipfile reads a table of
    contents at once, however long it says that it is. Raises ValueError for more.
    """

    def read(self, size: int | None = -1) -> bytes:
        """Up to `size` bytes. If size is None, negative or more than 1 MiB (TABLE_LIMIT): all that
        are left in the file, which raises ValueError if they are more than that.
        """
        if size is None or not 0 <= size <= TABLE_LIMIT:
            size = TABLE_LIMIT + 1  # one more than is allowed, to tell whether there are more
        raw = super().read(size)
        if len(raw) > TABLE_LIMIT:
            raise ValueError(f"lists its tensors in more than {TABLE_LIMIT:,} bytes")
        return raw


class Names(dict):
    """A dict whose keys are str; setting another key raises ValueError. (A pickle can make keys
    whose hash takes for ever to compute: a pair of the same pair twice, and so on.)
    """

    def __setitem__(self, key, value):
        if type(key) is not str:
            raise ValueError(f"a key that is {type(key).__name__}")
        super().__setitem__(key, value)


def plain_view(
    storage: Any,
    first: Any,
    shape: Any,
    strides: Any,
    _requires_grad: Any = None,
    _hooks: Any = None,
    metadata: Any = None,
) -> View:
    """The View with the first four arguments. It is called in place of torch's _rebuild_tensor, to
    which a pickle gives these four, and _rebuild_tensor_v2, which gets six or all, and which would
    make a tensor of them. _requires_grad and _hooks do not matter to the numbers: not looked at.

    Raises ValueError unless storage is a Storage, `first` an int, and all that shape and strides
    yield are ints; TypeError if one of these two cannot be iterated over. Raises ValueError for any
    metadata, bits such as {"neg": True}: with them, the stored numbers are not the tensor's.
    """
    are_ints = all(type(n) is int for n in (first, *shape, *strides))
    if type(storage) is not Storage or not are_ints:
        raise ValueError("has a tensor that is no view of a storage")
    if metadata:
        raise ValueError("has a tensor with bits such as neg: expected one without")
    return View(storage, first, tuple(shape), tuple(strides))


CALLED: dict[str, Callable] = {  # {function that a pickle may call: what is called in its place}
    "collections.OrderedDict": lambda: Names(),  # without items, which no one would check
    "torch._utils._rebuild_tensor": plain_view,
    "torch._utils._rebuild_tensor_v2": plain_view,
    "torch._utils._rebuild_parameter": lambda tensor, *_others: tensor,
}


class Unpickler(Machine):
    """Reads a pickle of torch.save as dicts of Views: `load` returns what it holds. It raises
    ValueError or KeyError, and others that damage provokes, for whatever else a pickle does, and
    runs none of it.
    """

    # {an instruction: the function that runs it}
    dispatch = {code: run for code, run in Machine.dispatch.items() if code in OPCODES}
    dispatch[pickle.EMPTY_DICT[0]] = lambda self: self.append(Names())
    dispatch[pickle.BUILD[0]] = lambda self: self.stack.pop()  # attributes of an object: unwanted

    def find_class(self, module: str, name: str) -> Any:
        """What a pickle gets that looks up a name in a module: for torch's class of a storage, such
        as FloatStorage, only the name; for one of the functions in CALLED, the harmless one that
        stands there for it. Raises ValueError for any other name.
        """
        if module == "torch" and name in STORAGES:
            return name
        if f"{module}.{name}" not in CALLED:
            raise ValueError(f"names {module}.{name}, which no file of weights needs")
        return CALLED[f"{module}.{name}"]

    def persistent_load(self, pid: Any) -> Storage:
        """The Storage that a pickle describes by a tuple `pid`: "storage", the name of its class,
        its key, its device, how many numbers it has, such as ("storage", "FloatStorage", "0",
        "cpu", 12); in old files, there is more behind. Raises ValueError, KeyError or TypeError for
        anything else.
        """
        _storage, name, key, _device, n_numbers, *_more = pid
        if type(name) is not str or type(key) is not str or type(n_numbers) is not int:
            raise ValueError("has a storage of another form than torch's")
        return Storage(STORAGES[name], key, n_numbers)


def read_table(path: Path) -> dict[str, Tensor]:
    """{name: Tensor} of the tensors in a pytorch_model.bin: a zip file, or older than torch 1.6. A
    Tensor says where in the file its numbers lie; they are not read yet.

    Raises ValueError, which names the file, if it is neither, if it is damaged, and if its pickle
    holds anything but tensors by name.
    """
    n_bytes = path.stat().st_size
    with errors_about(path, "expected what torch.save(model.state_dict()) writes"):
        with SmallReads(path.open("rb", buffering=0)) as file:  # type: ignore[type-var]
            is_zip = file.read(4) == b"PK\3\4"
            file.seek(0)
            # {name: which numbers of a storage}, {key of a storage: where it lies}
            views, places = read_zip(file) if is_zip else read_old(file)
        return {name: as_tensor(path, name, view, places, n_bytes) for name, view in views.items()}


def read_zip(file: BinaryIO) -> tuple[dict[str, View], Places]:
    """What a zip file of torch.save holds, in which *storages*, arrays of numbers, lie apart from a
    pickle that names tensors: {name of a tensor: its View}, which says what numbers of which
    storage it has; and {key of a storage: (its first byte in the zip file, how many bytes)}, which
    has the other files in the zip file by their names, too.

    Raises ValueError if a file in it is compressed or there twice, KeyError if it has no pickle,
    and what Unpickler raises for a pickle that torch.save does not write.
    """
    places = places_in_zip(file)
    offset, size = places["data.pkl"]
    file.seek(offset)
    return views_in(io.BytesIO(file.read(size))), places


def views_in(file: BinaryIO) -> dict[str, View]:
    """The Views, by name, that the next pickle in a file holds. Raises ValueError if it holds
    anything but a dict, and what Unpickler raises.
    """
    views = Unpickler(file).load()
    if not isinstance(views, dict):
        raise ValueError("holds no tensors by name")
    return views


def places_in_zip(file: BinaryIO) -> Places:
    """Where the files in a zip file lie, as {name: (first byte, number of bytes)}: under "data.pkl"
    the pickle, and under its key each storage. Raises ValueError if one is compressed or there
    twice.
    """
    places: Places = {}
    for info in zipfile.ZipFile(file).infolist():
        # NAME/data/KEY: the key of a storage; NAME/data.pkl: data.pkl
        name = info.filename.partition("/")[2].removeprefix("data/")
        is_compressed = info.compress_type or info.compress_size != info.file_size
        if is_compressed or name in places:
            raise ValueError(f"{info.filename} is compressed, or there twice")
        file.seek(info.header_offset + ZIP_LENGTHS)
        n_name = int.from_bytes(file.read(2), "little")
        n_extra = int.from_bytes(file.read(2), "little")
        places[name] = info.header_offset + ZIP_HEADER + n_name + n_extra, info.file_size
    return places


def read_old(file: BinaryIO) -> tuple[dict[str, View], Places]:
    """What a file from before torch 1.6 holds, in which *storages*, arrays of numbers, follow five
    pickles (magic number, version, machine, views, keys of the storages): {name of a tensor: its
    View}, which says what numbers of which storage it has; and {key of a storage: (the first byte
    of its numbers in the file, how many bytes)}.

    Raises ValueError without the magic number, for a file that a big-endian machine wrote, and for
    a key that is no text; KeyError for a key of no view; and what Unpickler raises, as it does for
    pickles of more than TABLE_LIMIT bytes, which are cut off there.
    """
    head = io.BytesIO(file.read(TABLE_LIMIT))
    if Unpickler(head).load() != MAGIC:
        raise ValueError("no magic number")
    _version = Unpickler(head).load()
    machine = Unpickler(head).load()
    views = views_in(head)
    keys = Unpickler(head).load()  # of the storages, in the order in which they follow
    if not machine["little_endian"]:
        raise ValueError("written by a big-endian machine")
    if not all(type(key) is str for key in keys):
        raise ValueError("lists a storage whose key is no text")
    dtypes = {view.storage.key: view.storage.dtype for view in views.values()}
    dtypes_in_order = {key: dtypes[key] for key in keys}
    end_of_pickles = head.tell()
    return views, places_behind(end_of_pickles, file, dtypes_in_order)


def places_behind(offset: int, file: BinaryIO, dtypes: dict[str, str]) -> Places:
    """Where arrays of numbers lie that follow one another in a file, as {key of an array: (first
    byte of its numbers, how many bytes they take)}. Before the numbers of each stands how many they
    are, in eight bytes, little-endian. The file is read here and there, and left at any place.

    offset: the byte where the first count begins
    dtypes: {key of an array: dtype of its numbers}, in the order in which they lie
    """
    places: Places = {}
    for key, dtype in dtypes.items():
        file.seek(offset)
        n_numbers = int.from_bytes(file.read(8), "little")
        size = n_numbers * itemsize(dtype)
        places[key] = offset + 8, size
        offset += 8 + size  # where the next count begins
    return places


def as_tensor(path: Path, name: str, view: View, places: Places, n_bytes: int) -> Tensor:
    """The Tensor of this name, which says where in the file at `path` its numbers lie.

    view: which numbers of a storage it has, an array in the file that is found by a key
    places: {key of a storage: (first byte of its numbers, how many bytes they take)}
    n_bytes: of the file
    Raises ValueError if `view` is another object, as a hostile pickle may have it, if it leaves its
    storage or the file, or has more axes than Tensor allows; KeyError or TypeError for a key that
    is not in places.
    """
    if type(view) is not View:
        raise ValueError(f"{name!r} is no tensor, as in a checkpoint of a training")
    dtype, key, n_numbers = view.storage
    begin, size = places[key]
    end = begin + size
    offset = begin + view.first * itemsize(dtype)  # `first` counts numbers
    tensor = Tensor(path, name, dtype, view.shape, offset, order_of(view))
    # a view with gaps may end later, but Tensor.stored refuses to read it
    is_inside = begin <= offset and offset + tensor.size <= end
    if size != n_numbers * itemsize(dtype) or not is_inside:
        raise ValueError(f"{name!r} lies outside the {n_numbers} numbers of its storage")
    if end > n_bytes:
        raise ValueError(f"{name!r} lies behind the end of the file")
    return tensor


def order_of(view: View) -> Literal["C", "F"] | None:
    """How the numbers of a view lie in its storage: "C" if rows follow one another without a gap,
    "F" if columns do, as in a transposed matrix, else None.
    """
    if len(view.shape) > MAX_AXES:  # Tensor refuses them; products of thousands would take long
        return None
    if view.strides == strides_of(view.shape):
        return "C"
    if view.strides[::-1] == strides_of(view.shape[::-1]):  # those of its transpose
        return "F"
    return None


def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """How many numbers lie between neighbours along each axis, where rows follow one another.

    >>> strides_of((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
