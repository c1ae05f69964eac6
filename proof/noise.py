"""Symbolic random numbers: what numpy.random and random give while a run is enumerated.

An Atom is a uniform number of which only the distribution is known. A Number is a monotone function
of one Atom: 3 * u, -log(u), w / -log(u). All that code can do with a random number, in the end, is
to compare it:

- with a number t: the inverse of the function turns x < t into u < c, which has a probability. That
  is a choice, and it changes the distribution of the Atom: whoever uses the same number again finds
  it in the part that was chosen, so noise that is shared between two decisions is followed, too.
- with another Number, as argmax does: that has an answer if the two are in a race, which means that
  their distribution functions are powers F^v and F^w of one F. Then the first is the larger with
  probability v / (v + w), and the larger has the distribution F^(v + w), whichever it is, so that
  the winner can meet the next. p / exponential noise, log p + Gumbel noise, u^(1/p) are races.

Everything else raises Undecidable, which says what it was.
"""

import math
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import enumerate as enumeration
from .enumerate import STATE, Branch, format_row

NEGLIGIBLE = 1e-6  # a probability: guards such as clamp(min=1e-7) are passed over
MOST_NUMBERS = 100  # among which a whole number is chosen: a branch for each
REUSED = "a random number is used again in a race, or after it lost one, which is not followed"


def branch() -> Branch:
    """The run in progress."""
    assert enumeration.current
    return enumeration.current


class Atom:
    """A uniform number in [0, 1), of which something may be known.

    below: u -> the probability that it is less than u, given all that was decided with it
    quantile: the inverse of `below`
    """

    def __init__(self):
        self.branch, self.spent, self.rival = branch(), False, None
        self.below: Callable = lambda u: min(max(u, 0.0), 1.0)
        self.quantile: Callable = float
        self.branch.symbolic = True

    def use(self):
        """Refuse a number that has lost a race or is from an earlier run. Of two that have raced,
        only one can be used.
        """
        if self.branch is not enumeration.current:
            branch().stop(STATE)
        if self.spent:
            self.branch.stop(REUSED)
        if self.rival:
            self.rival.spent, self.rival = True, None

    def learn(self, forward: Callable, back: Callable):
        """Change its distribution: `forward` is applied to each probability, `back` inverts it."""
        below, quantile = self.below, self.quantile
        self.below, self.quantile = lambda u: forward(below(u)), lambda mass: quantile(back(mass))

    def split(self, points: list[float], label: str, rising: bool = True) -> int:
        """Cut [0, 1) at rising points, and choose the piece in which the number lies: its index
        from the left, or from the right if not rising.
        """
        self.use()
        cuts = [0.0, *map(self.below, points), 1.0]
        pieces = list(zip(cuts, cuts[1:]))[:: 1 if rising else -1]
        chosen = choose([high - low for low, high in pieces], label)
        low, high = pieces[chosen]
        self.learn(
            lambda mass: min(max((mass - low) / (high - low), 0.0), 1.0),
            lambda mass: low + mass * (high - low),
        )
        return chosen

    def win(self, chance: float, is_larger: bool):
        """Learn that it has won a race in which it had this chance, as the larger or smaller."""
        if is_larger:
            self.learn(lambda mass: mass ** (1 / chance), lambda mass: mass**chance)
        else:
            self.learn(
                lambda mass: 1 - (1 - mass) ** (1 / chance), lambda mass: 1 - (1 - mass) ** chance
            )


def choose(weights: list[float], label: str) -> int:
    """Choose an index by probabilities; without a branch if one is next to certain."""
    if max(weights) >= 1 - NEGLIGIBLE:
        return weights.index(max(weights))
    return branch().choose(weights, label)


def of_one(method: Callable) -> Callable:
    """Let a method of Number have single numbers only: NumPy calls it for each one of an array."""

    def call(self, c):
        if getattr(c, "ndim", 0):
            return NotImplemented
        return method(self, c.item() if hasattr(c, "item") else c)

    return call


