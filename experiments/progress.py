"""Progress on stderr: a bar on a terminal, elsewhere a note now and then."""

import sys
import time

from tqdm import tqdm

from checkpoints.errors import note

PERIOD = 10  # seconds between two notes, at least


def say(text):
    """Note on stderr what is being done, if stderr is no terminal. There, a bar says it."""
    if not sys.stderr.isatty():
        note(text)


def progress(items, total, name, unit):
    """Yield the items and show how many are done: the first and the last number in any case."""
    bar = {"desc": name, "unit": f" {unit}", "leave": False, "disable": None}
    say(f"{name}: 0 of {total} {unit}")
    noted = time.monotonic()
    for n, item in enumerate(tqdm(items, total=total, **bar), 1):
        yield item
        if n == total or time.monotonic() - noted >= PERIOD:
            say(f"{name}: {n} of {total} {unit}")
            noted = time.monotonic()
