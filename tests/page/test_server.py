"""The server, over HTTP: who gets in, what it answers, and that one run computes at a time."""

import json
import os
import re
import socket
import threading
import time
from contextlib import ExitStack

import pytest
from live import ASKED, SETTINGS

from page.server import ADDRESS, Handler, LiveServer

BODY = json.dumps(ASKED).encode()


def echo(settings, tell):
    tell(done=1, total=2)
    return {"prompt": settings["prompt"]}


@pytest.fixture
def served(serve):
    return serve(echo)


def head(served, length):
    """The head of the page's question, with a body of this length to come."""
    lines = {**served.own, "Content-Length": length}.items()
    return "POST /api/race HTTP/1.1\r\n" + "".join(f"{x}: {y}\r\n" for x, y in lines) + "\r\n"


# ---------------------------------------------------------------- who gets in


def test_the_printed_address_is_the_page(served):
    path = served.server.address.removeprefix(f"http://{served.host}")
    assert path == f"/?token={served.token}" and len(served.token) >= 32
    localhost = served.host.replace("127.0.0.1", "localhost")
    for host in (served.host, localhost):
        code, headers, text = served.request("GET", path, Host=host)
        assert code == 200 and text.startswith("<!doctype html>") and served.token in text
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers
    own = {"Host": localhost, "Origin": f"http://{localhost}"}
    assert served.request("POST", "/api/race", BODY, **own)[0] == 200


PAGE, QUESTION = "GET /?token={token}", "POST /api/race"
PATHS = ("/", "/?token=", "/?token=%C3%A9", "/?token={token}&", "/?x&token={token}")
HOSTS = (None, "", "example.org:{port}", "127.0.0.1:1")
ORIGINS = (None, "", "null", "http://example.org:{port}", "https://127.0.0.1:{port}")
FOREIGN = [
    *[(f"GET {path}", {}) for path in PATHS],
    *[(door, {"Host": host}) for door in (PAGE, QUESTION) for host in HOSTS],
    *[(QUESTION, {"Origin": origin}) for origin in ORIGINS],
    *[(QUESTION, {"X-Token": token}) for token in (None, "", "wrong", "é")],
    (QUESTION + "?token={token}", {"X-Token": None}),
]


@pytest.mark.parametrize("line, headers", FOREIGN)
def test_nobody_else_gets_in(served, line, headers):
    known = {"token": served.token, "port": served.server.server_port}
    method, path = line.format(**known).split(" ")
    headers = {name: value and value.format(**known) for name, value in headers.items()}
    code, _, text = served.request(method, path, BODY if method == "POST" else None, **headers)
    assert code == 403 and served.token not in text
    assert json.loads(text)["error"].endswith("open the address that was printed")


NOWHERE = ("/favicon.ico", "/..%2fetc/passwd", "http://[/", "*", "/api/", "/api/nothing")
NOWHERE = [f"{method} {path}" for method in ("GET", "POST") for path in NOWHERE]


@pytest.mark.parametrize("line", [*NOWHERE, "GET /api/race", "POST /"])
def test_nothing_else_is_there(served, line):
    method, path = line.split(" ")
    for query in ("", f"?token={served.token}"):
        code, _, text = served.request(method, path + query, BODY)
        assert code == 404 and json.loads(text)["error"].startswith("not found: ")


DOORS = [PAGE, QUESTION, "GET /", "GET /x", "POST /x", "PUT /", "A" * 70_000]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door[:20])
def test_every_answer_has_the_policy_of_the_page_and_no_version(served, door):
    method, _, path = door.format(token=served.token).partition(" ")
    _, headers, _ = served.request(method, path, BODY)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', served.server.page.decode())
    assert headers["Content-Security-Policy"] == policy[1]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Server"] == "play"


HALVES = ("", "POST", "POST /api/race HTTP/1.1\r\nHost: x\r\n", "{head}", "{head}" + "x" * 20)


@pytest.mark.parametrize("half", HALVES, ids=["nothing", "word", "head", "no body", "half a body"])
def test_a_hundred_halves_of_requests_leave_the_page_to_others_and_go(serve, monkeypatch, half):
    monkeypatch.setattr(Handler, "timeout", 0.5)
    served = serve(echo)
    with ExitStack() as stack:
        clients = []
        for _ in range(100):
            client = socket.create_connection(served.server.server_address, timeout=10)
            clients.append(stack.enter_context(client))
            client.sendall(half.format(head=head(served, 99)).encode())
        assert served.ask()[-1] == {"result": {"prompt": SETTINGS["prompt"]}}
        end = b"H" if "{head}" in half else b""  # 408, where the server knows who asks
        assert [client.recv(1) for client in clients] == [end] * 100


def test_an_answer_that_nobody_takes_ends(serve, monkeypatch):
    monkeypatch.setattr(Handler, "timeout", 0.5)
    is_done = threading.Event()

    def long(settings, tell):
        try:
            while settings["prompt"] != "quick":
                tell(row="x" * 100_000)
        finally:
            is_done.set()

    served = serve(long)
    with socket.create_connection(served.server.server_address) as client:
        client.sendall(head(served, len(BODY)).encode() + BODY)
        assert is_done.wait(10)
        assert served.ask(prompt="quick") == [{"result": None}]


