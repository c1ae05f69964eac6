"""Describes the machine that figures were measured on."""

import datetime
import os
import platform
import re
from pathlib import Path

import numpy as np

from backends.before_numpy import N_THREADS
from backends.kernels import openblas_kernels


def processor_name():
    """The name of the processor, such as "AMD EPYC 9654"; its architecture if nothing names it."""
    try:
        names = re.findall(r"(?m)^model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        names = []
    if names:
        return names[0]
    return platform.processor() or platform.machine()


def describe_gpu():
    """Return {"gpu": its name, "cupy", "cuda_driver", "cuda_runtime": versions}. Imports CuPy."""
    import cupy  # here: only --backend cupy needs it

    runtime = cupy.cuda.runtime
    return {
        "gpu": runtime.getDeviceProperties(0)["name"].decode(),
        "cupy": cupy.__version__,
        "cuda_driver": runtime.driverGetVersion(),
        "cuda_runtime": runtime.runtimeGetVersion(),
    }


def describe_machine(backend="numpy"):
    """Return {name: value} for result files: what measured figures depend on besides the settings,
    such as processor, threads, versions, load, date; for the backend "cupy" the GPU, too.
    """
    about = {
        "cpu": processor_name(),
        "threads": N_THREADS,
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "openblas": openblas_kernels(),
        "load_average_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }
    if backend == "cupy":
        about |= describe_gpu()
    return about
