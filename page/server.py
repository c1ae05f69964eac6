"""The server of the live page: the page itself, and what it asks the models for.

It listens on the loopback address only. A request needs the token of the printed address, the right
Host (a name that a foreign page rebinds to 127.0.0.1 is refused) and, for POST, the page's own
Origin. An answer is lines of JSON: {"done", "total"} and {"row"} any number of times, then
{"result"} or {"error"}. A refused request gets one line, {"error"}, and the status of its reason.
"""

import hmac
import io
import json
import os
import secrets
import selectors
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from checkpoints.errors import InputError
from page.report import page_of, policy
from page.runs import FORM, FieldError, parse

ADDRESS = "127.0.0.1"
PATIENCE = 15  # seconds for a request to arrive, and for a line of the answer to be taken
MAX_BYTES = 100_000  # of a request's body
OPEN = "open the address that was printed"


class Refused(Exception):
    """A request that gets a status and one line."""

    def __init__(self, status, reason):
        super().__init__(reason)
        self.status = status


class LiveServer(ThreadingHTTPServer):
    """answers: {name: function(request, tell) -> result}, asked for as POST /api/NAME.

    tell(**line) sends the page a line; it ends a run that the page no longer waits for, and is
    therefore called now and then, with or without a line.
    """

    request_queue_size = 128  # a browser opens many connections at once
    # so that the same port can be had again at once; on Windows, two servers could have it
    allow_reuse_address = os.name == "posix"

    def __init__(self, port, answers):
        self.answers = answers
        self.models = threading.Lock()  # they compute for one request at a time
        self.closing = False
        super().__init__((ADDRESS, port), Handler)
        self.token = secrets.token_urlsafe(24)
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}
        self.page = page_of({"live": {"token": self.token, "form": FORM}}).encode()
        self.headers = {
            "Cache-Control": "no-store",
            "Content-Security-Policy": policy(),
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }

    @property
    def address(self):
        return f"http://{ADDRESS}:{self.server_port}/?token={self.token}"

    def server_close(self):
        """Stop listening, and wait until no run computes."""
        super().server_close()
        self.closing = True
        with self.models:
            pass

    def handle_error(self, request, client_address):
        """A browser that went away is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Arriving(io.RawIOBase):
    """What a connection sends, all of it within PATIENCE: a limit for each piece alone would keep
    a connection that sends a byte now and then. Raises TimeoutError.
    """

    def __init__(self, connection):
        self.connection, self.end = connection, time.monotonic() + PATIENCE

    def readable(self):
        return True

    def readinto(self, buffer):
        left = self.end - time.monotonic()
        self.connection.settimeout(max(left, 0.001))  # 0 would not wait at all
        return self.connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    def setup(self):
        super().setup()
        self.rfile = io.BufferedReader(Arriving(self.connection))

    def log_message(self, *arguments):
        """Requests are not logged: their address holds the token."""

    def version_string(self):
        return "play"

    def send_error(self, code, message=None, explain=None):
        """What http.server refuses by itself gets one line, too."""
        self.begin(code, "application/json")
        self.send_line(error=message or self.responses[code][0])

    def do_GET(self):
        self.answer(self.show_page)

    def do_POST(self):
        self.answer(self.ask)

    def answer(self, respond):
        try:
            require(self.headers.get("Host") in self.server.hosts, 403, f"wrong host: {OPEN}")
            respond()
        except Refused as error:
            self.send_error(error.status, str(error))

    def begin(self, status, kind):
        self.connection.settimeout(PATIENCE)
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send_line(self, **line):
        self.wfile.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def check_token(self, given, right):
        same = hmac.compare_digest(given.encode(), right.encode())
        require(same, 403, f"wrong or no token: {OPEN}")

    # ------------------------------------------------------------ the page

    def show_page(self):
        path, _, query = self.path.partition("?")
        require(path == "/", 404, "not found: the page is at /")
        self.check_token(query, f"token={self.server.token}")
        self.begin(200, "text/html")
        self.wfile.write(self.server.page)

    # ------------------------------------------------------------ what it asks

    def ask(self):
        origin = self.headers.get("Origin", "").removeprefix("http://")
        require(origin in self.server.hosts, 403, f"wrong origin: {OPEN}")
        self.check_token(self.headers.get("X-Token", ""), self.server.token)
        answers = {f"/api/{name}": answer for name, answer in self.server.answers.items()}
        require(self.path in answers, 404, f"not found: expected {' or '.join(answers)}")
        try:
            request = parse(self.body())
        except FieldError as error:
            raise Refused(400, str(error)) from None
        self.begin(200, "application/x-ndjson")
        with self.server.models:
            self.tell(**self.outcome(answers[self.path], request))

    def body(self):
        """The bytes of a request, of which it says how many there are."""
        length = self.headers.get("Content-Length")
        counted = length and "Transfer-Encoding" not in self.headers
        require(counted, 411, "expected a Content-Length")
        digits = length.isascii() and length.isdigit()
        require(digits, 400, f"Content-Length: expected a number of bytes, not {length[:40]!r}")
        large = len(length) > 9 or int(length) > MAX_BYTES
        require(not large, 413, f"Content-Length: expected at most {MAX_BYTES} bytes")
        try:
            body = self.rfile.read(int(length))
        except TimeoutError:
            raise Refused(408, f"the body: expected within {PATIENCE} seconds") from None
        require(
            len(body) == int(length), 400, f"the body: expected {length} bytes, not {len(body)}"
        )
        return body

    def tell(self, **line):
        # all that it sends has been read: what is there to read now is the end
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            gone = selector.select(0)
        if gone or self.server.closing:
            raise ConnectionAbortedError
        if line:
            self.send_line(**line)

    def outcome(self, answer, request):
        """The last line of an answer."""
        try:
            return {"result": answer(request, self.tell)}
        except (ConnectionError, TimeoutError):
            raise
        except InputError as error:
            return {"error": str(error)}
        except Exception as error:
            return {"error": f"the run failed: {type(error).__name__}: {error}"}


def require(right, status, reason):
    """Refuse the request, unless this is right."""
    if not right:
        raise Refused(status, reason)
