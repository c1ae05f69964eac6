"""The server of the live page: the page itself, and what it asks the models for.

It listens on the loopback address only. A request needs the token of the printed address, the right
Host (a name that a foreign page rebinds to 127.0.0.1 is refused) and, for POST, the page's own
Origin. An answer is lines of JSON: {"done", "total"} and {"row"} any number of times, then
{"result"} or {"error"}. A refused request gets one line, {"error"}, and the HTTP status that says
why.
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
ADVICE = "open the address that was printed"


class RequestError(Exception):
    """A request is refused, with an HTTP status and a reason of one line."""

    def __init__(self, status, reason):
        super().__init__(reason)
        self.status = status


class LiveServer(ThreadingHTTPServer):
    """A server of the page on a port of this machine; port 0 chooses a free one.

    answers: {name: function(request, tell) -> result}, asked for as POST /api/NAME. `request` is a
        page.runs.Request. tell(**line) sends the page a line, if it gets one. It raises
        ConnectionAbortedError if the page no longer waits, so functions call it often.
    """

    request_queue_size = 128  # a browser opens many connections at once
    # so that the same port can be had again at once; on Windows, two servers could have it
    allow_reuse_address = os.name == "posix"

    def __init__(self, port, answers):
        self.answers = answers
        self.model_lock = threading.Lock()  # the models compute for one request at a time
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
        """The address to open in a browser, with the token."""
        return f"http://{ADDRESS}:{self.server_port}/?token={self.token}"

    def server_close(self):
        """Stop listening, make the answer that is being computed end, and wait for its end."""
        super().server_close()
        self.closing = True  # the next tell() of a run raises ConnectionAbortedError
        # an answer holds the lock while it computes, so this waits for its end
        self.model_lock.acquire()
        self.model_lock.release()

    def handle_error(self, request, client_address):
        """Print the current exception with its traceback on stderr, unless it is a ConnectionError,
        which only says that a browser went away.
        """
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class DeadlineReader(io.RawIOBase):
    """Reads the bytes that a socket receives. Raises TimeoutError once PATIENCE seconds have passed
    since its beginning, however many reads there were.

    A timeout of the socket limits each read alone: a client that sends a byte now and then could
    stay for ever.
    """

    def __init__(self, connection):
        self.connection, self.deadline = connection, time.monotonic() + PATIENCE

    def readable(self):
        return True

    def readinto(self, buffer):  # -> the number of bytes read
        seconds_left = self.deadline - time.monotonic()
        if seconds_left <= 0:  # also if bytes have arrived, and settimeout takes no number below 0
            raise TimeoutError
        self.connection.settimeout(seconds_left)
        return self.connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of a connection to a LiveServer."""

    def setup(self):
        super().setup()
        self.rfile = io.BufferedReader(DeadlineReader(self.connection))

    def log_message(self, *arguments):
        """Log nothing: the address of a request holds the token."""

    def version_string(self):
        return "play"

    def send_error(self, code, message=None, explain=None):
        """Answer with an HTTP status and one line, {"error": message, or the status in words}.
        http.server calls this, too, for a request that it cannot parse.
        """
        self.begin_answer(code, "application/json")
        self.send_line(error=message or self.responses[code][0])

    def do_GET(self):
        self.answer(self.send_page)

    def do_POST(self):
        self.answer(self.send_answer)

    def answer(self, respond):
        """Call respond, a function without arguments, if the request has the right Host. Sends the
        status and reason of a RequestError, of a wrong Host or from respond(), as the answer.
        """
        try:
            require(self.headers.get("Host") in self.server.hosts, 403, f"wrong host: {ADVICE}")
            respond()
        except RequestError as error:
            self.send_error(error.status, str(error))

    def begin_answer(self, status, content_type):
        """Send the status (int) and the headers of an answer."""
        # A client that stops reading must not keep the server for ever. DeadlineReader has set a
        # timeout too: what was left for the request.
        self.connection.settimeout(PATIENCE)
        self.send_response(status)
        self.send_header("Content-Type", f"{content_type}; charset=utf-8")
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send_line(self, **line):
        """Send a line of JSON: the object of these fields."""
        self.wfile.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def check_token(self, received, expected):
        """Raise RequestError (403) unless the received token (str) is the expected one. The time of
        the comparison does not depend on how many characters are right.
        """
        is_equal = hmac.compare_digest(received.encode(), expected.encode())
        require(is_equal, 403, f"wrong or no token: {ADVICE}")

    # ------------------------------------------------------------ the page

    def send_page(self):
        """Answer GET / with the page. Raises RequestError for another path or a wrong token."""
        path, _, query = self.path.partition("?")
        require(path == "/", 404, "not found: the page is at /")
        self.check_token(query, f"token={self.server.token}")
        self.begin_answer(200, "text/html")
        self.wfile.write(self.server.page)

    # ------------------------------------------------------------ what it asks

    def send_answer(self):
        """Answer POST /api/NAME: parse the body, call the server's function of that name, and send
        its result as the last line. Raises RequestError for a wrong origin, token, name or body.
        """
        origin = self.headers.get("Origin", "").removeprefix("http://")
        require(origin in self.server.hosts, 403, f"wrong origin: {ADVICE}")
        self.check_token(self.headers.get("X-Token", ""), self.server.token)
        answers = {f"/api/{name}": answer for name, answer in self.server.answers.items()}
        require(self.path in answers, 404, f"not found: expected {' or '.join(answers)}")
        try:
            request = parse(self.read_body())
        except FieldError as error:
            raise RequestError(400, str(error)) from None
        self.begin_answer(200, "application/x-ndjson")
        with self.server.model_lock:
            self.tell(**self.compute_answer(answers[self.path], request))

    def read_body(self):
        """Read and return the request's body, bytes. Raises RequestError if its Content-Length is
        missing, no number or above MAX_BYTES, if there is a Transfer-Encoding, or if fewer bytes
        arrive in time.
        """
        length = self.headers.get("Content-Length")
        has_length = length and "Transfer-Encoding" not in self.headers
        require(has_length, 411, "expected a Content-Length")
        is_number = length.isascii() and length.isdigit()
        require(is_number, 400, f"Content-Length: expected a number of bytes, not {length[:40]!r}")
        # first its digits: int() of thousands of them is slow, or an error
        is_small = len(length) <= 9 and int(length) <= MAX_BYTES
        require(is_small, 413, f"Content-Length: expected at most {MAX_BYTES} bytes")
        try:
            body = self.rfile.read(int(length))
        except TimeoutError:
            raise RequestError(408, f"the body: expected within {PATIENCE} seconds") from None
        is_whole = len(body) == int(length)
        require(is_whole, 400, f"the body: expected {length} bytes, not {len(body)}")
        return body

    def tell(self, **line):
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

    def compute_answer(self, answer, request):
        """Call answer(request, tell), a function that returns a dict. Returns the last line to
        send: {"result": that dict}, or {"error": why the call failed}. ConnectionError and
        TimeoutError are raised, because then no client waits for a line.
        """
        try:
            return {"result": answer(request, self.tell)}
        except (ConnectionError, TimeoutError):
            raise
        except InputError as error:
            return {"error": str(error)}
        except Exception as error:
            return {"error": f"the run failed: {type(error).__name__}: {error}"}


def require(condition, status, reason):
    """Raise RequestError(status, reason) unless the condition is true. status: of HTTP, an int"""
    if not condition:
        raise RequestError(status, reason)
