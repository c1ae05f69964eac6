"""A server on this machine that misbehaves in every way a server, a proxy or a connection can."""

import hashlib
import http.server
import os
import re
import threading

import numpy as np
import pytest

from checkpoints import download

CONTENT = bytes(np.random.default_rng(0).integers(256, size=9000, dtype=np.uint8))
OTHER = bytes(np.random.default_rng(1).integers(256, size=9000, dtype=np.uint8))


def sha256_of(content):
    """A redirection to the same file, as Hugging Face states the checksum of a large one."""
    stated = {"X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"'}
    return {"status": 302, "headers": stated | {"Location": "/elsewhere/file.bin"}}


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves server.files; server.behave(path, first byte) gives a dict of what is unusual."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server, path = self.server, self.path
        first = int(re.sub(r"\D", "", self.headers.get("Range", "0")))
        server.requests.append((path, first))
        fault = server.behave(path, first)
        status, body = fault.get("status", 200), fault.get("content", server.files.get(path))
        if body is None:
            status, body = 404, b"no\n"
        tag = fault.get("tag", f'"{hashlib.sha256(body).hexdigest()[:16]}"')
        headers = {"ETag": tag}
        unchanged = self.headers.get("If-Range") == tag or fault.get("ignores_if_range")
        if status == 200 and first and unchanged and not fault.get("ignores_range"):
            headers["Content-Range"] = f"bytes */{len(body)}"
            status, n_bytes = 416, len(body)
            if first < n_bytes:
                first += fault.get("shifted", 0)
                status, body = 206, body[first:][: fault.get("piece")]
                headers["Content-Range"] = f"bytes {first}-{first + len(body) - 1}/{n_bytes}"
        headers["Content-Length"] = str(max(0, len(body) + fault.get("length", 0)))
        # said, so that a redirected client does not come back on it
        headers["Connection"] = "close"
        headers |= fault.get("headers", {})
        self.send_response(status)
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        if headers.get("Transfer-Encoding") == "chunked":
            body = b"%x\r\n%s\r\n" % (len(body), body) + b"0\r\n\r\n"
        try:
            self.wfile.write(body[: fault.get("cut")])
            server.stop.wait(fault.get("stall", 0))
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
    server.files, server.requests, server.behave = {}, [], once()
    server.stop = threading.Event()
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
    """No cache, no proxy, no real host; and small pieces."""
    for name in os.environ:
        if name.startswith(("HF_", "GPT2_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(download, "CHUNK", 512)
