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


def compare(guess, p, q):
    """Print what comes out of a guess, beside p, and how many drafts it keeps. Returns both, or
    None where the guess fails.

    guess(p, q, sample, toss) returns (the token, whether it is the draft), as one_token_6 does.
    """
    try:
        texts, kept = one_place(ending(guess), p, q)
    except NotImplementedError:
        print(f"{guess.__name__}: STILL TO BE WRITTEN")
        return None
    except Exception as error:
        print(f"{guess.__name__}: {described(error, guess)}")
        return None
    yours = np.array([texts.get((token,), 0.0) for token in range(len(p))])
    far = total_variation(dict(enumerate(yours)), dict(enumerate(p)))
    print(f"{guess.__name__}: {'wrong' if far > 1e-9 else 'right'}, at a distance of {far:.2f}")
    print(f"  the target's p   {shown(p)}")
    print(f"  what comes out   {shown(yours)}")
    print(f"  drafts kept      {kept:.2f}")
    return yours, kept


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
