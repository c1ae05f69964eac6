"""The exact distribution of code that makes random choices: every path through it is taken once.

A run gets a Branch in place of a sampling.Rng. The Branch follows a script of choices, then takes
the first option each time, and multiplies the probabilities of all that it took. The next script
changes the last choice that has an option left, so the runs are a walk through the whole tree.
Nothing is estimated: the error is that of adding floats.
"""

import math
import os
import signal
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from time import monotonic
from typing import Any, NoReturn

import numpy as np

MOST_CHOICES = 10_000  # of one run
MOST_SECONDS = 5.0  # of one run
MANY_CHOICES = 20  # after so many, a branch that is less likely than LEFT_OUT is not taken further
LEFT_OUT = 1e-12
NEVER = 1e-14  # an option of this probability, or less, is rounding
RARE = 1e-7  # an error in a branch of this probability, or less, is float32's rounding
STATE = "it does something else when it runs again: it keeps state, or has a hidden random source"
TOO_LONG = "one run takes too long: it does not end"
TOO_MANY = "too many random choices to take every branch"
TOO_MANY_IN_ONE = f"more than {MOST_CHOICES:,} random choices in one run: it may not end"
NO_TIME = "the time is up"


class Undecidable(BaseException):
    """Says what stands in the way of a verdict. No `except Exception` of the examined code catches
    it.

    branch: the one in which it came up, of a run that was enumerated
    """

    branch: "Branch | None" = None


class Impossible(Undecidable):
    """Says what a run gave that no right one can give, such as a token outside the vocabulary."""


class OutOfTime(Undecidable):
    """Says that the time for a verdict is up."""


class LeftOut(BaseException):
    """Ends a branch that is long and unlikely, such as one of a loop that ends only by chance."""


@dataclass(frozen=True)
class Choice:
    """One random choice of a run: among the indices of `weights`, which are probabilities, it took
    options[position]. options: the indices that are possible, which other runs take
    """

    label: str
    weights: tuple[float, ...]
    options: list[int]
    position: int

    @property
    def index(self) -> int:
        """What was chosen, an index of the weights."""
        return self.options[self.position]

    def describe(self) -> str:
        """The choice in words, with its probability: "drafted 2 (0.40)", "coin of 0.75: no (0.25)",
        "sampled 1 from [0.5, 0.5] (0.50)".
        """
        words = f"{self.label} {self.index}"
        if self.label == "coin":
            answer = "no" if self.index else "yes"
            words = f"coin of {self.weights[0]:.4g}: {answer}"
        elif self.label != "drafted":
            words += f" from {format_row(self.weights)}"
        weight = self.weights[self.index]
        return f"{words} ({weight:.2f})" if weight > 0.005 else f"{words} ({weight:.0e})"


