"""python -m pytest exercises: which of your answers in mine.py are right."""

import pytest

from exercises import mine
from exercises.checks import CHECKS


@pytest.mark.parametrize("name", CHECKS)
def test_exercise(name):
    try:
        CHECKS[name](getattr(mine, name))
        return
    except NotImplementedError:
        pass
    pytest.fail(f"{name}: still to be written, in exercises/mine.py", pytrace=False)
