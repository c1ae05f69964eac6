"""python main.py play: the live page, on this machine only; or a page saved in a file."""

import threading
import webbrowser
from collections.abc import Callable
from functools import partial
from json import dumps
from typing import Any, Literal

from tqdm import tqdm

from checkpoints.registry import MODELS_DIR
from cli.command import flags_of, values_of
from cli.output import new_file, require_new
from decoding.decode import options_of, pair_of
from page.report import page_of
from page.runs import parse, race
from page.server import LiveServer

# flags that decide nothing of a text
NOT_OF_A_TEXT = ("models_dir", "backend", "save", "port", "no_browser")


def play(
    *,
    prompt: str = "The wolf knew the",
    n_tokens_to_generate: int = 20,
    stop: str = "",
    target_model_size: str = "17M",
    draft_model_size: str = "0.7M-17M",
    models_dir: str = MODELS_DIR,
    K: int = 4,
    verification: Literal["token", "block"] = "token",
    coupled: bool = False,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 123,
    backend: Literal["numpy", "cupy", "cupy-float16"] = "numpy",
    save: str = "",
    port: int = 0,
    no_browser: bool = False,
) -> None:
    """Open a page in the browser where both decoders continue your own text: one round step by
    step, a race, and why the text is the same. docs/live.md describes the page.

        python main.py play --save page.html --temperature 0.8

    The server listens on 127.0.0.1 only, and answers only with the access token in the address that
    it prints. Ctrl-C ends it.

    Flags, and those of generate:
        prompt: the text to continue first
        K: how many tokens to draft per round
        save: serve nothing, and write a page of this text to a new .html file
        port: the port to listen on; 0 chooses a free one
        no_browser: print the address, but open no browser
    """
    flags = values_of(play, locals())  # {flag: its value}
    options_of(flags)  # raises ValueError for what cannot be used
    of_a_text = {name: value for name, value in flags.items() if name not in NOT_OF_A_TEXT}
    as_form = dumps(of_a_text).encode()
    settings = parse(as_form, of_a_text)  # raises ValueError outside the limits of the page's form
    if save:
        require_new(save, ".html")  # before the models are loaded
    # the page shows each run's command, without the flags that have their defaults
    defaults = {name: flag.default for name, flag in flags_of(play).items()}
    run = partial(race, pair_of(flags), defaults)
    if save:
        save_page(save, run, settings)
    else:
        serve_page(port, run, settings, opens_browser=not no_browser)


def serve_page(port: int, run: Callable, settings: dict[str, Any], opens_browser: bool) -> None:
    """Serve the live page on this port of this machine (0: a free one) until Ctrl-C; print its
    address, and open it in a browser if opens_browser is True. Raises ValueError for a port that
    cannot be had.

    settings: {flag: value}, the first values of the page's form
    run(settings, tell): returns the data that the page shows, a dict, and before that may send
        lines to the page, by tell(name=value)
    """
    try:
        server = LiveServer(port, settings, run)
    except (OSError, OverflowError) as error:
        raise ValueError(f"--port {port}: {error}; give another, or 0") from None
    print(f"The page is at {server.address}\nCtrl-C ends its server.", flush=True)
    if opens_browser:  # on a thread, because some browsers return only when they are closed
        threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("Stopped.")
    finally:
        server.server_close()


def save_page(path: str, run: Callable, settings: dict[str, Any]) -> None:
    """Compute the data of a run, with a bar of its turns on a terminal; write the page that shows
    them to a new file, and print its name. Raises ValueError if the file is there already.

    path: of the file; settings: {flag: value}
    run(settings, tell): returns the data, a dict. Meanwhile it calls tell(done=, total=) after each
        turn, and at other times tell(), or tell(row=data), which only a live page shows
    """
    with tqdm(desc="Turns", leave=False, disable=None) as bar:  # None: only on a terminal

        def tell(row: Any = None, done: int = 0, total: int = 0) -> None:
            if total:  # else the call only says that the run goes on
                bar.total = total
                bar.n = done
            bar.refresh()

        page = page_of(run(settings, tell))
    with new_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    print(f"Written: {path}")