class Number:
    """A monotone function of an Atom.

    at: atom -> this number. of: its inverse, for any number
    rising: whether the number grows with its atom
    """

    ndim = 0

    def __init__(self, atom: Atom, at: Callable = float, of: Callable = float, rising: bool = True):
        self.atom, self.at, self.of, self.rising = atom, at, of, rising

    def map(self, forward: Callable, back: Callable, rising: bool = True) -> "Number":
        """Apply a function; `back` is its inverse, infinite outside the function's range."""
        at, of = self.at, self.of
        new_at, new_of = lambda u: forward(at(u)), lambda t: of(back(t))
        return Number(self.atom, new_at, new_of, self.rising == rising)

    def constant(self, c: float) -> "Number":
        """What is left of this number after * 0, or + infinity. It stays a Number, so that NumPy
        can apply a function to a whole array.
        """
        return Number(self.atom, lambda u: c, lambda t: math.inf if t > c else -math.inf)

    @property
    def value(self) -> float | None:
        """Its value, if that does not depend on chance."""
        return self.at(0.0) if self.at(0.0) == self.at(1.0) else None

    @property
    def ends(self) -> list[float]:
        """The smallest and the largest value that it can have."""
        return sorted(self.at(self.atom.quantile(mass)) for mass in (0.0, 1.0))

    def positive(self, operation: str) -> "Number":
        if self.ends[0] < 0:
            branch().stop(f"{operation} of a random number that may be negative")
        return self

    def below(self, t: float) -> float:
        """The probability that it is less than t."""
        mass = self.atom.below(self.of(t))
        return mass if self.rising else 1 - mass

    def quantile(self, mass: float) -> float:
        """The number below which this one lies with a probability."""
        return self.at(self.atom.quantile(mass if self.rising else 1 - mass))

    # ---------------------------------------------------------------- arithmetic

    @of_one
    def __add__(self, c):
        if not is_finite(c):
            return self.constant(c)
        return self.map(lambda x: x + c, lambda t: t - c)

    @of_one
    def __mul__(self, c):
        if not is_finite(c) or c == 0:
            return self.constant(self.at(0.5) * c)
        return self.map(lambda x: x * c, lambda t: t / c, c > 0)

    @of_one
    def __pow__(self, c):
        if not is_finite(c) or c == 0:
            return self.constant(self.at(0.5) ** c)
        if c < 0:
            return (self**-c).reciprocal()
        back = lambda t: float(np.power(t, 1 / c)) if t > 0 else -math.inf
        return self.positive("a power").map(lambda x: float(np.power(x, c)), back)

    def __truediv__(self, c):
        return self * np.divide(1, c)

    def __sub__(self, c):
        return self + -c

    def __rsub__(self, c):
        return -self + c

    def __neg__(self):
        return self * -1.0

    def __rtruediv__(self, c):
        return self.reciprocal() * c

    __radd__, __rmul__ = __add__, __mul__

    def reciprocal(self):
        back = lambda t: 1 / t if t > 0 else math.inf
        inverse = lambda x: 1 / x if x else math.inf
        return self.positive("the reciprocal").map(inverse, back, rising=False)

    def log(self):
        log = lambda x: math.log(x) if x > 0 else -math.inf
        return self.positive("the logarithm").map(log, lambda t: float(np.exp(t)))

    def log1p(self):
        return (self + 1).log()

    def exp(self):
        back = lambda t: math.log(t) if t > 0 else -math.inf
        return self.map(lambda x: float(np.exp(x)), back)

    def sqrt(self):
        return self**0.5

    # ---------------------------------------------------------------- decisions

    def less(self, t: Any) -> bool:
        """Whether this number is less than t. To be equal has no probability."""
        if isinstance(t, Number):
            return race(self, t)
        if math.isnan(t := float(t)):
            return False
        return self.atom.split([self.of(t)], "coin", self.rising) == 0

    __lt__ = __le__ = of_one(less)
    __gt__ = __ge__ = of_one(lambda self, t: t == t and t != self.value and not self.less(t))
    __eq__ = of_one(lambda self, t: t is self)
    __ne__ = of_one(lambda self, t: t is not self)

    def __int__(self):
        low, high = self.ends
        if low < 0 or high > 100:
            branch().stop("int() of a random number below 0 or above 100")
        first, last = int(low), math.ceil(high)
        points = [self.of(n) for n in range(first + 1, last)]
        return first + self.atom.split(sorted(points), "whole number", self.rising)

    __floor__ = floor = __trunc__ = __int__

    def __format__(self, spec=""):
        return "a random number"

    __repr__ = __format__

    def item(self):
        return self if self.value is None else self.value

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        branch().stop(f"{name} of a random number is not followed")

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        """np.log(self), array < self, and the like: NumPy does it for arrays of objects."""
        inputs = [np.array(x, object) if isinstance(x, Number) else x for x in inputs]
        result = getattr(ufunc, method)(*inputs, **kwargs)
        return result[()] if isinstance(result, np.ndarray) and result.ndim == 0 else result


