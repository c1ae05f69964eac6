"""The server, over HTTP: who gets in, what it answers, and that one run computes at a time."""

import json
import socket
import threading
import time
from contextlib import ExitStack

import pytest
from live import ASKED, PROMPT, SETTINGS

from experiments.page.runs import Request, parse
from experiments.page.server import ADDRESS, LiveServer
from utils import InputError

BODY = json.dumps(ASKED).encode()


def echo(request, tell):
    tell(done=1, total=2)
    return {"prompt": request.prompt}


@pytest.fixture
def served(serve):
    return serve({"echo": echo})


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
    assert served.request("POST", "/api/echo", BODY, **own)[0] == 200


PAGE, QUESTION = "GET /?token={token}", "POST /api/echo"
PATHS = ("/", "/?token=", "/?token=%C3%A9", "/..%2fetc/passwd?token={token}", "http://[/", "*")
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


def test_a_burst_of_connections_gets_in():
    """Before the server takes the first of them."""
    with LiveServer(0, {}) as server, ExitStack() as connections:
        for _ in range(64):
            client = socket.create_connection(server.server_address, timeout=0.5)
            connections.enter_context(client)


# ---------------------------------------------------------------- what it answers


def test_a_request_is_read():
    change = {"K": 1, "temperature": 0.5}
    changed = {"coins": [[7, 0.5], [9, 0]], "changes": [{"round": 2} | change]}
    found = parse(json.dumps(ASKED | changed | {"models_dir": "/etc"}).encode())
    assert found == Request(PROMPT, SETTINGS, {7: 0.5, 9: 0.0}, {2: change})


BAD = {
    "n_tokens_to_generate": (0, 201, 10**30, None),
    "K": (0, 13, "auto"),
    "temperature": (-0.1, 10.1, "1", float("inf"), float("nan")),
    "top_p": (0, 1.1),
    "seed": (-1, 2**60),
    "coins": ({"x": 1}, [[1]], [["a", 0.5]]),
    "changes": ([{}], [3], [{"round": 1, "K": 99, "temperature": 1}]),
}


@pytest.mark.parametrize("name, value", [(name, value) for name in BAD for value in BAD[name]])
def test_a_value_outside_the_limits_of_the_form_is_refused(name, value):
    with pytest.raises((KeyError, TypeError, ValueError)):
        parse(json.dumps(ASKED | {name: value}).encode())


def test_a_question_is_answered_in_lines(served):
    lines = [{"done": 1, "total": 2}, {"result": {"prompt": "<b>é</b>"}}]
    assert served.ask("echo", prompt="<b>é</b>") == lines


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b"[" * 9999, BODY[:-1]])
def test_a_request_that_the_page_does_not_make_gets_one_line(served, body):
    code, _, text = served.request("POST", "/api/echo", body)
    assert code == 200 and text.count("\n") == 1 and set(json.loads(text)) == {"error"}


@pytest.mark.parametrize("error", [InputError("a reason"), ZeroDivisionError("a reason")])
def test_an_error_is_the_last_line(serve, error):
    def fail(request, tell):
        tell(done=1, total=2)
        raise error

    first, last = serve({"fail": fail}).ask("fail")
    assert first == {"done": 1, "total": 2} and last["error"].endswith("a reason")


# ---------------------------------------------------------------- one run at a time


class Slow:
    """A question that goes on until it is stopped, unless its prompt is "quick"."""

    def __init__(self):
        self.begun, self.running = threading.Event(), 0

    def __call__(self, request, tell):
        assert self.running == 0
        self.running += 1
        try:
            while request.prompt != "quick":
                self.begun.set()
                tell()
                time.sleep(0.005)
            return {"quick": True}
        finally:
            self.running -= 1


def test_a_client_that_goes_away_makes_room_for_the_next(serve):
    """As the page does when something else is asked: its newest question is never refused."""
    question = Slow()
    served, answers = serve({"slow": question}), []
    ask = lambda: answers.append(served.ask("slow", prompt="quick"))
    head = "".join(f"{name}: {value}\r\n" for name, value in served.own.items())
    head = f"POST /api/slow HTTP/1.1\r\n{head}Content-Length: {len(BODY)}\r\n\r\n"
    with socket.create_connection((ADDRESS, served.server.server_port)) as connection:
        connection.sendall(head.encode() + BODY)
        assert question.begun.wait(10)
        waiting = threading.Thread(target=ask)
        waiting.start()
        time.sleep(0.1)
        assert question.running == 1 and answers == []
    waiting.join(10)
    assert answers == [[{"result": {"quick": True}}]]


def test_a_stopped_server_stops_its_run(serve, capsys):
    question = Slow()
    served, answers = serve({"slow": question}), []
    thread = threading.Thread(target=lambda: answers.append(served.ask("slow")))
    thread.start()
    assert question.begun.wait(10)
    served.server.server_close()
    assert question.running == 0
    thread.join(10)
    assert answers == [[]] and capsys.readouterr().err == ""
