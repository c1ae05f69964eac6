"""Symbolic random numbers: what stands for a random number while a run is enumerated.

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
from collections.abc import Callable
from typing import Any

import numpy as np

from . import enumerate as enumeration
from .enumerate import STATE, Branch, Undecidable

NEGLIGIBLE = 1e-6  # a probability: guards such as clamp(min=1e-7) are passed over
REUSED = "a random number is used again in a race, or after it lost one, which is not followed"


def branch() -> Branch:
    """The run in progress. Raises Undecidable without one: a number of an earlier run is used."""
    if not enumeration.current:
        raise Undecidable(STATE)
    return enumeration.current


class Atom:
    """A uniform number in [0, 1), of which something may be known.

    below: u -> the probability that it is less than u, given all that was decided with it; after
        the answer that it is less than 1/2, that is 2u, at most 1
    quantile: the inverse of `below`
    spent: whether it lost a race; rival: the atom that it met in one, which is spent when this one
        is used
    zero: whether it can be 0 exactly, which has no probability here
    """

    def __init__(self, zero: bool = True):
        self.branch, self.zero, self.spent = branch(), zero, False
        self.rival: Atom | None = None
        self.below: Callable = lambda u: min(max(u, 0.0), 1.0)
        self.quantile: Callable = float
        self.branch.symbolic = True

    def use(self):
        """Stop the branch if this number has lost a race or is from an earlier run. Of two that
        have raced, only one can be used: the other one is spent.
        """
        if self.branch is not enumeration.current:
            branch().stop(STATE)
        if self.spent:
            self.branch.stop(REUSED)
        if self.rival:
            self.rival.spent = True
            self.rival = None

    def learn(self, forward: Callable, back: Callable):
        """Change its distribution: `forward` is applied to each probability, `back` inverts it."""
        below, quantile = self.below, self.quantile
        self.below, self.quantile = lambda u: forward(below(u)), lambda mass: quantile(back(mass))

    def split(self, points: list[float], label: str, rising: bool = True) -> int:
        """Cut [0, 1) at rising points, and choose the piece in which the number lies: its index
        from the left, or from the right if not rising. From now on the number is in that piece.
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

    def is_zero(self) -> bool:
        """Whether it is 0 exactly, asked where that changes an answer. The branch says whether such
        numbers are; then this one stays 0.
        """
        if not self.zero or self.quantile(0.0) > 0:
            return False
        self.branch.meets_zero = True
        if self.branch.takes_zero:
            self.below, self.quantile = lambda u: float(u > 0), lambda mass: 0.0
        return self.branch.takes_zero

    def win(self, chance: float, is_larger: bool):
        """Change the distribution of this atom to that of the winner of a race.

        chance: the probability with which it won
        is_larger: whether it won as the larger of the two, or as the smaller
        Of two uniform numbers, with the chance 1/2 each, the larger is less than u with probability
        u^2; the smaller is more than u with probability (1 - u)^2.
        """
        after, before = lambda mass: mass ** (1 / chance), lambda mass: mass**chance
        if is_larger:
            self.learn(after, before)
        else:  # the same of 1 - mass, the probability that it is more
            self.learn(lambda mass: 1 - after(1 - mass), lambda mass: 1 - before(1 - mass))


def choose(weights: list[float], label: str) -> int:
    """Choose an index by probabilities; without a branch if one is next to certain."""
    if max(weights) >= 1 - NEGLIGIBLE:
        return weights.index(max(weights))
    return branch().choose(weights, label)


def of_one(method: Callable) -> Callable:
    """Let a method of Number have single numbers only, as Python's own: it returns NotImplemented
    for an array, so that NumPy calls it for each number in there.
    """

    def call(self, c):
        if getattr(c, "ndim", 0):
            return NotImplemented
        return method(self, c.item() if hasattr(c, "item") else c)

    return call


def comparison(is_less: bool, if_equal: bool) -> Callable:
    """An operator of Number: whether it is less (or more) than t, or what it answers if equal."""

    def compare(self, t: Any) -> bool:
        if isinstance(t, Number):
            return race(self, t) if is_less else race(t, self)
        if math.isnan(t := float(t)):
            return False
        if t == self.value:
            return if_equal
        if t == self.at(0.0) and (self.rising == is_less) == if_equal and self.atom.is_zero():
            return if_equal
        return self.less(t) == is_less

    return of_one(compare)


