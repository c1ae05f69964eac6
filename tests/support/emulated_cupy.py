"""A module that stands in for CuPy where there is no GPU: NumPy's arrays, and kernels that run on
the CPU.

A kernel's C++ source is compiled by g++. The lanes of a warp are coroutines that take turns: each
runs until it exchanges a number with another lane, or ends. A warp whose lanes do not all meet
there is an error. Without g++ the test is skipped.
"""

import ctypes
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

NAMES = "asarray ascontiguousarray concatenate float16 float32 empty empty_like full triu exp tanh"

MACHINE = r"""
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <functional>

#define __global__
#define __device__ static
#define N_LANES 32

static float normcdff(float x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }

static struct { int x; } blockIdx, threadIdx;
static ucontext_t scheduler, lanes[N_LANES];
static char stacks[N_LANES][1 << 15];
static float given[N_LANES], taken[N_LANES];
static int n_ended;
static std::function<void()> kernel;

static float __shfl_xor_sync(unsigned lanes_that_meet, float value, int mask) {
    given[threadIdx.x] = value;
    swapcontext(&lanes[threadIdx.x], &scheduler);  // until all lanes are here
    return taken[threadIdx.x ^ mask];
}

static void lane() {
    kernel();
    n_ended++;
}

// The number of lanes that met no others
static int run(int n_blocks, std::function<void()> given_kernel) {
    kernel = given_kernel;
    for (blockIdx.x = 0; blockIdx.x < n_blocks; blockIdx.x++) {
        for (int i = 0; i < N_LANES; i++) {
            getcontext(&lanes[i]);
            lanes[i].uc_stack.ss_sp = stacks[i];
            lanes[i].uc_stack.ss_size = sizeof stacks[i];
            lanes[i].uc_link = &scheduler;
            makecontext(&lanes[i], lane, 0);
        }
        for (n_ended = 0; n_ended == 0; memcpy(taken, given, sizeof given))
            for (threadIdx.x = 0; threadIdx.x < N_LANES; threadIdx.x++)
                swapcontext(&scheduler, &lanes[threadIdx.x]);
        if (n_ended < N_LANES) return N_LANES - n_ended;
    }
    return 0;
}
"""
RUN = """
extern "C" int run_%s(int n_blocks, %s) { return run(n_blocks, [=] { %s(%s); }); }
"""
LOOP = """
extern "C" void run(int n, const float* const* in, float* out) {
    typedef float T;
    for (int i = 0; i < n; i++) { float %s; %s; out[i] = %s; }
}
"""


@cache
def compiled(source):
    """The library of a C++ source after MACHINE."""
    if not shutil.which("g++"):
        pytest.skip("no g++ here")
    folder = Path(tempfile.mkdtemp())
    (folder / "kernels.cpp").write_text(MACHINE + source)
    command = "g++ -O1 -shared -fPIC kernels.cpp -o kernels.so"
    subprocess.run(command.split(), cwd=folder, check=True)
    library = ctypes.CDLL(folder / "kernels.so")
    shutil.rmtree(folder)
    return library


def argument(value):
    """For C: a number of a kernel's types, or an array as a GPU's kernel wants it."""
    if isinstance(value, np.int32):
        return ctypes.c_int(value)
    if isinstance(value, np.float32):
        return ctypes.c_float(value)
    assert value.dtype == np.float32 and value.flags.c_contiguous
    return ctypes.c_void_p(value.ctypes.data)


class RawKernel:
    def __init__(self, code, name):
        self.code, self.name = code, name

    def __call__(self, grid, block, arguments):
        assert block == (32,) and grid[0] > 0  # CUDA refuses an empty grid
        signature = r'extern "C" __global__ void (\w+)\((.*?)\)'
        runners = "".join(
            RUN % (name, given, name, ", ".join(re.findall(r"(\w+)(?=,|\s*$)", given)))
            for name, given in re.findall(signature, self.code, re.DOTALL)
        )
        run = getattr(compiled(self.code + runners), f"run_{self.name}")
        assert run(grid[0], *map(argument, arguments)) == 0


class ElementwiseKernel:
    """float16 is computed in float, as its conversions do on a GPU."""

    def __init__(self, inputs, output, operation, name):
        self.types, names = zip(*(one.split() for one in inputs.split(", ")))
        self.type, self.output = output.split()
        values = ", ".join(f"{name} = in[{i}][i]" for i, name in enumerate(names))
        self.source = LOOP % (f"{values}, {self.output}", operation, self.output)

    def __call__(self, *arguments):
        types = {"float32": np.dtype(np.float32)}
        for type_name, value in zip(self.types, arguments, strict=True):
            if isinstance(value, np.ndarray):
                assert types.setdefault(type_name, value.dtype) == value.dtype
        arrays = [np.float32(one) for one in np.broadcast_arrays(*arguments)]
        arrays = [np.ascontiguousarray(one) for one in arrays]
        out = np.empty(arrays[0].shape, np.float32)
        pointers = (ctypes.c_void_p * len(arrays))(*(one.ctypes.data for one in arrays))
        compiled(self.source).run(out.size, pointers, ctypes.c_void_p(out.ctypes.data))
        return out.astype(types[self.type])


def module():
    """What `import cupy` is to give."""
    cupy = ModuleType("cupy")
    vars(cupy).update({name: getattr(np, name) for name in NAMES.split()})
    cupy.asnumpy, cupy.RawKernel, cupy.ElementwiseKernel = np.asarray, RawKernel, ElementwiseKernel
    cupy.cuda = SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=lambda: 1))
    return cupy
