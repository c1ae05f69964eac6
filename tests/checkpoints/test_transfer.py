"""One file, over connections and from servers that fail in every way."""

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from file_server import CONTENT, OTHER, md5_of, once
from toys import refusal

from checkpoints import transfer

pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture
def get(server, tmp_path, monkeypatch):
    """A function () -> the bytes as fetched; .waits are the seconds it would have slept."""

    def get(folder=server.url):
        get.waits.clear()
        transfer.fetch(folder, get.path)
        return get.path.read_bytes()

    get.waits = []
    monkeypatch.setattr(transfer, "sleep", get.waits.append)
    get.part, get.path = tmp_path / "file.bin.part", tmp_path / "file.bin"
    server.files["/file.bin"] = CONTENT
    return get


def test_every_wait_says_the_server_the_attempt_and_the_seconds(get, server, capsys):
    server.behave = once({"status": 429}, {"status": 503})
    get()
    one, two = capsys.readouterr().err.splitlines()
    assert "127.0.0.1" in one and one.endswith("429; attempt 2 of 6 in 1 s")
    assert two.endswith("503; attempt 3 of 6 in 2 s")


# as Hugging Face states the checksum of a large file
SHA256 = {"X-Linked-Etag": f'"{hashlib.sha256(OTHER).hexdigest()}"'}
ELSEWHERE = {"status": 302, "headers": SHA256 | {"Location": "/file.bin"}}
CHUNKED = {"headers": {"Content-Length": None, "Transfer-Encoding": "chunked"}}
OVERCOME = {  # what goes wrong, one after the other: the first bytes asked for, the waits
    "nothing": ([], [0], []),
    "cut twice": ([{"cut": 3000}, {"cut": 3000}], [0, 3000, 6000], [1, 1]),
    "another file": ([{"cut": 4000, "content": OTHER}], [0, 4000], [1]),
    "the rest of another file": (
        [{"cut": 4000, "content": OTHER}, {"ignores_if_range": True}],
        [0, 4000, 0],
        [1, 2],
    ),
    "another part comes": ([{"cut": 4000}, {"shifted": 7}], [0, 4000, 0], [1, 2]),
    # without a tag that stands for the very same bytes, only beginning again is safe
    "no tag": ([{"cut": 4000, "tag": None, "content": OTHER}], [0, 0], [1]),
    "a weak tag": ([{"cut": 4000, "tag": 'W/"x"'}, {"tag": 'W/"x"'}], [0, 0], [1]),
    "a part unasked": ([{"status": 206, "headers": {"Content-Range": "bytes 0-8/9"}}], [0, 0], [1]),
    "busy": ([{"status": 429}, {"status": 503}], [0, 0, 0], [1, 2]),
    "no length": ([{"headers": {"Content-Length": None}}], [0, 0], [1]),
    "a length too small": ([{"length": -9, "headers": md5_of(CONTENT)}], [0, 0], [1]),
    "another md5": ([{"headers": md5_of(OTHER)}], [0, 0], [1]),
    "no md5 where one should be": ([{"headers": {"Content-MD5": "unknown"}}], [0], []),
    "another sha256": ([ELSEWHERE], [0, 0, 0], [1]),  # stated where it redirects
    "chunks": ([CHUNKED], [0], []),
}


@pytest.mark.parametrize("fault", OVERCOME)
def test_a_fault_that_passes(get, server, fault):
    faults, asked, waits = OVERCOME[fault]
    server.behave = once(*faults)
    assert get() == CONTENT and get.waits == waits and not get.part.exists()
    assert [first for _, first in server.requests] == asked


def test_a_program_that_was_killed_before_the_renaming(get, server):
    get()
    get.path.rename(get.part)
    server.requests.clear()
    assert get() == CONTENT and server.requests == []


def test_a_download_begun_from_one_address_does_not_go_on_from_another(get, server):
    server.files["/mirror/file.bin"] = CONTENT
    server.behave = once({"cut": 4000}, {"status": 403})
    with pytest.raises(transfer.HttpError):
        get()
    assert get(f"{server.url}/mirror") == CONTENT
    assert server.requests[-1] == ("/mirror/file.bin", 0)


@pytest.mark.parametrize("piece", [1, 511, 1000])
def test_a_connection_that_always_breaks_still_progresses(get, server, piece):
    """However little arrives before it does, also less than is read at a time."""
    server.files["/file.bin"] = content = CONTENT[: 10 * piece]
    server.behave = lambda path, first: {"cut": piece}
    assert get() == content and {*get.waits} == {1}
    assert [first for _, first in server.requests] == list(range(0, len(content), piece))


REFUSED = {  # what always goes wrong: what is said, the number of requests
    "forbidden": ({"status": 403}, "403", 1),
    "not there": ({"status": 404}, "not there", 1),
    "a login": ({"headers": {"Content-Type": "text/html; charset=utf-8"}}, "login", 1),
    "compressed": ({"headers": {"Content-Encoding": "gzip"}}, "something else", 1),
    "sent nowhere": ({"status": 302, "headers": {"Location": "http://[::1/x"}}, "not valid", 1),
    "a broken server": ({"status": 503}, "503, 6 times", 6),
    "never a length": ({"headers": {"Content-Length": None}}, "how long", 6),
    "never the checksum": ({"headers": md5_of(OTHER)}, "md5", 11),
    "always more than there is": ({"length": 100}, "6 times", 7),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_fault_that_stays(get, server, fault):
    behaviour, said, n_requests = REFUSED[fault]
    server.behave = lambda path, first: behaviour
    with pytest.raises(transfer.HttpError, match=said):
        get()
    assert not get.path.exists() and len(server.requests) <= n_requests


def test_nobody_answers(get):
    with pytest.raises(transfer.HttpError, match="no connection, 6 times in a row"):
        get("http://127.0.0.1:9")
    assert get.waits == [1, 2, 4, 8, 16]


def test_silence_is_not_waited_for(get, server, monkeypatch):
    monkeypatch.setattr(transfer, "TIMEOUT", (5, 0.2))
    server.behave = once({"cut": 3000, "stall": 30}, {"cut": 0, "stall": 30})
    assert get() == CONTENT and len(get.waits) == 2


def test_a_full_disk_is_seen_before(get, monkeypatch):
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    assert "make room" in refusal(get)
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
            except transfer.HttpError:  # too many in a row; the next call goes on
                assert not get.path.exists()
        else:
            pytest.fail("it never came to an end")
