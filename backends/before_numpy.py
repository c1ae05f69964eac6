"""What has to be decided before NumPy is first imported: which BLAS kernels, and how many threads.

The tiles of backends/tiles.py bring their own threads, so OpenBLAS is asked for one; and where it
does not know the CPU it is told which kernels fit. Importing this module does both, unless NumPy is
loaded already. Variables that the user has set are left alone.
"""

import math
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path


def count_threads(environ: Mapping = os.environ, cgroup: str = "/sys/fs/cgroup/cpu.max") -> int:
    """The number of threads this process may use, at least 1: the smallest of CPU affinity, of the
    quota in the file `cgroup`, rounded up, and of OMP_NUM_THREADS and OPENBLAS_NUM_THREADS, if set.
    """
    if hasattr(os, "sched_getaffinity"):
        limits = [len(os.sched_getaffinity(0))]
    else:
        limits = [os.cpu_count() or 1]
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        if re.fullmatch(r"\d{1,9}", environ.get(name, "")):  # more digits limit nothing
            limits.append(int(environ[name]))
    try:
        quota, period = Path(cgroup).read_text().split()  # such as "150000 100000": 1.5 CPUs
        if quota != "max":
            limits.append(math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        pass  # no cgroup, no quota
    return max(1, min(limits))


def has_unrecognised_avx512(cpuinfo: str = "/proc/cpuinfo") -> bool:
    """Whether the file `cpuinfo` names a Zen 5, whose AVX-512 OpenBLAS up to 0.3.31 misses."""
    try:
        first_core = Path(cpuinfo).read_text().split("\n\n")[0]
    except OSError:
        return False
    fields = dict(re.findall(r"(?m)^(.*?)\s*: (.*)$", first_core))
    is_zen_5 = fields.get("vendor_id") == "AuthenticAMD" and fields.get("cpu family") == "26"
    return is_zen_5 and "avx512f" in fields["flags"].split()


N_THREADS = count_threads()

if "numpy" not in sys.modules:
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ.get("OPENBLAS_NUM_THREADS") or "1"
    if has_unrecognised_avx512():
        os.environ["OPENBLAS_CORETYPE"] = os.environ.get("OPENBLAS_CORETYPE") or "SkylakeX"
