"""A live server with the tiny pair, and requests to it."""

import json
import threading
from http.client import HTTPConnection

import pytest
from cli.flags import DEFAULTS, Settings
from cli.from_flags import kernels_in, load_pair
from toys import tokens_of

from page.report import describe_run
from page.server import LiveServer
from sampling import Rng, speculative, stop_condition

PROMPT = "hello there"
SETTINGS = {
    "n_tokens_to_generate": 30,
    "K": 4,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "seed": 123,
}
ASKED = {"prompt": PROMPT} | SETTINGS


NASTY = "</script><img src=x>é\n\u2028&lt;"  # 30 tokens
RUNS = {  # of main.py, that a page can show
    "sampled": ["--temperature", 1],
    "coupled": ["--temperature", 1, "--coupled"],
    "block": ["--temperature", 1, "--verification", "block"],
    "ngram": ["--draft_model_size", "ngram", "--temperature", 0.7],
    "alone": ["--mode", "speculative", "--K", 1],
    "bytes": ["--target_model_size", "bytes", "--temperature", 1.2],
    "ends": ["--target_model_size", "ends", "--prompt", "x"],
    "nasty": ["--prompt", NASTY, "--stop", "</script>"],
}


def unheard(**line):
    """A tell that nobody listens to."""


def loaded(folder, **settings):
    """(describe, Pair) of these Settings, for page.runs."""
    settings = Settings(models_dir=str(folder), kernels="plain", **settings)
    pair = load_pair(settings)
    kernels = kernels_in(settings, pair)

    def describe(prompt, **changes):
        as_json = settings.replace(**changes).as_json(prompt.text, prompt.seed)
        return describe_run(as_json, prompt.ids, DEFAULTS, kernels)

    return describe, pair


class Replaced(Rng):
    """The Rng of a seed, but for the coin of this index."""

    def __init__(self, seed, index, value):
        super().__init__(seed)
        self.index, self.value, self.n_tossed = index, value, 0

    def accept(self, ratio):
        u, self.n_tossed = self.random(), self.n_tossed + 1
        return (self.value if self.n_tossed - 1 == self.index else u) < ratio


def by_hand(pair, rng, K, to_probs, n_tokens, prompt=PROMPT):
    """The text of the loop with this Rng."""
    ids, is_done = pair.encoder.encode(prompt), stop_condition(pair.encoder)
    drafter = pair.draft.new_drafter(pair.target, to_probs, rng)
    rounds = speculative(pair.target, drafter, ids, n_tokens, K, to_probs, rng, is_done)
    return list(tokens_of(rounds))


class Served:
    def __init__(self, answers):
        self.server = LiveServer(0, answers)
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

    def ask(self, name, **values):
        """The lines that answer a question about ASKED with these values."""
        status, _, text = self.request("POST", f"/api/{name}", json.dumps(ASKED | values).encode())
        assert status == 200
        return [json.loads(line) for line in text.splitlines()]


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


def data_of(path):
    """The JSON in a page."""
    begin = '<script type="application/json" id="data">'
    _, _, rest = path.read_text(encoding="utf-8").partition(begin)
    return json.loads(rest.partition("</script>")[0], parse_constant=pytest.fail)


@pytest.fixture
def written(as_json, tmp_path):
    """A function (*arguments) -> the path of a report, and the JSON object of its run."""

    def call(*arguments):
        path = tmp_path / "report.html"
        prompt = () if "--prompt" in arguments else ("--prompt", PROMPT)
        flags = *prompt, "--n_tokens_to_generate=30", "--report", path
        return path, as_json(*flags, *arguments)

    return call
