"""Describes the machine that figures were measured on."""

import datetime
import os
import platform
import re
from pathlib import Path

import numpy as np

from backends.blas import N_THREADS


def processor_name():
    """The name of the processor, such as "AMD EPYC 9654"."""
    try:
        names = re.findall(r"(?m)^model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def machine_name():
    """A line that names the machine: host, processor, number of threads."""
    threads = f"{N_THREADS} thread{'s' if N_THREADS > 1 else ''}"
    return f"{platform.node()} ({processor_name()}, {threads})"


def describe_gpu():
    """{"gpu": its name, and the versions of CuPy, the driver and the runtime}. Imports CuPy."""
    import cupy  # here: only --backend cupy needs it

    runtime = cupy.cuda.runtime
    return {
        "gpu": runtime.getDeviceProperties(0)["name"].decode(),
        "cupy": cupy.__version__,
        "cuda_driver": runtime.driverGetVersion(),
        "cuda_runtime": runtime.runtimeGetVersion(),
    }


def describe_machine(backend="numpy"):
    """{name: value} of what measured figures depend on besides the settings, for result files."""
    about = {
        "cpu": processor_name(),
        "threads": N_THREADS,
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "openblas_coretype": os.environ.get("OPENBLAS_CORETYPE"),
        "load_average_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }
    return about | describe_gpu() if backend == "cupy" else about


def kernels_of(model):
    """{"mlp.c_fc 768x3072": its kernel in words} of the weights of one block and of the head."""
    weights = {
        f"{part}.{name}": values["weight"]
        for block in model.params.get("blocks", [])[:1]  # Medusa's heads have none
        for part in ("attn", "mlp")
        for name, values in block[part].items()
    }
    weights["head"] = model.params["head"]
    return {
        f"{name} {'x'.join(map(str, w.shape))}": str(getattr(w, "kernel", "plain"))
        for name, w in weights.items()
    }
