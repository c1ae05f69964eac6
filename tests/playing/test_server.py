"""The server, over HTTP: who gets in, what is refused, and that one run computes at a time."""

import json
import os
import re
import socket
import threading
import time
from contextlib import ExitStack

import pytest
from playing import ASKED, session_of

from experiments.playing.jobs import MOST_WAITING, NEWER, STOPPED
from experiments.playing.questions import questions_of
from experiments.playing.request import FIELDS, MOST_BYTES
from experiments.playing.server import ADDRESS, LiveServer
from utils import InputError


def echo(request, job, send):
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


@pytest.mark.parametrize(
    "path", ["/", "/?token=", "/?token=wrong", "/?token=%C3%A9", "/?Token={}", "/?x={}"]
)
def test_without_the_token_there_is_no_page(served, path):
    answer = served.request("GET", path.format(served.server.token))
    assert_refused(answer, 403)
    assert served.server.token not in answer[2]


@pytest.mark.parametrize(
    "path", ["/api/echo", "/main.py", "/../main.py", "/..%2f..%2fetc/passwd", "//etc/passwd", "*"]
)
def test_nothing_else_can_be_read(served, path):
    code, _, text = served.request("GET", f"{path}?token={served.server.token}")
    assert code in (404, 403) and "root" not in text and "import" not in text


@pytest.mark.parametrize("path", ["http://[/", "http://[::1/?token={}"])
def test_what_is_no_address_is_refused(served, capsys, path):
    assert_refused(served.request("GET", path.format(served.server.token)), 400)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "X"])
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
    assert_refused(served.request("POST", "/api/echo", BODY, headers), 403)
    # in the address it does not count: an address is easily passed on
    path = f"/api/echo?token={served.server.token}"
    assert_refused(served.request("POST", path, BODY, headers), 403)


def test_it_listens_on_the_loopback_address_only(served):
    assert served.server.server_address[0] == "127.0.0.1"


@pytest.mark.skipif(os.name != "posix", reason="Windows would let two servers have one port")
def test_a_port_can_be_had_again_at_once_but_not_twice():
    first = LiveServer(0, {})
    port = first.server_port
    with socket.create_connection((ADDRESS, port)) as client:
        connection, _ = first.get_request()
        with pytest.raises(OSError):
            LiveServer(port, {})
        connection.close()  # it is now the server's end that waits for a while
        assert client.recv(1) == b""
    first.server_close()
    LiveServer(port, {}).server_close()


def test_a_burst_of_connections_gets_in():
    """Before the server takes the first of them."""
    with LiveServer(0, {}) as server, ExitStack() as connections:
        for _ in range(64):
            client = socket.create_connection(server.server_address, timeout=0.5)
            connections.enter_context(client)


def test_two_servers_have_two_tokens(serve):
    first, second = serve({}), serve({})
    assert first.server.token != second.server.token and len(first.server.token) >= 32


# ---------------------------------------------------------------- what it answers


def test_a_question_is_answered_in_lines(served):
    status, lines = served.ask("echo", prompt="<b>é</b>")
    assert status == 200
    assert lines == [{"done": 1, "total": 2}, {"result": {"prompt": "<b>é</b>"}}]


@pytest.mark.parametrize(
    "name", ["", "ech", "echo/", "echo/..", "../echo", "__class__", "echo?x=1", "%65cho"]
)
def test_an_unknown_question_is_refused(served, name):
    assert_refused(served.request("POST", f"/api/{name}", BODY), 404)


def test_a_bad_request_gets_one_line(served):
    for body in (b"", b"{}", b"[" * 9999, json.dumps(ASKED | {"K": 99}).encode()):
        assert_refused(served.request("POST", "/api/echo", body), 400)


@pytest.mark.parametrize("length", [None, "x", "-1", "1e3", "9" * 40, "²"])
def test_a_request_says_how_long_it_is(served, length):
    headers = served.own_headers() | {"Content-Length": length and length.encode()}
    assert_refused(served.request("POST", "/api/echo", None, headers), 411)


