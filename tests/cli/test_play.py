"""python main.py play: the address it prints, who gets in, and how it ends."""

import json
import os
import signal
import subprocess
import threading
import urllib.request
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import urlsplit
from urllib.request import url2pathname

from command_line import COMMAND, ENVIRONMENT, assert_refused, running
from live import ASKED

from cli import play
from page import rule_comparison


def test_a_server_in_a_process_of_its_own(pair):
    """It prints its address, answers those who have the token, and ends with Ctrl-C."""
    command = [*COMMAND, "play", "--no_browser", "--kernels=plain", f"--models_dir={pair}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # a shell may start a command in the background deaf to Ctrl-C
    deaf = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    with running(command, env=ENVIRONMENT, preexec_fn=deaf, **pipes) as server:
        try:
            url = urlsplit(server.stdout.readline().split()[-1])
            assert url.hostname == "127.0.0.1" and url.query.startswith("token=")
            origin = f"http://{url.netloc}"
            headers = {"Origin": origin, "X-Token": url.query.removeprefix("token=")}
            body = json.dumps(ASKED).encode()
            request = urllib.request.Request(f"{origin}/api/race", body, headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                result = json.loads(answer.read().splitlines()[-1])["result"]
            assert len(result["figures"]["token_ids"]) == 30
        finally:
            server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=30)
    assert server.returncode in (0, 130) and "Traceback" not in err and "error" not in err


def test_the_browser_is_opened_by_a_file_of_its_owner(monkeypatch):
    """It may block until its page is served; its arguments, for all to read, have no token."""
    address, serving, seen = "http://127.0.0.1:1/?token=x", threading.Event(), SimpleQueue()

    def browser(opened):
        assert serving.wait(5)
        file = Path(url2pathname(urlsplit(opened).path))
        seen.put((opened, file.read_text(), file.parent, file.parent.stat().st_mode))

    monkeypatch.setattr(play.webbrowser, "open", browser)
    with play.open_in_browser(address):
        serving.set()
        opened, text, folder, mode = seen.get(timeout=5)
    assert address in text and opened.startswith("file:") and "token" not in opened
    assert os.name != "posix" or mode & 0o077 == 0  # for its owner alone
    assert not folder.exists()


def test_a_run_is_saved_without_a_server(cli, monkeypatch, tmp_path):
    path, (first, *_) = tmp_path / "run.html", rule_comparison.ALL_RULES
    monkeypatch.setattr(rule_comparison, "ALL_RULES", {first: rule_comparison.ALL_RULES[first]})
    assert cli("--save", path, command=["play"]).code == 0
    text = path.read_text(encoding="utf-8")
    for part in ('"plain"', '"target_seconds"', '"distribution"'):
        assert part in text
    assert_refused(cli("--save", path, command=["play"]), "--save", path.name)


def test_a_port_that_cannot_be_or_is_in_use_is_refused(cli, serve):
    for port in ("-1", "65536", "x", str(serve({}).server.server_port)):
        assert_refused(cli("--port", port, "--no_browser", command=["play"]), "--port", port)