@dataclass
class Branch:
    """The random choices of one run: it takes those of the script, then each time the first option.
    Code that draws from a sampling.Rng (sample, random, accept) can draw from this.
    """

    script: Sequence[Choice] = ()
    choices: list[Choice] = field(default_factory=list)  # that were made until now
    probability: float = 1.0  # of all of them together
    problem: Undecidable | None = None  # with which it was stopped first
    symbolic: bool = False  # whether there were symbolic numbers (noise.py)
    takes_zero: bool = False  # whether one of them may be 0 exactly, where that changes an answer
    meets_zero: bool = False  # whether there was such an answer

    def stop(self, problem: str, kind: type[Undecidable] = Undecidable) -> NoReturn:
        """Raise kind(problem), with the problem in one line; or again the problem with which this
        branch was stopped before. It is kept in self.problem, as the examined code may have a bare
        `except`, which catches it. Write `raise branch.stop(...)`: a reader sees that this ends.
        """
        if not self.problem:
            self.problem = kind(in_line(problem))
        raise self.problem

    def choose(self, weights: Iterable[float], label: str) -> int:
        """Choose an index of weights, whose probabilities are in proportion to them: that of the
        script, the choices of an earlier run that this one repeats, or after its end the first that
        is possible. The choice is added to self.choices, and its probability multiplied into
        self.probability. Raises Undecidable for weights that are no probabilities, after 10,000
        choices, and if the script has other weights here; LeftOut after 20 choices, once
        self.probability is less than 1e-12.

        label: tells a reader what was chosen, such as "drafted" or "coin"
        """
        numbers = [float(weight) for weight in weights]
        total, n_made = sum(numbers), len(self.choices)
        self.check(numbers)
        if n_made == MOST_CHOICES:
            raise self.stop(TOO_MANY_IN_ONE)
        if n_made >= MANY_CHOICES and self.probability < LEFT_OUT:
            raise LeftOut
        normalised = tuple([weight / total for weight in numbers])
        if n_made < len(self.script):
            choice = self.script[n_made]
            if choice.weights != normalised:  # after equal choices the earlier run had others
                raise self.stop(STATE)
        else:
            options = [i for i, weight in enumerate(normalised) if weight > NEVER]
            choice = Choice(label, normalised, options, position=0)
        self.choices.append(choice)
        self.probability *= normalised[choice.index]
        return choice.index

    def check(self, weights: list[float]) -> None:
        """Raise Undecidable for weights of a choice, unless none of them is negative, NaN or
        infinite, and their sum is more than 0. It names the first that is.
        """
        total = sum(weights)
        if 0 < total < math.inf and min(weights) >= 0:  # with a NaN, the sum is NaN
            return
        found = f"a choice among {format_row(weights)}"
        for i, weight in enumerate(weights):
            if not 0 <= weight < math.inf:
                raise self.stop(f"{found}: entry {i} is {weight:.4g}, expected probabilities")
        raise self.stop(f"{found}: the sum is {total:.4g}, expected probabilities")

    def sample(self, p: Sequence[float]) -> int:  # [n_vocab] -> token
        """Sample a token with the probabilities p: a choice. Raises Undecidable unless p is one row
        of probabilities that sum to 1. One from -1e-7 (-RARE) to 0 is rounding, and counts as 0.
        """
        row = to_row(p)
        if row is None or abs(row.sum() - 1) > 1e-5:
            raise self.stop(f"sample({format_row(p)}): expected probabilities that sum to 1")
        weights = [0.0 if -RARE <= weight < 0 else weight for weight in row.tolist()]
        return self.choose(weights, "sampled")

    def random(self) -> Any:
        """A uniform number in [0, 1), symbolic where noise.py is in NumPy's place."""
        return np.random.random()

    def accept(self, ratio: float) -> bool:
        """Toss a coin, as a rule does that accepts a draft with the ratio p(x) / q(x): True with
        probability min(1, ratio), never if ratio is below 0. It is a choice labelled "coin", of
        which the first option is True. ratio is a number, or an array with one element; for
        anything else, and for NaN, Undecidable is raised, and shows it.
        """
        row = to_row(np.reshape(ratio, -1))  # a number becomes an array of one element
        if row is None or len(row) != 1 or math.isnan(row[0]):
            raise self.stop(f"accept({format_row(ratio)}): expected a number")
        yes = min(max(float(row[0]), 0.0), 1.0)
        return self.choose([yes, 1 - yes], "coin") == 0


@dataclass
class RealBranch(Branch):
    """A run with real random numbers, from rng: choices are made by chance, and not kept."""

    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    n_made: int = 0  # how many choices, until now

    def choose(self, weights: Iterable[float], label: str) -> int:
        """Draw an index in proportion to the weights, by one number of self.rng. The label is not
        used. Raises Undecidable after 10,000 choices, and for weights that are no probabilities.
        """
        self.n_made += 1
        if self.n_made > MOST_CHOICES:
            raise self.stop(TOO_MANY_IN_ONE)
        row = np.asarray(weights, float)
        self.check(row.tolist())
        cumulative = row.cumsum()
        return int(cumulative.searchsorted(self.rng.random() * cumulative[-1], side="right"))


# ---------------------------------------------------------------- every branch

current: Branch | None = None  # of the run in progress, for symbolic numbers (noise.py)


