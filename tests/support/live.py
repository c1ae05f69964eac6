"""Pages of the tiny pair, saved and live, and requests to their server."""

import json
import threading
from functools import partial
from http.client import HTTPConnection

import pytest

from cli.command import flags_of
from decoding.decode import load_pair
from page.play import NOT_OF_A_TEXT, play
from page.report import page_of
from page.runs import FIELDS, race
from page.server import LiveServer

DEFAULTS = {name: flag.default for name, flag in flags_of(play).items()}
SETTINGS = {name: value for name, value in DEFAULTS.items() if name not in NOT_OF_A_TEXT}
SETTINGS |= {"prompt": "hello there", "n_tokens_to_generate": 30}
ASKED = {name: SETTINGS[name] for name in ("prompt", *FIELDS)}
NASTY = "</script><img src=x>é\n\u2028&lt;"  # 30 tokens
RUNS = {  # settings of texts that a page can show
    "likeliest": {},
    "sampled": {"temperature": 1.0},
    "coupled": {"temperature": 1.0, "coupled": True},
    "block": {"temperature": 1.0, "verification": "block"},
    "ngram": {"draft_model_size": "ngram", "temperature": 0.7},
    "bytes": {"target_model_size": "bytes", "temperature": 1.2},
    "ends": {"target_model_size": "ends", "prompt": "x"},
    "nasty": {"prompt": NASTY, "stop": "</script>"},
}


def unheard(**line):
    """A tell that nobody listens to."""


def racer(folder, settings):
    """The function race(settings, tell) of the models that these settings name."""
    names = settings["target_model_size"], settings["draft_model_size"]
    return partial(race, load_pair(*names, str(folder)), DEFAULTS)


def raced(folder, tell=unheard, **settings):
    """(all settings, the data of a race) of some settings."""
    settings = SETTINGS | settings
    return settings, racer(folder, settings)(settings, tell)


@pytest.fixture
def written(pair, tmp_path):
    """A function (**settings) -> the path of a saved page, and its data."""

    def call(**settings):
        path = tmp_path / "page.html"
        _, data = raced(pair, **settings)
        path.write_text(page_of(data), encoding="utf-8")
        return path, data

    return call


class Served:
    def __init__(self, race, settings):
        self.server = LiveServer(0, settings, race)
        self.host, self.token = f"127.0.0.1:{self.server.server_port}", self.server.token
        self.own = {"Host": self.host, "Origin": f"http://{self.host}", "X-Token": self.token}
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def request(self, method, path, body=None, **headers):
        """(status, headers, text) with the page's own headers and these; None leaves one out."""
        connection = HTTPConnection(self.host, timeout=60)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        headers = self.own | {"Content-Length": str(len(body or b""))} | headers
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value.encode())
        connection.endheaders(body)
        response = connection.getresponse()
        answer = response.status, dict(response.getheaders()), response.read().decode()
        connection.close()
        return answer

    def ask(self, **values):
        """The lines that answer a question about ASKED with these values."""
        status, _, text = self.request("POST", "/api/race", json.dumps(ASKED | values).encode())
        assert status == 200
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def serve():
    """A function (race, **settings) -> Served, stopped after the test."""
    running = []

    def call(race, **settings):
        running.append(Served(race, SETTINGS | settings))
        return running[-1]

    yield call
    for served in running:
        served.stop()
