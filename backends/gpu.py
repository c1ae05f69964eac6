"""CuPy's side of the backend: the same forward pass on a GPU, where cuBLAS needs no tiles.

Nothing inside a pass waits for the GPU; only copying the logits back to the host does. Importing this module raises
ImportError without CuPy, and RuntimeError with a one-line reason without a usable GPU.
"""

import math

import cupy

try:
    cupy.cuda.runtime.getDeviceCount()
except Exception as error:  # CuPy raises its own types for a missing driver, a missing GPU, a wrong version
    raise RuntimeError((str(error) or repr(error)).splitlines()[0]) from None


def synchronize():
    cupy.cuda.get_current_stream().synchronize()


def plan(config, dtype):
    """A function w -> the matrix on the GPU. Raises MemoryError with the figures for a model that does not fit."""
    needed = sum(math.prod(shape) for shape in config.shapes().values()) * cupy.dtype(dtype).itemsize
    free, _ = cupy.cuda.runtime.memGetInfo()
    if needed > free:
        raise MemoryError(f"the model needs {needed / 1e9:.1f} GB of GPU memory, {free / 1e9:.1f} GB are free")
    return cupy.asarray
