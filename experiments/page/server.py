"""The server of the live page: the page itself, and what it may ask.

It listens on the loopback address only. A request needs the token of the printed address, the right
Host (a name that a foreign page rebinds to 127.0.0.1 is refused) and, for POST, the page's own
Origin. No part of a request names a file. Answers are lines of JSON, so that a long run can say how
far it is: {"done", "total"} and {"row"} any number of times, then {"result"} or {"error"}.
"""

import hmac
import json
import os
import secrets
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from checkpoints.errors import printable
from experiments.data.values import SettingError
from experiments.page.report import page_of
from experiments.page.request import FORM, LABELS, MOST_BYTES, parse
from experiments.page.turns import Busy, Cancelled, Turns
from utils import InputError

ADDRESS = "127.0.0.1"
IDLE_SECONDS = 15  # for a request to arrive
MOST_CONNECTING = 128  # connections that wait to be accepted
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Refused(Exception):
    """A request that gets a status and one line."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


# what ends an answer: a refusal, or a run that failed
ENDS = Refused, InputError, Cancelled, Busy
FAILS = ArithmeticError, LookupError, MemoryError, TypeError, ValueError


def refusal(error):
    """(status, what the page is told): it has fields where the command line has flags."""
    if isinstance(error, SettingError):
        return 400, one_line(f"{LABELS.get(error.name, error.name)} {error.problem}")
    if isinstance(error, InputError):
        return 400, one_line(error)
    if isinstance(error, ENDS):
        return error.status, one_line(error)
    return 500, f"the run failed: {type(error).__name__}"


def one_line(text):
    return " ".join(str(text).split())


class LiveServer(ThreadingHTTPServer):
    """answers: {name: function(request, turn, send) -> result}, asked for as POST /api/NAME."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTING
    # so that the same port can be had again at once; on Windows, two servers could have it
    allow_reuse_address = os.name == "posix"

    def __init__(self, port, answers):
        super().__init__((ADDRESS, port), Handler)
        self.answers, self.turns = answers, Turns()
        self.token = secrets.token_urlsafe(24)
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}
        self.page, self.policy = page_of({"live": {"token": self.token, "form": FORM}})

    @property
    def address(self):
        return f"http://{ADDRESS}:{self.server_port}/?token={self.token}"

    def handle_error(self, request, client_address):
        """A client that went away is no error of the program; anything else gets one line."""
        error = sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            problem = printable(f"{type(error).__name__}: {error}")
            print(f"error: {problem}", file=sys.stderr)


class Handler(BaseHTTPRequestHandler):
    timeout = IDLE_SECONDS
    server_version = "play"
    sys_version = ""
    started = False  # whether an answer has begun

    def log_message(self, *arguments):
        """Requests are not logged: their address holds the token."""

    def do_GET(self):
        self.answer(self.show_page)

    def do_POST(self):
        self.answer(self.ask)

    def answer(self, respond):
        self.close_connection = True
        try:
            self.check_host()
            respond()
        except (*ENDS, *FAILS) as error:
            self.refuse(*refusal(error))

    def refuse(self, status, message):
        """One line: the whole answer, or the last of one that has begun."""
        if not self.started:
            self.start(status, "application/json")
        self.send_line({"error": message})

    def send_error(self, code, message=None, explain=None):
        """What the standard library refuses by itself gets one line as well."""
        self.close_connection = True
        self.refuse(code, one_line(message or "the request was refused"))

    def check_host(self):
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            raise Refused(421, "wrong host: open the address that was printed")

    def check_token(self, token):
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise Refused(403, "wrong or missing token: open the address that was printed")

    def start(self, status, kind):
        self.started = True
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Security-Policy", self.server.policy)
        self.send_header("Connection", "close")
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def send_line(self, value):
        self.wfile.write(json.dumps(value, separators=(",", ":")).encode() + b"\n")
        self.wfile.flush()

    # ------------------------------------------------------------ the page

    def show_page(self):
        try:
            url = urlsplit(self.path)
        except ValueError:
            raise Refused(400, "not an address: open the one that was printed") from None
        if url.path != "/":
            raise Refused(404, "not found: the page is at /")
        self.check_token(parse_qs(url.query).get("token", [""])[0])
        self.start(200, "text/html")
        self.wfile.write(self.server.page.encode())

    # ------------------------------------------------------------ what it asks

    def ask(self):
        self.check_origin()
        self.check_token(self.headers.get("X-Token", ""))
        name = self.path.removeprefix("/api/")
        if name not in self.server.answers or self.path != f"/api/{name}":
            raise Refused(404, "not found")
        request = parse(self.body())
        with self.server.turns.newest(self.asked()) as turn:

            def send(line):
                turn.check()
                if not self.started:
                    self.start(200, "application/x-ndjson")
                self.send_line(line)

            send({"result": self.server.answers[name](request, turn, send)})

    def check_origin(self):
        origins = {f"http://{host}" for host in self.server.hosts}
        if self.headers.get("Origin") not in origins:
            raise Refused(403, "wrong origin: open the address that was printed")

    def asked(self):
        """When the page asked."""
        try:
            return float(self.headers.get("X-Turn", "0"))
        except ValueError:
            raise Refused(400, "X-Turn: expected a number") from None

    def body(self):
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 10):
            raise Refused(411, "a request needs its length")
        if int(length) > MOST_BYTES:
            raise Refused(413, f"the request is too large: expected at most {MOST_BYTES} bytes")
        return self.rfile.read(int(length))
