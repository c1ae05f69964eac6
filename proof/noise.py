"""Symbolic random numbers: what stands for a random number while a run is enumerated.

An Atom is a uniform number u of which only the distribution is known. A Number is a monotone
function of one Atom: 3 * u, -log(u), w / -log(u). All that code can do with a random number, in the
end, is to compare it:

- with a number t: the inverse of the function turns x < t into u < c, which has a probability. That
  is a choice, and it changes the distribution of the Atom: whoever uses the same number again finds
  it in the part that was chosen, so noise that is shared between two decisions is followed, too.
- with another Number, as argmax does: that has an answer if the two are in a race, which means that
  their distribution functions are powers F^v and F^w of one F. Then the first is the larger with
  probability v / (v + w), and the larger has the distribution F^(v + w), whichever it is, so that
  the winner can meet the next. p / exponential noise and log p + Gumbel noise are races.

Everything else raises Undecidable, which says what it was.

An example: x = -log(u), and code asks whether x < 1. At x = 1, u is exp(-1) = 0.37. x falls as u
rises (it is not `rising`), so x < 1 if u is above 0.37, with probability 0.63. The branch chooses
among [0.63, 0.37] under the label "coin", and takes the first: yes. From then on, u is uniform in
[0.37, 1): its distribution function is (u - 0.37) / 0.63, and x < 2 is certain.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from . import enumerate as enumeration
from .enumerate import STATE, Branch, Undecidable

NEGLIGIBLE = 1e-6  # a probability: guards such as clamp(min=1e-7) are passed over
REUSED = "a random number is used again in a race, or after it lost one, which is not followed"


def branch() -> Branch:
    """The Branch of the run that is being enumerated. Raises Undecidable if there is none, as where
    code uses a random number that it has kept from an earlier run.
    """
    if not enumeration.current:
        raise Undecidable(STATE)
    return enumeration.current


class Atom:
    """A uniform number u in [0, 1), of which something may be known.

    learned: what, as pairs (new_of_old, old_of_new): new_of_old takes the probability that u is
        less than some number, as it was before, and gives what it is since then; old_of_new is the
        inverse. After the answer that u is less than 1/2, new_of_old(0.25) is 0.5
    spent: whether it lost a race; rival: the atom that it met in one, which is spent when this one
        is used
    zero: whether it can be 0 exactly, which has no probability here
    """

    def __init__(self, zero: bool = True):
        """A new number of the run in progress, in [0, 1), or in (0, 1) without `zero`. Nothing more
        is known of it. Sets `symbolic` of that run's Branch. Raises Undecidable if no run is in
        progress.
        """
        self.branch = branch()
        self.zero = zero
        self.spent = False  # whether it lost a race, and can't be used any more
        self.rival: Atom | None = None  # met in a race, and spent when this one is used
        # (probability before -> after something was learned, the inverse)
        self.learned: list[tuple[Callable, Callable]] = []
        self.branch.symbolic = True

    def cdf(self, u: float) -> float:
        """The probability that this number is less than u, any number, given all that was learned:
        0 where u is 0 or less, 1 where it is 1 or more.
        """
        mass = min(max(u, 0.0), 1.0)  # the probability before anything was learned
        for new_of_old, _ in self.learned:
            mass = new_of_old(mass)
        return mass

    def quantile(self, mass: float) -> float:
        """The u below which this number lies with the probability `mass`: the inverse of cdf."""
        for _, old_of_new in reversed(self.learned):
            mass = old_of_new(mass)
        return mass

    def use(self) -> None:
        """Tell that code is about to decide by this number. If it has raced with another one, its
        `rival`, that one becomes `spent`: it has lost, as of the two only one can be used. Raises
        Undecidable if this one is spent, or is from an earlier run.
        """
        if self.branch is not enumeration.current:
            raise branch().stop(STATE)  # the code has kept it from an earlier run
        if self.spent:
            raise self.branch.stop(REUSED)
        if self.rival:
            self.rival.spent = True
            self.rival = None

    def keep(self, low: float, high: float) -> None:
        """Learn that this number lies between quantile(low) and quantile(high), where `low` and
        `high` are probabilities before this is learned. From then on it has its old distribution
        given that: cdf is 0 at the first and 1 at the second.
        """
        if low == 0.0 and high == 1.0:
            return  # nothing is new, as where a number is compared again
        new_of_old = lambda mass: min(max((mass - low) / (high - low), 0.0), 1.0)
        old_of_new = lambda mass: low + mass * (high - low)
        self.learned.append((new_of_old, old_of_new))

    def may_be_zero(self) -> bool:
        """Whether this number can be 0 exactly: its source may give 0 (`zero`), and nothing that
        was learned forbids it.
        """
        return self.zero and self.quantile(0.0) <= 0

    def become_zero(self) -> None:
        """Learn that this number is 0: from then on, it is less than any u above 0 for certain."""
        new_of_old = lambda mass: 1.0 if mass > 0 else 0.0
        old_of_new = lambda mass: 0.0
        self.learned.append((new_of_old, old_of_new))

    def win(self, chance: float, is_larger: bool) -> None:
        """Learn how a race of this number u with another one ended: the probability to be less than
        t becomes its power 1 / chance if u is the larger; if u is the smaller, the probability to
        be more than t does. Of two uniform numbers, with the chance 1/2 each, the larger is less
        than t with probability t^2; the smaller is more than t with probability (1 - t)^2.

        chance: the probability, before, that the race ends as it did
        is_larger: whether u is the larger of the two, each a uniform number behind a Number
        """
        if is_larger:
            new_of_old = lambda mass: mass ** (1 / chance)
            old_of_new = lambda mass: mass**chance
        else:  # the same of 1 - mass, the probability that it is more
            new_of_old = lambda mass: 1 - (1 - mass) ** (1 / chance)
            old_of_new = lambda mass: 1 - (1 - mass) ** chance
        self.learned.append((new_of_old, old_of_new))


def choose(weights: Iterable[float], label: str) -> int:
    """Choose an index of `weights`, each index i with probability weights[i] / sum(weights), by
    `choose` of the Branch, the record of the run in progress: other runs take the other possible
    indices. But an index that has all of the probability up to 1e-6 (NEGLIGIBLE) is returned at
    once: that is no choice, and the others are never taken. Raises Undecidable for weights that are
    no probabilities, such as negative ones, and if no run is in progress.

    label: what was chosen, for a reader of the branch: "coin", "sampled" or "race"
    """
    of_run = branch()
    numbers = [float(weight) for weight in weights]
    of_run.check(numbers)
    largest = max(numbers)
    if largest >= (1 - NEGLIGIBLE) * sum(numbers):
        return numbers.index(largest)
    return of_run.choose(numbers, label)


def of_one(method: Callable) -> Callable:
    """Decorate method(self, c) of Number, such as __add__, and return what takes its place: it
    calls the method with Python's own number for a scalar c of NumPy or torch, and returns
    NotImplemented for an array c, so that NumPy calls it for each element of c.
    """

    def call(self: "Number", c: Any) -> Any:
        n_axes = getattr(c, "ndim", 0)  # Python's numbers have no ndim
        if n_axes > 0:
            return NotImplemented
        if hasattr(c, "item"):
            c = c.item()
        return method(self, c)

    return call


def comparison(is_less: bool, if_equal: bool) -> Callable:
    """Make one of Number's methods <, <=, > and >=: (Number, t) -> bool, where t is a single
    number, or another Number. Where chance decides, the answer is a choice (`choose`), and the
    Number keeps to it from then on. For nan the answer is no. If the answer would be another where
    the random number u is 0 exactly, which has no probability, `meets_zero` of the run's Branch is
    set; and if its `takes_zero` is set, u is 0 in one of two runs, and then no other number is.

    is_less: whether it asks if the Number is less than t, or more
    if_equal: the answer where the two are equal
    """

    def compare(self: "Number", t: Any) -> bool:
        if isinstance(t, Number):
            return race(self, t) if is_less else race(t, self)
        t = float(t)
        if math.isnan(t):
            return False
        if t == self.value:  # it does not depend on chance
            return if_equal
        if t == self.from_u(0.0) and self.atom.may_be_zero():
            # for each u above 0, a number that rises is more than t, one that falls is less
            answer_above_zero = not is_less if self.rising else is_less
            if answer_above_zero != if_equal:
                self.atom.branch.meets_zero = True
                if self.atom.branch.takes_zero:
                    if self.atom.branch.choose([1, 1], "zero") == 0:
                        self.atom.branch.takes_zero = False  # one is enough
                        self.atom.become_zero()
                        return if_equal
                    self.atom.zero = False
        return self.less(t) == is_less

    return of_one(compare)  # for a single t; NumPy calls it for each element of an array


class Number:
    """A monotone function of an Atom u. What cannot be done with it raises Undecidable, by
    Branch.stop of the run in progress.

    from_u: u -> this number
    to_u: the inverse; it takes any number, and gives an infinity outside the range of from_u
    rising: whether the number grows with u
    An exponential number -log(u) has from_u = -log, to_u = exp(-t), and is not rising.
    """

    ndim = 0
    __class__ = property(lambda self: float)  # type: ignore  # isinstance(u, float), as of a real u

    def __init__(self, atom: Atom, from_u: Callable, to_u: Callable, rising: bool = True):
        self.atom, self.from_u, self.to_u, self.rising = atom, from_u, to_u, rising

    def map(self, forward: Callable, back: Callable, rising: bool = True) -> "Number":
        """The Number forward(this one), of the same Atom.

        back: the inverse of forward, infinite outside its range
        rising: whether forward rises
        """
        from_u = lambda u: forward(self.from_u(u))
        to_u = lambda t: self.to_u(back(t))
        # a falling function of a falling one rises
        return Number(self.atom, from_u, to_u, self.rising == rising)

    def constant(self, c: float) -> "Number":
        """What is left of this number after * 0, or + infinity: c. It stays a Number, so that NumPy
        can apply a function to a whole array.
        """
        # the number is less than t where u < to_u(t): for each u if c < t, else for none
        to_u = lambda t: math.inf if c < t else -math.inf
        return Number(self.atom, from_u=lambda u: c, to_u=to_u)

    @property
    def value(self) -> float | None:
        """Its value, if that does not depend on chance; else None."""
        first, last = self.from_u(0.0), self.from_u(1.0)
        return first if first == last else None

    def required_nonnegative(self, operation: str) -> "Number":
        """This number, if it is 0 or more for certain; else raises Undecidable, whose message
        begins with the operation that needs that, such as "the logarithm".
        """
        if self.quantile(0.0) < 0:
            raise branch().stop(f"{operation} of a random number that may be negative")
        return self

    def cdf(self, t: float) -> float:
        """The probability that this number is less than t."""
        mass = self.atom.cdf(self.to_u(t))
        return mass if self.rising else 1 - mass

    def quantile(self, mass: float) -> float:
        """The number t below which this one lies with the probability `mass`."""
        return self.from_u(self.atom.quantile(mass if self.rising else 1 - mass))

    # ---------------------------------------------------------------- arithmetic
    # with single numbers c; a second Number raises Undecidable

    @of_one
    def __add__(self, c: Any) -> "Number":
        if not is_finite_number(c):
            return self.constant(c)
        return self.map(lambda x: x + c, lambda t: t - c)

    @of_one
    def __mul__(self, c: Any) -> "Number":
        if not is_finite_number(c) or c == 0:
            return self.constant(self.from_u(0.5) * c)  # 0, or infinity of its sign
        return self.map(lambda x: x * c, lambda t: t / c, c > 0)

    def __truediv__(self, c: Any) -> "Number":
        return self * np.divide(1, c)

    def __sub__(self, c: Any) -> "Number":
        return self + -c

    def __rsub__(self, c: Any) -> "Number":
        return -self + c

    def __neg__(self) -> "Number":
        return self * -1.0

    def __rtruediv__(self, c: Any) -> "Number":
        return self.reciprocal() * c

    __radd__, __rmul__ = __add__, __mul__

    def reciprocal(self) -> "Number":
        """1 / this number, infinity at 0. Raises Undecidable if it may be negative."""
        inverse = lambda x: 1 / x if x != 0 else math.inf
        back = lambda t: 1 / t if t > 0 else math.inf
        return self.required_nonnegative("the reciprocal").map(inverse, back, rising=False)

    def log(self) -> "Number":
        """The natural logarithm, - infinity at 0. Raises Undecidable if it may be negative."""
        log = lambda x: math.log(x) if x > 0 else -math.inf
        exp = lambda t: float(np.exp(t))
        return self.required_nonnegative("the logarithm").map(log, exp)

    # ---------------------------------------------------------------- decisions

    def less(self, t: float) -> bool:
        """Whether this number, which rises or falls with one uniform number u, is less than t: a
        choice (`choose`), to which the number keeps from then on. To be equal has no probability.
        Raises Undecidable if u cannot be used (`Atom.use`).
        """
        self.atom.use()
        chance = self.cdf(t)
        is_less = choose([chance, 1 - chance], "coin") == 0
        u_is_less = is_less if self.rising else not is_less  # than to_u(t)
        mass = self.atom.cdf(self.to_u(t))  # the probability of that
        if u_is_less:
            self.atom.keep(0.0, mass)
        else:
            self.atom.keep(mass, 1.0)
        return is_less

    __lt__ = comparison(is_less=True, if_equal=False)
    __le__ = comparison(is_less=True, if_equal=True)
    __gt__ = comparison(is_less=False, if_equal=False)
    __ge__ = comparison(is_less=False, if_equal=True)
    __eq__ = of_one(lambda self, t: t is self)
    __ne__ = of_one(lambda self, t: t is not self)

    def __format__(self, spec: str = "") -> str:
        return "a random number"

    __repr__ = __format__

    def item(self) -> Any:
        """Its value if that does not depend on chance, else this Number."""
        return self if self.value is None else self.value

    def __getattr__(self, name: str) -> Any:
        """Raise Undecidable for a method or attribute that Number does not have; AttributeError for
        names with __, by which Python and NumPy ask what an object can do.
        """
        if name.startswith("__"):
            raise AttributeError(name)
        raise branch().stop(f"{name} of a random number is not followed")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Do np.log(self), array < self, and the like, as NumPy does it for an array of objects: it
        calls the methods of each Number. Returns an array, or a single result of single inputs.

        ufunc: the function, such as np.log; method: which of its methods was called, "__call__" for
            np.log(...) itself, "reduce", ...; inputs, kwargs: the arguments
        """
        arrays = [np.array(x, object) if isinstance(x, Number) else x for x in inputs]
        result = getattr(ufunc, method)(*arrays, **kwargs)
        if isinstance(result, np.ndarray) and result.ndim == 0:
            return result[()]  # its only element
        return result


