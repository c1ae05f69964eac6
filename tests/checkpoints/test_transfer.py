"""One file, over connections and from servers that fail in every way."""

import hashlib
import json
import time
from types import SimpleNamespace

import numpy as np
import pytest
from file_server import CONTENT, HTML, OTHER, Handler, md5_of, once
from make_tf_fixture import FOLDER
from toys import random_tensors, write_safetensors
from tqdm import tqdm

import utils
from checkpoints import download, transfer
from gpt2 import Config

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def get(server, tmp_path):
    """A function (name) -> the bytes of the file as fetched from the server; .waits are the seconds
    it would have slept.
    """

    def get(name="file.bin", timeout=(5, 5), sleep=None):
        get.waits = []
        record = transfer.read_record(tmp_path)
        with tqdm(disable=True) as bar:
            transfer.fetch(
                get.address or f"{server.url}/{name}",
                tmp_path / name,
                record,
                bar,
                download.check_content,
                sleep or get.waits.append,
                timeout,
            )
        return (tmp_path / name).read_bytes()

    get.address = None
    get.part, get.path = tmp_path / "file.bin.part", tmp_path / "file.bin"
    server.files["/file.bin"] = CONTENT
    return get


# ---------------------------------------------------------------- one fault at a time


def test_a_file(get, server):
    assert get() == CONTENT and get.waits == [] and not get.part.exists()
    assert server.requests == [("/file.bin", 0)]


@pytest.mark.parametrize(
    "fault", [{"cut": 4000}, {"cut": 4000, "headers": {"Content-MD5": None}}, {"cut": 1}]
)
def test_a_connection_that_breaks_is_resumed(get, server, fault):
    server.behave = once(fault)
    assert get() == CONTENT
    (_, none), (_, first) = server.requests
    assert none == 0 and 0 <= fault["cut"] - first < 512 and get.waits == [1]


def test_a_program_that_was_killed_goes_on(get, server):
    """The last kill came between the last byte and the renaming."""
    server.behave = lambda path, first: {"cut": 3000} if first < 6000 else {}
    get()
    assert [first for _, first in server.requests] == [0, 3000, 6000]
    get.path.rename(get.part)
    server.requests.clear()
    assert get() == CONTENT and server.requests == []


class Killed(BaseException):
    """As KeyboardInterrupt is: not an error."""


def test_an_interruption_leaves_the_part(get, server):
    def interrupt(seconds):
        raise KeyboardInterrupt

    server.behave = once({"cut": 4000})
    with pytest.raises(KeyboardInterrupt):
        get(sleep=interrupt)
    assert get.part.read_bytes() == CONTENT[:4000] and not get.path.exists()
    assert get() == CONTENT and server.requests[-1][1] == 4000


@pytest.mark.parametrize("piece", [1, 100, 511, 1000])
def test_a_connection_that_always_breaks_still_progresses(get, server, piece):
    """However little arrives before it does, also less than is read at a time."""
    server.files["/file.bin"] = content = CONTENT[: 40 * piece]
    server.behave = lambda path, first: {"cut": piece}
    assert get() == content
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
    server.behave = once({"cut": 4000}, {"content": new, **CHANGED[how]})
    server.files["/file.bin"] = CONTENT
    behave = server.behave

    def changing(path, first):
        found = behave(path, first)
        if "content" in found:
            server.files["/file.bin"] = new
        return found

    server.behave = changing
    assert get() == new


@pytest.mark.parametrize("tag", [None, 'W/"weak"'])
def test_without_a_tag_nothing_is_resumed(get, server, tag):
    """The same length and no tag: only beginning again is safe."""
    server.behave = once({"cut": 4000, "tag": tag}, {"tag": tag, "content": OTHER})
    assert get() == OTHER and [first for _, first in server.requests] == [0, 0]


def test_a_part_that_nothing_is_known_of_is_not_used(get, server):
    get.part.write_bytes(OTHER[:3000])
    assert get() == CONTENT and server.requests == [("/file.bin", 0)]


