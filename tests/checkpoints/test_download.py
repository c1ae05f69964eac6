"""Downloads from a server on this machine that misbehaves in every way a server, a proxy or a
connection can.
"""

import base64
import hashlib
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from make_tf_fixture import FOLDER
from toys import NUMPY, TINY, random_tensors, write_checkpoint, write_safetensors
from tqdm import tqdm

import main
import utils
from checkpoints import download, search, transfer
from checkpoints.formats import tf_checkpoint
from checkpoints.registry import gigabytes
from gpt2 import Config

CONTENT = bytes(np.random.default_rng(0).integers(256, size=9000, dtype=np.uint8))
OTHER = bytes(np.random.default_rng(1).integers(256, size=9000, dtype=np.uint8))
HTML = b"<!DOCTYPE html>\n<title>Log in to the network</title>" + b" " * 2000


def md5_of(content):
    return {"Content-MD5": base64.b64encode(hashlib.md5(content).digest()).decode()}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as server.behave(handler) says: a dict of what is out of the ordinary; the files are
    server.files.
    """

    def do_GET(self):
        server, path = self.server, self.path
        range_from = int(re.sub(r"\D", "", self.headers.get("Range", "0")))
        server.requests.append((path, range_from))
        how = server.behave(path, range_from)
        if how.get("redirect"):
            return self.answer(
                302,
                {"Location": how["redirect"], "Content-Length": "0", **how.get("headers", {})},
                b"",
            )
        content = how.get("content", server.files.get(path))
        if content is None:
            return self.answer(404, {"Content-Length": "3"}, b"no\n")
        tag = how.get("tag", f'"{hashlib.sha256(content).hexdigest()[:16]}"')
        headers = {"ETag": tag, "Content-Length": str(len(content)), **how.get("headers", {})}
        unchanged = self.headers.get("If-Range") == tag or how.get("ignores_if_range")
        status = how.get("status", 200)
        if status == 200 and range_from and unchanged and not how.get("ignores_range"):
            if range_from >= len(content):
                return self.answer(
                    416, {"Content-Range": f"bytes */{len(content)}", "Content-Length": "0"}, b""
                )
            first = range_from + how.get("shifted", 0)
            status, body = 206, content[first:]
            headers |= {
                "Content-Length": str(len(body)),
                "Content-Range": f"bytes {first}-{len(content) - 1}/{len(content)}",
            }
        else:
            body = content
        if "length" in how:
            headers["Content-Length"] = str(max(0, len(body) + how["length"]))
        headers = {name: value for name, value in headers.items() if value is not None}
        self.answer(status, headers, body[: how.get("cut")], how.get("stall", 0))

    def answer(self, status, headers, body, stall=0):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            if headers.get("Transfer-Encoding") == "chunked":
                body = b"%x\r\n%s\r\n" % (len(body), body) + b"0\r\n\r\n"
            self.wfile.write(body)
            self.wfile.flush()
            if stall:
                self.server.stop.wait(stall)
        except OSError:
            pass  # the client hung up
        self.close_connection = True

    def log_message(self, *words):
        pass


@pytest.fixture
def server():
    """A server: .files {path: bytes}, .behave, and .requests [(path, first byte)]."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.requests, server.behave, server.stop = (
        {},
        [],
        lambda path, first: {},
        threading.Event(),
    )
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.stop.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No cache, no proxy, no real host; small pieces; and waiting takes no time but is noted."""
    for name in os.environ:
        if name.startswith(("HF_", "GPT2_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name in ("HF_ENDPOINT", "GPT2_OPENAI_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(transfer, "CHUNK", 512)


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


def once(*faults):
    """A behaviour with these faults one after the other, then none."""
    left = list(faults)
    return lambda path, first: left.pop(0) if left else {}


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


# ---------------------------------------------------------------- whole models


def openai_files(size="124M"):
    names = [path.name for path in FOLDER.iterdir()]
    return {f"/openai/{size}/{name}": (FOLDER / name).read_bytes() for name in names} | {
        f"/openai/{size}/checkpoint": b'model_checkpoint_path: "model.ckpt"\n'
    }


@pytest.fixture
def sources(server, monkeypatch, tmp_path):
    """Both sources have 124M, Hugging Face also somebody's model in one file, in several, and as a
    pickle.
    """
    server.files |= openai_files()
    monkeypatch.setenv("GPT2_OPENAI_ENDPOINT", server.url + "/openai/")
    monkeypatch.setenv("HF_ENDPOINT", server.url + "/hf")
    monkeypatch.setattr(download, "TOKENIZER", {})
    monkeypatch.setattr(transfer.fetch, "__defaults__", (lambda seconds: None, (5, 5)))
    whole = write_checkpoint(tmp_path / "theirs")
    for repository in ("openai-community/gpt2", "distilbert/distilgpt2", "some-body/tiny.gpt2"):
        server.files |= {
            f"/hf/{repository}/resolve/main/{path.name}": path.read_bytes()
            for path in whole.iterdir()
        }
    base, tensors = "/hf/some-body/shards/resolve/main/", random_tensors(TINY)
    for name in ("config.json", "vocab.json", "merges.txt"):
        server.files[base + name] = server.files["/hf/some-body/pickle/resolve/main/" + name] = (
            whole / name
        ).read_bytes()
    index = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(tensors)}
    for file in set(index.values()):
        write_safetensors(
            whole / file, {name: tensors[name] for name in tensors if index[name] == file}
        )
        server.files[base + file] = (whole / file).read_bytes()
    server.files[base + "model.safetensors.index.json"] = json.dumps(
        {"metadata": {}, "weight_map": index}
    ).encode()
    return server


def run(capsys, *words, models_dir):
    code = main.main([words[0], f"--models_dir={models_dir}", *words[1:]])
    out, err = capsys.readouterr()
    return SimpleNamespace(code=code, out=out, err=err)


def test_from_openai_first(sources, capsys, tmp_path):
    done = run(capsys, "download", "124M", models_dir=tmp_path / "m")
    assert (done.code, done.err) == (0, "") and str(tmp_path / "m" / "124M") in done.out
    assert {path.name for path in (tmp_path / "m" / "124M").iterdir()} == {
        *download.OPENAI_FILES,
        transfer.RECORD,
    }
    utils.load_pair("124M", None, tmp_path / "m", NUMPY)
    sources.requests.clear()
    assert (
        run(capsys, "download", "124M", models_dir=tmp_path / "m").code == 0
        and not sources.requests
    )


@pytest.mark.parametrize(
    "fault", [{"status": 404}, {"status": 403}, {"status": 500}, {"content": HTML}, {"cut": 0}]
)
def test_hugging_face_where_openai_fails(sources, capsys, tmp_path, fault):
    sources.behave = lambda path, first: (
        fault if path.startswith("/openai") and "data" in path else {}
    )
    assert run(capsys, "download", "124M", models_dir=tmp_path).code == 0
    folder = tmp_path / "124M"
    assert (folder / "model.safetensors").is_file() and not list(folder.glob("*.part"))
    assert utils.load_model(folder, NUMPY).config == TINY


@pytest.mark.parametrize("source, host", [("openai", "/openai"), ("huggingface", "/hf")])
def test_one_source_only(sources, capsys, tmp_path, source, host):
    assert run(capsys, "download", "124M", f"--source={source}", models_dir=tmp_path).code == 0
    assert {path.split("/")[1] for path, _ in sources.requests} == {host[1:]}


def test_both_sources_fail(sources, capsys, tmp_path):
    sources.behave = lambda path, first: {"status": 403}
    done = run(capsys, "download", "124M", models_dir=tmp_path)
    assert done.code == 2 and done.out == "" and done.err.count("\n") == 1
    assert (
        "OpenAI: checkpoint: " in done.err
        and "Hugging Face: config.json: " in done.err
        and "403" in done.err
    )


@pytest.mark.parametrize("size", ["some-body/tiny.gpt2", "some-body/shards", "82M"])
def test_hugging_face_only(sources, capsys, tmp_path, size):
    assert run(capsys, "download", size, models_dir=tmp_path).code == 0
    folder = utils.find_folder(size, tmp_path)
    model = utils.load_model(folder, NUMPY)
    np.testing.assert_array_equal(model.params["wte"], random_tensors(TINY)["wte.weight"])
    assert run(capsys, "download", size, "--source=openai", models_dir=tmp_path).code == 2


def test_a_pickle_is_not_fetched(sources, capsys, tmp_path):
    done = run(capsys, "download", "some-body/pickle", models_dir=tmp_path)
    assert (
        done.code == 2 and "no model.safetensors; a pickle" in done.err and "convert it" in done.err
    )


def test_an_index_of_shards_that_leads_elsewhere(sources, capsys, tmp_path):
    base = "/hf/some-body/shards/resolve/main/"
    sources.files[base + "model.safetensors.index.json"] = (
        b'{"weight_map": {"wte": "../../x.safetensors"}}'
    )
    assert run(capsys, "download", "some-body/shards", models_dir=tmp_path).code == 2
    assert not (tmp_path.parent / "x.safetensors").exists()


def test_gpt2s_tokenizer_is_known(sources, capsys, tmp_path, monkeypatch):
    """A vocabulary that was cut short parses as one, and would garble every text."""
    monkeypatch.undo()
    assert download.TOKENIZER.keys() == {"encoder.json", "vocab.bpe"}
    with pytest.raises(transfer.Again, match="not GPT-2's"):
        (tmp_path / "vocab.bpe").write_bytes(b"#version: 0.2\n")
        download.check_content(tmp_path / "vocab.bpe", "vocab.bpe")


def test_a_mirror_is_a_mirror(sources, capsys, tmp_path):
    """A download begun from one address does not go on from another."""
    sources.behave = lambda path, first: (
        {"cut": 2000} if "data" in path and not first else {"status": 403} if first else {}
    )
    run(capsys, "download", "124M", "--source=openai", models_dir=tmp_path)
    assert (tmp_path / "124M" / (download.DATA + ".part")).stat().st_size > 0
    sources.behave, other = lambda path, first: {}, dict(sources.files)
    sources.files |= {
        path.replace("/openai", "/mirror"): content for path, content in other.items()
    }
    os.environ["GPT2_OPENAI_ENDPOINT"] = sources.url + "/mirror"
    sources.requests.clear()
    assert run(capsys, "download", "124M", "--source=openai", models_dir=tmp_path).code == 0
    assert all(first == 0 for _, first in sources.requests)


def test_credentials_are_used_and_never_kept(sources, capsys, tmp_path, monkeypatch):
    """Neither stored nor shown, also those that an older version stored."""
    with_secret = sources.url.replace("//", "//user:secret@")
    monkeypatch.setenv("GPT2_OPENAI_ENDPOINT", with_secret + "/openai")
    sources.behave = once({"cut": 3})
    done = run(capsys, "download", "124M", models_dir=tmp_path)
    assert done.code == 0 and sources.requests[1][1] == 3  # still the same address
    folder = tmp_path / "124M"
    record = (folder / transfer.RECORD).read_text()
    old = record.replace("http://", "http://user:secret@")
    for text in (record, old):
        (folder / transfer.RECORD).write_text(text)
        shown = run(capsys, "check", "124M", models_dir=tmp_path)
        assert f"from {sources.url}/openai/124M\n" in shown.out
        assert "secret" not in done.out + done.err + shown.out + shown.err
    assert "secret" not in record and "user" not in record


def test_credentials_are_not_in_errors(sources, capsys, tmp_path, monkeypatch):
    endpoints = ["http://user:secret@127.0.0.1:9", "user:secret@host", "http://user:secret@[::1"]
    for endpoint in endpoints:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        done = run(capsys, "download", "82M", models_dir=tmp_path)
        assert done.code == 2 and done.err.count("\n") == 1 and "secret" not in done.err


@pytest.mark.parametrize("url, shown", [
    ("https://example.org/a@b", "https://example.org/a@b"),
    ("https://u:p@example.org/a@b", "https://example.org/a@b"),
    ("https://u@example.org?q=a@b", "https://example.org?q=a@b"),
    ("https://u:p@w@example.org/", "https://example.org/"),
    ("//u:p@example.org/", "//example.org/"),
])  # fmt: skip
def test_what_of_an_address_is_kept(url, shown):
    assert transfer.without_credentials(url) == shown


# ---------------------------------------------------------------- what the command line says


@pytest.mark.parametrize("words, said", [
    ([], "expected sizes"),
    (["3B"], "'3B'"),
    (["124M", "x/../y"], "'x/../y'"),
    (["../gpt2"], "'../gpt2'"),
    (["124M", "--source=mars"], "'mars'"),
])  # fmt: skip
def test_words_that_are_no_download(capsys, tmp_path, words, said):
    done = run(capsys, "download", *words, models_dir=tmp_path)
    assert done.code == 2 and done.out == "" and done.err.count("\n") == 1 and said in done.err
    assert not list(tmp_path.glob("*/*"))


def test_a_missing_size_says_how_to_get_it(capsys, tmp_path):
    done = run(capsys, "generate", "--target_model_size=355M", models_dir=tmp_path)
    assert (
        done.code == 2 and "--download" in done.err and "python main.py download 355M" in done.err
    )


def test_a_half_downloaded_folder_is_not_a_model(sources, capsys, tmp_path):
    sources.behave = lambda path, first: (
        {"cut": 0} if path.endswith((download.DATA, "model.safetensors")) else {}
    )
    assert run(capsys, "download", "124M", models_dir=tmp_path).code == 2
    done = run(capsys, "generate", "--target_model_size=124M", models_dir=tmp_path)
    assert (
        done.code == 2
        and "incomplete" in done.err
        and download.DATA in done.err
        and "download 124M" in done.err
    )
    sources.behave, sources.requests[:] = lambda path, first: {}, []
    assert run(capsys, "download", "124M", models_dir=tmp_path).code == 0
    assert {path for path, _ in sources.requests} == {f"/openai/124M/{download.DATA}"}


def test_generate_downloads_when_asked_to(sources, capsys, tmp_path):
    flags = ["--target_model_size=124M", "--draft_model_size=ngram", "--n_tokens_to_generate=2"]
    flags += ["--kernels=plain", "--prompt=a"]
    assert run(capsys, "generate", *flags, models_dir=tmp_path).code == 2
    assert run(capsys, "generate", *flags, "--download", models_dir=tmp_path).code == 0


@pytest.mark.parametrize(
    "answer, wanted", [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_at_a_terminal_it_asks(sources, capsys, tmp_path, monkeypatch, answer, wanted):
    terminal = SimpleNamespace(isatty=lambda: True, readline=lambda: answer)
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    try:
        assert utils.find_folder("124M", tmp_path) == tmp_path / "124M" and wanted
    except utils.InputError:
        assert not wanted
    out, err = capsys.readouterr()
    assert "download 124M (0.5 GB)? [y/N]" in err and out == ""
    assert gigabytes("355M") == "1.4 GB"


@pytest.mark.parametrize("name", ["models--openai-community--gpt2", "models--gpt2"])
@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"])
@pytest.mark.parametrize("refs", [True, False])
def test_the_cache_of_hugging_face(sources, capsys, tmp_path, monkeypatch, name, variable, refs):
    cache = {"HF_HOME": "x/hub", "HF_HUB_CACHE": "x", "XDG_CACHE_HOME": "x/huggingface/hub"}[
        variable
    ]
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv(variable, str(tmp_path / "x"))
    folder = write_checkpoint(tmp_path / cache / name / "snapshots" / "abc")
    if refs:
        (tmp_path / cache / name / "refs").mkdir()
        (tmp_path / cache / name / "refs" / "main").write_text("abc\n")
    assert utils.find_folder("124M", tmp_path / "m") == folder
    done = run(capsys, "download", "124M", models_dir=tmp_path / "m")
    assert done.code == 0 and str(folder) in done.out and not sources.requests
    (folder / "merges.txt").unlink()  # incomplete: as if it were not there
    with pytest.raises(utils.InputError, match="no model"):
        utils.find_folder("124M", tmp_path / "m")


DAMAGED_CACHES = {
    "no snapshots": lambda model: (model / "refs").mkdir(parents=True),
    "a commit that is not there": lambda model: commit(model, b"abc"),
    "an empty commit": lambda model: commit(model, b""),
    "a commit of bytes": lambda model: commit(model, b"\xff\xfe"),
    "a commit of zeros": lambda model: commit(model, b"\0\0"),
    "a very long commit": lambda model: commit(model, b"a" * 5000),
    "a file": lambda model: (model.parent.mkdir(parents=True), model.write_text("")),
    "a file for snapshots": lambda model: (
        model.mkdir(parents=True),
        (model / "snapshots").touch(),
    ),
    "a damaged index": lambda model: damaged_index(model / "snapshots" / "abc"),
}


def commit(model, raw):
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_bytes(raw)


def damaged_index(folder):
    write_checkpoint(folder)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text("{")


@pytest.mark.parametrize("damage", DAMAGED_CACHES)
def test_a_damaged_cache_is_skipped(sources, capsys, tmp_path, damage):
    """And the repository's older name in the same cache, and the download, are tried."""
    hub = tmp_path / "hf" / "hub"
    DAMAGED_CACHES[damage](hub / "models--openai-community--gpt2")
    assert search.cached("124M") is None
    whole = write_checkpoint(hub / "models--gpt2" / "snapshots" / "abc")
    assert search.cached("124M") == whole
    shutil.rmtree(hub / "models--gpt2")
    assert run(capsys, "download", "124M", models_dir=tmp_path / "m").code == 0


