"""What the notebook says of its reader's answers, without a traceback."""

import traceback
from functools import wraps

import numpy as np

from exercises import solutions
from exercises.checks import CHECKS, one_place
from proving.enumeration import total_variation
from proving.verdict import Wrong, shown

STANDS_IN = "the answer below its task stands in"
MOST_CALLS = 1000  # in one run of a check


def guessed(guess, asked_for, p, q):
    """Print what comes out of a reader's guess, beside p, and how many drafts it keeps; then of the
    one that the task asks for, if that is another. What fails is said in one line.

    guess(p, q, sample, toss) returns (the token, whether it is the draft), as one_token_6 does.
    """
    name, expected = guess.__name__, tried(asked_for, p, q)
    try:
        found = tried(ending(guess), p, q)
    except NotImplementedError:
        print(f"{name}: STILL TO BE WRITTEN")
    except Exception as error:
        print(f"{name}: {described(error, guess)}")
        return
    else:
        if all(map(np.allclose, found, expected)):
            print_outcome(f"{name}, as the task asks", p, *found)
            return
        print_outcome(f"{name}, but not as the task asks", p, *found)
    print_outcome("The answer below the task", p, *expected)


def tried(guess, p, q):
    """(the distribution of what comes out, how many drafts are kept)"""
    texts, kept = one_place(guess, p, q)
    return np.array([texts.get((token,), 0.0) for token in range(len(p))]), kept


def print_outcome(whose, p, found, kept):
    far = total_variation(dict(enumerate(found)), dict(enumerate(p)))
    verdict = "wrong" if far > 1e-9 else "right"
    print(f"{whose}: the distribution is {verdict}, at a distance of {far:.2f}")
    print(f"  the target's p   {shown(p)}")
    print(f"  what comes out   {shown(found)}")
    print(f"  drafts kept      {kept:.2f}")


def checked(answer):
    """The function itself if it is right; otherwise one line, and the solution of the same name, so
    that the notebook goes on.
    """
    name = answer.__name__
    try:
        note = CHECKS[name](ending(answer))
    except NotImplementedError:
        print(f"{name}: STILL TO BE WRITTEN. Until then, {STANDS_IN}.")
    except Exception as error:
        print(f"{name}: {described(error, answer)}. Until it is right, {STANDS_IN}.")
    else:
        print(f"{name}: right" + (f"; {note}" if note else ""))
        return answer
    return getattr(solutions, name)


def ending(answer):
    """The answer, but Wrong where it calls the functions that it is given without end; and silent
    where it divides by zero.
    """

    @wraps(answer)
    def limited(*arguments):
        n_calls = 0

        def counted(function):
            def call(*given):
                nonlocal n_calls
                n_calls += 1
                if n_calls > MOST_CALLS:
                    raise Wrong("it does not end")
                return function(*given)

            return call

        with np.errstate(all="ignore"):
            return answer(*(counted(one) if callable(one) else one for one in arguments))

    return limited


def described(error, answer):
    """One line for what is wrong with the answer, or where it fails."""
    if isinstance(error, Wrong):
        return " ".join(f"WRONG: {error}".split())
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if one.filename == answer.__code__.co_filename]
    where = f" in line {own[-1].lineno}: {own[-1].line}".rstrip(": ") if own else ""
    return " ".join(f"it FAILS with {type(error).__name__}: {error}{where}".split())
