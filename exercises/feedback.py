"""What the notebook says of its reader's answers, without a traceback."""

import inspect

import numpy as np

from exercises import solutions
from exercises.checks import CHECKS, enumerate_single_token
from proving import limits
from proving.enumeration import WrongAnswer, total_variation
from proving.limits import file_of, with_limits
from proving.verdict import format_probs

STANDS_IN = "the answer below its task stands in"


def print_guess(guess, name, expected_guess, p, q):
    """Print the distribution of a reader's guess beside p, and how often the guess keeps the draft.
    If these figures are not those of expected_guess, print the latter, too. If the guess is still
    to be written, say so, and print those of expected_guess; for another error, print only the
    error, in one line.

    guess, expected_guess: functions (p, q, sample, accept) -> (token, is_draft)
    name: the name of the guess, as printed. p, q: [n_vocab], of the target and the draft model
    """
    expected = enumerate_single_token(expected_guess, p, q)
    try:
        outcome = enumerate_single_token(with_limits(guess), p, q)
    except NotImplementedError:
        print(f"{name}: STILL TO BE WRITTEN")
    except Exception as error:
        print(f"{name}: {describe_failure(error, guess)}")
        return
    else:
        if np.allclose(outcome, expected):  # kept and replaced, [2, n_vocab]
            print_outcome(f"{name}, as the task asks", p, *outcome)
            return
        print_outcome(f"{name}, but not as the task asks", p, *outcome)
    print_outcome("The answer below the task", p, *expected)


def print_outcome(label, p, kept, replaced):
    """Print the distribution of a guess beside p, their distance, and how often the draft is kept.

    label: whose distribution it is, in words
    p: [n_vocab], the target's. kept, replaced: [n_vocab], the probability that each token comes out
        as the draft, and as a replacement
    """
    distribution = kept + replaced
    distance = total_variation(dict(enumerate(distribution)), dict(enumerate(p)))
    verdict = "wrong" if distance > 1e-9 else "right"
    print(f"{label}: the distribution is {verdict}, at a distance of {distance:.2f}")
    print(f"  the target's p   {format_probs(p)}")
    print(f"  what comes out   {format_probs(distribution)}")
    print(f"  drafts kept      {kept.sum():.2f}")


def check_answer(answer):
    """Check the answer to an exercise, a function, and print one line about it. Returns the answer
    if it is right, or named as no exercise; otherwise the solution of the same name, so that the
    notebook goes on.
    """
    name = find_name(answer, CHECKS)
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


def find_name(function, names):
    """The name (str) of a function if it is one of `names`, otherwise None. A lambda or a partial
    has the name of the variable to which its notebook cell assigns it.

    The cell is looked up two calls up: call this only from a function that the cell calls.
    """
    cell = inspect.stack()[2].frame
    own_name = getattr(function, "__name__", None)
    variables = [name for name, value in cell.f_globals.items() if value is function]
    for name in [own_name, *variables]:
        if name in names:
            return name
    return None


def describe_failure(error, answer):
    """Describe an error that an answer, a function, caused, in one line (str): for a WrongAnswer,
    what is wrong; for another exception, the exception and the line of the answer that raised it.
    """
    if isinstance(error, WrongAnswer):
        return " ".join(f"WRONG: {error}".split())
    line = limits.describe_line(error, file_of(answer))
    return f"it FAILS with {limits.describe_error(error)}{line}"
