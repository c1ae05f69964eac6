"""What a command writes: files that are checked before its work begins, and whole or not there; and
the machine it ran on.
"""

import datetime
import os
import platform
import re
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from backends.blas import N_THREADS
from utils import InputError


def check_output(flag, path, endings):
    """Raises InputError unless a file of that name, with one of these endings, can be written."""
    path = Path(path)
    if not path.name.endswith(endings):
        raise InputError(
            f"--{flag} {str(path)!r}: expected a name that ends in {' or '.join(endings)}"
        )
    if (
        path.is_dir()
        or not path.parent.is_dir()
        or not os.access(path if path.exists() else path.parent, os.W_OK)
    ):
        raise InputError(
            f"--{flag} {str(path)!r}: cannot be written; give a file in a folder that is there and yours"
        )


@contextmanager
def whole(path):
    """A temporary name beside `path`, renamed to it if the block ends well and deleted if not."""
    path = Path(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def machine():
    """What the figures depend on beside the settings."""
    try:
        names = re.findall(r"(?m)^model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        names = []
    return {
        "cpu": names[0] if names else platform.processor() or platform.machine(),
        "threads": N_THREADS,
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "openblas_coretype": os.environ.get("OPENBLAS_CORETYPE"),
        "load_average_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "kernels": {},
    }
