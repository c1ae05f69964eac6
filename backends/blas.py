"""What has to be decided before NumPy is first imported: which BLAS kernels, and how many threads.

The tiles of backends/tiles.py bring their own threads, so OpenBLAS is asked for one; and where it
does not know the CPU it is told which kernels fit. Importing this module does both, unless NumPy is
loaded already. Variables that the user has set are left alone.
"""

import os
import sys
from pathlib import Path


def count_threads(environ=os.environ, cgroup="/sys/fs/cgroup/cpu.max"):
    """Threads this process may use: the least of CPU affinity, cgroup quota and the user's own
    limits.
    """
    affinity = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    limits = [affinity]
    limits += [
        int(environ[name])
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        if environ.get(name, "").isdecimal()
    ]
    try:
        quota, period = Path(cgroup).read_text().split()
        limits += [-(-int(quota) // int(period))] if quota != "max" else []
    except (OSError, ValueError):
        pass  # no cgroup, no quota
    return max(1, min(limits))


def unrecognised_avx512(cpuinfo="/proc/cpuinfo"):
    """Whether this is an AVX-512 CPU that OpenBLAS up to 0.3.31 takes for an AVX2 one: AMD's family
    26 (Zen 5).
    """
    try:
        first = Path(cpuinfo).read_text().split("\n\n")[0]
    except OSError:
        return False
    fields = dict(line.partition(":")[::2] for line in first.replace("\t", "").splitlines())
    amd = (
        fields.get("vendor_id", "").strip() == "AuthenticAMD"
        and fields.get("cpu family", "").strip() == "26"
    )
    return amd and "avx512f" in fields.get("flags", "").split()


N_THREADS = count_threads()

if "numpy" not in sys.modules:
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ.get("OPENBLAS_NUM_THREADS") or "1"
    if unrecognised_avx512():
        os.environ["OPENBLAS_CORETYPE"] = os.environ.get("OPENBLAS_CORETYPE") or "SkylakeX"