def refused(name: str) -> Callable:
    """Make a method of the name, such as "__abs__", that raises Undecidable: it is not followed."""
    return lambda *_: branch().stop(f"{name.strip('_')} of a random number is not followed")


for name in (
    "__hash__ __float__ __int__ __complex__ __bool__ __index__ __round__ __abs__ __floordiv__ "
    "__rfloordiv__ __mod__ __rmod__ __divmod__ __rdivmod__ __pow__ __rpow__".split()
):
    setattr(Number, name, refused(name))


def is_finite_number(c: Any) -> bool:
    """Whether a number is finite. Raises Undecidable if it is a random one."""
    if isinstance(c, Number):
        raise branch().stop("arithmetic with two random numbers")
    return math.isfinite(c)


# ---------------------------------------------------------------- races


def race(a: Number, b: Number) -> bool:
    """Whether a < b, a choice (`choose`). Two numbers are in a race if P(a < t) = F(t)^v and
    P(b < t) = F(t)^w, of one function F and for each t, or the same with >. From then on the
    distribution of each is that given the answer: of two uniform numbers, the larger is less than t
    with probability t^2. But only one of the two can be used, whichever code uses first: then to
    use its rival raises Undecidable.

    Raises Undecidable if they are in no race, are functions of one Atom, or if one was in a race
    before and lost. A number that does not depend on chance is compared as such, without a race.
    """
    if a is b:
        return False
    if a.value is not None:  # it does not depend on chance
        if a.value == b.value:
            return False
        return not b.less(a.value)
    if b.value is not None:
        return a.less(b.value)
    a.atom.use()
    b.atom.use()
    if a.atom is b.atom:
        raise branch().stop(REUSED)
    for_largest = race_chance(a, b)  # that a > b, or None
    for_smallest = race_chance(-b, -a)  # the same, as a > b where -b > -a
    # of two that are in both races, such as uniform numbers, both chances are the same
    chance = for_smallest if for_largest is None else for_largest
    if chance is None:
        raise branch().stop("two random numbers are compared that are not in a race")
    a_is_larger = choose([chance, 1 - chance], "race") == 0
    if chance <= NEGLIGIBLE or chance >= 1 - NEGLIGIBLE:
        return not a_is_larger  # it was next to certain, and tells nothing of either
    if a_is_larger:
        larger, smaller, won = a, b, chance
    else:
        larger, smaller, won = b, a, 1 - chance
    # a number that falls as its u rises is the larger one where its u is the smaller one
    learn_end(larger.atom, smaller.atom, for_largest is not None, won, larger.rising)
    learn_end(smaller.atom, larger.atom, for_smallest is not None, won, not smaller.rising)
    return not a_is_larger


