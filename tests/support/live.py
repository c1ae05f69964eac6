"""A live server with the tiny pair, and requests to it."""

import json
import threading
from dataclasses import replace
from http.client import HTTPConnection

import numpy as np
import pytest

from experiments.decoding.job import Job, decode
from experiments.decoding.session import Session, load_pair
from experiments.decoding.settings import Settings
from experiments.page.server import LiveServer
from experiments.proving.enumeration import tokens_of
from sampling import stop_condition

ASKED = {
    "prompt": "hello there",
    "n_tokens_to_generate": 30,
    "K": 4,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "seed": 123,
}


def session_of(folder, **settings):
    """A Session of the models in a folder."""
    settings = Settings(models_dir=str(folder), kernels="plain", **settings)
    return Session(settings, load_pair(settings))


class Replaced:
    """NumPy's numbers, but for the one of this index."""

    def __init__(self, seed, index, value):
        self.rng, self.index, self.value, self.n = np.random.default_rng(seed), index, value, 0

    def random(self):
        real, self.n = self.rng.random(), self.n + 1
        return self.value if self.n - 1 == self.index else real


def by_hand(session, rng, K, filter, n_tokens, ids=None):
    """The text of the loop with this generator."""
    ids = ids or session.prompt(ASKED["prompt"]).ids
    job = Job(ids, n_tokens, K, filter, ended=stop_condition(session.encoder))
    with_rng = lambda parts: replace(parts, rng=rng, coins=rng)
    return list(tokens_of(decode(session.pair.target, session.pair.draft, job, with_rng)))


class Served:
    """A server that answers in a thread of its own."""

    def __init__(self, answers):
        self.server = LiveServer(0, answers)
        self.address = self.server.address
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def own_headers(self):
        port = self.server.server_port
        return {
            "Host": f"127.0.0.1:{port}",
            "Origin": f"http://127.0.0.1:{port}",
            "X-Token": self.server.token,
        }

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body) of a request with these headers and no others."""
        connection = HTTPConnection("127.0.0.1", self.server.server_port, timeout=60)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        headers = self.own_headers() if headers is None else headers
        if body is not None and "Content-Length" not in headers:
            headers = headers | {"Content-Length": str(len(body))}
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        answer = response.status, dict(response.getheaders()), response.read().decode()
        connection.close()
        return answer

    def ask(self, name, **values):
        """(status, lines) of a question about ASKED with these values."""
        status, _, text = self.request("POST", f"/api/{name}", json.dumps(ASKED | values).encode())
        return status, [json.loads(line) for line in text.splitlines()]

    def result(self, name, **values):
        status, lines = self.ask(name, **values)
        assert status == 200 and "result" in lines[-1], lines[-1]
        return lines[-1]["result"]


@pytest.fixture
def serve():
    """A function (answers) -> Served, stopped after the test."""
    running = []

    def call(answers):
        running.append(Served(answers))
        return running[-1]

    yield call
    for served in running:
        served.stop()
