"""The server of the live page: the page itself, and four questions it may ask.

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

from experiments.cli.exit_codes import print_error
from experiments.decoding.settings import SettingError
from experiments.playing.jobs import Busy, Cancelled, Jobs
from experiments.playing.request import FIELDS, LIMITS, MOST_BYTES, parse
from experiments.showing.page import page_of
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


class LiveServer(ThreadingHTTPServer):
    """questions: {name: function(request, job, send) -> result}, asked as POST /api/NAME."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTING
    # so that the same port can be had again at once; on Windows, two servers could have it
    allow_reuse_address = os.name == "posix"

    def __init__(self, port, questions):
        super().__init__((ADDRESS, port), Handler)
        self.questions = questions
        self.jobs = Jobs()
        self.token = secrets.token_urlsafe(24)
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}
        self.page, self.policy = page_of({"live": {"token": self.token, "limits": LIMITS}})

    @property
    def address(self):
        return f"http://{ADDRESS}:{self.server_port}/?token={self.token}"

    def handle_error(self, request, client_address):
        """A client that went away is no error of the program; anything else gets one line."""
        error = sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            print_error(f"{type(error).__name__}: {error}")


class Handler(BaseHTTPRequestHandler):
    timeout = IDLE_SECONDS
    server_version = "play"
    sys_version = ""

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
        except Refused as refused:
            self.start(refused.status, "application/json")
            self.send_line({"error": str(refused)})

    def send_error(self, code, message=None, explain=None):
        """What the standard library refuses by itself gets one line as well."""
        self.close_connection = True
        self.start(code, "application/json")
        self.send_line({"error": one_line(message or "the request was refused")})

    def check_host(self):
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            raise Refused(421, "wrong host: open the address that was printed")

    def check_token(self, token):
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise Refused(403, "wrong or missing token: open the address that was printed")

    def start(self, status, kind):
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

    # ------------------------------------------------------------ its questions

    def ask(self):
        self.check_origin()
        self.check_token(self.headers.get("X-Token", ""))
        name = self.path.removeprefix("/api/")
        if name not in self.server.questions or self.path != f"/api/{name}":
            raise Refused(404, "not found")
        try:
            request = parse(self.body())
            with self.server.jobs.newest(self.turn()) as job:
                self.run(self.server.questions[name], request, job)
        except InputError as error:
            raise Refused(400, said(error)) from None
        except Cancelled as error:
            raise Refused(409, said(error)) from None
        except Busy:
            raise Refused(503, "too many runs are waiting; try again") from None

    def check_origin(self):
        origins = {f"http://{host}" for host in self.server.hosts}
        if self.headers.get("Origin") not in origins:
            raise Refused(403, "wrong origin: open the address that was printed")

    def turn(self):
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

    def run(self, question, request, job):
        """Answer a question; once its first line is out, an error is a line of its own."""
        started = False

        def send(line):
            nonlocal started
            job.check()
            if not started:
                self.start(200, "application/x-ndjson")
                started = True
            self.send_line(line)

        try:
            send({"result": question(request, job, send)})
        except (InputError, Cancelled) as error:
            if not started:
                raise
            self.send_line({"error": said(error)})
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
            message = f"the run failed: {type(error).__name__}"
            if not started:
                raise Refused(500, message) from None
            self.send_line({"error": message})


def said(error):
    """What the page is told: it has fields where the command line has flags."""
    if isinstance(error, SettingError):
        error = f"{FIELDS.get(error.name, error.name)} {error.problem}"
    return one_line(error)


def one_line(error):
    return " ".join(str(error).split())
