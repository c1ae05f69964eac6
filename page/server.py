"""The server of the live page: the page itself, and the races that it asks the models for.

It listens on the loopback address only. A request needs the token of the printed address, the right
Host (a name that a foreign page rebinds to 127.0.0.1 is refused) and, for POST, the page's own
Origin. An answer is lines of JSON: {"row"} and {"done", "total"}, then {"result"} or {"error"}. A
refused request gets one line, {"error"}, and the HTTP status that says why.
"""

import hmac
import json
import os
import secrets
import selectors
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from page.report import page_of, policy
from page.runs import form, parse

ADDRESS = "127.0.0.1"
MAX_BYTES = 100_000  # of a request's body
ADVICE = "open the address that was printed"


class RequestError(Exception):
    """Says that a request is refused: with which HTTP status, and why, in one line."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status


def require(condition: Any, status: int, reason: str) -> None:
    """Raise RequestError unless the condition is true. status: the HTTP status of the answer.
    reason: its one line
    """
    if not condition:
        raise RequestError(status, reason)


class LiveServer(ThreadingHTTPServer):
    """A server of the page on a port of this machine; port 0 chooses a free one.

    settings: those that a request does not change, and the first values of the form
    race: race(settings, tell) computes the answer to POST /api/race. tell(**line) sends the page a
        line, if it gets one; it raises ConnectionAbortedError if the page no longer waits
    """

    request_queue_size = 128  # a browser opens many connections at once
    # so that the same port can be had again at once; on Windows, two servers could have it
    allow_reuse_address = os.name == "posix"

    def __init__(self, port: int, settings: dict[str, Any], race: Callable):
        """Listen on the port, and make the token and the page, with the settings in its form. Keeps
        `race`. Raises OSError or OverflowError for a port that cannot be had.
        """
        self.settings, self.race = settings, race
        self.model_lock = threading.Lock()  # the models compute for one request at a time
        self.closing = False
        super().__init__((ADDRESS, port), Handler)  # which sets server_port
        self.token = secrets.token_urlsafe(24)
        # the Host that a request may have, and the Origin, after http://
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}
        self.page = page_of({"live": {"token": self.token, "form": form(settings)}}).encode()
        self.headers = {
            "Cache-Control": "no-store",
            "Content-Security-Policy": policy(),
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }

    @property
    def address(self) -> str:
        """The address to open in a browser, with the token."""
        return f"http://{ADDRESS}:{self.server_port}/?token={self.token}"

    def server_close(self) -> None:
        """Stop listening, make the race that is being computed end, and wait for its end."""
        super().server_close()
        self.closing = True  # the next tell() of a run raises ConnectionAbortedError
        self.model_lock.acquire()  # waits for the race that holds it
        self.model_lock.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the current exception with its traceback on stderr, unless it only says that a
        browser went away.
        """
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of a connection to a LiveServer."""

    server: LiveServer
    timeout = 15  # seconds that a read or a write may take

    def log_message(self, *arguments: Any) -> None:
        """Log nothing: the address of a request holds the token."""

    def version_string(self) -> str:
        return "play"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with an HTTP status and one line, {"error": message, or the status in words}.
        http.server calls this, too, for a request that it cannot parse; `explain`, a longer text of
        its own, is not sent.
        """
        self.begin_answer(code, "application/json")
        self.send_line(error=message or self.responses[code][0])

    def do_GET(self) -> None:
        self.answer(self.send_page)

    def do_POST(self) -> None:
        self.answer(self.send_race)

    def answer(self, respond: Callable) -> None:
        """Call respond(), which sends the answer to the request. If the request has another Host
        than the server's, or respond raises a RequestError, answer with the status and reason of
        that.
        """
        try:
            require(self.headers.get("Host") in self.server.hosts, 403, f"wrong host: {ADVICE}")
            respond()
        except RequestError as error:
            self.send_error(error.status, str(error))

    def begin_answer(self, status: int, content_type: str) -> None:
        """Send the HTTP status and the headers of an answer, among them the server's. content_type:
        of what is to follow, in UTF-8, such as text/html.
        """
        self.send_response(status)
        self.send_header("Content-Type", f"{content_type}; charset=utf-8")
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send_line(self, **line: Any) -> None:
        """Send the keyword arguments as a JSON object on one line: send_line(done=1) sends
        {"done":1}.
        """
        self.wfile.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def check_token(self, received: str, expected: str) -> None:
        """Raise RequestError (403) unless the token that was received is the expected one. The time
        of the comparison does not depend on how many characters are right.
        """
        is_equal = hmac.compare_digest(received.encode(), expected.encode())
        require(is_equal, 403, f"wrong or no token: {ADVICE}")

    def send_page(self) -> None:
        """Answer GET /?token=... with the page. Raises RequestError for another path or a wrong
        token.
        """
        path, _, query = self.path.partition("?")
        require(path == "/", 404, "not found: the page is at /")
        self.check_token(query, f"token={self.server.token}")
        self.begin_answer(200, "text/html")
        self.wfile.write(self.server.page)

    def send_race(self) -> None:
        """Answer POST /api/race with the lines of a race, as they come, then a line {"result"}, or
        {"error"} if it failed. Raises RequestError, before any line, for a wrong origin, token,
        path or body; ConnectionError or TimeoutError if the browser no longer waits.
        """
        origin = self.headers.get("Origin", "").removeprefix("http://")
        require(origin in self.server.hosts, 403, f"wrong origin: {ADVICE}")
        self.check_token(self.headers.get("X-Token", ""), self.server.token)
        require(self.path == "/api/race", 404, "not found: expected /api/race")
        try:
            settings = parse(self.read_body(), self.server.settings)
        except ValueError as error:
            raise RequestError(400, str(error)) from None
        self.begin_answer(200, "application/x-ndjson")
        with self.server.model_lock:
            try:
                line = {"result": self.server.race(settings, self.tell)}
            except (ConnectionError, TimeoutError):  # nobody waits for a line
                raise
            except ValueError as error:
                line = {"error": str(error)}
            except Exception as error:
                line = {"error": f"the run failed: {type(error).__name__}: {error}"}
            self.tell(**line)

    def read_body(self) -> bytes:
        """The request's body. Raises RequestError: 411 without a number as its Content-Length, or
        with a Transfer-Encoding, which gives none; 413 for more than 100,000 bytes (MAX_BYTES); 408
        if they do not arrive in time; 400 if fewer arrive.
        """
        length = self.headers.get("Content-Length", "")
        # a limit of digits first: int() of thousands of them is slow, or an error
        is_number = length.isascii() and length.isdigit() and len(length) < 10
        has_length = is_number and "Transfer-Encoding" not in self.headers
        require(has_length, 411, "Content-Length: expected a number of bytes")
        require(int(length) <= MAX_BYTES, 413, f"Content-Length: expected at most {MAX_BYTES}")
        try:
            body = self.rfile.read(int(length))
        except TimeoutError:
            raise RequestError(408, f"the body: expected within {self.timeout} seconds") from None
        require(len(body) == int(length), 400, f"the body: expected {length} bytes")
        return body

    def tell(self, **line: Any) -> None:
        """Send these fields as a line of JSON; without fields, only check the connection. Raises
        ConnectionAbortedError if the client has closed it, or if the server is closing.
        """
        # the whole request has been read: if the socket is readable now, the client has closed it
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            client_closed = selector.select(0)
        if client_closed or self.server.closing:
            raise ConnectionAbortedError
        if line:
            self.send_line(**line)