def take(
    run: Callable[[Branch], Hashable], script: Sequence[Choice] = (), deadline: float = math.inf
) -> tuple[Any, Branch]:
    """Call run(branch) once, with a new Branch, which makes and records its random choices, and is
    `current` meanwhile. Returns (what run returned, the branch). In place of what run returned it
    has None where the choices are too unlikely to count: if they were many and LeftOut ended them,
    or if an error came at a probability of 1e-7 (RARE) or less.

    script: the choices to make first, those of an earlier run; after them each takes its first
        option
    deadline: a time of time.monotonic
    Raises OutOfTime at the deadline, and Undecidable if the run raises any other error, takes more
    than 5 seconds, or has other choices than the script. The error has the branch as `branch`.
    KeyboardInterrupt passes.
    """
    global current
    branch = Branch(script)
    outer, current = current, branch  # outer: None, unless the run of another is under way
    outcome = None
    try:
        outcome = in_time(run, branch, deadline)
    except LeftOut:
        pass  # the outcome stays None
    except KeyboardInterrupt:
        raise
    except Undecidable as problem:  # OutOfTime, too
        branch.problem = problem
    except BaseException as error:
        if branch.probability > RARE and not branch.problem:
            branch.problem = raised(error, branch)
    finally:
        current = outer
    if branch.problem:  # set above; or by branch.stop, even if the examined code caught its error
        branch.problem.branch = branch
        raise branch.problem
    return outcome, branch


def raised(error: BaseException, branch: Branch) -> Undecidable:
    """Make an Undecidable that names an error of the examined code, to be raised in its place. If
    the run had symbolic random numbers (branch.symbolic), which can cause a TypeError or
    RuntimeError of their own, it says so. Raises nothing itself.
    """
    words = f"it raised {describe_error(error)}"
    if branch.symbolic and isinstance(error, (TypeError, RuntimeError)):
        words += "; its random numbers are symbolic, and may not be followed there"
    return Undecidable(words)


def branches(
    run: Callable[[Branch], Hashable], most: float = math.inf, deadline: float = math.inf
) -> Iterator[tuple[Any, Branch]]:
    """Call run(branch) once for every way in which its random choices can fall, and yield (what it
    returned, the Branch, with the choices and their probability) each time. A run that is too
    unlikely to be taken to its end has None for what it returned. Some runs are made again, to see
    whether they do the same.

    run: makes every random choice with the Branch that it is given
    most: how many choices all runs may make together, but those that are made again
    deadline: a time of time.monotonic
    Raises OutOfTime at the deadline; Undecidable after more choices than `most`, if a run does
    something else when it is made again, and if one raises an error or does not end.
    """
    choices_left = most
    script: Sequence[Choice] = ()
    for n in count():
        outcome, branch = take(run, script, deadline)
        if n < 10:
            n_again = 4
        elif n % 10 == 0:
            n_again = 1
        else:
            n_again = 0
        for _ in range(n_again):
            same_outcome, same_branch = take(run, script, deadline)
            if (same_outcome, same_branch.choices) != (outcome, branch.choices):
                raise Undecidable(STATE)
        choices_left -= len(branch.choices)
        if choices_left < 0:
            raise Undecidable(TOO_MANY)
        yield outcome, branch
        script = next_script(branch.choices)
        if not script:
            return


def next_script(choices: Sequence[Choice]) -> list[Choice]:
    """The choices with which the next run is to begin, from those of the last run: the same up to
    the last one that has an option left, which is changed to its next option; what comes after that
    is not there. [] if no choice has an option left: then all runs are made.
    """
    for n in reversed(range(len(choices))):
        choice = choices[n]
        if choice.position + 1 < len(choice.options):
            return [*choices[:n], replace(choice, position=choice.position + 1)]
    return []


