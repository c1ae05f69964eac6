"""llama.cpp's server: started on a free port, asked over HTTP, stopped with this
program."""

import atexit
import socket
import subprocess
import time

import requests

from utils import InputError

PATIENCE = 120  # seconds until it has loaded its models


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class LlamaServer:
    """A running llama-server; options are those of its command line."""

    def __init__(self, binary, *options):
        self.url = f"http://127.0.0.1:{free_port()}"
        command = [binary, *options, "--host", "127.0.0.1", "--port", self.url.rpartition(":")[2]]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(list(map(str, command)), **quiet)
        atexit.register(self.stop)
        self.wait()

    def wait(self):
        """Until it answers. Raises InputError if it ends before or takes too long."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if requests.get(f"{self.url}/health", timeout=5).ok:
                    return
            except requests.ConnectionError:
                pass
            time.sleep(0.1)
        self.stop()
        command = " ".join(self.process.args)
        raise InputError(f"llama-server did not start; run it by hand to see why: {command}")

    def ask(self, ids, n, **options):
        """Its answer to a prompt of token ids: n tokens, greedy, nothing left from before."""
        request = {"prompt": ids, "n_predict": n, "temperature": 0, "ignore_eos": True}
        request |= {"return_tokens": True, "cache_prompt": False}
        answer = requests.post(f"{self.url}/completion", json=request | options, timeout=600)
        answer.raise_for_status()
        return answer.json()

    def stop(self):
        self.process.terminate()
        self.process.wait()
