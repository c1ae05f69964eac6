"""The exact distribution of code that makes random choices: every path through it is taken once.

A run gets a Branch in place of a sampling.Rng. The Branch follows a script of choices, then takes
the first option each time, and multiplies the probabilities of all that it took. The next script
changes the last choice that has an option left, so the runs are a walk through the whole tree.
Nothing is estimated: the error is that of adding floats.
"""

import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from sys import settrace  # the real one, whatever noise.py does
from typing import Any, NoReturn

import numpy as np

MOST_CHOICES = 300  # of one run
MOST_STEPS = 200_000  # of the interpreter, in the examined file, in one run
NEVER = 1e-14  # an option of this probability, or less, is rounding
RARE = 1e-7  # an error in a branch of this probability, or less, is float32's rounding
STATE = "it does something else when it runs again: it keeps state, or has a hidden random source"


class Undecidable(BaseException):
    """Says what stands in the way of a verdict. No `except Exception` of the examined code catches
    it.
    """


@dataclass(frozen=True)
class Choice:
    """One random choice of a branch: it took index options[position] of the weights."""

    label: str
    weights: tuple[float, ...]
    options: list[int]
    position: int

    @property
    def index(self) -> int:
        return self.options[self.position]

    @property
    def is_open(self) -> bool:
        """Whether a reader wants to see it: another option was possible, or it is the draft."""
        return len(self.options) > 1 or self.label == "drafted"


@dataclass
class Branch:
    """The random choices of one run. Code that draws from a sampling.Rng can draw from this."""

    script: Sequence[Choice] = ()
    choices: list[Choice] = field(default_factory=list)
    probability: float = 1.0
    problem: str = ""
    symbolic: bool = False  # whether there were symbolic numbers (noise.py)

    def stop(self, problem: str) -> NoReturn:
        """Raise Undecidable, and remember it: the examined code may have a bare `except`."""
        self.problem = self.problem or in_line(problem)
        raise Undecidable(self.problem)

    def choose(self, weights: Iterable[float], label: str) -> int:
        """Choose an index in proportion to the weights. The label tells a reader what it was."""
        numbers = [float(weight) for weight in weights]
        total, n_made = sum(numbers), len(self.choices)
        if not 0 < total < np.inf or min(numbers) < 0:  # NaN, too
            self.stop(f"a choice among {format_row(numbers)}: expected probabilities")
        normalised = tuple(weight / total for weight in numbers)
        if n_made == MOST_CHOICES:
            self.stop(f"more than {MOST_CHOICES:,} random choices in one run: it may not end")
        if n_made < len(self.script):  # the runs before came here, too, and had the same choice
            choice = self.script[n_made]
            if choice.weights != normalised:
                self.stop(STATE)
        else:
            options = [i for i, weight in enumerate(normalised) if weight > NEVER]
            choice = Choice(label, normalised, options, 0)
        self.choices.append(choice)
        self.probability *= normalised[choice.index]
        return choice.index

    def sample(self, p: Sequence[float]) -> int:  # [n_vocab] -> token
        """Sample a token, as sampling.Rng.sample does."""
        row = to_row(p)
        if row is None or abs(row.sum() - 1) > 1e-5:
            self.stop(f"sample({format_row(p)}): expected probabilities that sum to 1")
        return self.choose(row, "sampled")

    def random(self) -> Any:
        """A uniform number in [0, 1), symbolic where noise.py is in NumPy's place."""
        return np.random.random()

    def accept(self, ratio: float) -> bool:
        """Toss a biased coin, as sampling.Rng.accept does."""
        row = to_row(np.reshape(ratio, -1))
        if row is None or len(row) != 1 or np.isnan(row[0]):
            self.stop(f"accept({format_row(ratio)}): expected a number")
        r = min(max(float(row[0]), 0.0), 1.0)
        return self.choose([r, 1 - r], "coin") == 0


class RealBranch(Branch):
    """A run with real random numbers: choices are made, not taken in turn."""

    rng = np.random.default_rng()

    def choose(self, weights: Iterable[float], label: str) -> int:
        cumulative = np.cumsum(np.asarray(weights, float))
        return int(cumulative.searchsorted(self.rng.random() * cumulative[-1], side="right"))


