"""Symbolic random numbers: what numpy.random and random give while a run is enumerated.

An Atom is a uniform number of which only an interval is known. A Number is a monotone function of
one Atom: 3 * u, -log(u), w / -log(u). All that code can do with a random number, in the end, is to
compare it:

- with a number t: the inverse of the function turns x < t into u < c. That is a choice of
  probability (c - lo) / (hi - lo), and it narrows the interval. Whoever uses the same number again
  finds it narrowed, so noise that is shared between two decisions is followed, too.
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
from sys import settrace
from typing import Any

import numpy as np

from proof import enumerate as enumeration
from proof.enumerate import STATE, Branch

NEGLIGIBLE = 1e-6  # a probability: guards such as clamp(min=1e-7) are passed over
SHARED = "one random number decides a race and something else: shared noise"


def branch() -> Branch:
    """The run in progress."""
    assert enumeration.current
    return enumeration.current


class Atom:
    """A uniform number in [0, 1), known to lie in [lo, hi). If it has won races it is larger (or,
    if flipped, smaller) than a uniform one: it has the distribution function u^power (or
    1 - (1 - u)^power).
    """

    def __init__(self):
        self.branch, self.lo, self.hi, self.power, self.flipped = branch(), 0.0, 1.0, 1.0, False
        self.spent, self.rival = False, None
        self.branch.symbolic = True

    def use(self):
        """Refuse a number that has lost a race or is from an earlier run. Of two that have raced,
        only one can be used.
        """
        if self.branch is not enumeration.current:
            branch().stop(STATE)
        if self.spent:
            self.branch.stop(SHARED)
        if self.rival:
            self.rival.spent, self.rival = True, None

    def win(self, chance: float, flipped: bool):
        """Learn that it has won a race in which it had this chance."""
        self.spent = self.power != 1 and self.flipped != flipped
        self.power, self.flipped = self.power / chance, flipped

    def mass(self, u: float) -> float:
        """The probability of [0, u), before anything is known of the interval."""
        u = min(max(u, 0.0), 1.0)
        return 1 - (1 - u) ** self.power if self.flipped else u**self.power

    def quantile(self, mass: float) -> float:
        if self.flipped:
            return 1 - (1 - mass) ** (1 / self.power)
        return mass ** (1 / self.power)

    def split(self, points: list[float], label: str, rising: bool = True) -> int:
        """Cut the interval at rising points, and choose the piece in which the number lies: its
        index from the left, or from the right if not rising.
        """
        self.use()
        cuts = [self.lo, *(min(max(point, self.lo), self.hi) for point in points), self.hi]
        masses = [self.mass(cut) for cut in cuts]
        pieces = [(b - a) / (masses[-1] - masses[0]) for a, b in zip(masses, masses[1:])]
        order = range(len(pieces)) if rising else range(len(pieces))[::-1]
        pieces = [pieces[i] for i in order]
        if max(pieces) >= 1 - NEGLIGIBLE:
            return pieces.index(max(pieces))
        chosen = self.branch.choose(pieces, label)
        self.lo, self.hi = cuts[order[chosen]], cuts[order[chosen] + 1]
        return chosen


class Number:
    """A monotone function of an Atom.

    at: atom -> this number. of: its inverse, for any number
    rising: whether the number grows with its atom
    """

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

    def positive(self, operation: str) -> "Number":
        if min(self.at(self.atom.lo), self.at(self.atom.hi)) < 0:
            branch().stop(f"{operation} of a random number that may be negative")
        return self

    def quantile(self, mass: float) -> float:
        """The number below which this one lies with a probability."""
        return self.at(self.atom.quantile(mass if self.rising else 1 - mass))

    # ---------------------------------------------------------------- arithmetic

    def __add__(self, c):
        def add(c):
            if not is_finite(c):
                return self.constant(c)
            return self.map(lambda x: x + c, lambda t: t - c)

        return by_number(add, c)

    def __mul__(self, c):
        def multiply(c):
            if not is_finite(c) or c == 0:
                return self.constant(self.at(0.5) * c)
            return self.map(lambda x: x * c, lambda t: t / c, c > 0)

        return by_number(multiply, c)

    def __truediv__(self, c):
        return by_number(lambda c: self * float(np.divide(1, c)), c)

    def __sub__(self, c):
        return by_number(lambda c: self + -c, c)

    def __rsub__(self, c):
        return -self + c

    def __neg__(self):
        return self * -1.0

    def __rtruediv__(self, c):
        return self.reciprocal() * c

    def __pow__(self, c):
        if c < 0:
            return (self**-c).reciprocal()
        if c == 0 or not math.isfinite(c):
            return self.constant(self.at(0.5) ** c)
        back = lambda t: float(np.power(t, 1 / c)) if t > 0 else -math.inf
        return self.positive("a power").map(lambda x: float(np.power(x, c)), back)

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

    def __lt__(self, t):
        return by_number(self.less, t)

    def __gt__(self, t):
        return by_number(lambda t: t == t and not self.less(t), t)

    __le__, __ge__ = __lt__, __gt__

    def __eq__(self, t):
        return by_number(lambda t: t is self, t)

    def __ne__(self, t):
        return by_number(lambda t: t is not self, t)

    def __hash__(self):
        branch().stop("the hash of a random number")

    def __int__(self):
        ends = [self.at(self.atom.lo), self.at(self.atom.hi)]
        if min(ends) < 0 or max(ends) > 100:
            branch().stop("int() of a random number below 0 or above 100")
        first, last = int(min(ends)), math.ceil(max(ends))
        points = [self.of(n) for n in range(first + 1, last)]
        return first + self.atom.split(sorted(points), "whole number", self.rising)

    __floor__ = floor = __trunc__ = __int__

    def __float__(self):
        branch().stop("float() of a random number")

    def __bool__(self):
        branch().stop("a random number is used as a truth value")

    def __format__(self, spec):
        return "a random number"

    def item(self):
        return self

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        """np.log(self), array < self, and the like: NumPy does it for arrays of objects."""
        inputs = [np.array(x, object) if isinstance(x, Number) else x for x in inputs]
        result = getattr(ufunc, method)(*inputs, **kwargs)
        return result[()] if isinstance(result, np.ndarray) and result.ndim == 0 else result


def by_number(f: Callable, c: Any) -> Any:
    """f(c) for a single number c; for an array NotImplemented: NumPy then does it for each."""
    if getattr(c, "ndim", 0):
        return NotImplemented
    if hasattr(c, "item") and not isinstance(c, Number):
        c = c.item()
    return f(c)


def is_finite(c: Any) -> bool:
    if isinstance(c, Number):
        branch().stop("arithmetic with two random numbers")
    return math.isfinite(c)


def race(a: Number, b: Number) -> bool:
    """Whether a < b."""
    if a is b:
        return False
    values = [number.at(0.0) if number.at(0.0) == number.at(1.0) else None for number in (a, b)]
    if values[1] is not None:
        return a.less(values[1])
    if values[0] is not None:
        return b > values[0]
    for number in (a, b):
        number.atom.use()
        if (number.atom.lo, number.atom.hi) != (0.0, 1.0) or a.atom is b.atom:
            branch().stop(SHARED)
    for low, high in ((a, b), (b, a)):  # certain, as for a token of next to no probability
        t = high.quantile(NEGLIGIBLE / 10)
        if log_probability(low, t, below=False) < math.log(NEGLIGIBLE / 10):
            return low is a
    shares = {}  # {whether the largest wins: the probability that a does}
    for largest in (True, False):
        leader = (max if largest else min)(a, b, key=lambda number: number.quantile(0.5))
        ratios = []
        for mass in (0.2, 0.5, 0.8):
            t = leader.quantile(mass)
            powers = [log_probability(number, t, largest) for number in (a, b)]
            ratios.append(np.divide(powers[0], powers[1]))
        if 0 < max(ratios) <= min(ratios) * (1 + NEGLIGIBLE) < math.inf:
            shares[largest] = 1 - 1 / (1 + ratios[1])
    if not shares:
        branch().stop("two random numbers are compared that are not in a race")
    largest, share = next(iter(shares.items()))
    winner, loser = (a, b) if branch().choose([share, 1 - share], "race") == 0 else (b, a)
    larger, smaller = (winner, loser) if largest else (loser, winner)
    larger.atom.rival, smaller.atom.rival = smaller.atom, larger.atom
    for number, is_largest in ((larger, True), (smaller, False)):
        if (share := shares.get(is_largest)) is not None:
            number.atom.win(share if number is a else 1 - share, number.rising != is_largest)
        else:
            number.atom.spent = True
    return smaller is a


def log_probability(number: Number, t: float, below: bool) -> float:
    """The logarithm of the probability that a number is below t, or above."""
    atom, u = number.atom, min(max(number.of(t), 0.0), 1.0)
    left = below == number.rising  # whether that means an atom below u, or above
    side = 1 - u if atom.flipped else u
    if left != atom.flipped:
        return float(atom.power * np.log(side))
    return float(np.log1p(-np.power(side, atom.power)))


# ---------------------------------------------------------------- sources


class Source:
    """A random number generator in place of a real one, which it calls while nothing is enumerated.

    To seed, copy or rewind it during a run would give the same numbers again: that is refused.
    """

    def __init__(self, real: Any, followed: dict[str, Callable]):
        self._real, self._followed = real, followed

    def __getattr__(self, name: str) -> Any:
        def call(*args, **kwargs):
            if not enumeration.current:
                return getattr(self._real, SYNONYMS.get(name, name))(*args, **kwargs)
            if name not in self._followed:
                branch().stop(f"the random numbers of {name} are not followed")
            return self._followed[name](lambda: Number(Atom()), *args, **kwargs)

        if name.startswith("__") or not callable(getattr(self._real, name, call)):
            if enumeration.current:
                branch().stop(f"it uses {name} of a random number generator")
            return getattr(self._real, name)
        return call

    def __reduce_ex__(self, protocol: Any) -> Any:
        if enumeration.current:
            branch().stop("it copies a random number generator while it runs")
        return super().__reduce_ex__(protocol)


def shape(size: Any, *parameters: Any) -> Any:
    """The size that was asked for, or that of the parameters; None for a single number."""
    return size if size is not None else np.broadcast(*parameters).shape or None


def fill(make: Callable[[], Any], size: Any) -> Any:
    """One of what `make` gives, or an array of them."""
    if size is None:
        return make()
    cells = np.empty(size, object)
    for i in np.ndindex(cells.shape):
        cells[i] = make()
    return cells


def pick(draw: Callable[[], Number], weights: Any, label: str = "sampled") -> int:
    """An index in proportion to the weights, by one uniform number, as NumPy does it."""
    cumulative = np.cumsum(np.asarray(weights, float))
    return draw().atom.split((cumulative[:-1] / cumulative[-1]).tolist(), label)


def choice(draw, a, size=None, replace=True, p=None, axis=0, shuffle=True):
    values = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
    p = np.full(len(values), 1 / len(values)) if p is None else p
    REAL_CHOICE(len(values), p=p)  # raises what NumPy raises
    if size is not None and not replace and np.prod(size) > 1:
        branch().stop("choice without replacement is not followed")
    chosen = fill(lambda: values[pick(draw, p)], size)
    return chosen if size is None else chosen.astype(values.dtype)


def integers(draw, low, high=None, size=None, dtype=int, endpoint=False):
    low, high = (0, low) if high is None else (low, high)
    drawn = fill(lambda: low + pick(draw, [1] * (high + endpoint - low)), size)
    return drawn if size is None else drawn.astype(int)


def multinomial(draw, n, pvals, size=None):
    if n != 1 or size is not None:
        branch().stop("multinomial of several is not followed")
    REAL_CHOICE(len(pvals), p=pvals)
    return np.eye(len(pvals), dtype=int)[pick(draw, pvals)]


def binomial(draw, n, p, size=None):
    if n != 1:
        branch().stop("binomial of several is not followed")
    return (fill(draw, shape(size, p, p)) < p) * 1


def uniform(draw, low=0.0, high=1.0, size=None):
    return fill(draw, shape(size, low, high)) * np.subtract(high, low) + low


def exponential(draw, scale=1.0, size=None):
    return -np.log(fill(draw, shape(size, scale, scale))) * scale


def gumbel(draw, loc=0.0, scale=1.0, size=None):
    return -np.log(exponential(draw, 1.0, shape(size, loc, scale))) * scale + loc


def choices(draw, population, weights=None, *, cum_weights=None, k=1):
    if cum_weights is not None:
        weights = np.diff(cum_weights, prepend=0)
    elif weights is None:
        weights = [1] * len(population)
    return [population[pick(draw, weights)] for _ in range(k)]


REAL_CHOICE = np.random.RandomState(0).choice
NUMPY: dict[str, Callable] = {
    "random": lambda draw, size=None, dtype=float: fill(draw, size),
    "rand": lambda draw, *size: fill(draw, size or None),
    "uniform": uniform,
    "exponential": exponential,
    "standard_exponential": lambda draw, size=None: exponential(draw, 1.0, size),
    "gumbel": gumbel,
    "choice": choice,
    "multinomial": multinomial,
    "binomial": binomial,
    "integers": integers,
    "randint": integers,
}
SYNONYMS = dict.fromkeys(("ranf", "sample"), "random_sample")  # functions of numpy.random only
NUMPY |= dict.fromkeys(("random_sample", *SYNONYMS), NUMPY["random"])
PYTHON: dict[str, Callable] = {
    "random": lambda draw: draw(),
    "uniform": uniform,
    "expovariate": lambda draw, lambd=1.0: exponential(draw, 1 / lambd),
    "randrange": lambda draw, a, b=None: integers(draw, a, b),
    "randint": lambda draw, a, b: integers(draw, a, b + 1),
    "choice": lambda draw, values: values[integers(draw, len(values))],
    "choices": choices,
}


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield (module or class, name, what replaces it) for everything that draws."""
    sources: list[tuple[Any, Any, dict[str, Callable]]] = [
        (np.random, np.random.mtrand._rand, NUMPY),
        (random, random._inst, PYTHON),  # type: ignore[attr-defined]
    ]
    for module, real, followed in sources:
        source = Source(real, followed)
        for name in dir(module):
            bound_to = getattr(getattr(module, name), "__self__", None)
            if bound_to is real or (module is np.random and name in ("seed", "ranf", "sample")):
                yield module, name, getattr(source, name)
    for module, name, followed in (
        (np.random, "default_rng", NUMPY),
        (np.random, "Generator", NUMPY),
        (np.random, "RandomState", NUMPY),
        (random, "Random", PYTHON),
    ):
        yield module, name, factory(getattr(module, name), followed)
    yield sys, "settrace", set_tracer
    for name in ("log", "exp", "log1p", "sqrt"):
        yield math, name, for_numbers(getattr(math, name), name)


def factory(real: Any, followed: dict) -> Any:
    """What makes a Source where `real`, a function or a class, makes a generator."""

    def make(*args, **kwargs):
        if args and isinstance(args[0], Source):  # default_rng(a generator) is that generator
            return args[0]
        if enumeration.current and any(x is not None for x in (*args, *kwargs.values())):
            branch().stop("it seeds its random numbers while it runs: make the generator before")
        return Source(real(*args, **kwargs), followed)

    if isinstance(real, type):  # it stays a class
        return type(real.__name__, (real,), {"__new__": lambda cls, *args: make(*args)})
    return make


def set_tracer(trace: Any) -> None:
    """sys.settrace, which would switch off the count of steps (enumerate.py)."""
    if enumeration.current:
        branch().stop("it calls sys.settrace")
    settrace(trace)


def for_numbers(real: Callable, name: str) -> Callable:
    return lambda x, *rest: getattr(x, name)() if isinstance(x, Number) else real(x, *rest)
