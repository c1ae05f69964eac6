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
from .noise import Atom, Number, branch, choose


class Source:
    """A random number generator in place of a real one (or of torch, which has such functions).
    Most of the time source.random() calls real.random(). But while a run of a sampler is
    enumerated, to take all its random choices, it returns followed["random"](): a Number of
    noise.py, which stands for a random number of which only the distribution is known.

    followed: {name of a method: the function that takes its place in such a run}. All else, such as
        to seed, copy or rewind it in a run, raises Undecidable; arguments that NumPy or Python
        refuses raise what they raise there
    """

    def __init__(self, real: Any, followed: dict[str, Callable]):
        self._real, self._followed = real, followed

    def __getattr__(self, name: str) -> Any:
        """The method `name` of the generator: a function that calls the real one, or while a run is
        enumerated the one that is followed. What is no method is returned as it is, but raises
        Undecidable in a run. Raises AttributeError for what the real one lacks, and for names with
        __.
        """
        if name.startswith("__"):
            raise AttributeError(name)
        real = getattr(self._real, name)
        if not callable(real):
            if enumeration.current:
                raise branch().stop(f"it uses {name} of a random number generator")
            return real

        def call(*args, **kwargs):
            if enumeration.current:
                return self._follow(name, args, kwargs)
            return real(*args, **kwargs)

        return call

    def _follow(self, name: str, args: tuple, kwargs: dict) -> Any:
        """Call the function that stands in for the generator's method `name` in a run, and return
        what it returns: a Number or an outcome, or an array of them. Sets `symbolic` of the run's
        Branch: the run has used a generator. Raises Undecidable if nothing stands in for the
        method, for an argument `out`, and for arguments of which the method or its stand-in raises
        TypeError; for others that the method refuses, such as a negative size, what it raises.
        """
        branch().symbolic = True
        if name not in self._followed or "out" in kwargs:
            raise branch().stop(f"{name} is not followed")
        try:
            self._try_arguments(name, args, kwargs)
            return self._followed[name](*args, **kwargs)
        except TypeError:
            raise branch().stop(f"{name} with these arguments is not followed")

    def _try_arguments(self, name: str, args: tuple, kwargs: dict) -> None:
        """Raise what the method `name` of the generator raises for arguments, if it refuses them.
        Another generator of its type, of SPARE, is called with them, and its numbers are dropped.
        Does nothing for torch, which has none there.
        """
        spare = SPARE.get(type(self._real))
        if spare is not None:
            getattr(spare, name)(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copy or pickle it, as Python does with any object. Raises Undecidable in a run."""
        if enumeration.current:
            raise branch().stop("it copies a random number generator while it runs")
        return super().__reduce_ex__(protocol)


class FollowedGenerator(Source, np.random.Generator):
    """A Source that is a numpy.random.Generator, for who asks for one: isinstance says so, and
    default_rng returns it as it is. Compiled code, which does not ask for its methods, would draw
    from UNUSED.
    """

    def __init__(self, real: np.random.Generator, followed: dict[str, Callable]):
        np.random.Generator.__init__(self, UNUSED)
        Source.__init__(self, real, followed)

    def __getattribute__(self, name: str) -> Any:
        """A method of a Generator is that of the Source, and anything else is its own."""
        if not name.startswith("_") and hasattr(np.random.Generator, name):
            return Source.__getattr__(self, name)
        return super().__getattribute__(name)

    def __reduce__(self) -> Any:
        """How to copy it: with a copy of the real one."""
        return type(self), (self._real, self._followed)


# what each FollowedGenerator is made of; follow.untouched raises Undecidable if it was drawn from
UNUSED = np.random.PCG64(0)


def draw(zero: bool = True) -> Number:
    """A new Number (noise.py), which stands for a uniform random number in [0, 1), or in (0, 1) if
    `zero` is False. Raises Undecidable if no run is being enumerated.
    """
    return Number(Atom(zero), lambda u: u, lambda t: t)


def fill(make: Callable[[], Any], size: Any) -> Any:
    """An array of this size, an int or a shape, of what make() gives, called for each element; of
    size None what one call gives.
    """
    if size is None:
        return make()
    cells = np.empty(size, object)
    for i in np.ndindex(cells.shape):
        cells[i] = make()
    return cells


def shape(size: Any, *parameters: Any) -> Any:
    """The size of what a function of numpy.random gives: `size` if that is not None, else the shape
    to which its parameters, such as low and high, broadcast; None if all are single numbers.
    """
    if size is not None:
        return size
    broadcast = np.broadcast_shapes(*[np.shape(parameter) for parameter in parameters])
    return None if broadcast == () else broadcast


# uniform to choice take the arguments of numpy.random's functions of these names; like there, a
# parameter may be an array, and `size` None means a single number


def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    """A new Number that is uniform from low to high, or an array of them of this size."""
    return fill(draw, shape(size, low, high)) * np.subtract(high, low) + low


def exponential(scale: Any = 1.0, size: Any = None) -> Any:
    """A new exponential Number, -log(u), times scale, or an array of them of this size."""
    return -np.log(fill(partial(draw, zero=False), shape(size, scale))) * scale


def gumbel(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    """A new Gumbel Number, -log(-log(u)) * scale + loc, or an array of them of this size."""
    return -np.log(exponential(1.0, shape(size, loc, scale))) * scale + loc


def choice(a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
    """numpy.random.choice: one of the values a, or of 0 ... a - 1 if that is an int, with the
    probabilities p (None: all the same), or an array of them of this size. All outcomes are taken,
    each in a run of its own. Raises Undecidable for several without replacement.
    """
    values = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
    weights = np.ones(len(values)) if p is None else p
    if size is not None and not replace and np.prod(size) > 1:
        raise branch().stop("choice without replacement is not followed")
    chosen = fill(lambda: values[choose(weights, "sampled")], size)
    return chosen if size is None else chosen.astype(values.dtype)  # from an array of objects


def choices(population: Any, weights: Any = None, *, k: int = 1) -> list[Any]:
    """random.choices: k elements of a sequence, each in proportion to the weights (None: all the
    same). All outcomes are taken, each in a run of its own.
    """
    weights = [1] * len(population) if weights is None else weights
    return [population[choose(weights, "sampled")] for _ in range(k)]


# {type: a generator of it}, whose numbers nobody uses: it shows what arguments are refused
SPARE = {type(g): g for g in (np.random.RandomState(0), np.random.default_rng(0), random.Random(0))}
# {name of a function or method of numpy.random: what gives its symbolic numbers}
NUMPY: dict[str, Callable] = {
    **{f.__name__: f for f in (uniform, exponential, gumbel, choice)},
    "random": lambda size=None, dtype=float: fill(draw, size),
    "rand": lambda *size: fill(draw, size or None),
}
# likewise of Python's random
PYTHON: dict[str, Callable] = {
    "random": draw,
    "uniform": lambda a, b: a + (b - a) * draw(),
    "choices": choices,
}


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield (module, name, value) for each function and class of numpy.random and random that draws
    or seeds, and for math.log, which would not take a Number: value can stand in for module.name.
    While a run is enumerated it gives Numbers, which stand for random numbers (noise.py), or raises
    Undecidable if it has none for that; at other times it does what the original does. Nothing is
    replaced here.
    """
    # np.random.normal, random.gauss and the like are methods of one hidden generator of a module
    numpy_source = Source(np.random.mtrand._rand, NUMPY)
    python_source = Source(random._inst, PYTHON)  # type: ignore[attr-defined]
    yield from methods_of(np.random, numpy_source)
    yield from methods_of(random, python_source)
    # np.random.seed is no method, but a function that calls the generator's method `seed`
    yield np.random, "seed", numpy_source.seed
    for name in ("default_rng", "Generator", "RandomState"):
        yield np.random, name, factory(getattr(np.random, name), NUMPY)
    yield random, "Random", factory(random.Random, PYTHON)
    yield math, "log", log_of


def source_of(made: Any, followed: dict) -> Source:
    """A Source for a random number generator, which is a numpy.random.Generator if that is one."""
    is_numpy = isinstance(made, np.random.Generator)
    return (FollowedGenerator if is_numpy else Source)(made, followed)


def methods_of(module: Any, source: Source) -> Iterator[tuple[Any, str, Any]]:
    """Yield (module, name, the method `name` of the source) for each function of a module that is a
    method of the generator for which the source stands.
    """
    for name in dir(module):
        owner = getattr(getattr(module, name), "__self__", None)  # of a method, its object
        if owner is source._real:
            yield module, name, getattr(source, name)


def factory(real: Any, followed: dict) -> type:
    """Make a class to stand for `real`, a function or class that makes a random number generator,
    such as default_rng. The class takes the same arguments, and returns a Source in place of what
    `real` makes; with a Source as the first one, that Source. With a seed, or another generator, it
    raises Undecidable while a run is enumerated; None is no seed. If `real` is a class, this one is
    a subclass, and isinstance says of both the same.

    followed: of the Sources, {name of a method: the function that takes its place in such a run}
    """
    base: Any = real if isinstance(real, type) else object

    class Kind(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, base)

    class Factory(base, metaclass=Kind):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:  # -> a Source, no Factory
            if args and isinstance(args[0], Source):  # default_rng(a generator) is that generator
                return args[0]
            is_given = any(x is not None for x in (*args, *kwargs.values()))
            if is_given and enumeration.current:
                problem = "it makes a generator from a seed, or from another, while it runs"
                same = "of a constant seed each call draws the same numbers"
                raise branch().stop(f"{problem}: {same}")
            return source_of(real(*args, **kwargs), followed)

    Factory.__name__ = Factory.__qualname__ = real.__name__
    return Factory


def log_of(x: Any, *base: float) -> Any:
    """math.log(x) or math.log(x, base), which takes a Number x without a base, too."""
    return x.log() if isinstance(x, Number) else log(x, *base)
