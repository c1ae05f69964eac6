"""BLAS kernels and threads: chosen before NumPy is imported, and never over the user."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backends import blas

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "variables, quota, expected",
    [
        ({}, None, None),
        ({"OMP_NUM_THREADS": "1"}, None, 1),
        ({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "8"}, None, 1),
        ({"OMP_NUM_THREADS": "nonsense"}, None, None),
        ({"OMP_NUM_THREADS": "²"}, None, None),
        ({"OMP_NUM_THREADS": "0"}, None, 1),
        ({}, "100000 100000", 1),
        ({}, "50000 100000", 1),
        ({}, "max 100000", None),
        ({}, "garbage", None),
    ],
)
def test_thread_limits_are_respected(tmp_path, variables, quota, expected):
    cgroup = tmp_path / "cpu.max"
    if quota:
        cgroup.write_text(quota)
    unlimited = blas.count_threads({}, tmp_path / "none")
    assert blas.count_threads(variables, cgroup) == (expected or unlimited)


CPU = """processor\t: 0
vendor_id\t: {}
cpu family\t: {}
model name\t: X
flags\t\t: fpu {} sse

processor\t: 1
"""


@pytest.mark.parametrize(
    "vendor, family, flags, expected",
    [
        ("AuthenticAMD", 26, "avx512f", True),
        ("AuthenticAMD", 26, "avx2", False),
        ("AuthenticAMD", 25, "avx512f", False),
        ("GenuineIntel", 26, "avx512f", False),
    ],
)
def test_only_the_cpu_that_openblas_does_not_know(tmp_path, vendor, family, flags, expected):
    path = tmp_path / "cpuinfo"
    path.write_text(CPU.format(vendor, family, flags))
    assert blas.unrecognised_avx512(path) is expected
    assert blas.unrecognised_avx512(tmp_path / "missing") is False


def environment_after_import(first, **variables):
    """The two variables after importing backends.blas in a new process, `first` run before it."""
    code = (
        f"import os; {first}; import backends.blas; print(*map(os.environ.get, {list(VARIABLES)}))"
    )
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return subprocess.check_output(
        [sys.executable, "-c", code], cwd=ROOT, env=clean | variables, text=True
    ).split()


VARIABLES = ("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE")


def test_the_environment_is_set_before_numpy_and_never_over_the_user():
    core = "SkylakeX" if blas.unrecognised_avx512() else "None"
    assert environment_after_import("pass") == ["1", core]
    assert environment_after_import("import numpy") == ["None", "None"]
    # the way of those who use this from Python
    assert environment_after_import("import utils") == ["1", core]
    empty = {"OPENBLAS_NUM_THREADS": "", "OPENBLAS_CORETYPE": ""}  # means no setting
    assert environment_after_import("pass", **empty)[0] == "1"
    mine = {"OPENBLAS_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Haswell"}
    assert environment_after_import("pass", **mine) == ["2", "Haswell"]
