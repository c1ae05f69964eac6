"""What the notebook says of its reader's answers, without a traceback."""

import numpy as np

from exercises import solutions
from exercises.checks import CHECKS, one_place
from proving.enumeration import total_variation
from proving.verdict import Wrong, shown


def compare(guess, p, q):
    """Print what comes out of a guess, beside p, and how many drafts it keeps.

    guess(p, q, sample, toss) returns (the token, whether it is the draft), as one_token_6 does.
    """
    try:
        texts, kept = one_place(guess, p, q)
    except NotImplementedError:
        print(f"{guess.__name__}: STILL TO BE WRITTEN")
    except Exception as error:
        print(f"{guess.__name__}: {described(error)}")
    else:
        yours = np.array([texts.get((token,), 0.0) for token in range(len(p))])
        far = total_variation(dict(enumerate(yours)), dict(enumerate(p)))
        most = np.minimum(p, q).sum()
        print(f"{guess.__name__}: {'wrong' if far > 1e-9 else 'right'}, at a distance of {far:.2f}")
        print(f"  the target's p   {shown(p)}")
        print(f"  what comes out   {shown(yours)}")
        print(f"  drafts kept      {kept:.2f}; the most that can be is {most:.2f}")


def checked(answer):
    """The function itself if it is right; otherwise one line, and the solution of the same name, so
    that the notebook goes on.
    """
    name = answer.__name__
    try:
        note = CHECKS[name](answer)
    except NotImplementedError:
        print(f"{name}: STILL TO BE WRITTEN. Until then, the answer below its task stands in.")
    except Exception as error:
        print(f"{name}: {described(error)}")
        print("Until it is right, the answer below its task stands in.")
    else:
        print(f"{name}: right, over every branch" + (f"; {note}" if note else ""))
        return answer
    return getattr(solutions, name)


def described(error):
    """One line for what is wrong, or fails."""
    kind = "WRONG" if isinstance(error, Wrong) else f"it fails, {type(error).__name__}"
    return " ".join(f"{kind}: {error}".split())