@pytest.mark.skipif(os.name != "posix", reason="has no limit of descriptors to raise")
def test_descriptors_above_1024_are_as_good(served):
    """select.select takes none of them."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 1300:
        pytest.skip("no more than 1,300 descriptors can be had")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 1300), limits[1]))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert served.ask()[-1] == {"result": {"prompt": SETTINGS["prompt"]}}
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


LENGTHS = [
    ({"Content-Length": None}, 411),
    ({"Content-Length": None, "Transfer-Encoding": "chunked"}, 411),
    ({"Transfer-Encoding": "chunked"}, 411),
    *[({"Content-Length": text}, 411) for text in ("", "-1", "ten", "1e3", "0x10", "²", "1, 1")],
    ({"Content-Length": "9" * 5000}, 411),
    ({"Content-Length": "100001"}, 413),
]


@pytest.mark.parametrize("headers, status", LENGTHS)
def test_a_length_that_is_none_is_refused(served, headers, status):
    code, _, text = served.request("POST", "/api/race", None, **headers)
    assert code == status and "Content-Length" in json.loads(text)["error"]


def test_a_burst_of_connections_gets_in():
    """Before the server takes the first of them."""
    with LiveServer(0, SETTINGS, echo) as server, ExitStack() as connections:
        for _ in range(64):
            client = socket.create_connection(server.server_address, timeout=0.5)
            connections.enter_context(client)


# ---------------------------------------------------------------- what it answers


NAN, INFINITY = float("nan"), float("inf")
BAD = {
    "prompt": (None, 3, ["a"], "x" * 4001),
    "n_tokens_to_generate": (0, 201, 10**30, None, True, [1], 2.0),
    "K": (0, 13, 2.7, "auto", "4", None, NAN, {}),
    "temperature": (-0.1, 10.1, "1", INFINITY, NAN),
    "top_k": (-1, 0.5, 10**6 + 1),
    "top_p": (0, 1.1, NAN),
    "seed": (-1, 2**60, 1.5),
}


@pytest.mark.parametrize("name, value", [(name, value) for name in BAD for value in BAD[name]])
def test_a_value_outside_the_limits_of_the_form_or_missing_is_refused_by_name(served, name, value):
    without = {other: ASKED[other] for other in ASKED if other != name}
    for body in (without | {name: value}, without):
        code, _, text = served.request("POST", "/api/race", json.dumps(body).encode())
        assert code == 400 and text.count("\n") == 1
        error = json.loads(text)["error"]
        assert error.startswith(name) and "expected" in error and len(error) < 120


def test_a_question_is_answered_in_lines(served):
    lines = [{"done": 1, "total": 2}, {"result": {"prompt": "<b>é</b>"}}]
    assert served.ask(prompt="<b>é</b>") == lines


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b"[" * 9999, BODY[:-1]])
def test_a_request_that_the_page_does_not_make_gets_one_line(served, body):
    code, _, text = served.request("POST", "/api/race", body)
    assert code == 400 and text.count("\n") == 1 and set(json.loads(text)) == {"error"}


@pytest.mark.parametrize("half_closed", [True, False])
def test_a_body_that_is_shorter_than_it_says_is_refused(served, monkeypatch, half_closed):
    """At once where the client says that nothing follows, else when the time is up."""
    monkeypatch.setattr(Handler, "timeout", 60 if half_closed else 0.2)
    with socket.create_connection((ADDRESS, served.server.server_port), timeout=30) as connection:
        connection.sendall(head(served, len(BODY) + 1).encode() + BODY)
        if half_closed:
            connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    status, _, line = answer.partition("\r\n\r\n")
    assert status.split()[1] == ("400" if half_closed else "408")
    assert json.loads(line)["error"].startswith("the body: expected ")


@pytest.mark.parametrize("error", [ValueError("a reason"), ZeroDivisionError("a reason")])
def test_an_error_is_the_last_line(serve, error):
    def fail(settings, tell):
        tell(done=1, total=2)
        raise error

    first, last = serve(fail).ask()
    assert first == {"done": 1, "total": 2} and last["error"].endswith("a reason")


# ---------------------------------------------------------------- one run at a time


class Slow:
    """A question that goes on until it is stopped, unless its prompt is "quick"."""

    def __init__(self):
        self.begun, self.running = threading.Event(), 0

    def __call__(self, settings, tell):
        assert self.running == 0
        self.running += 1
        try:
            while settings["prompt"] != "quick":
                self.begun.set()
                tell()
                time.sleep(0.005)
            return {"quick": True}
        finally:
            self.running -= 1


def test_a_client_that_goes_away_makes_room_for_the_next(serve):
    """As the page does when something else is asked: its newest question is never refused."""
    question = Slow()
    served, answers = serve(question), []
    ask = lambda: answers.append(served.ask(prompt="quick"))
    with socket.create_connection((ADDRESS, served.server.server_port)) as connection:
        connection.sendall(head(served, len(BODY)).encode() + BODY)
        assert question.begun.wait(10)
        waiting = threading.Thread(target=ask)
        waiting.start()
        time.sleep(0.1)
        assert question.running == 1 and answers == []
    waiting.join(10)
    assert answers == [[{"result": {"quick": True}}]]


def test_a_stopped_server_stops_its_run(serve, capsys):
    question = Slow()
    served, answers = serve(question), []
    thread = threading.Thread(target=lambda: answers.append(served.ask()))
    thread.start()
    assert question.begun.wait(10)
    served.server.server_close()
    assert question.running == 0
    thread.join(10)
    assert answers == [[]] and capsys.readouterr().err == ""
