"""pytorch_model.bin: what torch.save writes is read, and whatever else a pickle can do is refused
without running anything. test_kinds.py loads whole models.
"""

import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch_files
from torch_files import number, numbers, state_dict, storage, tensor, text
from toys import refusal

from checkpoints.files import TABLE_LIMIT
from checkpoints.formats.pytorch import read_table

X = np.arange(12, dtype=np.float32).reshape(3, 4)
TENSORS = {"a": X, "transposed": np.asfortranarray(X), "half": X.astype(np.float16), "again": X}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pytorch_model.bin"


@pytest.mark.oracle
@pytest.mark.parametrize("old", [False, True])
def test_what_torch_itself_writes(path, old):
    torch = pytest.importorskip("torch")
    x = torch.arange(12.0).reshape(3, 4)
    views = {"x": x, "t": x.t(), "rows": x[1:], "half": x.bfloat16(), "p": torch.nn.Parameter(x)}
    views |= {"mask": x > 3, "scalar": torch.tensor(-1e4), "columns": x[:, 1:]}
    torch.save(views, path, _use_new_zipfile_serialization=not old)
    table = read_table(path)
    for name in ("x", "t", "rows", "half", "p", "scalar"):
        expected = views[name].detach().float().numpy()
        np.testing.assert_array_equal(table[name].read(np.float32), expected)
    assert "mask is bool" in refusal(table["mask"].read, np.float32)
    assert "a view with gaps" in refusal(table["columns"].read, np.float32)


# ---------------------------------------------------------------- hostile pickles

RUN = text("touch hacked")
SYSTEM = b"cos\nsystem\n"
DOUBLED = b"(" + b"0" * 0 + text("x") + b"\x85" + b"q\0" + b"h\0h\0\x86q\0" * 60  # 2^60 leaves
GOOD = tensor("FloatStorage", "0", 12, (3, 4), (4, 1))
# a tuple of two tuples, which are one, and so on: its hash, and its text, have 2^60 parts
NEVER_ENDS = text("x") + b"\x85" + b"q\0h\0\x86" * 60
FLOATS = b"ctorch\nFloatStorage\n"


def view_of(kind, key, n=number(12)):
    """A tensor of a storage that is described by these pickled values."""
    good = tensor("FloatStorage", "0", 12, (12,), (1,))
    described = b"(" + text("storage") + kind + key + text("cpu") + n + b"tQ"
    return good.replace(storage("FloatStorage", "0", 12), described)


def value(raw):
    """A state dict with this as one of its values."""
    return state_dict({"a": GOOD, "b": raw})


HOSTILE = {  # {what it does: pickle}
    "os.system": value(SYSTEM + b"(" + RUN + b"tR"),
    "getattr": value(b"c__builtin__\ngetattr\n" + SYSTEM + RUN + b"\x86R"),
    "a storage that is loaded from bytes": value(
        b"ctorch.storage\n_load_from_bytes\n" + RUN + b"\x85R"
    ),
    "a name in a name": value(b"ctorch\n_utils._rebuild_tensor_v2.__globals__\n"),
    "a name from the stack": value(text("os") + text("system") + b"\x93" + RUN + b"\x85R"),
    "an instance": value(b"(" + RUN + b"ios\nsystem\n"),
    "an object": value(b"(" + SYSTEM + RUN + b"o"),
    "a new object": value(b"ccollections\nOrderedDict\n)\x81"),
    "an extension": value(b"\x82\x01"),
    "attributes of a function": value(
        b"ctorch._utils\n_rebuild_tensor_v2\nN}" + text("__defaults__") + b"Ns\x86b"
    ),
    "a dict called with items": value(b"ccollections\nOrderedDict\n](K\1K\2eR"),
    "a number called": value(b"K\1)R"),
    "a place in the memo far away": value(b"Nr\xff\xff\xff\xff"),
    "a text of 4 GB": value(b"X\xff\xff\xff\xff"),
    "bytes of 2^60": value(b"\x8e" + (1 << 60).to_bytes(8, "little")),
    "a set of tuples of tuples": value(b"\x8f" + DOUBLED + b"\x90"),
    "a name that takes for ever": state_dict({"a": GOOD})[:-1] + DOUBLED + b"tNs.",
    "a class of storages that takes for ever": value(view_of(NEVER_ENDS, text("0"))),
    "a key of a storage that takes for ever": value(view_of(FLOATS, NEVER_ENDS)),
    "a shape that takes for ever": value(
        tensor("FloatStorage", "0", 12, (), ()).replace(b"(t(t", b"(" + NEVER_ENDS + b"t(t")
    ),
    "a number of numbers that takes for ever": value(view_of(FLOATS, text("0"), NEVER_ENDS)),
    "a tuple in place of a storage": value(
        tensor("FloatStorage", "0", 12, (12,), (1,)).replace(
            storage("FloatStorage", "0", 12), b"(" + NEVER_ENDS + text("0") + number(12) + b"t"
        )
    ),
    "another pickle's name": b"\x80\x02N.",
    "a tensor instead of a dict": b"\x80\x02" + GOOD + b".",
    "a storage alone": value(storage("FloatStorage", "0", 12)),
    "an unknown storage": value(tensor("QInt8Storage", "0", 12, (12,), (1,))),
    "a storage that is not there": value(tensor("FloatStorage", "7", 12, (12,), (1,))),
    "a key that is no text": value(
        b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\nFloatStorage\n]"
        + text("cpu") + number(12) + b"tQ" + number(0) + numbers([12]) + numbers([1]) + b"\x89NtR"
    ),
    "a bit that turns all signs": value(
        GOOD[: -len(b"tR")] + b"N}(" + text("neg") + b"\x88u" + b"tR"
    ),
    "more numbers than the storage": value(tensor("FloatStorage", "0", 10**18, (12,), (1,))),
    "another dtype": value(tensor("HalfStorage", "0", 12, (12,), (1,))),
    "a huge shape": value(tensor("FloatStorage", "0", 12, (2**60, 2**60), (2**60, 1))),
    "a shape of many axes": value(
        tensor("FloatStorage", "0", 12, (2**2000,) * 20_000, (0,) * 20_000)
    ),
    "a shape below zero": value(tensor("FloatStorage", "0", 12, (-3, -4), (-4, 1))),
    "a shape of fractions": value(
        tensor("FloatStorage", "0", 12, (), ()).replace(b"(t(t", b"(G\x40\x28\0\0\0\0\0\0t(K\1t")
    ),
    "a start below zero": value(tensor("FloatStorage", "0", 12, (3,), (1,), first=-3)),
    "a start at the end": value(tensor("FloatStorage", "0", 12, (12,), (1,), first=1)),
    "no end": value(GOOD)[:-1],
}  # fmt: skip