def test_a_large_request_is_not_even_read(served):
    headers = served.own_headers() | {"Content-Length": str(MOST_BYTES + 1)}
    assert_refused(served.request("POST", "/api/echo", None, headers), 413)


@pytest.mark.parametrize(
    "error, status, says",
    [
        (InputError("prompt\nof two lines"), 400, "of two lines"),
        (ZeroDivisionError("secret"), 500, "ZeroDivisionError"),
        (MemoryError(), 500, "MemoryError"),
    ],
)
@pytest.mark.parametrize("started", [False, True])
def test_an_error_gets_one_line_before_and_after_the_first_answer(
    serve, error, status, says, started
):
    def fail(request, job, send):
        if started:
            send({"done": 1, "total": 2})
        raise error

    code, lines = serve({"fail": fail}).ask("fail")
    assert code == (200 if started else status)
    assert says in lines[-1]["error"] and "secret" not in lines[-1]["error"]
    assert len(lines) == 1 + started


LABELLED = r'<label[^>]*>([^<]+) <(?:input|textarea) name="(\w+)"'


def test_an_error_names_a_field_of_the_page(serve, pair):
    served = serve(questions_of(session_of(pair)))
    labels = {name: label for label, name in re.findall(LABELLED, served.server.page)}
    assert FIELDS == labels
    for name, label in labels.items():
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

    def __call__(self, request, job, send):
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if request.prompt == "quick":
                return {"quick": True}
            self.begun.set()
            while True:
                job.check()
                time.sleep(0.005)
        finally:
            self.running -= 1


def test_a_new_run_cancels_the_old_one(serve):
    slow, answers = Slow(), []
    served = serve({"slow": slow})
    first = threading.Thread(target=lambda: answers.append(served.ask("slow")))
    first.start()
    assert slow.begun.wait(10)
    assert served.result("slow", prompt="quick") == {"quick": True}
    first.join(10)
    assert answers == [(409, [{"error": NEWER}])]
    assert slow.most == 1


def test_a_request_that_was_overtaken_does_not_cancel_the_newer_one(serve):
    slow, answers = Slow(), []
    served = serve({"slow": slow})
    ask = lambda turn: served.request(
        "POST", "/api/slow", BODY, served.own_headers() | {"X-Turn": turn}
    )
    newer = threading.Thread(target=lambda: answers.append(ask("1700000000000.5")[0]))
    newer.start()
    assert slow.begun.wait(10)
    assert_refused(ask("1700000000000.25"), 409)
    assert slow.running == 1 and answers == []
    assert_refused(ask("x"), 400)
    served.server.jobs.cancel_all()
    newer.join(10)
    assert answers == [409]


def test_few_may_wait(serve):
    """While one run computes and will not stop, only so many others are taken in."""
    released, begun = threading.Event(), threading.Event()

    def stubborn(request, job, send):
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
    slow = Slow()
    served = serve({"slow": slow, "echo": echo})
    headers = "".join(f"{name}: {value}\r\n" for name, value in served.own_headers().items())
    with socket.create_connection(("127.0.0.1", served.server.server_port)) as connection:
        head = f"POST /api/slow HTTP/1.1\r\n{headers}Content-Length: {len(BODY)}\r\n\r\n"
        connection.sendall(head.encode() + BODY)
        assert slow.begun.wait(10)
    assert served.result("echo") == {"prompt": ASKED["prompt"]}
    assert served.server.jobs.known == []


def test_a_stopped_server_stops_its_run(serve):
    slow, answers = Slow(), []
    served = serve({"slow": slow})
    thread = threading.Thread(target=lambda: answers.append(served.ask("slow")))
    thread.start()
    assert slow.begun.wait(10)
    served.server.jobs.cancel_all()
    thread.join(10)
    assert answers == [(409, [{"error": STOPPED}])] and slow.running == 0


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
