"""The commands of docs/engines.md, as they stand there: the greedy text of each engine is ours.

pip install --group engines, then python -m pytest -m engines
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import requests
from command_line import ENVIRONMENT, ROOT

from checkpoints.registry import MODELS_DIR
from decoding.decode import begin, load_pair
from decoding.text_difference import explain_difference

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]

PAGE = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
PROMPT, N, K = "Once upon a time there lived a king", 60, 4


def blocks(engine):
    """The shell commands below a heading of the page."""
    section = re.search(rf"(?ms)^## {re.escape(engine)}$(.*?)(?=^## )", PAGE)[1]
    return re.findall(r"(?s)```sh\n(.*?)```", section)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder in which the page's commands find what they name."""
    folder = tmp_path_factory.mktemp("desk")
    for name in ("main.py", "docs", "models"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def environment():
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return ENVIRONMENT | {"PATH": path, "HF_HUB_OFFLINE": "1"}


def run(commands, folder):
    """What the commands print at the end, as JSON."""
    options = {"cwd": folder, "env": environment(), "capture_output": True, "text": True}
    done = subprocess.run(["bash", "-e", "-c", commands], timeout=900, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def pair():
    return load_pair("17M", "0.7M-17M", MODELS_DIR)


def rounds(pair, ids, n):
    """Our speculative decoding, the prefill apart; a text ends at <|endoftext|>."""
    return list(begin("speculative", *pair, ids, n, K=K, seed=0))[1:]


def check_text(pair, answer):
    """Token for token ours, and as many; the referee finds a tie where that is not so."""
    encoder = pair[2]
    ids = encoder.encode(PROMPT)
    tokens = [token for this_round in rounds(pair, ids, N) for token in this_round.tokens]
    assert len(answer["tokens"]) == len(tokens) == N
    if answer["tokens"] != tokens:
        assert explain_difference(pair[0], ids, tokens, answer["tokens"])["verdict"] == "tie"
    assert answer["content"] == encoder.decode(answer["tokens"])


def rounds_after_one(pair, answer):
    """Our rounds where the prefill has written the first token, as it does in most engines."""
    return rounds(pair, pair[2].encode(PROMPT) + answer["tokens"][:1], N - 1)


def test_transformers(pair, desk):
    pytest.importorskip("transformers")
    (commands,) = blocks("transformers")
    answer = run(commands, desk)
    check_text(pair, answer)
    # its first pass reads the prompt and the first drafts together, as ours does
    assert answer["passes"] == len(rounds(pair, pair[2].encode(PROMPT), N))


def test_openvino(pair, desk):
    for name in ("optimum.intel", "nncf", "openvino_genai"):
        pytest.importorskip(name)
    (commands,) = blocks("OpenVINO GenAI")
    answer = run(commands, desk)
    check_text(pair, answer)
    assert answer["written"] == [
        1,
        *(len(this_round.tokens) for this_round in rounds_after_one(pair, answer)),
    ]


# ---------------------------------------------------------------- llama.cpp


@pytest.fixture(scope="module")
def llama(desk):
    """The command that asks the page's server, while that runs."""
    export_and_serve, ask = blocks("llama.cpp")
    for name in ("gguf", "xllamacpp"):
        pytest.importorskip(name)
    # the last command becomes the process that is ended
    head, _, last = export_and_serve.strip().rpartition("\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = ["bash", "-e", "-c", f"{head}\nexec {last}".replace("8080", port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(command, cwd=desk, env=environment(), **quiet)
    try:
        wait_for(f"http://127.0.0.1:{port}", server)
        yield ask.replace("8080", port)
    finally:
        server.terminate()
        server.wait()


def wait_for(address, server):
    for _ in range(600):
        assert server.poll() is None, "the server ended"
        with suppress(requests.ConnectionError):
            if requests.get(f"{address}/health", timeout=5).ok:
                return
        time.sleep(0.2)
    raise AssertionError("the server does not answer")


def test_llama_cpp(pair, desk, llama):
    answer = run(llama, desk)
    check_text(pair, answer)
    ours = rounds_after_one(pair, answer)
    assert answer["timings"]["draft_n"] == sum(len(this_round.draft) for this_round in ours)
    assert answer["timings"]["draft_n_accepted"] == sum(this_round.accepted for this_round in ours)
