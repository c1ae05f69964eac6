"""python main.py play: the live page, on this machine only."""

import threading
import webbrowser
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.decoding.session import Session, models_of
from experiments.decoding.settings import Settings
from experiments.playing.questions import questions_of
from experiments.playing.server import LiveServer
from utils import MODELS_DIR, InputError

REDIRECT = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={0}">
<a href="{0}">Open the page</a>
"""


@contextmanager
def in_browser(address):
    """Open the address in a browser, on a thread: some browsers return only when they are closed.

    Every user of a machine can read the arguments of a browser in the process list. These name a
    file that only its owner can read, and that leads to the address and its token.
    """
    with TemporaryDirectory() as folder:  # for its owner alone
        file = Path(folder) / "play.html"
        file.write_text(REDIRECT.format(address), encoding="utf-8")
        threading.Thread(target=webbrowser.open, args=(file.as_uri(),), daemon=True).start()
        yield


def play(
    target_model_size="17M",
    draft_model_size="0.7M-17M",
    models_dir=MODELS_DIR,
    port=0,
    no_browser=False,
    kernels="auto",
):
    """Open a page in the browser where the models continue your own text: step through the
    decisions, change them, and compare the accept/reject rules. docs/live.md describes the page.

    The server listens on 127.0.0.1 only, and answers only with the access token in the address that
    it prints. Ctrl-C ends it.

    Args:
        target_model_size: a size in models_dir, or a folder
        draft_model_size: a size in models_dir, a folder, or ngram
        models_dir: the folder that holds a folder for each size
        port: the port to listen on; 0 chooses a free one
        no_browser: print the address, but open no browser
        kernels: how NumPy multiplies: auto measures, plain is NumPy's own product
    """
    if not 0 <= port <= 65535:
        raise InputError(f"--port {port}: expected 0 to 65535")
    settings = Settings(
        target_model_size=target_model_size,
        draft_model_size=draft_model_size,
        models_dir=models_dir,
        kernels=kernels,
    )
    session = Session(settings, models_of(settings))
    try:
        server = LiveServer(port, questions_of(session))
    except OSError as error:
        raise InputError(f"--port {port}: {error.strerror}; give another, or 0") from None
    print(f"{server.address}\nCtrl-C ends it.", flush=True)
    try:
        with nullcontext() if no_browser else in_browser(server.address):
            server.serve_forever()
    except KeyboardInterrupt:
        print("Stopped.")
    finally:
        server.server_close()
        server.jobs.cancel_all()
