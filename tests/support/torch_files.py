"""Writes what torch.save writes, byte by byte, so that no test needs torch."""

import zipfile

STORAGES = {
    "float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage",
    "uint16": "BFloat16Storage", "uint8": "ByteStorage",
}  # fmt: skip
ORDERED_DICT = b"ccollections\nOrderedDict\n)R"


def text(word):
    raw = word.encode()
    return b"X" + len(raw).to_bytes(4, "little") + raw


def number(n):
    raw = n.to_bytes(n.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def numbers(ns):
    return b"(" + b"".join(map(number, ns)) + b"t"


def storage(kind, key, n, old=False):
    """What stands for a storage; the old form says that it is no view of another one."""
    device = text("cpu") + number(n) + b"N" * old
    return b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text(key) + device + b"tQ"


def tensor(kind, key, n, shape, strides, first=0, old=False):
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n("
    view = storage(kind, key, n, old) + number(first) + numbers(shape) + numbers(strides)
    return rebuild + view + b"\x89" + ORDERED_DICT + b"tR"


def state_dict(entries):
    """The pickle of {name: pickled value}, with the attribute that torch gives such a dict."""
    pairs = b"".join(text(name) + value for name, value in entries.items())
    metadata = b"}" + text("_metadata") + ORDERED_DICT + b"sb"
    return b"\x80\x02" + ORDERED_DICT + b"(" + pairs + b"u" + metadata + b"."


def pickled(tensors, old=False):
    """(pickle, {key: bytes of a storage}) of {name: array}. Equal objects share their storage."""
    keys, entries = {}, {}
    for name, array in tensors.items():
        key = keys.setdefault(id(array), str(len(keys)))
        strides = [step // array.itemsize for step in array.strides]
        kind = STORAGES[array.dtype.name]
        entries[name] = tensor(kind, key, array.size, array.shape, strides, old=old)
    arrays = {keys[id(array)]: array for array in tensors.values()}
    return state_dict(entries), {key: array.tobytes(order="A") for key, array in arrays.items()}


def write_zip(path, pickle, storages, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickle)
        for key, raw in storages.items():
            archive.writestr(f"archive/data/{key}", raw)
        archive.writestr("archive/version", "3\n")


def write_old(path, pickle, storages, itemsizes):
    """The form from before torch 1.6; itemsizes: {key: bytes of a number}."""
    magic = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
    machine = b"\x80\x02}" + text("little_endian") + b"\x88s."
    keys = b"\x80\x02](" + b"".join(map(text, storages)) + b"e."
    raw = magic + b"\x80\x02M\xe9\x03." + machine + pickle + keys
    for key, data in storages.items():
        raw += (len(data) // itemsizes[key]).to_bytes(8, "little") + data
    path.write_bytes(raw)


def save(path, tensors, old=False):
    """What torch.save(tensors) writes, for {name: array}; uint16 stands for bfloat16."""
    pickle, storages = pickled(tensors, old)
    if not old:
        return write_zip(path, pickle, storages)
    sizes = {len(array.tobytes()): array.itemsize for array in tensors.values()}
    write_old(path, pickle, storages, {key: sizes[len(raw)] for key, raw in storages.items()})
