"""The server, over HTTP: who gets in, what is refused, and that one run computes at a time."""

import json
import os
import socket
import threading
import time
from contextlib import ExitStack

import pytest
from live import ASKED, session_of

from experiments.page.answers import answers_of
from experiments.page.request import LABELS, MOST_BYTES
from experiments.page.server import ADDRESS, LiveServer
from experiments.page.turns import MOST_WAITING, NEWER, STOPPED
from utils import InputError


def echo(request, turn, send):
    send({"done": 1, "total": 2})
    return {"prompt": request.prompt}


BODY = json.dumps(ASKED).encode()


@pytest.fixture
def served(serve):
    return serve({"echo": echo})


def assert_refused(answer, status):
    """One line of JSON with this status, and nothing that a browser could run."""
    code, headers, text = answer
    assert code == status and text.count("\n") == 1 and set(json.loads(text)) == {"error"}
    assert headers["Content-Type"].startswith("application/json")
    assert "Traceback" not in text


# ---------------------------------------------------------------- the page


def test_the_printed_address_is_the_page(served):
    host = served.own_headers()["Host"]
    assert served.address == f"http://{host}/?token={served.server.token}"
    code, headers, text = served.request("GET", served.address.removeprefix(f"http://{host}"))
    assert code == 200 and text.startswith("<!doctype html>") and served.server.token in text
    policy = headers["Content-Security-Policy"]
    assert policy in text and policy.startswith("default-src 'none'")
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers


REFUSED = {
    "/": 403,
    "/?token=": 403,
    "/?token=%C3%A9": 403,
    "/?x={}": 403,
    "/api/echo?token={}": 404,
    "/..%2f..%2fetc/passwd?token={}": 404,
    "//etc/passwd?token={}": 404,
    "*": 404,
    "http://[/": 400,
    "http://[::1/?token={}": 400,
}


@pytest.mark.parametrize("path, status", REFUSED.items())
def test_there_is_one_page_and_it_needs_the_token(served, capsys, path, status):
    answer = served.request("GET", path.format(served.server.token))
    assert_refused(answer, status)
    assert served.server.token not in answer[2] and capsys.readouterr().err == ""


@pytest.mark.parametrize("method", ["PUT", "HEAD", "OPTIONS", "X"])
def test_other_methods_are_refused(served, method):
    code, _, text = served.request(method, f"/?token={served.server.token}")
    assert code == 501 and served.server.token not in text


# ---------------------------------------------------------------- who gets in

HOSTS = [None, "", "example.org", "127.0.0.1", "example.org:{}", "127.0.0.1:1", "[::1]:{}"]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("method, path", [("GET", "/?token={}"), ("POST", "/api/echo")])
def test_a_foreign_host_is_refused(served, method, path, host):
    headers = served.own_headers() | {"Host": host and host.format(served.server.server_port)}
    body = BODY if method == "POST" else None
    assert_refused(served.request(method, path.format(served.server.token), body, headers), 421)


def test_localhost_is_a_name_of_it(served):
    port = served.server.server_port
    headers = {"Host": f"localhost:{port}"}
    assert served.request("GET", f"/?token={served.server.token}", None, headers)[0] == 200
    headers |= {"Origin": f"http://localhost:{port}", "X-Token": served.server.token}
    assert served.request("POST", "/api/echo", BODY, headers)[0] == 200


ORIGINS = [None, "", "null", "http://example.org", "http://127.0.0.1", "https://127.0.0.1:{}"]


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_foreign_origin_may_not_ask(served, origin):
    origin = origin and origin.format(served.server.server_port)
    headers = served.own_headers() | {"Origin": origin}
    assert_refused(served.request("POST", "/api/echo", BODY, headers), 403)


@pytest.mark.parametrize("token", [None, "", "wrong", "é"])
def test_a_question_needs_the_token(served, token):
    headers = served.own_headers() | {"X-Token": token and token.encode()}
    # in the address it does not count: an address is easily passed on
    path = f"/api/echo?token={served.server.token}"
    for place in ("/api/echo", path):
        assert_refused(served.request("POST", place, BODY, headers), 403)


@pytest.mark.skipif(os.name != "posix", reason="Windows would let two servers have one port")
def test_a_port_can_be_had_again_at_once_but_not_twice():
    first = LiveServer(0, {})
    port = first.server_port
    assert first.server_address[0] == "127.0.0.1"
    with socket.create_connection((ADDRESS, port)) as client:
        connection, _ = first.get_request()
        with pytest.raises(OSError):
            LiveServer(port, {})
        connection.close()  # it is now the server's end that waits for a while
        assert client.recv(1) == b""
    first.server_close()
    second = LiveServer(port, {})
    second.server_close()
    assert first.token != second.token and len(first.token) >= 32


def test_a_burst_of_connections_gets_in():
    """Before the server takes the first of them."""
    with LiveServer(0, {}) as server, ExitStack() as connections:
        for _ in range(64):
            client = socket.create_connection(server.server_address, timeout=0.5)
            connections.enter_context(client)


# ---------------------------------------------------------------- what it answers


def test_a_question_is_answered_in_lines(served):
    status, lines = served.ask("echo", prompt="<b>é</b>")
    assert status == 200
    assert lines == [{"done": 1, "total": 2}, {"result": {"prompt": "<b>é</b>"}}]


@pytest.mark.parametrize("name", ["", "ech", "echo/", "../echo", "__class__", "echo?x=1", "%65cho"])
def test_an_unknown_question_is_refused(served, name):
    assert_refused(served.request("POST", f"/api/{name}", BODY), 404)


