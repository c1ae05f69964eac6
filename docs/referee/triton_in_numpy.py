"""Triton's language in NumPy, as much of it as kernels of rejection samplers need.

The instances of a kernel run one after the other, as Python. So symbolic random numbers pass
through it (proof/noise.py), and `prove` can take every branch, which Triton's own interpreter
cannot.
"""

import inspect
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

BLOCK_SIZE = 4  # in place of thousands: here it is slow to load what a mask hides
instance: tuple[int, ...] = ()  # of the kernel: what tl.program_id tells it


class Pointer:
    """Places in the memory of a tensor: a number, or an array of them.

    late: {place: what computes its value}, for those that are computed when they are loaded
    """

    dtype = SimpleNamespace(element_ty=None)  # types do not matter here

    def __init__(self, cells: np.ndarray, late: dict[int, Callable], at: Any = 0):
        self.cells, self.late, self.at = cells, late, at

    def __add__(self, n: Any) -> "Pointer":
        return Pointer(self.cells, self.late, self.at + n)


def pointer_to(x: Any) -> Any:
    """What a kernel gets for an argument: for a tensor a Pointer, which shares its memory and the
    `late` that a kernel may have left there; anything else as it is.
    """
    if not isinstance(x, torch.Tensor):
        return x
    cells = x.cells if hasattr(x, "cells") else x.numpy()  # of a tensor of symbolic numbers
    late = getattr(x, "late", {})  # of Kernel.__getitem__
    return Pointer(cells.reshape(-1), late)


class Kernel:
    """What @triton.jit makes of a function: kernel[grid](...) runs each of its instances.

    is_late: whether instance i runs when place i of the first tensor, where it writes, is loaded.
        So a value that nobody loads draws on no random number
    """

    is_late = False

    def __init__(self, function: Callable):
        self.function, self.signature = function, inspect.signature(function)

    def __getitem__(self, grid: tuple[int, ...]) -> Callable:
        """launch(arguments of the function): it runs an instance for each place in the grid, or, of
        a kernel that is_late, leaves them in the first tensor's `late`, for `load`.
        """

        def launch(*arguments: Any, **more: Any) -> None:
            given = self.signature.bind(*arguments, **more).arguments
            if "BLOCK_SIZE" in given:
                given["BLOCK_SIZE"] = BLOCK_SIZE
            runs = [partial(self.run, place, given) for place in np.ndindex(grid)]
            if self.is_late:
                output = next(iter(given.values()))
                output.late = dict(enumerate(runs))
            else:
                for run in runs:
                    run()

        return launch

    def run(self, place: tuple[int, ...], given: dict[str, Any]) -> None:
        global instance
        outer, instance = instance, place
        self.function(**{name: pointer_to(x) for name, x in given.items()})
        instance = outer

    @classmethod
    def jit(cls, function: Callable | None = None, **_: Any) -> Any:
        return cls(function) if function else cls


def load(pointer: Pointer, mask: Any = True, other: Any = 0.0) -> Any:
    """The values at the pointer's places, `other` where the mask is false: an array, or one value
    for one place. Runs before what fills these places late, once.
    """
    at, mask = np.broadcast_arrays(pointer.at, mask)
    for place in pointer.late.keys() & {*at[mask].tolist()}:
        fill = pointer.late.pop(place)
        fill()
    found = np.full(at.shape, other, object)
    found[mask] = pointer.cells[at[mask]]
    return found[()]  # without axes: the value itself


def store(pointer: Pointer, value: Any, mask: Any = True) -> None:
    at, mask, value = np.broadcast_arrays(pointer.at, mask, value)
    pointer.cells[at[mask]] = value[mask]


def largest(x: np.ndarray, axis: int, return_indices: bool = False) -> Any:
    best = x.argmax(axis)
    return (x[best], best) if return_indices else x[best]


LANGUAGE: dict[str, Any] = {
    "program_id": lambda axis: instance[axis],
    "load": load,
    "store": store,
    "arange": np.arange,
    "zeros": lambda shape, dtype: np.zeros(shape, int)[()],
    "full": lambda shape, x, dtype: np.full(shape, x)[()],
    "where": np.where,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "max": largest,
    "constexpr": int,
    "float32": None,
}
# {module: its names}, as `clone.program` takes them
TRITON: dict[str, dict[str, Any]] = {"triton": {"jit": Kernel.jit}, "triton.language": LANGUAGE}
