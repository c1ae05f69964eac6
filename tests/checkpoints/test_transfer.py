"""One file, over connections and from servers that fail in every way."""

import hashlib
import json
from types import SimpleNamespace

import numpy as np
import pytest
from file_server import CONTENT, OTHER, Handler, md5_of, once
from make_tf_fixture import FOLDER
from toys import random_tensors, write_safetensors
from tqdm import tqdm

import utils
from checkpoints import download, transfer
from gpt2 import Config

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def get(server, tmp_path, monkeypatch):
    """A function (name) -> the bytes of the file as fetched from the server; .waits are the seconds
    it would have slept.
    """

    def get(name="file.bin", address=None):
        get.waits.clear()
        record, path = transfer.read_record(tmp_path), tmp_path / name
        with tqdm(disable=True) as bar:
            address = address or f"{server.url}/{name}"
            transfer.fetch(address, path, record, bar, download.what_is_wrong)
        return path.read_bytes()

    get.waits = []
    monkeypatch.setattr(transfer, "sleep", get.waits.append)
    get.part, get.path = tmp_path / "file.bin.part", tmp_path / "file.bin"
    server.files["/file.bin"] = CONTENT
    return get


# ---------------------------------------------------------------- one fault at a time


def test_a_file(get, server):
    assert get() == CONTENT and get.waits == [] and not get.part.exists()
    assert server.requests == [("/file.bin", 0)]


def test_a_program_that_was_killed_goes_on(get, server):
    """The last kill came between the last byte and the renaming."""
    server.behave = lambda path, first: {"cut": 3000} if first < 6000 else {}
    get()
    assert [first for _, first in server.requests] == [0, 3000, 6000]
    get.path.rename(get.part)
    server.requests.clear()
    assert get() == CONTENT and server.requests == []


@pytest.mark.parametrize("piece", [1, 511, 1000])
def test_a_connection_that_always_breaks_still_progresses(get, server, piece):
    """However little arrives before it does, also less than is read at a time."""
    server.files["/file.bin"] = content = CONTENT[: 10 * piece]
    server.behave = lambda path, first: {"cut": piece}
    assert get() == content and {*get.waits} == {1}
    assert [first for _, first in server.requests] == list(range(0, len(content), piece))


CHANGED = {
    "and the server says so": {},
    "and the server ignores If-Range": {"ignores_if_range": True},
    "and the server ignores ranges": {"ignores_range": True},
    "and the server sends another part": {"ignores_if_range": True, "shifted": 7},
}


@pytest.mark.parametrize("how", CHANGED)
@pytest.mark.parametrize("length", [9000, 8000, 9999])
def test_a_file_that_changed_between_two_attempts(get, server, how, length):
    new = (OTHER + OTHER)[:length]
    server.behave = once({"cut": 4000}, {"content": new, **CHANGED[how]}, {"content": new})
    assert get() == new


def test_another_part_of_the_same_file(get, server):
    server.behave = once({"cut": 4000}, {"shifted": 7})
    assert get() == CONTENT


@pytest.mark.parametrize("tag", [None, 'W/"weak"'])
def test_without_a_tag_nothing_is_resumed(get, server, tag):
    """The same length and no tag: only beginning again is safe."""
    server.behave = once({"cut": 4000, "tag": tag}, {"tag": tag, "content": OTHER})
    assert get() == OTHER and [first for _, first in server.requests] == [0, 0]


WELL = {"url": "http://x/file.bin", "size": 9000, "etag": '"a"'}
DAMAGED = [{"url": None}, {"size": "9000"}, {"size": -1}, {"etag": 3}, {"etag": "a\nX-Header: b"}]
RECORDS = [b"", b"[]", b"[" * 200_000, b'{"file.bin": 3}', b'{"file.bin": {"url": "x"}}']
RECORDS += [json.dumps({"file.bin": WELL | one}).encode() for one in DAMAGED + [{"md5": 5}, {}]]


@pytest.mark.parametrize("raw", [None, *RECORDS])
def test_a_damaged_record_costs_a_beginning(get, server, raw, tmp_path):
    get.part.write_bytes(OTHER[:3000])
    if raw is not None:
        (tmp_path / transfer.RECORD).write_bytes(raw.replace(b"http://x", server.url.encode()))
    assert get() == CONTENT and len(server.requests) <= 2