def refused(name: str) -> Callable:
    return lambda *_: branch().stop(f"{name.strip('_')} of a random number is not followed")


for name in (
    "__hash__ __float__ __bool__ __index__ __round__ __abs__ __floordiv__ __rfloordiv__ __mod__ "
    "__rmod__ __divmod__ __rdivmod__ __rpow__ __complex__".split()
):
    setattr(Number, name, refused(name))


def is_finite(c: Any) -> bool:
    if isinstance(c, Number):
        branch().stop("arithmetic with two random numbers")
    return math.isfinite(c)


def race(a: Number, b: Number) -> bool:
    """Whether a < b."""
    if a is b:
        return False
    if a.value is not None:
        return b > a.value
    a.atom.use()
    b.atom.use()
    if a.atom is b.atom:
        branch().stop(REUSED)
    both = [(largest, race_chance(a, b, largest)) for largest in (True, False)]
    chances = {largest: chance for largest, chance in both if chance is not None}
    if not chances:
        branch().stop("two random numbers are compared that are not in a race")
    chance = chances[True] if True in chances else 1 - chances[False]
    larger, smaller = (a, b) if choose([chance, 1 - chance], "race") == 0 else (b, a)
    if NEGLIGIBLE < chance < 1 - NEGLIGIBLE:
        larger.atom.rival, smaller.atom.rival = smaller.atom, larger.atom
        for number, largest in ((larger, True), (smaller, False)):
            if largest in chances:
                chance = chances[largest] if number is a else 1 - chances[largest]
                number.atom.win(chance, number.rising == largest)
            else:
                number.atom.spent = True
    return smaller is a


def race_chance(a: Number, b: Number, largest: bool) -> float | None:
    """The probability that a wins a race with b for the largest number, or the smallest; None if
    they are not in one. Where they are, all points tell the same, one at the far end included.
    """
    leader = (max if largest else min)(a, b, key=lambda number: number.quantile(0.5))
    chances: list[float] = []
    for mass in (0.5, 0.2, 0.8, NEGLIGIBLE / 10):
        t = leader.quantile(mass if largest else 1 - mass)
        reached = [x.below(t) if largest else 1 - x.below(t) for x in (a, b)]
        v, w = (-math.log(x) if x > 0 else math.inf for x in reached)
        chances.append(1 / (1 + w / v) if v else 0.0 if w else math.nan)
        if not abs(chances[-1] - chances[0]) < NEGLIGIBLE:  # NaN, too
            return None
    return chances[0]


# ---------------------------------------------------------------- sources


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
            if not enumeration.current:
                return real(*args, **kwargs)
            if name not in self._followed:
                branch().stop(f"{name} is not followed")
            try:
                if same := SAME.get(type(self._real)):
                    getattr(same, name)(*args, **kwargs)  # raises what the real one raises
                return self._followed[name](*args, **kwargs)
            except TypeError:
                branch().stop(f"{name} with these arguments is not followed")

        if not callable(real) and enumeration.current:
            branch().stop(f"it uses {name} of a random number generator")
        return call if callable(real) else real

    def __reduce_ex__(self, protocol: Any) -> Any:
        if enumeration.current:
            branch().stop("it copies a random number generator while it runs")
        return super().__reduce_ex__(protocol)


