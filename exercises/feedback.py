"""What the notebook says of its reader's answers, without a traceback."""

import inspect

import numpy as np

from exercises import solutions
from exercises.checks import CHECKS, one_place
from proving import limits
from proving.enumeration import WrongAnswer, total_variation
from proving.limits import file_of, with_limits
from proving.verdict import format_probs

STANDS_IN = "the answer below its task stands in"


def guessed(guess, name, asked_for, p, q):
    """Print the distribution of a reader's guess beside p, and how often it keeps the draft. If the
    guess is not what the task asks for, print the same of what the task asks for. An error of the
    guess is printed in one line.

    guess, asked_for: functions (p, q, sample, accept) -> (token, is_draft), as one_token_6
    name: of the guess, as printed
    """
    expected = tried(asked_for, p, q)
    try:
        found = tried(with_limits(guess), p, q)
    except NotImplementedError:
        print(f"{name}: STILL TO BE WRITTEN")
    except Exception as error:
        print(f"{name}: {describe_failure(error, guess)}")
        return
    else:
        if all(map(np.allclose, found, expected)):
            print_outcome(f"{name}, as the task asks", p, *found)
            return
        print_outcome(f"{name}, but not as the task asks", p, *found)
    print_outcome("The answer below the task", p, *expected)


def tried(guess, p, q):
    """Enumerate a guess: (the distribution of its token, how often it keeps the draft)."""
    texts, kept = one_place(guess, p, q)
    return np.array([texts.get((token,), 0.0) for token in range(len(p))]), kept


def print_outcome(whose, p, found, kept):
    """Print the distribution `found` beside p, [n_vocab] both, their distance, and how often the
    draft is kept.
    """
    far = total_variation(dict(enumerate(found)), dict(enumerate(p)))
    verdict = "wrong" if far > 1e-9 else "right"
    print(f"{whose}: the distribution is {verdict}, at a distance of {far:.2f}")
    print(f"  the target's p   {format_probs(p)}")
    print(f"  what comes out   {format_probs(found)}")
    print(f"  drafts kept      {kept:.2f}")


def checked(answer):
    """Check the answer to an exercise, and print one line about it. Returns the answer if it is
    right, otherwise the solution of the same name, so that the notebook goes on.
    """
    name = name_of(answer, CHECKS)
    if name is None:
        print("WRONG: it has no name of an exercise: expected a function named as in its task")
        return answer
    try:
        note = CHECKS[name](answer)
    except NotImplementedError:
        print(f"{name}: STILL TO BE WRITTEN. Until then, {STANDS_IN}.")
    except Exception as error:
        print(f"{name}: {describe_failure(error, answer)}. Until it is right, {STANDS_IN}.")
    else:
        print(f"{name}: right" + (f"; {note}" if note else ""))
        return answer
    return getattr(solutions, name)


def name_of(answer, names):
    """Which of the names a function has, None if it has no such name. A lambda or a partial has the
    name of the variable that its notebook cell assigns it to.
    """
    (caller,) = inspect.stack()[2:3]
    known_as = [name for name, value in caller.frame.f_globals.items() if value is answer]
    own_name = getattr(answer, "__name__", None)
    return next((name for name in [own_name, *known_as] if name in names), None)


def describe_failure(error, answer):
    """One line for what is wrong with the answer, or where it fails."""
    if isinstance(error, WrongAnswer):
        return " ".join(f"WRONG: {error}".split())
    where = limits.describe_line(error, file_of(answer))
    return f"it FAILS with {limits.describe_error(error)}{where}"