@pytest.mark.parametrize("old", [False, True])
def test_a_list_of_tensors_is_not_called_damaged(path, old):
    pickled = b"\x80\x02](" + GOOD + b"e."
    if old:
        torch_files.write_old(path, pickled.replace(b"tQ", b"NtQ"), {"0": X.tobytes()}, {"0": 4})
    else:
        torch_files.write_zip(path, pickled, {"0": X.tobytes()})
    assert "holds no tensors by name; expected what torch.save" in refusal(read_table, path)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_pickles_are_refused_and_nothing_runs(path, tmp_path, monkeypatch, what, old):
    monkeypatch.chdir(tmp_path)
    hostile = HOSTILE[what]
    if old:
        hostile = hostile.replace(b"tQ", b"NtQ")
        torch_files.write_old(path, hostile, {"0": X.tobytes()}, {"0": 4})
    else:
        torch_files.write_zip(path, hostile, {"0": X.tobytes()})
    tracemalloc.start()
    message = refusal(lambda: [x.read(np.float32) for x in read_table(path).values()])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert message.startswith(str(path)) and len(message) < 500
    assert peak < 100e6 and {*tmp_path.iterdir()} == {path}


def test_a_key_in_an_old_file_that_takes_for_ever(path):
    torch_files.write_old(path, value(GOOD).replace(b"tQ", b"NtQ"), {"0": X.tobytes()}, {"0": 4})
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"](" + text("0") + b"e.", b"](" + NEVER_ENDS + b"e."))
    assert "whose key is no text" in refusal(read_table, path)


@pytest.mark.parametrize("strides", [(-4, 1), (0, 0), (1, 1), (2, 1)])
def test_views_that_are_no_matrix_are_never_read(path, strides):
    """Each lies within its storage, and may be there: a mask, say."""
    torch_files.write_zip(path, value(tensor("FloatStorage", "0", 12, (3, 4), strides)), {"0": X})
    assert "b is a view with gaps" in refusal(read_table(path)["b"].read, np.float32)


def test_zip_files_that_torch_does_not_write(path):
    good = value(GOOD), {"0": X.tobytes()}
    torch_files.write_zip(path, *good, compression=zipfile.ZIP_DEFLATED)
    assert "is compressed" in refusal(read_table, path)
    torch_files.write_zip(path, *good)
    with pytest.warns(UserWarning), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("archive/data/0", bytes(48))
    assert "there twice" in refusal(read_table, path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data/0", X.tobytes())
    refusal(read_table, path)
    path.write_bytes(pickle.dumps({"a": 1}))  # neither form
    refusal(read_table, path)


def test_a_huge_list_of_tensors_is_not_read(path):
    torch_files.write_zip(path, b"\x80\x02" + b"}" * (1 << 24), {})
    assert f"more than {TABLE_LIMIT:,} bytes" in refusal(read_table, path)
    torch_files.write_zip(path, value(GOOD), {f"{i}{'x' * 60_000}": b"" for i in range(20)})
    assert f"more than {TABLE_LIMIT:,} bytes" in refusal(read_table, path)


@pytest.mark.parametrize("old", [False, True])
def test_a_damaged_file_loads_right_or_not_at_all(path, old):
    """Truncations, and changes of a byte before the numbers begin, at random."""
    torch_files.save(path, TENSORS, old)
    raw, rng = path.read_bytes(), np.random.default_rng(0)
    for end in rng.integers(len(raw), size=80):
        path.write_bytes(raw[:end])
        refusal(lambda: [x.read(np.float32) for x in read_table(path).values()])
    for i in rng.integers(raw.index(X.tobytes()), size=300):
        path.write_bytes(raw[:i] + bytes([rng.integers(256)]) + raw[i + 1 :])
        try:
            for tensor in read_table(path).values():
                tensor.read(np.float64)
        except ValueError as error:
            assert str(error).startswith(str(path)) and "\n" not in str(error)
