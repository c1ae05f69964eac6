"""Progress on stderr: a bar on a terminal, elsewhere a note now and then."""

import sys
import time

from tqdm import tqdm

from checkpoints.errors import note

PERIOD = 10  # seconds between two notes, at least


def say(text):
    """Print a note on stderr, unless stderr is a terminal, where a bar shows the progress."""
    if not sys.stderr.isatty():
        note(text)


def progress(items, total, name, unit):
    """Yield the items of an iterable, and show on stderr how many are done: with a bar on a
    terminal, elsewhere with notes before the first item, after the last, and every 10 seconds or
    more.

    total: how many items there are
    name, unit: texts, for "NAME: 3 of 10 UNIT"
    """
    bar = {"desc": name, "unit": f" {unit}", "leave": False, "disable": None}
    say(f"{name}: 0 of {total} {unit}")  # which is silent on a terminal
    time_of_note = time.monotonic()
    for n_done, item in enumerate(tqdm(items, total=total, **bar), 1):
        yield item
        if n_done == total or time.monotonic() - time_of_note >= PERIOD:
            say(f"{name}: {n_done} of {total} {unit}")
            time_of_note = time.monotonic()
