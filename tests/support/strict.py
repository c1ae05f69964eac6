"""Arrays that refuse what a GPU's arrays would refuse: they stand in for CuPy where there is no
GPU.

An `Array` wraps a NumPy array and supports what gpt2.py uses, no more. NumPy's functions, arrays
and scalars do not mix with it; float(), int(), bool() and iteration, each a hidden wait for the
device, are refused. Every floating-point result must have the dtype of the weights. Each refusal is
a TypeError.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from backends.backend import Backend

OPERATORS = {np.add, np.subtract, np.multiply, np.divide, np.matmul}


def refuse(what):
    def refused(self, *args, **kwargs):
        raise TypeError(f"{what} of a strict array")

    return refused


def method(name):
    return lambda x, *args, **how: x.module.result(getattr(x.data, name)(*args, **how))


class Array(NDArrayOperatorsMixin):
    def __init__(self, data, module):
        self.data, self.module = data, module

    dtype = property(lambda self: self.data.dtype)
    shape = property(lambda self: self.data.shape)
    T = property(lambda self: self.module.result(self.data.T))

    def __array_ufunc__(self, operator, method, *operands, out=None):
        """Of arrays of one module, and ints and floats of Python. `out` is given by x += y."""
        if operator not in OPERATORS:
            raise TypeError(f"{operator.__name__} of a strict array")
        data = operator(*map(self.module.operand, operands))
        if out is None:
            return self.module.result(data)
        out[0].data[...] = data
        return out[0]

    def __getitem__(self, key):
        return self.module.result(self.data[self.module.key(key)])

    def __setitem__(self, key, value):
        self.data[self.module.key(key)] = self.module.operand(value)

    reshape, transpose, swapaxes = method("reshape"), method("transpose"), method("swapaxes")
    sum, max, __pow__ = method("sum"), method("max"), method("__pow__")

    __array__, __array_function__ = refuse("a NumPy copy"), refuse("a NumPy function")
    __bool__, __float__ = refuse("bool()"), refuse("float()")
    __int__, __index__ = refuse("int()"), refuse("int()")
    __iter__, __contains__ = refuse("iteration"), refuse("iteration")


@dataclass(eq=False)  # compared and hashed like a module
class Module:
    """A Backend's xp. `dtype` is the one float dtype allowed; `seen` counts results by dtype."""

    dtype: np.dtype
    seen: dict = field(default_factory=dict)

    def result(self, data):
        data = np.asarray(data)
        if data.dtype.kind not in "fi" or (data.dtype.kind == "f" and data.dtype != self.dtype):
            raise TypeError(f"a result of dtype {data.dtype} beside weights of {self.dtype}")
        self.seen[data.dtype.name] = self.seen.get(data.dtype.name, 0) + 1
        return Array(data, self)

    def host(self, x):
        if not isinstance(x, Array) or x.module is not self:
            raise TypeError(f"{type(x).__name__} where a strict array is due")
        return x.data

    def operand(self, x):
        return x if type(x) in (int, float) else self.host(x)

    def key(self, key):
        """An array, or numbers, slices of numbers, ... and None."""
        if isinstance(key, Array):
            return self.host(key)
        for part in key if type(key) is tuple else (key,):
            for end in (part.start, part.stop, part.step) if type(part) is slice else (part,):
                if type(end) not in (int, type(None), type(Ellipsis)):
                    raise TypeError(f"a strict array indexed with {type(end).__name__}")
        return key

    def empty(self, shape, dtype):
        # whatever memory holds; NaN shows if it is ever read
        return self.result(np.full(shape, np.nan, dtype))

    def full(self, shape, value, dtype):
        return self.result(np.full(shape, self.operand(value), dtype))

    def triu(self, x, k=0):
        return self.result(np.triu(self.host(x), k))

    def concatenate(self, arrays, axis=0):
        return self.result(np.concatenate([self.host(x) for x in arrays], axis=axis))

    def exp(self, x, out=None):
        return self.result(np.exp(self.host(x), out=None if out is None else self.host(out)))

    def tanh(self, x):
        return self.result(np.tanh(self.host(x)))

    def asarray(self, x):
        """The one way in: a NumPy array or a list of numbers; a strict array is returned as is."""
        return x if isinstance(x, Array) else self.result(np.asarray(x))

    def to_host(self, x):
        """The one way out: a NumPy array."""
        return self.host(x).copy()


def backend(dtype):
    xp = Module(dtype)
    return Backend("strict", xp, xp.asarray, xp.to_host, xp.asarray)
