"""What draws random numbers, numpy.random and random, and what stands in its place while a run is
enumerated: each function here gives the Numbers (noise.py), or takes the branches, of the function
of the same name.
"""

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from math import log
from typing import Any

import numpy as np

from . import enumerate as enumeration
from .enumerate import format_row
from .noise import Atom, Number, branch


class Source:
    """A random number generator in place of a real one, which it calls while nothing is enumerated.

    followed: {name: what gives symbolic numbers}. All else, such as to seed, copy or rewind it
        during a run, is refused. Arguments that NumPy or Python refuses raise what they raise
    """

    def __init__(self, real: Any, followed: dict[str, Callable]):
        self._real, self._followed = real, followed

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        real = getattr(self._real, name)

        def call(*args, **kwargs):
            if enumeration.current:
                return self._follow(name, args, kwargs)
            return real(*args, **kwargs)

        if not callable(real) and enumeration.current:
            branch().stop(f"it uses {name} of a random number generator")
        return call if callable(real) else real

    def _follow(self, name: str, args: tuple, kwargs: dict) -> Any:
        branch().symbolic = True
        if name not in self._followed:
            branch().stop(f"{name} is not followed")
        try:
            if same := SAME.get(type(self._real)):
                getattr(same, name)(*args, **kwargs)  # raises what the real one raises
            return self._followed[name](*args, **kwargs)
        except TypeError:
            branch().stop(f"{name} with these arguments is not followed")

    def __reduce_ex__(self, protocol: Any) -> Any:
        if enumeration.current:
            branch().stop("it copies a random number generator while it runs")
        return super().__reduce_ex__(protocol)


def draw(zero: bool = True) -> Number:
    """A random number in [0, 1), or in (0, 1) without zero."""
    return Number(Atom(zero))


def fill(make: Callable[[], Any], size: Any) -> Any:
    """One of what `make` gives, or an array of them."""
    if size is None:
        return make()
    cells = np.empty(size, object)
    for i in np.ndindex(cells.shape):
        cells[i] = make()
    return cells


def pick(weights: Any) -> int:
    """An index in proportion to the weights, by one uniform number, as NumPy does it."""
    cumulative = np.cumsum(np.asarray(weights, float))
    if not cumulative.size or not 0 < cumulative[-1] < np.inf:
        branch().stop(f"a choice among {format_row(weights)}: expected probabilities")
    return draw().atom.split((cumulative[:-1] / cumulative[-1]).tolist(), "sampled")


def shape(size: Any, *parameters: Any) -> Any:
    """The size that was asked for, or that of the parameters; None for a single number."""
    return size if size is not None else np.broadcast_shapes(*map(np.shape, parameters)) or None


def uniform(low=0.0, high=1.0, size=None):
    return fill(draw, shape(size, low, high)) * np.subtract(high, low) + low


def exponential(scale=1.0, size=None):
    return -np.log(fill(partial(draw, False), shape(size, scale))) * scale


def gumbel(loc=0.0, scale=1.0, size=None):
    return -np.log(exponential(1.0, shape(size, loc, scale))) * scale + loc


def choice(a, size=None, replace=True, p=None):
    values = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
    p = np.ones(len(values)) / len(values) if p is None else p
    if size is not None and not replace and np.prod(size) > 1:
        branch().stop("choice without replacement is not followed")
    chosen = fill(lambda: values[pick(p)], size)
    return chosen if size is None else chosen.astype(values.dtype)


def multinomial(n, pvals, size=None):
    if n != 1 or size is not None:
        branch().stop("multinomial of several is not followed")
    first = np.asarray(pvals, float)[:-1]
    return np.eye(len(pvals), dtype=int)[pick([*first, max(0.0, 1 - first.sum())])]


def binomial(n, p, size=None):
    if n != 1:
        branch().stop("binomial of several is not followed")
    return (fill(draw, shape(size, p)) < p) * 1  # an int, or an array of them


def choices(population, weights=None, *, k=1):
    weights = [1] * len(population) if weights is None else weights
    return [population[pick(weights)] for _ in range(k)]


# {type: a generator of it}, whose numbers nobody uses: it shows what arguments are refused
SAME = {type(g): g for g in (np.random.RandomState(0), np.random.default_rng(0), random.Random(0))}
# {function or method of numpy.random: what gives its symbolic numbers}, likewise of random
NUMPY: dict[str, Callable] = {
    **{f.__name__: f for f in (uniform, exponential, gumbel, choice, multinomial, binomial)},
    "random": lambda size=None, dtype=float: fill(draw, size),
    "random_sample": lambda size=None: fill(draw, size),
    "rand": lambda *size: fill(draw, size or None),
    "standard_exponential": lambda size=None: exponential(1.0, size),
}
PYTHON: dict[str, Callable] = {
    "random": draw,
    "uniform": uniform,
    "expovariate": lambda lambd=1.0: exponential(1 / lambd),
    "choices": choices,
}


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield (module or class, name, what replaces it) for everything that draws, and for math.log,
    which would not take a Number.
    """
    numpys, pythons = np.random.mtrand._rand, random._inst  # type: ignore[attr-defined]
    for module, real, followed in ((np.random, numpys, NUMPY), (random, pythons, PYTHON)):
        for name in dir(module):
            if getattr(getattr(module, name), "__self__", None) is real:
                yield module, name, getattr(Source(real, followed), name)
    for name, same in (("seed", "seed"), ("ranf", "random_sample"), ("sample", "random_sample")):
        yield np.random, name, getattr(Source(numpys, NUMPY), same)
    for module, name, followed in (
        (np.random, "default_rng", NUMPY),
        (np.random, "Generator", NUMPY),
        (np.random, "RandomState", NUMPY),
        (random, "Random", PYTHON),
    ):
        yield module, name, factory(getattr(module, name), followed)
    yield math, "log", log_of


def factory(real: Any, followed: dict) -> type:
    """A class that makes a Source where `real`, a function or a class, makes a generator. It stops
    a branch that gives it a seed.
    """

    def make(cls, *args, **kwargs):
        if args and isinstance(args[0], Source):  # default_rng(a generator) is that generator
            return args[0]
        if enumeration.current and any(x is not None for x in (*args, *kwargs.values())):
            problem = "it makes a generator from a seed, or from another, while it runs"
            branch().stop(f"{problem}: of a constant seed each call draws the same numbers")
        return Source(real(*args, **kwargs), followed)

    bases = (real,) if isinstance(real, type) else ()
    return type(real.__name__, bases, {"__new__": make})


def log_of(x, *base):
    return x.log() if isinstance(x, Number) else log(x, *base)