def test_a_server_that_is_busy_is_asked_again_when_it_says(get, server):
    waits = ["17", "nonsense", None]
    server.behave = once(*({"status": 429, "headers": {"Retry-After": one}} for one in waits))
    assert get() == CONTENT and get.waits == [17, 2, 4]


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_server_that_refuses_is_not_asked_again(get, server, status):
    server.behave = lambda path, first: {"status": status}
    with pytest.raises(transfer.Refused, match=str(status)):
        get()
    assert len(server.requests) == 1 and not get.path.exists()


def test_a_wait_of_hours_is_a_refusal(get, server):
    server.behave = lambda path, first: {"status": 429, "headers": {"Retry-After": "7200"}}
    with pytest.raises(transfer.Refused, match="7200"):
        get()


@pytest.mark.parametrize("value", ["9" * 16, "9" * 5000, "-1", "1e9", "²", ""])
def test_numbers_that_are_none(get, server, value):
    """Wherever a server may send them."""
    headers = {"Content-Range": f"bytes 4000-8999/{value}", "Content-Length": "5000"}
    server.behave = once(
        {"status": 503, "headers": {"Retry-After": value}},
        {"headers": {"Content-Length": value}},
        {"headers": {"X-Linked-Size": value}, "cut": 4000},
        {"status": 206, "headers": headers, "content": OTHER[4000:]},
    )
    assert get() == CONTENT


LOCATIONS = ["http://[::1/x", "http://\xff/x", "\xff", "http://a:b:c/", "gopher://x/y"]


@pytest.mark.parametrize("location", [*LOCATIONS, "http://" + "a" * 5000, "http://\x00/"])
def test_a_redirection_to_nowhere(get, server, location):
    server.behave = lambda path, first: {"headers": {"Location": location}, "status": 302}
    with pytest.raises(transfer.Refused) as refused:
        get()
    assert "\n" not in str(refused.value) and not get.path.exists()


@pytest.mark.parametrize("address", ["no-scheme/x", "http://", "http://[::1/x", "ftp://x/y", "x:y"])
def test_an_endpoint_that_is_no_address(get, address):
    with pytest.raises(transfer.Refused):
        get(address=address)
    assert get.waits == []


@pytest.mark.parametrize("headers, said", [
    ({"Content-Type": "text/html; charset=utf-8"}, "web page"),
    ({"Content-Encoding": "gzip"}, "compressed"),
])  # fmt: skip
def test_something_else_instead_of_the_file(get, server, headers, said):
    server.behave = lambda path, first: {"headers": headers}
    with pytest.raises(transfer.Refused, match=said):
        get()
    assert not get.path.exists() and len(server.requests) == 1


def test_a_part_that_nobody_asked_for(get, server):
    server.behave = once({"status": 206, "headers": {"Content-Range": "bytes 0-8999/9000"}})
    assert get() == CONTENT and len(server.requests) == 2


def hugging_face(etag):
    return {"X-Repo-Commit": "c", "X-Linked-Etag": f'"{etag}"'}