def test_no_home(sources, tmp_path, monkeypatch):
    def expanduser(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("HF_HOME")
    monkeypatch.setattr(Path, "expanduser", expanduser)
    assert search.cached("124M") is None


# ---------------------------------------------------------------- processes


SCRIPT = """
import sys
from checkpoints import download, search, transfer
download.TOKENIZER, transfer.CHUNK = {}, 256
download.fetch.__defaults__ = (lambda seconds: None, (5, 5))
print(download.fetch_model("124M", sys.argv[1]))
"""


def start(tmp_path):
    root = Path(main.__file__).resolve().parent
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "m")]
    return subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.skipif(download.fcntl is None, reason="no file locks on this system")
def test_two_processes_fetch_a_file_once(sources, tmp_path):
    sources.behave = lambda path, first: (
        {"cut": 2000, "stall": 0.5} if "data" in path and not first else {}
    )
    processes = [start(tmp_path) for _ in range(2)]
    ends = [process.communicate(timeout=60) for process in processes]
    assert all(process.returncode == 0 for process in processes), ends
    assert len(sources.requests) == len(download.OPENAI_FILES) + 1  # the one that went on
    assert tf_checkpoint.read_table(tmp_path / "m" / "124M" / "model.ckpt.index")
    assert (tmp_path / "m" / "124M" / download.DATA).read_bytes() == (
        FOLDER / download.DATA
    ).read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="no signals on this system")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_download_is_resumed(sources, tmp_path, how):
    sources.behave = lambda path, first: (
        {"cut": 3000, "stall": 30} if "data" in path and not first else {}
    )
    process, part = start(tmp_path), tmp_path / "m" / "124M" / (download.DATA + ".part")
    for _ in range(600):
        if part.is_file() and part.stat().st_size >= 2000:
            break
        time.sleep(0.05) if process.poll() is None else pytest.fail(process.communicate()[1])
    process.send_signal(how)
    process.communicate(timeout=60)
    assert process.returncode != 0 and part.is_file()
    sources.requests.clear()
    assert download.fetch_model("124M", tmp_path / "m") == tmp_path / "m" / "124M"
    assert len(sources.requests) == 1 and sources.requests[0][1] >= 2000
