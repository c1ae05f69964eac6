"""The server of the live page: the page itself, and what it asks the models for.

It listens on the loopback address only. A request needs the token of the printed address, the right
Host (a name that a foreign page rebinds to 127.0.0.1 is refused) and, for POST, the page's own
Origin. An answer is lines of JSON: {"done", "total"} and {"row"} any number of times, then
{"result"} or {"error"}.
"""

import hmac
import json
import os
import secrets
import select
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from experiments.page.report import page_of
from experiments.page.runs import FORM, parse
from utils import InputError

ADDRESS = "127.0.0.1"


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
        self.page = page_of({"live": {"token": self.token, "form": FORM}})

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


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        """Requests are not logged: their address holds the token."""

    def do_GET(self):
        if self.may_ask(self.path, f"/?token={self.server.token}"):
            self.begin("text/html")
            self.wfile.write(self.server.page.encode())

    def do_POST(self):
        origin = self.headers.get("Origin", "").removeprefix("http://")
        if origin not in self.server.hosts:
            self.send_error(403, "Wrong origin: open the address that was printed")
        elif self.may_ask(self.headers.get("X-Token", ""), self.server.token):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.begin("application/x-ndjson")
            with self.server.models:
                self.tell(**self.outcome(body))

    def may_ask(self, given, token):
        """Whether the Host is ours and the token right; else the request is refused."""
        right = hmac.compare_digest(given.encode(), token.encode())
        if right and self.headers.get("Host") in self.server.hosts:
            return True
        self.send_error(403, "Wrong host or token: open the address that was printed")
        return False

    def begin(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()

    def tell(self, **line):
        # all that it sends has been read: what is there to read now is the end
        gone, _, _ = select.select([self.connection], [], [], 0)
        if gone or self.server.closing:
            raise ConnectionAbortedError
        if line:
            self.wfile.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def outcome(self, body):
        """The last line of an answer."""
        try:
            answer = self.server.answers[self.path.removeprefix("/api/")]
            return {"result": answer(parse(body), self.tell)}
        except ConnectionError:
            raise
        except InputError as error:
            return {"error": str(error)}
        except Exception as error:
            return {"error": f"the run failed: {type(error).__name__}: {error}"}
