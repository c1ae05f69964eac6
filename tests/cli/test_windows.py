"""What Windows lacks, nothing needs: commands in processes of a Python without it."""

import json
import os
import signal
import subprocess
import urllib.request
from urllib.parse import urlsplit

import pytest
from command_line import COMMAND, ENVIRONMENT, process, running, timeless
from live import ASKED

pytestmark = pytest.mark.skipif(os.name != "posix", reason="takes away what POSIX has")

# Python imports this before anything else. msvcrt comes late, and fcntl goes late, as by them the
# standard library and Dask's tell the systems apart
SITE = """
import fcntl, os, select, signal, sys, types

LACKS = {
    os: ["fork", "forkpty", "getloadavg", "sched_getaffinity"],
    select: ["poll", "epoll"],
    signal: ["pthread_sigmask", "SIGHUP", "SIGKILL", "SIGSTOP", "SIGALRM"],
}
for module, names in LACKS.items():
    for name in names:
        vars(module).pop(name, None)
if hasattr(os, "process_cpu_count"):  # from Python 3.13 on
    os.process_cpu_count = os.cpu_count

import asyncio, multiprocessing.process, multiprocessing.util, subprocess
processes = multiprocessing.process.BaseProcess
processes.kill = processes.terminate  # as there; POSIX's kill needs SIGKILL
try:
    import locket
except ImportError:
    pass

def locking(descriptor, mode, n_bytes):
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, n_bytes, 0, os.SEEK_CUR)

sys.modules["fcntl"] = None
sys.modules["msvcrt"] = types.ModuleType("msvcrt")
sys.modules["msvcrt"].LK_NBLCK, sys.modules["msvcrt"].locking = 2, locking
"""


@pytest.fixture
def windows(tmp_path):
    """The environment of such a Python, for the processes it starts as well."""
    folder = tmp_path / "windows"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITE)
    return ENVIRONMENT | {"PYTHONPATH": str(folder)}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("hello\nthe end\nover there\n")
    return path


def timeless_lines(path):
    return [timeless(json.loads(line)) for line in path.read_text().splitlines()]


FLAGS = ["--n_tokens_to_generate=12", "--kernels=plain"]


def test_the_main_job(pair, as_json, windows):
    done = process(pair, "--json", *FLAGS, environment=windows)
    assert (done.returncode, done.stderr) == (0, b"")
    assert timeless(json.loads(done.stdout)) == timeless(as_json(*FLAGS))


def test_a_run_that_is_resumed(pair, cli, interrupted, windows, file, tmp_path):
    here, out = tmp_path / "here.jsonl", tmp_path / "out.jsonl"
    prompts = f"--prompts={file}"
    cli(prompts, f"--out={here}", *FLAGS)
    interrupted(lambda: cli(prompts, f"--out={out}", *FLAGS))
    done = process(pair, prompts, f"--out={out}", *FLAGS, environment=windows)
    assert done.returncode == 0 and timeless_lines(out) == timeless_lines(here)
    assert not out.with_name("out.jsonl.partial").exists()


def test_the_page(pair, windows):
    command = [*COMMAND, "play", "--no_browser", "--kernels=plain", f"--models_dir={pair}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with running(command, env=windows, **pipes) as server:
        try:
            url = urlsplit(server.stdout.readline().split()[-1])
            origin = f"http://{url.netloc}"
            headers = {"Origin": origin, "X-Token": url.query.removeprefix("token=")}
            body = json.dumps(ASKED).encode()
            request = urllib.request.Request(f"{origin}/api/race", body, headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert "result" in json.loads(answer.read().splitlines()[-1])
        finally:
            server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=30)
    assert server.returncode in (0, 130) and "Traceback" not in err


def test_a_cluster_here(pair, cli, windows, file, tmp_path):
    pytest.importorskip("distributed", reason="distributed is not installed")
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    cli(f"--prompts={file}", f"--out={here}", *FLAGS)
    flags = [f"--prompts={file}", f"--out={there}", "--cluster=local:1", *FLAGS]
    done = process(pair, *flags, environment=windows)
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr
    assert timeless_lines(there) == timeless_lines(here)
