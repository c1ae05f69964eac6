"""What docs/walkthrough.ipynb does with the functions that its reader writes."""

from exercises import solutions
from exercises.checks import CHECKS


def checked(answer):
    """The function itself if it is right, exactly; an AssertionError says what is wrong. While it
    is still to be written, the solution of the same name, so that the lesson can go on.
    """
    name = answer.__name__
    try:
        CHECKS[name](answer)
    except NotImplementedError:
        print(f"{name}: STILL TO BE WRITTEN. Until then, the answer below its task stands in.")
        return getattr(solutions, name)
    print(f"{name}: right, over every branch")
    return answer
