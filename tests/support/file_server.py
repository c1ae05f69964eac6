"""A server on this machine that misbehaves in every way a server, a proxy or a connection can."""

import base64
import hashlib
import http.server
import os
import re
import threading

import numpy as np
import pytest

from checkpoints import transfer

CONTENT = bytes(np.random.default_rng(0).integers(256, size=9000, dtype=np.uint8))
OTHER = bytes(np.random.default_rng(1).integers(256, size=9000, dtype=np.uint8))


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


def once(*faults):
    """A behaviour with these faults one after the other, then none."""
    left = list(faults)
    return lambda path, first: left.pop(0) if left else {}


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


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """No cache, no proxy, no real host; small pieces; and waiting takes no time but is noted."""
    for name in os.environ:
        if name.startswith(("HF_", "GPT2_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name in ("HF_ENDPOINT", "GPT2_OPENAI_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(transfer, "CHUNK", 512)