def in_time(run: Callable[[Branch], Any], branch: Branch, deadline: float) -> Any:
    """What run(branch) returns. While it runs, a timer raises Undecidable in it after 5 seconds,
    or OutOfTime at the deadline, a time of time.monotonic, and again each tenth of a second until
    it ends; if the deadline has passed, OutOfTime is raised at once. Errors of the run pass. The
    timer reaches a loop in any file, and a sleep; not code in C that does not return. In another
    thread than the first, and on Windows, there is none. It takes the place of any timer that was
    set: see `undisturbed`.
    """
    seconds = min(MOST_SECONDS, deadline - monotonic())
    if seconds <= 0:
        raise OutOfTime(NO_TIME)
    if not hasattr(signal, "setitimer") or threading.current_thread() is not MAIN_THREAD:
        return run(branch)

    ended = False

    def stop(*_: Any) -> None:
        if not ended:  # else the timer rang while it was switched off, below
            raise Undecidable(TOO_LONG) if seconds == MOST_SECONDS else OutOfTime(NO_TIME)

    old_handler = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
        return run(branch)
    finally:
        ended = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Context manager, or decorator: other threads wait before they enter one, and a timer of the
    caller (SIGALRM), as pytest-timeout sets, is set aside, as its error would look like one of the
    sampler. At the end it goes on; if it would have rung meanwhile, it rings.
    """
    with LOCK:
        if not hasattr(signal, "setitimer") or threading.current_thread() is not MAIN_THREAD:
            yield
            return
        began = monotonic()
        left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            yield
        finally:
            if left:
                left = max(1e-6, left - (monotonic() - began))
                signal.setitimer(signal.ITIMER_REAL, left, interval)


MAIN_THREAD = threading.main_thread()
LOCK = threading.RLock()  # a sampler that calls `prove` does not wait for itself


# ---------------------------------------------------------------- distributions


def distribution(run: Callable[[Branch], Hashable]) -> dict[Any, float]:
    """The exact distribution of what run(branch) returns, {outcome: probability}: it is called for
    every way in which the random choices that it makes with the Branch can fall.

    >>> distribution(lambda rng: rng.accept(0.25))
    {True: 0.25, False: 0.75}
    """
    outcomes: dict[Any, float] = defaultdict(float)
    for outcome, branch in branches(run):
        outcomes[outcome] += branch.probability
    return dict(outcomes)


def total_variation(first: dict, second: dict) -> float:
    """Half the sum of all differences of two distributions, {outcome: probability}.

    >>> total_variation({"a": 0.5, "b": 0.5}, {"b": 1.0})
    0.5
    """
    keys = first.keys() | second.keys()
    return sum(abs(first.get(key, 0.0) - second.get(key, 0.0)) for key in keys) / 2


# ---------------------------------------------------------------- in words


def to_row(numbers: Any) -> np.ndarray | None:
    """Convert what the examined code gave to an array of floats with one axis; None if that cannot
    be done.
    """
    try:
        row = np.asarray(numbers, float)
    except (TypeError, ValueError):
        return None
    return row if row.ndim == 1 else None


def format_row(row: Any) -> str:
    """Format numbers in four digits, "[0.5, 0.3333]"; of more than twelve the first six, "[0.5, ...
    40 numbers]"; anything else as Python prints it.
    """
    numbers = to_row(row)
    if numbers is None:
        return repr(row)
    words = [f"{x:.4g}" for x in numbers]
    if len(words) > 12:
        words = [*words[:6], f"... {len(words)} numbers"]
    return f"[{', '.join(words)}]"


def describe_error(error: BaseException) -> str:
    """An exception in one line, "ValueError: its message in mine.py, line 3: the code of the line",
    where the line is the last that it passed outside this folder, Python's library and installed
    packages; without " in mine.py ..." if there is none that can be read.
    """
    where = ""
    for frame in traceback.extract_tb(error.__traceback__):  # the last is where it was raised
        if frame.line and is_theirs(frame):
            file = os.path.basename(frame.filename)
            where = f" in {file}, line {frame.lineno}: {frame.line}"
    try:
        message = str(error)
    except Exception:  # of a class whose __str__ fails
        message = "(without a readable message)"
    return in_line(f"{type(error).__name__}: {message}{where}")


def is_theirs(frame: traceback.FrameSummary) -> bool:
    """Whether a frame is of the examined code: not of this folder, Python's library, an installed
    package, or a text without a file.
    """
    ours = os.path.dirname(__file__) + os.sep
    pythons = os.path.dirname(traceback.__file__) + os.sep
    if frame.filename.startswith((ours, pythons, "<")):  # "<string>" is a text without a file
        return False
    return "site-packages" not in frame.filename


def in_line(text: str) -> str:
    """A text in one line, without characters that cannot be printed; of more than 600 characters
    the first and the last 300.
    """
    line = "".join(filter(str.isprintable, " ".join(text.split())))
    return line if len(line) <= 600 else f"{line[:300]} ... {line[-300:]}"