class Number:
    """A monotone function of an Atom. What cannot be done with it stops the branch.

    at: u -> this number, if the atom is u. of: its inverse, for any number
    rising: whether the number grows with its atom
    An exponential number -log(u) has at = -log, of = exp(-t), and is not rising.
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
        """This number. Stops the branch if it may be negative."""
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
        if not is_finite_number(c):
            return self.constant(c)
        return self.map(lambda x: x + c, lambda t: t - c)

    @of_one
    def __mul__(self, c):
        if not is_finite_number(c) or c == 0:
            return self.constant(self.at(0.5) * c)  # 0, or infinity of its sign
        return self.map(lambda x: x * c, lambda t: t / c, c > 0)

    @of_one
    def __pow__(self, c):
        if not is_finite_number(c) or c == 0:
            return self.constant(self.at(0.5) ** c)  # 1, or 0 or infinity, as of any such number
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

    # ---------------------------------------------------------------- decisions

    def less(self, t: float) -> bool:
        """Whether this number is less than t. To be equal has no probability."""
        return self.atom.split([self.of(t)], "coin", self.rising) == 0

    __lt__ = comparison(is_less=True, if_equal=False)
    __le__ = comparison(is_less=True, if_equal=True)
    __gt__ = comparison(is_less=False, if_equal=False)
    __ge__ = comparison(is_less=False, if_equal=True)
    __eq__ = of_one(lambda self, t: t is self)
    __ne__ = of_one(lambda self, t: t is not self)

    def __int__(self):
        """The whole number below it, a branch for each; of numbers in 0 ... 100."""
        low, high = self.ends
        if low < 0 or high > 100:
            branch().stop("int() of a random number below 0 or above 100")
        first, last = int(low), math.ceil(high)
        points = [self.of(n) for n in range(first + 1, last)]
        return first + self.atom.split(sorted(points), "whole number", self.rising)

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


def is_finite_number(c: Any) -> bool:
    """Whether a number is finite. Stops the branch if it is a random one."""
    if isinstance(c, Number):
        branch().stop("arithmetic with two random numbers")
    return math.isfinite(c)


# ---------------------------------------------------------------- races


def race(a: Number, b: Number) -> bool:
    """Whether a < b: a branch for each answer. Afterwards one of the two, the winner, has the
    distribution of a winner, and to use the other stops the branch. Of two uniform numbers, the
    larger, u say, has P(u < t) = t^2.

    Stops the branch if they are not in a race, or if one was in a race before and lost.
    """
    if a is b:
        return False
    if a.value is not None:
        return a.value != b.value and not b.less(a.value)
    if b.value is not None:
        return a.less(b.value)
    a.atom.use()
    b.atom.use()
    if a.atom is b.atom:
        branch().stop(REUSED)
    # of two numbers that are in both races, such as uniform ones, both chances are the same
    for_largest, for_smallest = race_chance(a, b, True), race_chance(a, b, False)
    chance = for_smallest if for_largest is None else for_largest
    if chance is None:
        branch().stop("two random numbers are compared that are not in a race")
    a_is_larger = choose([chance, 1 - chance], "race") == 0
    if NEGLIGIBLE < chance < 1 - NEGLIGIBLE:  # otherwise the answer tells nothing
        larger, smaller = (a, b) if a_is_larger else (b, a)
        larger.atom.rival, smaller.atom.rival = smaller.atom, larger.atom
        settle(larger, True, for_largest, a_is_larger)
        settle(smaller, False, for_smallest, a_is_larger)
    return not a_is_larger


def settle(number: Number, is_larger: bool, chance: float | None, a_is_larger: bool) -> None:
    """Change a number after its race: it is the larger of the two, and a winner if they raced for
    the largest, or the smaller, and a winner if they raced for the smallest. If they did not, it is
    spent.

    chance: the probability that the first of the two is the larger; None if they did not
    """
    if chance is None:
        number.atom.spent = True
    else:
        number.atom.win(chance if a_is_larger else 1 - chance, number.rising == is_larger)


def race_chance(a: Number, b: Number, for_largest: bool) -> float | None:
    """The probability that a is larger than b, if they are in a race for the largest number, P(a <
    t) = F(t)^v and P(b < t) = F(t)^w, or for the smallest, likewise with P(a > t) and P(b > t);
    None if they are not. It is found at a few points t, which must tell the same: the median of the
    one that is ahead, two beside it, and one at the far end.
    """
    leader = (max if for_largest else min)(a, b, key=lambda number: number.quantile(0.5))

    def share_of_a(t: float) -> float:
        """v / (v + w), from what F^v and F^w are at t."""
        reached = [x.below(t) if for_largest else 1 - x.below(t) for x in (a, b)]
        v, w = (-math.log(x) if x > 0 else math.inf for x in reached)
        if v == 0:
            return 0.0 if w else math.nan
        return 1 / (1 + w / v)

    shares: list[float] = []
    for mass in (0.5, 0.2, 0.8, NEGLIGIBLE / 10):
        shares.append(share_of_a(leader.quantile(mass if for_largest else 1 - mass)))
        if not abs(shares[-1] - shares[0]) < NEGLIGIBLE:  # NaN, too
            return None
    return shares[0] if for_largest else 1 - shares[0]
