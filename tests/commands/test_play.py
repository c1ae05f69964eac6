"""python main.py play: the address it prints, who gets in, and how it ends."""

import json
import os
import signal
import subprocess
import threading
import urllib.request
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from command_line import COMMAND, ENVIRONMENT, assert_refused
from playing import ASKED

import main
from experiments.commands import play


def opened(request):
    """(status, text) of an answer of the server."""
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_a_server_in_a_process_of_its_own(pair):
    """It prints its address, answers those who have the token, and ends with Ctrl-C."""
    command = [*COMMAND, "play", "--no_browser", "--kernels=plain", f"--models_dir={pair}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # a shell may start a command in the background deaf to Ctrl-C
    deaf = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, env=ENVIRONMENT, preexec_fn=deaf, **pipes) as running:
        try:
            address = running.stdout.readline().strip()
            url = urlsplit(address)
            assert url.hostname == "127.0.0.1" and url.query.startswith("token=")
            status, text = opened(address)
            assert status == 200 and text.startswith("<!doctype html>")
            assert opened(f"http://{url.netloc}/")[0] == 403
            origin = f"http://{url.netloc}"
            headers = {"Origin": origin, "X-Token": url.query.removeprefix("token=")}
            body = json.dumps(ASKED).encode()
            status, text = opened(urllib.request.Request(f"{origin}/api/race", body, headers))
            result = json.loads(text.splitlines()[-1])["result"]
            assert status == 200 and len(result["figures"]["token_ids"]) == 30
        finally:
            running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert running.returncode in (0, 130) and "Traceback" not in err and "error" not in err


class Ended:
    """A server that is stopped once a browser has been opened."""

    address = "http://127.0.0.1:1/?token=x"

    def __init__(self, port, questions):
        self.port, self.calls = port, []
        self.jobs = self
        Ended.last = self

    def serve_forever(self):
        self.serving.set()
        self.opened.wait(10)
        raise KeyboardInterrupt

    def server_close(self):
        self.calls.append("close")

    def cancel_all(self):
        self.calls.append("cancel")


@pytest.mark.parametrize("quiet", [True, False])
def test_the_browser_is_opened_unless_told_not_to(cli, monkeypatch, quiet):
    """It may block until its page is served; its arguments, for all to read, have no token."""
    seen = []

    def browser(address):
        file = Path(url2pathname(urlsplit(address).path))
        served = Ended.serving.wait(5)
        seen.append((address, file.parent, file.parent.stat().st_mode, file.read_text(), served))
        Ended.opened.set()

    Ended.serving, Ended.opened = threading.Event(), threading.Event()
    if quiet:
        Ended.opened.set()
    monkeypatch.setattr(play, "LiveServer", Ended)
    monkeypatch.setattr(play.webbrowser, "open", browser)
    done = cli(*(["--no_browser"] if quiet else []), "--port", 8123, command=["play"])
    assert done.code == 0 and done.out.startswith(Ended.address)
    assert Ended.last.port == 8123 and Ended.last.calls == ["close", "cancel"]
    assert len(seen) == 1 - quiet
    for address, folder, mode, text, served in seen:
        assert served and Ended.address in text
        assert address.startswith("file:") and "token" not in address
        assert os.name != "posix" or mode & 0o077 == 0  # for its owner alone
        assert not folder.exists()


@pytest.mark.parametrize("port", ["-1", "65536", "x", "1.5"])
def test_a_port_that_cannot_be_is_refused(cli, port):
    assert_refused(cli("--port", port, command=["play"]), "--port", port)


def test_a_port_in_use_is_refused(cli, serve):
    port = serve({}).server.server_port
    assert_refused(cli("--port", port, "--no_browser", command=["play"]), "--port", str(port))


def test_models_that_are_not_there_are_named(cli):
    assert_refused(cli("--target_model_size", "none", command=["play"]), "none")


def test_help_says_what_it_listens_on(capsys):
    assert main.main(["play", "--help"]) == 0
    assert "127.0.0.1" in capsys.readouterr().out