def draw() -> Number:
    """A random number in [0, 1)."""
    return Number(Atom())


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


def whole(n: int) -> int:
    """A whole number from 0 to n - 1, each as likely; undecidable if n is above MOST_NUMBERS."""
    if n > MOST_NUMBERS:
        branch().stop(f"one of {n:,} whole numbers is not followed; a uniform number is")
    return pick([1] * n)


def shape(size: Any, *parameters: Any) -> Any:
    """The size that was asked for, or that of the parameters; None for a single number."""
    return size if size is not None else np.broadcast(*parameters).shape or None


def uniform(low=0.0, high=1.0, size=None):
    return fill(draw, shape(size, low, high)) * np.subtract(high, low) + low


def exponential(scale=1.0, size=None):
    return -np.log(fill(draw, shape(size, scale, scale))) * scale


def gumbel(loc=0.0, scale=1.0, size=None):
    return -np.log(exponential(1.0, shape(size, loc, scale))) * scale + loc


def integers(low, high=None, size=None, dtype=int, endpoint=False):
    low, high = (0, low) if high is None else (low, high)
    drawn = fill(lambda: low + whole(high + endpoint - low), size)
    return drawn if size is None else drawn.astype(int)


def choice(a, size=None, replace=True, p=None, axis=0, shuffle=True):
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
    return (fill(draw, shape(size, p, p)) < p) * 1


def choices(population, weights=None, *, cum_weights=None, k=1):
    if cum_weights is not None:
        weights = np.diff(cum_weights, prepend=0)
    elif weights is None:
        weights = [1] * len(population)
    return [population[pick(weights)] for _ in range(k)]


# a generator of each type, whose numbers nobody uses: they show what arguments it refuses
SAME = {type(g): g for g in (np.random.RandomState(0), np.random.default_rng(0), random.Random(0))}
NUMPY: dict[str, Callable] = {
    f.__name__: f for f in (uniform, exponential, gumbel, integers, choice, multinomial, binomial)
} | {
    "random": lambda size=None, dtype=float: fill(draw, size),
    "random_sample": lambda size=None: fill(draw, size),
    "rand": lambda *size: fill(draw, size or None),
    "standard_exponential": lambda size=None: exponential(1.0, size),
    "randint": integers,
}
PYTHON: dict[str, Callable] = {
    "random": draw,
    "uniform": uniform,
    "expovariate": lambda lambd=1.0: exponential(1 / lambd),
    "randrange": lambda *bounds: range(*bounds)[whole(len(range(*bounds)))],
    "randint": lambda a, b: integers(a, b + 1),
    "choice": lambda values: values[integers(len(values))],
    "choices": choices,
}


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield (module or class, name, what replaces it) for everything that draws."""
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
    yield sys, "settrace", Source(sys, {}).settrace  # it would switch off the count of steps
    for name in ("log", "exp", "log1p", "sqrt"):
        yield math, name, for_numbers(getattr(math, name), name)


def factory(real: Any, followed: dict) -> type:
    """A class that makes a Source where `real`, a function or a class, makes a generator."""

    def make(cls, *args, **kwargs):
        if args and isinstance(args[0], Source):  # default_rng(a generator) is that generator
            return args[0]
        if enumeration.current and any(x is not None for x in (*args, *kwargs.values())):
            problem = "it makes a generator from a seed, or from another, while it runs"
            branch().stop(f"{problem}: of a constant seed each call draws the same numbers")
        return Source(real(*args, **kwargs), followed)

    bases = (real,) if isinstance(real, type) else ()
    return type(real.__name__, bases, {"__new__": make})


def for_numbers(real: Callable, name: str) -> Callable:
    return lambda x, *rest: getattr(x, name)() if isinstance(x, Number) else real(x, *rest)