def test_a_bad_request_gets_one_line(served):
    for body in (b"", b"{}", b"[" * 9999, json.dumps(ASKED | {"K": 99}).encode()):
        assert_refused(served.request("POST", "/api/echo", body), 400)


LENGTHS = {None: 411, "x": 411, "-1": 411, "9" * 40: 411, "²": 411, str(MOST_BYTES + 1): 413}


@pytest.mark.parametrize("length, status", LENGTHS.items())
def test_a_request_says_how_long_it_is_and_is_not_even_read_if_too_long(served, length, status):
    headers = served.own_headers() | {"Content-Length": length and length.encode()}
    assert_refused(served.request("POST", "/api/echo", None, headers), status)


ERRORS = [
    (InputError("prompt\nof two lines"), 400, "of two lines"),
    (ZeroDivisionError("secret"), 500, "ZeroDivisionError"),
]


@pytest.mark.parametrize("error, status, says", ERRORS)
@pytest.mark.parametrize("started", [False, True])
def test_an_error_is_one_line_before_and_after_the_first(serve, error, status, says, started):
    def fail(request, turn, send):
        if started:
            send({"done": 1, "total": 2})
        raise error

    code, lines = serve({"fail": fail}).ask("fail")
    assert code == (200 if started else status)
    assert says in lines[-1]["error"] and "secret" not in lines[-1]["error"]
    assert len(lines) == 1 + started


def test_an_error_names_a_field_of_the_page(serve, pair):
    served = serve(answers_of(session_of(pair)))
    for name, label in LABELS.items():
        # the last comes from the models, not from the form
        for bad in (None, "\ud800") if name == "prompt" else (None, -1):
            status, (line,) = served.ask("what_if", **{name: bad})
            error = line["error"]
            assert status == 400 and error.startswith(f"{label} ") and "--" not in error


# ---------------------------------------------------------------- one run at a time


class Slow:
    """A question that goes on until it is cancelled, unless its prompt is "quick"."""

    def __init__(self):
        self.begun = threading.Event()
        self.running, self.most = 0, 0

    def __call__(self, request, turn, send):
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if request.prompt == "quick":
                return {"quick": True}
            self.begun.set()
            while True:
                turn.check()
                time.sleep(0.005)
        finally:
            self.running -= 1


@pytest.fixture
def slow(serve):
    """(a Slow question, its server, the answers to one that was asked and has begun)"""
    question, answers = Slow(), []
    served = serve({"slow": question, "echo": echo})
    headers = served.own_headers() | {"X-Turn": "1700000000000.5"}
    ask = lambda: answers.append(served.request("POST", "/api/slow", BODY, headers))
    thread = threading.Thread(target=ask)
    thread.start()
    assert question.begun.wait(10)

    def answer():
        thread.join(10)
        (found,) = answers
        assert_refused(found, 409)
        return json.loads(found[2])["error"]

    yield question, served, answer
    served.server.turns.cancel_all()
    thread.join(10)


def test_a_new_run_cancels_the_old_one(slow):
    question, served, answer = slow
    headers = served.own_headers() | {"X-Turn": "1700000000001"}
    body = json.dumps(ASKED | {"prompt": "quick"}).encode()
    assert served.request("POST", "/api/slow", body, headers)[0] == 200
    assert answer() == NEWER and question.most == 1


def test_a_request_that_was_overtaken_does_not_cancel_the_newer_one(slow):
    question, served, answer = slow
    for asked, status in (("1700000000000.25", 409), ("x", 400)):
        headers = served.own_headers() | {"X-Turn": asked}
        assert_refused(served.request("POST", "/api/slow", BODY, headers), status)
    assert question.running == 1


def test_a_stopped_server_stops_its_run(slow):
    question, served, answer = slow
    served.server.turns.cancel_all()
    assert answer() == STOPPED and question.running == 0


def test_few_may_wait(serve):
    """While one run computes and will not stop, only so many others are taken in."""
    released, begun = threading.Event(), threading.Event()

    def stubborn(request, turn, send):
        begun.set()
        released.wait(20)
        return {}

    served, answers = serve({"stubborn": stubborn}), []
    ask = lambda: answers.append(served.ask("stubborn")[0])
    threads = [threading.Thread(target=ask) for _ in range(MOST_WAITING + 3)]
    threads[0].start()
    assert begun.wait(10)
    for thread in threads[1:]:
        thread.start()
    end = time.monotonic() + 10
    while answers.count(503) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    assert answers.count(503) == 2
    released.set()
    for thread in threads:
        thread.join(20)
    # the newest had its turn; the others were cancelled, the first when it came to answer
    assert sorted(answers) == [200] + [409] * MOST_WAITING + [503] * 2


def test_a_client_that_goes_away_frees_its_place(serve):
    question = Slow()
    served = serve({"slow": question, "echo": echo})
    headers = "".join(f"{name}: {value}\r\n" for name, value in served.own_headers().items())
    with socket.create_connection(("127.0.0.1", served.server.server_port)) as connection:
        head = f"POST /api/slow HTTP/1.1\r\n{headers}Content-Length: {len(BODY)}\r\n\r\n"
        connection.sendall(head.encode() + BODY)
        assert question.begun.wait(10)
    assert served.result("echo") == {"prompt": ASKED["prompt"]}
    assert served.server.turns.known == []


@pytest.mark.parametrize(
    "error, line",
    [
        (RuntimeError("\x1b[2J\nerror"), "error: RuntimeError: \\x1b[2J\\nerror\n"),
        (BrokenPipeError("gone"), ""),
    ],
)
def test_what_goes_wrong_is_one_line_that_no_terminal_obeys(served, capsys, error, line):
    try:
        raise error
    except (RuntimeError, OSError):
        served.server.handle_error(None, None)
    assert capsys.readouterr().err == line