LIES = {
    "more than there is": {"length": 100},
    "nothing": {"headers": {"Content-Length": None}},
    "less, and a checksum": {"length": -100, "headers": md5_of(CONTENT)},
    "another checksum": {"headers": md5_of(OTHER)},
    "another sha256": {"headers": hugging_face(hashlib.sha256(OTHER).hexdigest())},
    "another git hash": {"headers": hugging_face(hashlib.sha1(OTHER).hexdigest())},
    "another size": {"headers": {"X-Linked-Size": "9001"}},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies(get, server, lie):
    """Always: refused, in so many attempts. Twice: the third attempt is right."""
    server.behave = lambda path, first: LIES[lie]
    with pytest.raises(transfer.Refused):
        get()
    assert not get.path.exists() and len(get.waits) <= 2 * transfer.ATTEMPTS
    server.behave = once(LIES[lie], LIES[lie])
    assert get() == CONTENT


def test_the_checksums_that_sources_state(get, server):
    """Those of Azure, of Hugging Face for a large file behind a redirection, for a small one."""
    git = hashlib.sha1(b"blob 9000\0" + CONTENT).hexdigest()
    large = hugging_face(hashlib.sha256(CONTENT).hexdigest()) | {"X-Linked-Size": "9000"}
    ways = {
        "md5": {"headers": md5_of(CONTENT)},
        "git": {"headers": {"X-Repo-Commit": "c"}, "tag": f'"{git}"'},
        "sha256": {"redirect": "/file.bin", "headers": large},
    }
    for kind, way in ways.items():
        server.behave = once(way)
        get()
        known = transfer.read_record(get.path.parent)["file.bin"]
        assert known[kind] and known["size"] == 9000 and not transfer.difference(get.path, known)
        get.path.write_bytes(OTHER)
        assert kind in transfer.difference(get.path, known)


def test_silence_is_not_waited_for(get, server, monkeypatch):
    monkeypatch.setattr(transfer, "TIMEOUT", (5, 0.2))
    server.behave = once({"cut": 3000, "stall": 30}, {"cut": 0, "stall": 30})
    assert get() == CONTENT and len(get.waits) == 2


def test_chunks_without_a_length(get, server, monkeypatch):
    headers = {"Content-Length": None, "Transfer-Encoding": "chunked"}
    server.behave = lambda path, first: {"headers": headers}
    monkeypatch.setattr(Handler, "protocol_version", "HTTP/1.1")
    assert get() == CONTENT


def test_nobody_answers(get):
    with pytest.raises(transfer.Refused, match="no connection, 6 times in a row"):
        get(address="http://127.0.0.1:9/x")
    assert get.waits == [1, 2, 4, 8, 16]


def test_a_full_disk_is_seen_before(get, monkeypatch):
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    with pytest.raises(utils.InputError, match="make room"):
        get()
    assert not get.path.exists() and get.part.stat().st_size == 0


# ---------------------------------------------------------------- two hundred at random


def random_fault(rng):
    """A fault drawn at random; lengths lie low only where the source states a checksum."""
    md5, cut = md5_of(CONTENT), int(rng.integers(9000))
    faults = [
        {"cut": cut},
        {"cut": cut, "tag": None},
        {"length": int(rng.integers(1, 500))},
        {"length": -int(rng.integers(1, 500)), "headers": md5},
        {"status": int(rng.choice([408, 429, 500, 502, 503, 504]))},
        {"ignores_range": True, "cut": cut},
        {"content": OTHER, "headers": md5, "cut": cut},
        {"content": OTHER, "headers": md5, "ignores_if_range": True},
        {"ignores_if_range": True, "shifted": int(rng.integers(1, 50))},
        {"content": OTHER[:cut], "cut": int(rng.integers(100))},
        {"headers": {"Content-Length": None}},
        {"cut": 0},
    ]
    return faults[rng.integers(len(faults))]


@pytest.mark.parametrize("seed", range(4))
def test_no_wrong_byte_is_ever_taken_as_whole(server, get, seed):
    rng, n_faults = np.random.default_rng(seed), 0
    while n_faults < 60:
        get.path.unlink(missing_ok=True)
        get.part.unlink(missing_ok=True)
        faults = [random_fault(rng) for _ in range(rng.integers(1, 9))]
        n_faults += len(faults)
        server.behave = once(*faults)
        for _ in range(3):
            try:
                assert get() == CONTENT
                break
            except transfer.Refused:  # too many in a row; the next call goes on
                assert not get.path.exists()
        else:
            pytest.fail("it never came to an end")


@pytest.mark.parametrize(
    "name", ["model.safetensors", "model.ckpt.index", download.DATA, "hparams.json"]
)
def test_a_server_that_cuts_in_silence(server, get, name, tmp_path):
    """No checksum is stated, the length is that of what comes: what is in the file must tell."""
    write_safetensors(tmp_path / "whole", random_tensors(Config(3, 2, 4, 2, 1)))
    path = tmp_path / "whole" if name == "model.safetensors" else FOLDER / name
    server.files[f"/{name}"] = right = path.read_bytes()
    (tmp_path / "model.ckpt.index").write_bytes((FOLDER / "model.ckpt.index").read_bytes())
    rng = np.random.default_rng(0)
    for length in rng.integers(len(right), size=10):
        server.behave = once({"content": right[:length]})
        (tmp_path / name).unlink(missing_ok=True)
        assert get(name) == right and len(get.waits) == 1
