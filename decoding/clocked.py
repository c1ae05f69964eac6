"""A clock on one method of an object: what the target and the drafter take of a round."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any


class Clocked:
    """Stands for an object, such as a model, one method of which appends its seconds to a list."""

    def __init__(self, owner: Any, method: str, seconds: list[float]):
        self.owner, self.method, self.seconds = owner, method, seconds

    def __getattr__(self, name: str) -> Any:
        """The owner's attribute; of the one method, a form with a clock (`call`)."""
        value = getattr(self.owner, name)
        return partial(self.call, value) if name == self.method else value

    def call(self, function: Callable, *arguments: Any, **named: Any) -> Any:
        """Call the function, append how many seconds it took, and return what it returns."""
        begun = time.perf_counter()
        result = function(*arguments, **named)
        self.seconds.append(time.perf_counter() - begun)
        return result
