"""Describes the machine that figures were measured on."""

import datetime
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np

from backends.backend import get_backend, openblas_kernels
from backends.before_numpy import N_THREADS


def processor_name() -> str:
    """The name of the processor, such as "AMD EPYC 9654"; its architecture if nothing names it."""
    try:
        names = re.findall(r"(?m)^model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        names = []
    if names:
        return names[0]
    return platform.processor() or platform.machine()


def describe_machine(backend: str) -> dict[str, Any]:
    """What measured figures depend on besides the settings, for a result file: {"cpu", "threads",
    "system", "python", "numpy", "openblas": names and versions, "date": now, in UTC}, on a GPU also
    "gpu" and "cupy". Raises ValueError for a backend, as --backend names it, that is not to be had.
    """
    about = {
        "cpu": processor_name(),
        "threads": N_THREADS,
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "openblas": openblas_kernels(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }
    if backend != "numpy":
        cupy = get_backend(backend).xp
        about["gpu"] = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        about["cupy"] = cupy.__version__
    return about
