"""python main.py play: the live page, on this machine only."""

import threading
import webbrowser
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory

from tqdm import tqdm

from checkpoints.errors import SettingError, note
from checkpoints.limits import Limits
from checkpoints.output import check_output, write_atomically
from cli.flags import DEFAULTS, Machine, Models, Settings, flag
from cli.from_flags import kernels_in, load_pair
from page.report import describe_run, page_of
from page.runs import answers_of, compute_saved_page
from page.server import LiveServer

PORTS = Limits(0, 65535, whole=True)
REDIRECT = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={0}">
<a href="{0}">Open the page</a>
"""


@contextmanager
def open_in_browser(address):
    """Open an address in a browser, on a thread, because some browsers return only when they are
    closed. A context manager: leaving its block deletes the file below.

    Every user of a machine can read the arguments of a browser in the process list. So the browser
    gets the name of a file that only its owner can read, and that redirects to the address, which
    holds the token.
    """
    with TemporaryDirectory() as folder:  # for its owner alone
        file = Path(folder) / "play.html"
        file.write_text(REDIRECT.format(address), encoding="utf-8")
        threading.Thread(target=webbrowser.open, args=(file.as_uri(),), daemon=True).start()
        yield


@dataclass(frozen=True)
class PlaySettings(Machine, Models):
    heading = "Page"

    port: int = flag(0, "the port to listen on; 0 chooses a free one", limits=PORTS)
    no_browser: bool = flag(False, "print the address, but open no browser")
    save: str = flag(
        "",
        "serve nothing: do the page's first run, with its costs and all rules, and write the page "
        "of it to this .html file",
        conflicts="port no_browser",
    )

    def check(self):
        """Raise InputError if the file of --save exists or cannot be written."""
        if self.save:
            check_output("save", self.save, (".html",))


def play(settings: PlaySettings):
    """Open a page in the browser where the models continue your own text: step through the
    decisions, change them, and compare the accept/reject rules. docs/live.md describes the page.

    The server listens on 127.0.0.1 only, and answers only with the access token in the address that
    it prints. Ctrl-C ends it.
    """
    shared = fields(Models) + fields(Machine)
    run_settings = Settings(**{field.name: getattr(settings, field.name) for field in shared})
    pair = load_pair(run_settings)
    kernels = kernels_in(run_settings, pair)

    def describe(prompt, **changes):
        """Return what the page shows of how the run of a Prompt was made, the dict of describe_run.
        changes: values of flags that replace those of the command line
        """
        as_json = run_settings.replace(**changes).as_json(prompt.text, prompt.seed)
        return describe_run(as_json, prompt.ids, DEFAULTS, kernels)

    if settings.save:
        note("the page's runs, costs and rules take up to a minute")
        with tqdm(leave=False, disable=None) as bar:

            def tell(done=None, total=None):
                """Draw the bar: `done` tokens or rules of `total`; unchanged without a total."""
                if total:
                    bar.total, bar.n = total, done
                bar.refresh()

            data = compute_saved_page(describe, pair, tell)
        write_atomically(settings.save, page_of(data))
        print(f"Written: {settings.save}")
        return
    try:
        server = LiveServer(settings.port, answers_of(describe, pair))
    except OSError as error:
        raise SettingError(
            "port", f"{settings.port}: {error.strerror}; give another, or 0"
        ) from None
    print(f"The page is at {server.address}\nCtrl-C ends its server.", flush=True)
    try:
        with nullcontext() if settings.no_browser else open_in_browser(server.address):
            server.serve_forever()
    except KeyboardInterrupt:
        print("Stopped.")
    finally:
        server.server_close()