def learn_end(atom: Atom, rival: Atom, in_race: bool, chance: float, is_larger: bool) -> None:
    """Note in an atom, a uniform random number u, how the comparison of its Number with that of
    another atom, the rival, ended. `Atom.use` of this one is then going to make the rival unusable.

    in_race: whether the two Numbers are in a race, so that the distribution of u, given the end, is
        known, and is learned; if not, the atom is `spent`, and to use it raises Undecidable
    chance: in a race, the probability, before, that it ends so
    is_larger: in a race, whether u is the larger of the two
    """
    atom.rival = rival
    if in_race:
        atom.win(chance, is_larger)
    else:
        atom.spent = True


def race_chance(a: Number, b: Number) -> float | None:
    """The probability that a is larger than b, if they are in a race for the largest number, which
    is P(a < t) = F(t)^v and P(b < t) = F(t)^w for each t: then it is v / (v + w). None if they are
    not. It is computed at four points t, quantiles of the one with the larger median, which must
    agree within 1e-6 (NEGLIGIBLE).
    """
    leader = max(a, b, key=lambda number: number.quantile(0.5))
    chances = []
    for probability in (0.5, 0.2, 0.8, NEGLIGIBLE / 10):  # the middle, and far into the lower tail
        t = leader.quantile(probability)
        # -log(F(t)^v) = v * -log F(t): the factor -log F(t) cancels in v / (v + w)
        v, w = minus_log(a.cdf(t)), minus_log(b.cdf(t))
        if v > 0:
            chances.append(1 / (1 + w / v))  # v / (v + w), for an infinite v, too
        elif w > 0:
            chances.append(0.0)
        else:
            chances.append(math.nan)  # both are less than t for certain: it cannot be told
    agree = all(abs(chance - chances[0]) < NEGLIGIBLE for chance in chances)  # never with nan
    return chances[0] if agree else None


def minus_log(probability: float) -> float:
    """The negative of the natural logarithm; infinity for the probability 0."""
    return -math.log(probability) if probability > 0 else math.inf