WELL = {"url": "http://x/file.bin", "size": 9000, "etag": '"a"'}
DAMAGED_RECORDS = [
    b"",
    b"[]",
    b"{",
    b"[" * 200_000,
    b'{"file.bin": 3}',
    b'{"file.bin": {"url": "x"}}',
]
for wrong in (
    {"url": None},
    {"url": ["x"]},
    {"url": "http://x/\x1b[31m"},
    {"size": "9000"},
    {"size": -1},
    {"size": 9000.5},
    {"size": True},
    {"etag": 3},
    {"etag": "a\nX-Header: b"},
    {"etag": 'W/"a"'},
    {"sha256": 5},
    {"md5": "zz"},
    {"git": ["x"]},
):
    DAMAGED_RECORDS.append(json.dumps({"file.bin": WELL | wrong}).encode())


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/b", "a\\b", "", ".", "..", "a\x1b", "c:x"]
)
def test_a_record_names_files_of_its_folder_only(tmp_path, name):
    (tmp_path / transfer.RECORD).write_text(json.dumps({name: WELL, "file.bin": WELL}))
    assert transfer.read_record(tmp_path).keys() == {"file.bin"}


@pytest.mark.parametrize("raw", DAMAGED_RECORDS, ids=range(len(DAMAGED_RECORDS)))
def test_a_damaged_record_costs_a_beginning(get, server, raw, tmp_path):
    get.part.write_bytes(OTHER[:3000])
    (tmp_path / transfer.RECORD).write_bytes(raw.replace(b"http://x", server.url.encode()))
    assert transfer.read_record(tmp_path) == {}
    assert get() == CONTENT


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_a_server_that_is_busy_is_asked_again(get, server, status):
    server.behave = once({"status": status}, {"status": status})
    assert get() == CONTENT and get.waits == [1, 2]


def test_the_server_says_how_long_to_wait(get, server):
    soon = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 60))
    server.behave = once(
        *({"status": 429, "headers": {"Retry-After": when}} for when in ("17", soon, "nonsense"))
    )
    assert get() == CONTENT
    assert get.waits[0] == 17 and 50 < get.waits[1] <= 60 and get.waits[2] == 4


@pytest.mark.parametrize(
    "status, said",
    [(404, "not there"), (403, "forbidden"), (401, "private"), (400, "400"), (301, "301")],
)
def test_a_server_that_refuses_is_not_asked_again(get, server, status, said):
    server.behave = lambda path, first: {"status": status}
    with pytest.raises(transfer.Refused, match=said):
        get()
    assert len(server.requests) == 1 and not get.path.exists()


def test_a_wait_of_hours_is_a_refusal(get, server):
    server.behave = lambda path, first: {"status": 429, "headers": {"Retry-After": "7200"}}
    with pytest.raises(transfer.Refused, match="7200"):
        get()


DIGITS = ["9" * n for n in (16, 400, 5000)]


@pytest.mark.parametrize("wait", [*DIGITS, "-1", "1e9", "²", "Fri, 31 Dec 99999 23:59:59 GMT"])
def test_a_wait_that_is_no_number_of_seconds(get, server, wait):
    server.behave = once({"status": 503, "headers": {"Retry-After": wait}})
    assert get() == CONTENT and get.waits == [1]


@pytest.mark.parametrize("length", [*DIGITS, "-1", "nonsense", ""])
@pytest.mark.parametrize("name", ["Content-Length", "X-Linked-Size"])
def test_a_length_that_is_none(get, server, name, length):
    server.behave = once({"headers": {name: length}})
    assert get() == CONTENT


@pytest.mark.parametrize("length", DIGITS)
def test_a_range_of_an_absurd_length(get, server, length):
    total = {"Content-Range": f"bytes 4000-8999/{length}", "Content-Length": "5000"}
    whole = {"headers": {"Content-Length": "9000"}}
    answers = [{"cut": 4000}, {"status": 206, "headers": total, "content": CONTENT[4000:]}, whole]
    server.behave = once(*answers)
    assert get() == CONTENT


