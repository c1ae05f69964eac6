"""BLAS kernels and threads: chosen before NumPy is imported, and never over the user."""

import os

import pytest
from command_line import python

from backends import before_numpy


@pytest.mark.parametrize("variables, quota, expected", [
    ({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "8"}, None, 1),
    ({"OMP_NUM_THREADS": "²"}, None, None),
    ({"OMP_NUM_THREADS": "9" * 5000}, None, None),
    ({"OMP_NUM_THREADS": "0"}, None, 1),
    ({}, "100000 100000", 1),
    ({}, "50000 100000", 1),
    ({}, "max 100000", None),
    ({}, "garbage", None),
])  # fmt: skip
def test_thread_limits_are_respected(tmp_path, variables, quota, expected):
    cgroup = tmp_path / "cpu.max"
    if quota:
        cgroup.write_text(quota)
    unlimited = before_numpy.count_threads({}, tmp_path / "none")
    assert before_numpy.count_threads(variables, cgroup) == (expected or unlimited)


CPU = "processor: 0\nvendor_id\t: {}\ncpu family\t: {}\nflags\t\t: fpu {} sse\n\nprocessor: 1\n"


@pytest.mark.parametrize("vendor, family, flags, expected", [
    ("AuthenticAMD", 26, "avx512f", True),
    ("AuthenticAMD", 26, "avx2", False),
    ("AuthenticAMD", 25, "avx512f", False),
    ("GenuineIntel", 26, "avx512f", False),
])  # fmt: skip
def test_only_the_cpu_that_openblas_does_not_know(tmp_path, vendor, family, flags, expected):
    path = tmp_path / "cpuinfo"
    path.write_text(CPU.format(vendor, family, flags))
    assert before_numpy.has_unrecognised_avx512(path) is expected
    assert before_numpy.has_unrecognised_avx512(tmp_path / "missing") is False


VARIABLES = ("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE")
CORE = "SkylakeX" if before_numpy.has_unrecognised_avx512() else "None"


@pytest.mark.parametrize("first, variables, expected", [
    ("pass", {}, ["1", CORE]),
    ("pass", dict.fromkeys(VARIABLES, ""), ["1", CORE if CORE != "None" else ""]),  # no setting
    ("pass", dict(zip(VARIABLES, ("2", "Haswell"))), ["2", "Haswell"]),
    ("import numpy", {}, ["None", "None"]),
    # the way of those who use this from Python
    ("import utils", {}, ["1", CORE]),
    ("import main", {}, ["1", CORE]),
    ("import exercises.notebook", {}, ["1", CORE]),
    ("import docs.library", {}, ["1", CORE]),
])  # fmt: skip
def test_the_environment_is_set_before_numpy_and_never_over_the_user(first, variables, expected):
    code = f"import os; {first}; import backends.before_numpy"
    code += f"; print(*map(os.environ.get, {VARIABLES}), sep=',')"
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = python("-c", code, environment=clean | variables)
    assert done.stdout.splitlines()[-1].split(",") == expected