def to_row(numbers: Any) -> np.ndarray | None:
    """Convert what the examined code gave to a row of floats; None if that cannot be done."""
    try:
        row = np.asarray(numbers, float)
        return row if row.ndim == 1 else None
    except (TypeError, ValueError):
        return None


def format_row(row: Any) -> str:
    """Format numbers in four digits, "[0.5, 0.3333]"; anything else as Python prints it."""
    numbers = to_row(row)
    return f"{row!r}" if numbers is None else f"[{', '.join(f'{x:.4g}' for x in numbers)}]"


current: Branch | None = None  # of the run in progress, for symbolic numbers (noise.py)


def take(run: Callable[[Branch], Hashable], script: Sequence[Choice], file: str | None = None):
    """Run one branch. Returns (outcome, branch); the outcome is None where rounding, which has led
    to a branch that never occurs, raised an error.
    """
    global current
    branch, traced = Branch(script), sys.gettrace()
    n_steps = 0

    def count_steps(frame, event, argument):
        nonlocal n_steps
        n_steps += 1
        if n_steps > MOST_STEPS:
            branch.stop(f"more than {MOST_STEPS:,} steps in one run: it does not end")
        return count_steps

    def trace_calls(frame, event, argument):
        if frame.f_code.co_filename == file:
            frame.f_trace_opcodes = True  # `while True: pass` has one line, which never ends
            return count_steps

    outer, current = current, branch
    try:
        if file:
            settrace(trace_calls)
        outcome = run(branch)
    except (Undecidable, KeyboardInterrupt):
        raise
    except BaseException as error:
        if branch.probability > RARE and not branch.problem:
            branch.problem = f"it raised {describe_error(error, file)}"
            if branch.symbolic and isinstance(error, TypeError):
                branch.problem += "; its random numbers are symbolic, and may not be followed there"
        outcome = None
    finally:
        current = outer
        if file:
            settrace(traced)
    if branch.problem:
        raise Undecidable(branch.problem)
    return outcome, branch


def branches(
    run: Callable[[Branch], Hashable], file: str | None = None, most: int = 2_000_000
) -> Iterator[tuple[Any, Branch]]:
    """Yield (outcome, Branch) of every branch of a run, depth first.

    run: makes every random choice with the Branch that it is given
    file: whose steps are counted, so that an endless loop ends
    most: choices of all runs together
    Raises Undecidable if a run raises, does not end, or does something else the next time.
    """
    script: Sequence[Choice] = ()
    for n in count():
        outcome, branch = take(run, script, file)
        for _ in range(4 if n < 10 else n % 10 == 0):
            again = take(run, script, file)
            if (again[0], again[1].choices) != (outcome, branch.choices):
                raise Undecidable(STATE)
        most -= len(branch.choices)
        if most < 0:
            raise Undecidable("too many random choices to take every branch")
        yield outcome, branch
        script = next_script(branch.choices)
        if not script:
            return


def next_script(choices: Sequence[Choice]) -> list[Choice]:
    """The choices up to the last that has an option left, which it takes; [] without any."""
    for n in reversed(range(len(choices))):
        choice = choices[n]
        if choice.position + 1 < len(choice.options):
            return [*choices[:n], replace(choice, position=choice.position + 1)]
    return []


def distribution(run: Callable[[Branch], Hashable]) -> dict[Any, float]:
    """Run every branch. Returns {outcome: probability}.

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


def describe_error(error: BaseException, file: str | None) -> str:
    """An exception in one line, with the last line of the file that it passed."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    where = f" in line {frames[-1].lineno}, {frames[-1].line}" if frames else ""
    try:
        message = str(error)
    except Exception:
        message = "(without a readable message)"
    return in_line(f"{type(error).__name__}: {message}{where}")


def in_line(text: str) -> str:
    """A text in one line of printable characters; of a long one, the beginning and the end."""
    line = "".join(filter(str.isprintable, " ".join(text.split())))
    return line if len(line) <= 600 else f"{line[:300]} ... {line[-300:]}"