LOCATIONS = [
    "http://[::1/x",
    "http://\xff/x",
    "\xff",
    "http://[",
    "http://a:b:c/",
    "gopher://x/y",
    "",
]


@pytest.mark.parametrize("location", [*LOCATIONS, "http://" + "a" * 5000, "http://\x00/"])
def test_a_redirection_to_nowhere(get, server, location):
    server.behave = lambda path, first: {"headers": {"Location": location}, "status": 302}
    with pytest.raises(transfer.Refused) as refused:
        get()
    assert "\n" not in str(refused.value) and not get.path.exists()


@pytest.mark.parametrize("address", ["no-scheme/x", "http://", "http://[::1/x", "ftp://x/y", "x:y"])
def test_an_endpoint_that_is_no_address(get, address):
    get.address = address
    with pytest.raises(transfer.Refused, match="not valid"):
        get()
    assert get.waits == []


@pytest.mark.parametrize("headers", [{"Content-Type": "text/html; charset=utf-8"}, {}])
def test_a_web_page_instead_of_the_file(get, server, headers):
    server.behave = lambda path, first: {"content": HTML, "headers": headers}
    with pytest.raises(transfer.Refused, match="web page"):
        get()
    assert not get.path.exists()


LIES = {
    "more than there is": {"length": 100},
    "nothing": {"headers": {"Content-Length": None}},
    "less, and a checksum": {"length": -100, "headers": md5_of(CONTENT)},
    "another checksum": {"headers": md5_of(OTHER)},
    "another sha256": {
        "headers": {"X-Repo-Commit": "1", "X-Linked-Etag": f'"{hashlib.sha256(OTHER).hexdigest()}"'}
    },
    "another git hash": {
        "headers": {"X-Repo-Commit": "1"},
        "tag": f'"{hashlib.sha1(OTHER).hexdigest()}"',
    },
    "another size": {"headers": {"X-Linked-Size": "9001"}},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies(get, server, lie):
    """Always: refused, in so many attempts. Twice: the third attempt is right."""
    server.behave = lambda path, first: LIES[lie]
    with pytest.raises(transfer.Refused, match="times in a row"):
        get()
    assert not get.path.exists() and len(get.waits) <= 2 * transfer.ATTEMPTS
    server.behave = once(LIES[lie], LIES[lie])
    assert get() == CONTENT


def test_the_checksums_that_sources_state(get, server):
    """Those of Azure, of Hugging Face for a large file behind a redirection, for a small one."""
    git = hashlib.sha1(b"blob 9000\0" + CONTENT).hexdigest()
    large = {
        "X-Repo-Commit": "c",
        "X-Linked-Etag": f'"{hashlib.sha256(CONTENT).hexdigest()}"',
        "X-Linked-Size": "9000",
    }
    ways = {
        "md5": {"headers": md5_of(CONTENT)},
        "git": {"headers": {"X-Repo-Commit": "c"}, "tag": f'"{git}"'},
        "sha256": {"redirect": "/file.bin", "headers": large},
    }
    for kind, way in ways.items():
        server.behave = once(way)
        get()
        said = transfer.read_record(get.path.parent)["file.bin"]
        assert said[kind] and said["size"] == 9000 and not transfer.wrong_checksums(get.path, said)
        get.path.write_bytes(OTHER)
        assert transfer.wrong_checksums(get.path, said) == [kind]


def test_silence_is_not_waited_for(get, server):
    server.behave = once({"cut": 3000, "stall": 30}, {"cut": 0, "stall": 30})
    assert get(timeout=(5, 0.2)) == CONTENT and len(get.waits) == 2


def test_chunks_without_a_length(get, server):
    server.behave = lambda path, first: {
        "headers": {"Content-Length": None, "Transfer-Encoding": "chunked"}
    }
    server_protocol, Handler.protocol_version = Handler.protocol_version, "HTTP/1.1"
    try:
        assert get() == CONTENT
    finally:
        Handler.protocol_version = server_protocol


def test_nobody_answers(get, server, tmp_path):
    with (
        tqdm(disable=True) as bar,
        pytest.raises(transfer.Refused, match="no connection, 6 times in a row"),
    ):
        transfer.fetch("http://127.0.0.1:9/x", tmp_path / "x", {}, bar, None, lambda seconds: None)


def test_a_full_disk_is_seen_before(get, server, monkeypatch):
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    with pytest.raises(utils.InputError, match="needs 0.00 GB more, 0.00 GB are free; make room"):
        get()
    assert not get.path.exists() and get.part.stat().st_size == 0


# ---------------------------------------------------------------- two hundred at random


def random_fault(rng, content):
    """A fault drawn at random; sources state a checksum or none, lengths that lie low only where
    they do.
    """
    md5 = md5_of(content)
    faults = [
        lambda: {"cut": int(rng.integers(len(content)))},
        lambda: {"cut": int(rng.integers(len(content))), "tag": None},
        lambda: {"length": int(rng.integers(1, 500))},
        lambda: {"length": -int(rng.integers(1, 500)), "headers": md5},
        lambda: {"status": int(rng.choice([408, 429, 500, 502, 503, 504]))},
        lambda: {"ignores_range": True, "cut": int(rng.integers(len(content)))},
        lambda: {"content": OTHER, "headers": md5, "cut": int(rng.integers(len(content)))},
        lambda: {"content": OTHER, "headers": md5, "ignores_if_range": True},
        lambda: {"ignores_if_range": True, "shifted": int(rng.integers(1, 50))},
        lambda: {"content": OTHER[: rng.integers(9000)], "cut": int(rng.integers(100))},
        lambda: {"headers": {"Content-Length": None}},
        lambda: (
            {"cut": int(rng.integers(len(content))), "stall": 20}
            if rng.random() < 0.1
            else {"cut": 0}
        ),
    ]
    return faults[rng.integers(len(faults))]()


@pytest.mark.parametrize("seed", range(4))
def test_no_wrong_byte_is_ever_taken_as_whole(server, get, seed, tmp_path):
    rng, n_faults = np.random.default_rng(seed), 0
    while n_faults < 60:
        get.path.unlink(missing_ok=True)
        get.part.unlink(missing_ok=True)
        faults = [random_fault(rng, CONTENT) for _ in range(rng.integers(1, 9))]
        n_faults += len(faults)
        server.behave = once(*faults)
        for _ in range(3):
            try:
                assert get(timeout=(5, 0.15)) == CONTENT
                break
            except transfer.Refused:  # too many in a row; the next call goes on
                assert not get.path.exists()
        else:
            pytest.fail("it never came to an end")


@pytest.mark.parametrize(
    "name", ["model.safetensors", "model.ckpt.index", download.DATA, "hparams.json"]
)
def test_a_server_that_changes_bytes_or_lengths_in_silence(server, get, name, tmp_path):
    """No checksum is stated, the length is that of what comes: what is in the file must tell."""
    write_safetensors(tmp_path / "whole.safetensors", random_tensors(Config(3, 2, 4, 2, 1)))
    right = (
        tmp_path / "whole.safetensors" if name == "model.safetensors" else FOLDER / name
    ).read_bytes()
    (tmp_path / "model.ckpt.index").write_bytes((FOLDER / "model.ckpt.index").read_bytes())
    rng = np.random.default_rng(0)
    for length in rng.integers(len(right), size=20):
        server.behave = once({"content": right[:length]})
        server.files[f"/{name}"] = right
        (tmp_path / name).unlink(missing_ok=True)
        assert get(name) == right and len(get.waits) == 1


@pytest.mark.parametrize("url, shown", [
    ("https://example.org/a@b", "https://example.org/a@b"),
    ("https://u:p@example.org/a@b", "https://example.org/a@b"),
    ("https://u@example.org?q=a@b", "https://example.org?q=a@b"),
    ("https://u:p@w@example.org/", "https://example.org/"),
    ("//u:p@example.org/", "//example.org/"),
])  # fmt: skip
def test_what_of_an_address_is_kept(url, shown):
    assert transfer.without_credentials(url) == shown
